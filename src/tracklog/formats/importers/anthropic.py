"""Anthropic: bodies and streams of the Messages API."""

import re
from typing import Any

from tracklog.formats.importers import ANY, Importer, Raw, Signs, by_signs, run_id, word
from tracklog.formats.importers._block_facts import block_facts
from tracklog.formats.importers._exchanges import (
    Body,
    ExchangeReader,
    fingerprint,
    form_of,
    reply_of,
)
from tracklog.formats.providers import ReplyBuilder, items, obj
from tracklog.model.fact import Fact

NAME = "anthropic"
EVENTS = (
    "message_start", "content_block_start", "content_block_delta", "content_block_stop",
    "message_delta", "message_stop", "ping", "error",
)  # fmt: skip  # one row
CONVENIENCES = ("text", "thinking", "signature", "input_json", "citation")


class AnthropicReader(ExchangeReader):
    """Reads bodies, and the events of streams."""

    name, speaks = NAME, "claude"

    def read_body(self, raw: Raw, body: Body) -> None:
        kind = word(body.get("type")) or ""
        if kind in CONVENIENCES and "id" not in body and "role" not in body:
            # Events that an SDK adds to those of the API repeat them.
            self.out.report.ignored[f"{kind}: a copy, by the SDK"] += 1
        elif kind in EVENTS and not (kind == "error" and "group" not in self.state):
            id = word(obj(body.get("message")).get("id"))
            fresh, last = kind == "message_start", kind == "message_stop"
            self.gather(raw, kind, id, fresh=fresh, last=last)
        else:
            self.take(raw, body)

    def run_of(self, response: Body) -> str | None:
        id = word(response.get("id"))
        return str(self.chains.runs.get(id) or run_id(NAME, id)) if id else None

    def bodies(self, body: Body) -> tuple[Body, Body]:
        request, response = obj(body.get("request")), obj(body.get("response"))
        if not request and isinstance(body.get("messages"), list):
            request = body
        if not response and body.get("type") == "message":
            response = body
        return request, {} if response.get("type") == "error" else response

    def messages(self, request: Body) -> list[Any]:
        system = request.get("system")
        first = [{"role": "system", "content": system}] if system else []
        return [*first, *items(request.get("messages"))]

    def print_of(self, message: Any) -> str:
        return _print(message)

    def message_facts(self, message: Any) -> list[Fact]:
        fields = obj(message)
        role, content = fields.get("role"), fields.get("content")
        blocks = reply_of(self.speaks, [{"type": "message", "content": content}]).blocks
        if role in ("assistant", None):
            return list(block_facts(blocks))
        return list(block_facts(blocks, role="system" if role == "system" else "user"))

    def echo(self, bodies: list[Body], reply: ReplyBuilder) -> list[Any]:  # noqa: ARG002  # the shape
        content = [
            {"type": each["type"], "text": each.get("text"), "id": each.get("tool_id")}
            for each in reply.blocks
        ]
        return [{"role": "assistant", "content": content}]


def _print(message: Any) -> str:
    fields = obj(message)
    content = fields.get("content")
    parts = [content] if isinstance(content, str) else items(content)
    texts = [
        (obj(p).get("text") or obj(p).get("id") or obj(p).get("tool_use_id") or obj(p).get("type"))
        if isinstance(p, dict)
        else p
        for p in parts
    ]
    return fingerprint(fields.get("role"), texts)


SIGNS = (
    Signs({"type": {"message_start"}, "message.role": {"assistant"}, "message.id": str}, ("uuid",)),
    Signs({"type": {"content_block_start", "content_block_delta"}, "index": int}, ("uuid",)),
    Signs(
        {"type": {"message"}, "role": {"assistant"}, "content": list, "stop_reason": ANY},
        ("sessionId", "uuid", "payload"),
    ),
    Signs({"response.type": {"message"}, "response.content": list, "request.messages": list}),
    Signs({"anthropic_version": str, "messages": list}),
    Signs({"model": re.compile("(anthropic[./])?claude"), "messages": list, "max_tokens": int}),
)


importer = Importer(
    name=NAME,
    about="Anthropic: the Messages API, as bodies, JSON lines and SSE.",
    mapping="1",
    reader=AnthropicReader,
    recognise=by_signs(SIGNS),
    form=form_of,
    fits=lambda body: not body.keys().isdisjoint({"type", "request", "messages"}),
    proven="real streams of the Messages API, 2025",
)
