"""The named schemas of bodies, and of answers that belong to no question, for the OpenAPI document."""

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]


def ref(name: str) -> Schema:
    """A reference to a schema by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


def rows(name: str) -> Schema:
    return {"type": "array", "items": ref(name)}


def _texts(*names: str) -> Schema:
    """An object whose keys are all required strings."""
    return {
        "type": "object",
        "required": list(names),
        "properties": {name: {"type": "string"} for name in names},
    }


ANY = ref("JsonObject")
"""An object whose keys only its writer knows."""
LINES: Schema = {"type": "string", "description": "One JSON object per line."}
_NUMBER, _TEXT = {"type": "integer"}, {"type": "string"}

SCHEMAS: Mapping[str, Schema] = {
    "JsonObject": {
        "type": "object",
        "additionalProperties": True,
        "description": "Any JSON object: only its writer knows the keys.",
    },
    "Error": {
        "type": "object",
        "required": ["error", "hint"],
        "properties": {
            "error": {"type": "string"},
            "hint": {"type": "string", "description": "What to do next."},
        },
    },
    "Problem": _texts("pointer", "message", "hint"),
    "Verdict": {
        "type": "object",
        "required": ["line", "verdict"],
        "properties": {
            "line": {"type": "integer", "minimum": 1, "description": "Counted from 1."},
            "verdict": {"enum": ["accepted", "duplicate", "refused"]},
            "seq": {"type": "integer", "description": "Its number, or the one it had before."},
            "problems": rows("Problem"),
        },
    },
    "Admitted": {
        "type": "object",
        "required": ["accepted", "duplicate", "refused", "last_seq", "verdicts"],
        "properties": {
            "accepted": _NUMBER,
            "duplicate": _NUMBER,
            "refused": _NUMBER,
            "last_seq": {
                "type": ["integer", "null"],
                "description": "The highest number that any of these lines has.",
            },
            "verdicts": rows("Verdict"),
            "hint": {
                "type": "string",
                "description": "When the body is no NDJSON, or its dialect is uncertain.",
            },
            "bom": {
                "const": True,
                "description": "When a byte order mark was dropped from its start.",
            },
            "replayed": {
                "const": True,
                "description": "When the batch key and its lines are known: this is the first "
                "answer.",
            },
        },
    },
    "Frame": {
        "type": "object",
        "description": "A record as it stands in the journal.",
        "required": ["seq", "received", "dialect", "run"],
        "properties": {
            "seq": _NUMBER,
            "received": _TEXT,
            "dialect": _TEXT,
            "family": {"type": "string", "description": "Where it is not the dialect's name."},
            "run": _TEXT,
            "redacted": {"type": "array", "items": _TEXT},
            "erased": {
                "type": "object",
                "description": "Who erased the line, when and why.",
                "required": ["leaf", "reason", "by", "at"],
                "properties": {
                    "leaf": {"type": "string", "description": "The SHA-256 of the erased frame."},
                    "reason": _TEXT,
                    "by": _TEXT,
                    "at": _TEXT,
                    "id": {"type": "string", "description": "The identity of the event, if any."},
                },
            },
            "event": {"description": "The line of the emitter."},
        },
    },
    "EventsPage": {
        "type": "object",
        "required": ["first", "last", "next", "events"],
        "properties": {
            "first": {"type": "integer", "description": "The first record that is still stored."},
            "last": _NUMBER,
            "next": _NUMBER,
            "events": rows("Frame"),
        },
    },
    "LossRow": {
        "type": "object",
        "required": ["kind", "field", "kept", "carried", "dropped", "synthesised"],
        "properties": {"kind": _TEXT, "field": _TEXT}
        | dict.fromkeys(("kept", "carried", "dropped", "synthesised"), _NUMBER),
    },
    "LossReport": {
        "type": "object",
        "required": ["lossless", "totals", "fields"],
        "properties": {
            "lossless": {"type": "boolean"},
            "totals": {"type": "object", "additionalProperties": _NUMBER},
            "fields": rows("LossRow"),
        },
    },
    "Converted": {
        "type": "object",
        "required": ["lines", "report", "refused"],
        "properties": {
            "lines": {"type": "array", "items": ANY},
            "report": ref("LossReport"),
            "refused": rows("Verdict"),
        },
    },
    "ChainHead": {
        "type": "object",
        "required": ["through", "chain"],
        "properties": {"through": _NUMBER, "chain": _TEXT},
    },
    "ProofLink": {
        "type": "object",
        "description": "A commit group, by `through` and `root`, or an erasure.",
        "properties": {
            "through": _NUMBER,
            "root": _TEXT,
            "erased": _NUMBER,
            "leaf": _TEXT,
            "tombstone": _TEXT,
        },
    },
    "ProofRecord": {
        "type": "object",
        "required": ["seq", "path"],
        "properties": {
            "seq": _NUMBER,
            "head": _TEXT,
            "tombstone": _TEXT,
            "path": {"type": "array", "items": _TEXT},
        },
    },
    "Proof": {
        "type": "object",
        "required": ["format", "family", "run", "links", "head", "records"],
        "properties": {
            "format": {},
            "family": _TEXT,
            "run": _TEXT,
            "before": ref("ChainHead"),
            "links": rows("ProofLink"),
            "head": ref("ChainHead"),
            "records": rows("ProofRecord"),
        },
    },
    "ProofFault": {
        "type": "object",
        "required": ["seq", "message"],
        "properties": {"seq": {"type": ["integer", "null"]}, "message": _TEXT},
    },
    "ProofCheck": {
        "type": "object",
        "description": "Given with `check`.",
        "required": ["records", "head", "whole", "faults"],
        "properties": {
            "records": _NUMBER,
            "head": ref("ChainHead"),
            "whole": {"type": "boolean"},
            "faults": rows("ProofFault"),
        },
    },
    "AnswerBody": {
        "type": "object",
        "required": ["answer"],
        "properties": {
            "answer": {"description": "Any JSON."},
            "by": {
                "type": "string",
                "description": "The name of the person who answers.",
                "maxLength": 256,
            },
        },
    },
    "Answered": {
        "type": "object",
        "required": ["seq", "answer", "by", "at"],
        "properties": {
            "seq": {"type": "integer", "description": "The record of the answer."},
            "answer": {"description": "Any JSON."},
            "by": {"type": ["string", "null"]},
            "at": _TEXT,
            "family": _TEXT,
            "run": _TEXT,
            "question_id": _TEXT,
        },
    },
    "Tape": {
        "type": "object",
        "required": ["run"],
        "description": "Answer from a recorded run instead of calling models and tools.",
        "properties": {
            "run": _TEXT,
            "by": {"enum": ["order", "match"]},
            "miss": {"enum": ["error", "live"]},
        },
    },
    "StartBody": {
        "type": "object",
        "properties": {
            "program": {"type": "string", "description": "Its name, as `GET /api/hosts` lists it."},
            "body": {"description": "The program itself, where the host takes one."},
            "inputs": {**ANY, "description": "Its inputs, by name."},
            "seed": {
                "type": "string",
                "description": "A seed, for programs that use random numbers.",
            },
            "tape": ref("Tape"),
        },
    },
    "StopBody": {
        "type": "object",
        "properties": {"by": {"type": "string", "description": "The name of the person."}},
    },
    "InjectBody": {
        "type": "object",
        "required": ["text"],
        "properties": {
            "text": {"type": "string", "minLength": 1},
            "label": {"type": "string", "description": "The kind of the interference."},
        },
    },
    "HostProgram": {
        "type": "object",
        "required": ["name", "about", "inputs"],
        "properties": {
            "name": _TEXT,
            "about": _TEXT,
            "inputs": {**ANY, "description": "Each with its default."},
        },
    },
    "HostRow": {
        "type": "object",
        "required": ["host", "about", "family", "can", "programs"],
        "properties": {
            "host": _TEXT,
            "about": _TEXT,
            "family": {"type": "string", "description": "Of the runs that it carries out."},
            "can": {"type": "array", "items": {"enum": ["start", "stop", "inject"]}},
            "programs": rows("HostProgram"),
        },
    },
    "StartedRun": _texts("host", "family", "run"),
    "RecordedAt": {
        "type": "object",
        "required": ["seq"],
        "properties": {"seq": {"type": "integer", "description": "The record of it."}},
    },
    "Health": {
        "type": "object",
        "required": ["status"],
        "properties": {"status": _TEXT, "version": _TEXT, "demo": {"const": True}},
    },
    "OpenApi": {
        "type": "object",
        "required": ["openapi", "info", "paths", "components"],
        "properties": {"openapi": _TEXT, "info": ANY, "paths": ANY, "components": ANY},
    },
    "LoginForm": {"type": "object", "properties": {"token": _TEXT}},
}
"""The schemas by name; those of the questions are derived from their dataclasses."""
