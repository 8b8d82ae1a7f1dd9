"""OpenAI: bodies and streams of chat completions and of responses."""

import re
from pathlib import Path
from typing import Any

from tracklog.formats.importers import ANY, Importer, Raw, Signs, beginning, run_id, score, word
from tracklog.formats.importers._block_facts import block_facts
from tracklog.formats.importers._exchanges import (
    Body,
    ExchangeReader,
    fingerprint,
    form_of,
    previous,
    reply_of,
)
from tracklog.formats.providers import ReplyBuilder, items, obj
from tracklog.model.fact import Fact, Role, Said

NAME = "openai"
ENDINGS = ("response.completed", "response.failed", "response.incomplete", "error")
OPENINGS = ("response.created", "response.queued")


class OpenaiReader(ExchangeReader):
    """Reads both APIs: their bodies, and the events of their streams."""

    name = speaks = NAME

    def read_body(self, raw: Raw, body: Body) -> None:
        kind = word(body.get("type")) or ""
        if body.get("object") == "chat.completion.chunk":
            self.gather(raw, "chat.completion.chunk", word(body.get("id")) or "chunk")
        elif kind.startswith("response.") or (kind == "error" and "group" in self.state):
            id = word(obj(body.get("response")).get("id"))
            self.gather(raw, kind, id, fresh=kind in OPENINGS, last=kind in ENDINGS)
        else:
            self.take(raw, body)

    def run_of(self, response: Body) -> str | None:
        """The run of a response: its conversation's, its predecessor's, else its own."""
        if talk := _conversation(response):
            return run_id(NAME, talk)
        known, before, id = self.chains.runs, previous(response), word(response.get("id"))
        if before:
            return str(known.get(before) or run_id(NAME, before))
        return str(known.get(id) or run_id(NAME, id)) if id else None

    def names(self, response: Body) -> list[str | None]:
        return [_conversation(response), word(response.get("id"))]

    def bodies(self, body: Body) -> tuple[Body, Body]:
        request, response = obj(body.get("request")), obj(body.get("response"))
        if not request and ("messages" in body or "input" in body):
            request = body
        if not response and (isinstance(body.get("choices"), list) or "output" in body):
            response = body
        return request, response

    def messages(self, request: Body) -> list[Any]:
        """The messages of a request of either API, the instructions first."""
        messages_given: list[Any] = []
        if request.get("instructions"):
            messages_given.append({"role": "system", "content": request["instructions"]})
        given = request.get("input")
        if isinstance(given, str):
            messages_given.append({"role": "user", "content": given})
        return [*messages_given, *items(given), *items(request.get("messages"))]

    def print_of(self, message: Any) -> str:
        return _print(message)

    def message_facts(self, message: Any) -> list[Fact]:
        fields = obj(message)
        role = word(fields.get("role"))
        if role in ROLES:
            blocks = reply_of(
                NAME, [{"role": "assistant", "content": fields.get("content")}]
            ).blocks
            facts = list(block_facts(blocks, role=ROLES[role], message_id=word(fields.get("id"))))
            return facts or [Said(role=ROLES[role], blocks=())]
        if role in ("assistant", "tool"):
            return list(block_facts(reply_of(NAME, [fields]).blocks))
        response = {"object": "response", "output": [message]}
        return list(block_facts(reply_of(NAME, [response]).blocks))

    def echo(self, bodies: list[Body], reply: ReplyBuilder) -> list[Any]:
        outputs = [items((obj(body.get("response")) or body).get("output")) for body in bodies]
        for each in reversed(outputs):
            if each:
                return list(each)
        text = "".join(block["text"] for block in reply.blocks if block["type"] == "text")
        calls = [{"id": b["tool_id"]} for b in reply.blocks if b["type"] == "tool_use"]
        return [{"role": "assistant", "content": text, "tool_calls": calls}]


def _conversation(response: Body) -> str | None:
    talk = response.get("conversation")
    return word(talk) or word(obj(talk).get("id"))


ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user"}


def _print(message: Any) -> str:
    """The key by which two copies of a message are equal: role, text and calls."""
    fields = obj(message)
    calls = [word(obj(each).get("id")) for each in items(fields.get("tool_calls"))]
    text = fields.get("content")
    parts: list[Any]
    parts = [obj(each).get("text", each) for each in text] if isinstance(text, list) else [text]
    joined = "".join(parts) if all(isinstance(part, str) for part in parts) else parts
    key = word(fields.get("tool_call_id")) or word(fields.get("call_id")) or word(fields.get("id"))
    kind = word(fields.get("type")) if fields.get("type") != "message" else None
    if fields.get("type") == "message" or fields.get("role"):
        key = key if fields.get("role") == "tool" else None
    content = joined if joined not in ("", [None]) else None
    return fingerprint(fields.get("role"), kind, content, calls, key)


COMPLETION = re.compile(r"chat\.completion")
SIGNS = (
    Signs({"object": COMPLETION, "choices": list}, sure=0.95),
    Signs({"object": {"response"}, "output": list, "model": str}, sure=0.95),
    Signs({"type": re.compile(r"response\.[a-z_.]+$"), "sequence_number": int}, sure=0.95),
    Signs({"type": re.compile(r"response\.[a-z_.]+$"), "response.id": str}, ("payload",)),
    Signs({"type": re.compile(r"response\.[a-z_.]+$"), "output_index": int}, ("payload",)),
    Signs({"request": dict, "response.choices": list}),
    Signs({"request": dict, "response.object": {"response"}}),
    Signs({"request.model": str, "request.messages": list}, ("response.type",)),
    Signs({"choices": list, "model": str, "usage": ANY}),
)
TALK = Signs(
    {"model": str, "messages": list},
    (
        "sessionId",
        "session_id",
        "id",
        "version",
        "eval",
        "trace_id",
        "max_tokens",
        "started_at",
        "session_start",
    ),
)


def recognise(path: Path, head: bytes) -> float:
    """A body of a request alone needs a message that only this API has."""
    sure = score(path, head, SIGNS)
    bodies = (each for each in beginning(path, head).objects if not sure and TALK.match(each))
    own = any(_is_own(message) for body in bodies for message in body["messages"])
    return sure or (0.7 if own else 0.0)


def _is_own(message: Any) -> bool:
    fields = obj(message)
    return "tool_calls" in fields or fields.get("role") in ("developer", "tool")


importer = Importer(
    name=NAME,
    about="OpenAI: chat completions and responses, as bodies, JSON lines and SSE.",
    mapping="1",
    reader=OpenaiReader,
    recognise=recognise,
    form=form_of,
    fits=lambda body: not body.keys().isdisjoint({"type", "object", "request", "choices", "id"}),
    proven="real bodies and streams of both APIs",
)
