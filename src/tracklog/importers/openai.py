"""OpenAI: bodies and streams of chat completions and of responses."""

from pathlib import Path
from typing import Any

from tracklog.fact import Fact, Role, Said
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

NAME = "openai"
ENDINGS = ("response.completed", "response.failed", "response.incomplete", "error")
OPENINGS = ("response.created", "response.queued")


class OpenaiReader(Reader):
    """Reads exchanges, and streams of events, of any number of conversations."""

    def identify(self, raw: Raw) -> str | None:
        for value in raw.value if isinstance(raw.value, list) else [raw.value]:
            body = obj(value)
            response = obj(body.get("response")) or body
            if run := self._run_of(response):
                return run
        return None

    def record(self, raw: Raw) -> None:
        value = raw.value
        if isinstance(value, list):
            for each in value:
                self.record(part_of(raw, each))
            return
        body = obj(value)
        kind = word(body.get("type")) or ""
        if body.get("object") == "chat.completion.chunk":
            self._gather(raw, body, word(body.get("id")) or "chunk")
        elif kind.startswith("response.") or (kind == "error" and "group" in self.state):
            id = word(obj(body.get("response")).get("id"))
            fresh = kind in OPENINGS
            self._gather(raw, body, id, fresh=fresh, last=kind in ENDINGS)
        else:
            self._flush()
            self._body(raw, body)

    def finish(self) -> None:
        self._flush(whole=False)

    def _run_of(self, response: Body) -> str | None:
        """The run of a response: its conversation's, its predecessor's, else its own."""
        talk = response.get("conversation")
        named = word(talk) or word(obj(talk).get("id"))
        if named:
            return run_id(NAME, named)
        chains = Chains(self.state)
        if known := chains.runs.get(word(response.get("previous_response_id")) or ""):
            return str(known)
        id = word(response.get("id"))
        if previous := word(response.get("previous_response_id")):
            return run_id(NAME, previous)
        return str(chains.runs.get(id) or run_id(NAME, id)) if id else None

    def _body(self, raw: Raw, body: Body) -> None:
        request, response = obj(body.get("request")), obj(body.get("response"))
        if not request and ("messages" in body or "input" in body):
            request = body
        if not response and (isinstance(body.get("choices"), list) or "output" in body):
            response = body
        error = body.get("error") or response.get("error")
        if not request and not response and not error:
            bare = not (body.get("id") or body.get("created_at") or body.get("timestamp"))
            kind = word(body.get("type")) or word(body.get("object")) or "record"
            self.tell.unknown(kind, self.tell.about(raw, bare=bare))
            return
        self.tell.report.mapped["exchange" if request and response else "body"] += 1
        at = time_of(response.get("created_at"), response.get("created"), body.get("timestamp"))
        prints = [_print(each) for each in _messages(request)]
        chains = Chains(self.state)
        known = chains.of_prefix(prints) if prints and not _named(response) else None
        run = known.run if known else self._run_of(response) or self.tell.run
        chain = chains.of_run(run)
        id = word(response.get("id"))
        value = self.tell.about(raw, key=id, bare=not id and not at)
        request = request and (obj(value.get("request")) or value)
        response = response and (obj(value.get("response")) or value)
        model = word(response.get("model")) or word(request.get("model"))
        facts = self._opening(chain, model, response)
        facts += self._asked(chain, request)
        clock: dict[str, Any] = {"clock": "response"} if at else {}
        for fact in facts:
            self.tell.tell(fact, run=run, at=at, **clock)
        if response:
            self._answered(chain, [response], id, at, word(response.get("previous_response_id")))
        elif error:
            said = obj(error).get("message") or error
            reply = reply_of(NAME, [{"type": "error", "message": said}])
            for fact in response_facts(reply, None):
                self.tell.tell(fact, run=run, at=at)

    def _opening(self, chain: Chain, model: str | None, response: Body) -> list[Fact]:
        if chain.kept.get("begun"):
            return []
        chain.kept["begun"] = True
        talk = response.get("conversation")
        names = [word(talk) or word(obj(talk).get("id")), word(response.get("id"))]
        return [began(model), *(alias(NAME, each) for each in names if each)]

    def _asked(self, chain: Chain, request: Body) -> list[Fact]:
        """What a request says that its conversation did not say before."""
        facts: list[Fact] = []
        told = _messages(request)
        prints = [_print(each) for each in told]
        same = 0
        while same < min(len(prints), len(chain.heard)) and prints[same] == chain.heard[same]:
            same += 1
        linked = word(request.get("previous_response_id"))
        for print_, message in zip(prints[same:], told[same:], strict=True):
            if print_ not in chain.heard[same:] or linked:
                facts += _said(message)
        chain.heard[:] = chain.heard + prints if linked else prints
        return facts

    def _answered(
        self,
        chain: Chain,
        bodies: list[Body],
        id: str | None,
        at: str | None,
        cause: str | None,
        n: int | None = None,
    ) -> None:
        reply = reply_of(NAME, bodies)
        for kind, many in reply.report.unrecognised.items():
            self.tell.report.unknown[kind] += many
        if opaque := sum("opaque" in each for each in reply.blocks):
            self.tell.report.opaque["reasoning"] += opaque
        facts = response_facts(reply, id)
        if not facts:
            facts = [Said(role="assistant", blocks=(), message_id=id)]
        if id and (spent := spent_fact(reply, id, NAME)):
            facts.append(spent)
        for fact in facts:
            self.tell.tell(fact, run=chain.run, at=at, cause=cause, n=n)
            n = None
        for body in bodies:
            chain.heard += [_print(each) for each in _outputs(body)]
        if id:
            Chains(self.state).answered(id, chain.run)

    def _gather(
        self, raw: Raw, body: Body, id: str | None, *, fresh: bool = False, last: bool = False
    ) -> None:
        """One event of a stream: held until its response is whole."""
        group = self.state.get("group")
        if group and (fresh or (id and group["id"] and group["id"] != id)):
            self._flush()
            group = None
        value = self.tell.about(raw, key=id)
        if group is None:
            group = self.state["group"] = {"id": id, "events": [], "mark": self.tell.mark()}
        group["id"] = group["id"] or id
        group["events"].append(value)
        self.tell.report.mapped[word(body.get("type")) or "chat.completion.chunk"] += 1
        if last:
            self._flush()

    def _flush(self, *, whole: bool = True) -> None:
        group = self.state.pop("group", None)
        if not group:
            return
        events, id = group["events"], group["id"]
        self.tell.again(group["mark"])
        responses = [obj(each.get("response")) for each in events if "response" in each]
        response = responses[-1] if responses else events[-1]
        at = time_of(response.get("created_at"), events[0].get("created"))
        run = self._run_of({**response, "id": id}) or self.tell.run
        chain = Chains(self.state).of_run(run)
        # A stream that may go on is told under places of its own.
        n = None if whole else UNFINISHED + 1000 * len(events)
        opening = self._opening(chain, word(response.get("model")), {**response, "id": id})
        if word(response.get("instructions")):
            opening.append(_system(response["instructions"]))
        for fact in opening:
            self.tell.tell(fact, run=run, at=at, n=n)
            n = None
        self._answered(chain, events, id, at, word(response.get("previous_response_id")), n)


