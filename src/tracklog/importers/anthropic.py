"""Anthropic: bodies and streams of the Messages API."""

from pathlib import Path
from typing import Any

from tracklog.fact import Fact, Noted, Said
from tracklog.importers import Importer, Raw, Reader, run_id, word
from tracklog.importers._exchanges import (
    UNFINISHED,
    Body,
    Chain,
    Chains,
    alias,
    began,
    fingerprint,
    form_of,
    items,
    obj,
    part_of,
    reply_of,
    response_facts,
    spent_fact,
    time_of,
)
from tracklog.importers._spoken import spoken

NAME = "anthropic"
SPEAKS = "claude"
"""The provider whose reading knows this API."""
EVENTS = (
    "message_start", "content_block_start", "content_block_delta", "content_block_stop",
    "message_delta", "message_stop", "ping", "error",
)  # fmt: skip  # one row
CONVENIENCES = ("text", "thinking", "signature", "input_json", "citation")


class AnthropicReader(Reader):
    """Reads exchanges, and streams of events, of any number of conversations."""

    def identify(self, raw: Raw) -> str | None:
        for value in raw.value if isinstance(raw.value, list) else [raw.value]:
            body = obj(value)
            message = obj(body.get("response")) or obj(body.get("message")) or body
            if id := word(message.get("id")):
                return run_id(NAME, id)
        return None

    def record(self, raw: Raw) -> None:
        value = raw.value
        if isinstance(value, list):
            for each in value:
                self.record(part_of(raw, each))
            return
        body = obj(value)
        kind = word(body.get("type")) or ""
        if kind in CONVENIENCES and "id" not in body and "role" not in body:
            # An SDK's own events beside those of the wire: copies of what those tell.
            self.tell.report.ignored[f"{kind}: a copy, by the SDK"] += 1
        elif kind in EVENTS and not (kind == "error" and "group" not in self.state):
            self._gather(raw, kind, body)
        else:
            self._flush()
            self._body(raw, body)

    def finish(self) -> None:
        self._flush(whole=False)

    def _body(self, raw: Raw, body: Body) -> None:
        request, response = obj(body.get("request")), obj(body.get("response"))
        if not request and isinstance(body.get("messages"), list):
            request = body
        if not response and body.get("type") == "message":
            response = body
        error = obj(body.get("error")) or obj(response.get("error"))
        if not request and not response and not error:
            bare = not (body.get("id") or body.get("timestamp"))
            self.tell.unknown(word(body.get("type")) or "record", self.tell.about(raw, bare=bare))
            return
        self.tell.report.mapped["exchange" if request and response else "body"] += 1
        at = time_of(body.get("timestamp"), response.get("created_at"))
        id = word(response.get("id"))
        chains = Chains(self.state)
        known = chains.of_prefix([_print(each) for each in _messages(request)])
        own = run_id(NAME, id) if id else self.tell.run
        chain = known or chains.of_run(own)
        value = self.tell.about(raw, key=id, bare=not id and not at)
        request = request and (obj(value.get("request")) or value)
        response = response and (obj(value.get("response")) or value)
        model = word(response.get("model")) or word(request.get("model"))
        for fact in [*self._opening(chain, model, id), *self._asked(chain, request)]:
            self.tell.tell(fact, run=chain.run, at=at)
        if response and not error:
            self._answered(chain, [response], id, at)
        elif error:
            text = word(error.get("message")) or word(error.get("type"))
            self.tell.tell(Noted(label="error", text=text, data=error), run=chain.run, at=at)

    def _opening(self, chain: Chain, model: str | None, id: str | None) -> list[Fact]:
        if chain.kept.get("begun"):
            return []
        chain.kept["begun"] = True
        return [began(model), *([alias(NAME, id)] if id else [])]

    def _asked(self, chain: Chain, request: Body) -> list[Fact]:
        told = _messages(request)
        prints = [_print(each) for each in told]
        same = 0
        while same < min(len(prints), len(chain.heard)) and prints[same] == chain.heard[same]:
            same += 1
        facts = [fact for message in told[same:] for fact in _said(message)]
        if told:
            chain.heard[:] = prints
        return facts

    def _answered(
        self, chain: Chain, bodies: list[Body], id: str | None, at: str | None, n: int | None = None
    ) -> None:
        reply = reply_of(SPEAKS, bodies)
        for kind, many in reply.report.unrecognised.items():
            self.tell.report.unknown[kind] += many
        if opaque := sum("opaque" in each for each in reply.blocks):
            self.tell.report.opaque["thinking"] += opaque
        facts = response_facts(reply, id)
        if not facts:
            facts = [Said(role="assistant", blocks=(), message_id=id)]
        if id and (spent := spent_fact(reply, id, NAME)):
            facts.append(spent)
        for fact in facts:
            self.tell.tell(fact, run=chain.run, at=at, n=n)
            n = None
        content = bodies[0].get("content") if len(bodies) == 1 else None
        chain.heard.append(_print({"role": "assistant", "content": content}))

    def _gather(self, raw: Raw, kind: str, body: Body) -> None:
        """One event of a stream: held until its message is whole."""
        id = word(obj(body.get("message")).get("id"))
        group = self.state.get("group")
        if group and kind == "message_start":
            self._flush()
            group = None
        value = self.tell.about(raw, key=id)
        if group is None:
            group = self.state["group"] = {"id": id, "events": [], "mark": self.tell.mark()}
        group["events"].append(value)
        self.tell.report.mapped[kind] += 1
        if kind == "message_stop":
            self._flush()

    def _flush(self, *, whole: bool = True) -> None:
        group = self.state.pop("group", None)
        if not group:
            return
        self.tell.again(group["mark"])
        id, events = group["id"], group["events"]
        chain = Chains(self.state).of_run(run_id(NAME, id) if id else self.tell.run)
        # A stream that may go on is told under places of its own.
        n = None if whole else UNFINISHED + 1000 * len(events)
        for fact in self._opening(chain, word(obj(events[0].get("message")).get("model")), id):
            self.tell.tell(fact, run=chain.run, n=n)
            n = None
        self._answered(chain, events, id, None, n)


