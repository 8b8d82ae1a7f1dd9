"""What bodies and answers look like, as JSON Schema: the words of the OpenAPI document."""

from collections.abc import Mapping
from typing import Any

PROBLEM: Mapping[str, Any] = {
    "type": "object",
    "required": ["pointer", "message", "hint"],
    "properties": {name: {"type": "string"} for name in ("pointer", "message", "hint")},
}
VERDICT: Mapping[str, Any] = {
    "type": "object",
    "required": ["line", "verdict"],
    "properties": {
        "line": {"type": "integer", "minimum": 1, "description": "Counted from 1."},
        "verdict": {"enum": ["accepted", "duplicate", "refused"]},
        "seq": {"type": "integer", "description": "Its number, or the one it had before."},
        "problems": {"type": "array", "items": PROBLEM},
    },
}
ADMITTED: Mapping[str, Any] = {
    "type": "object",
    "required": ["accepted", "duplicate", "refused", "last_seq", "verdicts"],
    "properties": {
        "accepted": {"type": "integer"},
        "duplicate": {"type": "integer"},
        "refused": {"type": "integer"},
        "last_seq": {
            "type": ["integer", "null"],
            "description": "The highest number that any of these lines has.",
        },
        "verdicts": {"type": "array", "items": VERDICT},
        "hint": {
            "type": "string",
            "description": "When the body is no NDJSON, or its dialect is uncertain.",
        },
        "bom": {"const": True, "description": "When a byte order mark was dropped from its start."},
        "replayed": {
            "const": True,
            "description": "When the batch key and its lines are known: this is the first answer.",
        },
    },
}
ANSWER: Mapping[str, Any] = {
    "type": "object",
    "required": ["answer"],
    "properties": {
        "answer": {"description": "Any JSON."},
        "by": {"type": "string", "description": "Who answers.", "maxLength": 256},
    },
}
ANSWERED: Mapping[str, Any] = {
    "type": "object",
    "required": ["seq", "answer", "by", "at"],
    "properties": {
        "seq": {"type": "integer", "description": "The record of the answer."},
        "answer": {"description": "Any JSON."},
        "by": {"type": ["string", "null"]},
        "at": {"type": "string"},
    },
}
PROGRAM: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "program": {"type": "string", "description": "Its name, as `GET /api/hosts` lists it."},
        "body": {"description": "The program itself, where the host takes one."},
        "inputs": {"type": "object", "description": "What it is given, by name."},
        "seed": {"type": "string", "description": "Where chance is part of it."},
        "tape": {
            "type": "object",
            "required": ["run"],
            "description": "Answer from a recorded run instead of asking anybody.",
            "properties": {
                "run": {"type": "string"},
                "by": {"enum": ["order", "match"]},
                "miss": {"enum": ["error", "live"]},
            },
        },
    },
}
WORDS: Mapping[str, Any] = {
    "type": "object",
    "required": ["text"],
    "properties": {
        "text": {"type": "string", "minLength": 1},
        "label": {"type": "string", "description": "What kind of interference it is."},
    },
}
HOST: Mapping[str, Any] = {
    "type": "object",
    "required": ["host", "about", "family", "can", "programs"],
    "properties": {
        "host": {"type": "string"},
        "about": {"type": "string"},
        "family": {"type": "string", "description": "Of the runs that it carries out."},
        "can": {"type": "array", "items": {"enum": ["start", "stop", "inject"]}},
        "programs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "about", "inputs"],
                "properties": {
                    "name": {"type": "string"},
                    "about": {"type": "string"},
                    "inputs": {"type": "object", "description": "Each with its default."},
                },
            },
        },
    },
}
BEGUN: Mapping[str, Any] = {
    "type": "object",
    "required": ["host", "family", "run"],
    "properties": {name: {"type": "string"} for name in ("host", "family", "run")},
}
SEQ: Mapping[str, Any] = {
    "type": "object",
    "required": ["seq"],
    "properties": {"seq": {"type": "integer", "description": "The record of it."}},
}
LINES: Mapping[str, Any] = {"type": "string", "description": "One JSON object per line."}