def _named(response: Body) -> bool:
    return bool(response.get("conversation") or response.get("previous_response_id"))


def _system(text: Any) -> Said:
    return Said(role="system", blocks=({"type": "text", "text": text},))


def _messages(request: Body) -> list[Any]:
    """The messages of a request of either API, the instructions first."""
    found: list[Any] = []
    if request.get("instructions"):
        found.append({"role": "system", "content": request["instructions"]})
    given = request.get("input")
    if isinstance(given, str):
        found.append({"role": "user", "content": given})
    return [*found, *items(given), *items(request.get("messages"))]


def _outputs(body: Body) -> list[Any]:
    """The messages and items of a response, as a later request repeats them."""
    first = obj(next(iter(items(body.get("choices"))), None))
    if isinstance(first.get("message"), dict):
        return [first["message"]]
    response = obj(body.get("response")) or body
    return items(response.get("output"))


def _print(message: Any) -> str:
    """What makes two tellings of a message the same: role, words and calls."""
    told = obj(message)
    calls = [word(obj(each).get("id")) for each in items(told.get("tool_calls"))]
    text = told.get("content")
    parts: list[Any]
    parts = [obj(each).get("text", each) for each in text] if isinstance(text, list) else [text]
    joined = "".join(parts) if all(isinstance(part, str) for part in parts) else parts
    key = word(told.get("tool_call_id")) or word(told.get("call_id")) or word(told.get("id"))
    kind = word(told.get("type")) if told.get("type") != "message" else None
    if told.get("type") == "message" or told.get("role"):
        key = key if told.get("role") == "tool" else None
    said = joined if joined not in ("", [None]) else None
    return fingerprint(told.get("role"), kind, said, calls, key)


ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user"}


def _said(message: Any) -> list[Fact]:
    told = obj(message)
    role = word(told.get("role"))
    if role in ROLES:
        blocks = reply_of(NAME, [{"role": "assistant", "content": told.get("content")}]).blocks
        facts = list(spoken(blocks, role=ROLES[role], message_id=word(told.get("id"))))
        return facts or [Said(role=ROLES[role], blocks=())]
    if role in ("assistant", "tool"):
        return list(spoken(reply_of(NAME, [told]).blocks))
    response = {"object": "response", "output": [message]}
    return list(spoken(reply_of(NAME, [response]).blocks))


def recognise(path: Path, head: bytes) -> float:  # noqa: ARG001  # the shape
    marks = (
        b'"chat.completion',
        b'"resp_',
        b'"response.created"',
        b'"response.output',
        b'"chatcmpl',
    )
    if any(mark in head for mark in marks):
        return 0.9
    if b'"object"' in head and b'"response"' in head and b'"output"' in head:
        return 0.8
    return 0.4 if b'"messages"' in head and b'"role"' in head and b'"tool_calls"' in head else 0.0


importer = Importer(
    name=NAME,
    about="OpenAI: chat completions and responses, as bodies, JSON lines and SSE.",
    mapping="1",
    reader=OpenaiReader,
    recognise=recognise,
    form=form_of,
    fits=lambda body: not body.keys().isdisjoint({"type", "object", "request", "choices", "id"}),
)