def _messages(request: Body) -> list[Any]:
    system = request.get("system")
    first = [{"role": "system", "content": system}] if system else []
    return [*first, *items(request.get("messages"))]


def _print(message: Any) -> str:
    told = obj(message)
    content = told.get("content")
    parts = [content] if isinstance(content, str) else items(content)
    said = [
        (obj(p).get("text") or obj(p).get("id") or obj(p).get("tool_use_id") or obj(p).get("type"))
        if isinstance(p, dict)
        else p
        for p in parts
    ]
    return fingerprint(told.get("role"), said)


def _said(message: Any) -> list[Fact]:
    told = obj(message)
    role, content = told.get("role"), told.get("content")
    if role in ("assistant", None):
        heard = {"type": "message", "content": content}
        return list(spoken(reply_of(SPEAKS, [heard]).blocks))
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else items(content)
    blocks = reply_of(SPEAKS, [{"type": "message", "content": parts}]).blocks
    return list(spoken(blocks, role="system" if role == "system" else "user"))


def recognise(path: Path, head: bytes) -> float:  # noqa: ARG001  # the shape
    if b'"message_start"' in head and b'"content_block_' in head and b'"sessionId"' not in head:
        return 0.9
    if b'"type":"message"' in head.replace(b" ", b"") and b'"stop_reason"' in head:
        return 0.0 if b'"sessionId"' in head else 0.8
    return 0.5 if b'"anthropic' in head and b'"messages"' in head else 0.0


importer = Importer(
    name=NAME,
    about="Anthropic: the Messages API, as bodies, JSON lines and SSE.",
    mapping="1",
    reader=AnthropicReader,
    recognise=recognise,
    form=form_of,
    fits=lambda body: not body.keys().isdisjoint({"type", "request", "messages"}),
)
