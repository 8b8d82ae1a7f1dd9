"""AG-UI: the events of runs, as SSE, as JSON lines, or as one array."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tracklog.fact import (
    Answered,
    Asked,
    Began,
    Called,
    Ended,
    Fact,
    Linked,
    Noted,
    Returned,
    Role,
    Said,
    Spent,
)
from tracklog.importers import (
    LONG,
    Form,
    Importer,
    Raw,
    Reader,
    count,
    moment,
    remember,
    run_id,
    unquoted,
    word,
)
from tracklog.importers._carried import carried
from tracklog.providers import input_of

NAME = "agui"
THREAD = "threadId"
"""Under this name a run is known by the conversation that it is a part of."""
ROLES: dict[str, Role] = {"developer": "system", "system": "system", "user": "user"}
BASE = ("type", "timestamp", "rawEvent")
KNOWN = {
    "RUN_STARTED": ("threadId", "runId", "parentRunId", "input"),
    "RUN_FINISHED": ("threadId", "runId", "outcome", "usage", "result"),
    "RUN_ERROR": ("message", "code", "usage"),
    "STEP_STARTED": ("stepName",),
    "STEP_FINISHED": ("stepName",),
    "TEXT_MESSAGE_START": ("messageId", "role", "name"),
    "TEXT_MESSAGE_CONTENT": ("messageId", "delta"),
    "TEXT_MESSAGE_END": ("messageId",),
    "TEXT_MESSAGE_CHUNK": ("messageId", "role", "delta", "name"),
    "TOOL_CALL_START": ("toolCallId", "toolCallName", "parentMessageId"),
    "TOOL_CALL_ARGS": ("toolCallId", "delta"),
    "TOOL_CALL_END": ("toolCallId",),
    "TOOL_CALL_CHUNK": ("toolCallId", "toolCallName", "parentMessageId", "delta"),
    "TOOL_CALL_RESULT": ("messageId", "toolCallId", "content", "role"),
    "MESSAGES_SNAPSHOT": ("messages",),
    "REASONING_START": ("messageId",),
    "REASONING_END": ("messageId",),
    "REASONING_MESSAGE_START": ("messageId", "role"),
    "REASONING_MESSAGE_CONTENT": ("messageId", "delta"),
    "REASONING_MESSAGE_END": ("messageId",),
    "REASONING_MESSAGE_CHUNK": ("messageId", "delta"),
    "REASONING_ENCRYPTED_VALUE": ("subtype", "entityId", "encryptedValue"),
    "THINKING_START": ("title",),
    "THINKING_END": (),
    "THINKING_TEXT_MESSAGE_START": (),
    "THINKING_TEXT_MESSAGE_CONTENT": ("delta",),
    "THINKING_TEXT_MESSAGE_END": (),
}
MORE = "more"
"""What an export of ours says of an event that tells nothing new."""
OPENING = ("TEXT_MESSAGE_START", "REASONING_MESSAGE_START", "TOOL_CALL_START")
ACTIVITY = "ACTIVITY_SNAPSHOT"
NOTED = ("STATE_SNAPSHOT", "STATE_DELTA", ACTIVITY, "ACTIVITY_DELTA", "RAW", "CUSTOM")


class AguiReader(Reader):
    """Reads events; messages and calls are told whole, of the event that began them."""

    def identify(self, raw: Raw) -> str | None:
        for value in raw.value if isinstance(raw.value, list) else [raw.value]:
            if isinstance(value, dict) and value.get("type") in ("RUN_STARTED", "RUN_FINISHED"):
                return run_id(NAME, word(value.get("runId")) or self.source.path.stem)
        return None

    def record(self, raw: Raw) -> None:
        if isinstance(raw.value, list):
            for each in raw.value:
                self.record(raw._replace(value=each, exact=True, flaws=()))
            return
        event = raw.value
        kind = word(event.get("type")) if isinstance(event, dict) else None
        # Events have no ids of their own: equal ones without a time are told apart by their count.
        bare = not isinstance(event, dict) or event.get("timestamp") is None
        value = self.tell.about(raw, key=_key(event) if kind else None, bare=bare)
        if kind is None:
            self.tell.unknown("record", value)
            return
        self._at = moment(value.get("timestamp"))
        ours, value = _parted(value)
        self._told = ours is not None
        self._rest = {
            key: each for key, each in value.items() if key not in (*BASE, *KNOWN.get(kind, ()))
        }
        self._close_chunks(kind, value)
        if self._told:
            self.tell.report.mapped[kind] += 1
            self._again(kind, value, ours)
        elif kind in NOTED:
            self.tell.report.mapped[kind] += 1
            text = word(value.get("name")) or word(value.get("activityType"))
            data = {key: each for key, each in value.items() if key not in BASE}
            self._tell(Noted(label=kind, kind=kind, text=text, data=data))
        elif kind in MEANINGS:
            self.tell.report.mapped[kind] += 1
            MEANINGS[kind](self, value)
        else:
            self.tell.unknown(kind, value, at=self._at, run=self._run)

    def finish(self) -> None:
        self._close_all(partial=True)

    @property
    def _run(self) -> str | None:
        run: str | None = self.state.get("run")
        return run

    def _tell(self, fact: Fact, extra: dict[str, Any] | None = None, **more: Any) -> None:
        more.setdefault("run", self._run)
        self.tell.tell(fact, at=self._at, extra=extra or None, **more)

    def _again(self, kind: str, value: dict[str, Any], ours: Any) -> None:
        """An event of one of our exports: it carries a fact, or is more of one that was told."""
        if kind == "RUN_STARTED":
            self._enter(value)
        if (fact := carried(ours)) is not None:
            fact.tell(self.tell, run=self._run)
        if kind == "RUN_STARTED" and ours != MORE and self.state.get("named") != self._run:
            self.state["named"] = self._run
            self._name(value)
        elif kind in OPENING:  # what it begins is told already
            MEANINGS[kind](self, value)

    def _enter(self, value: dict[str, Any]) -> None:
        self.state["native"] = word(value.get("runId")) or self.source.path.stem
        self.state["run"] = run_id(NAME, self.state["native"])

    def _name(self, value: dict[str, Any]) -> None:
        names = ((NAME, self.state["native"]), (THREAD, word(value.get("threadId"))))
        for system, alias in names:
            if alias:
                self._tell(Linked(kind="alias", system=system, alias=alias))

    def _began(self, value: dict[str, Any]) -> None:
        self._enter(value)
        self._tell(Began(what="run"), self._rest)
        self._name(value)
        if parent := word(value.get("parentRunId")):
            self._tell(Linked(kind="branch", parent=run_id(NAME, parent)))
        given = value.get("input")
        given = given if isinstance(given, dict) else {}
        for answer in _listed(given.get("resume")):
            if isinstance(answer, dict) and (id := word(answer.get("interruptId"))):
                asked = self.state.get("asked", {}).pop(id, None) or self._run
                told = answer.get("payload", answer)
                self._tell(Answered(question_id=id, answer=told), run=asked)
        self._snapshot(given)
        rest = {key: given[key] for key in given if key not in ("resume", "messages", "threadId")}
        if rest.keys() - {"runId"}:
            self._tell(Noted(label="input", kind="RUN_STARTED", data=rest))

    def _finished(self, value: dict[str, Any]) -> None:
        self._close_all(partial=True)
        self._spend(value.get("usage"))
        outcome = value.get("outcome")
        outcome = outcome if isinstance(outcome, dict) else {}
        if outcome.get("type") == "interrupt":
            for each in _listed(outcome.get("interrupts")):
                self._ask(each if isinstance(each, dict) else {})
            return
        kind = word(outcome.get("type"))
        if value.get("result") is not None:
            self._rest["result"] = value["result"]
        ended = Ended(what="run", outcome=kind, passed=True if kind == "success" else None)
        self._tell(ended, self._rest)

    def _ask(self, interrupt: dict[str, Any]) -> None:
        id = word(interrupt.get("id")) or "interrupt"
        pending = self.state.setdefault("asked", {})
        if pending.get(id) == self._run:
            return  # it still waits, and is told again beside another
        pending[id] = self._run
        asked = Asked(
            question_id=id,
            text=word(interrupt.get("message")) or word(interrupt.get("reason")),
            what=word(interrupt.get("reason")),
            call_id=word(interrupt.get("toolCallId")),
            schema=interrupt.get("responseSchema"),
            expires=moment(interrupt.get("expiresAt")),
        )
        known = ("id", "reason", "message", "toolCallId", "responseSchema", "expiresAt")
        self._tell(
            asked,
            {key: each for key, each in interrupt.items() if key not in known},
        )

    def _failed(self, value: dict[str, Any]) -> None:
        self._close_all(partial=True)
        self._spend(value.get("usage"))
        ended = Ended(
            what="run",
            outcome=word(value.get("code")),
            passed=False,
            error=value.get("message"),
        )
        self._tell(ended, self._rest)

    def _spend(self, usages: Any) -> None:
        told = [each for each in _listed(usages) if isinstance(each, dict)]
        for place, each in enumerate(told):
            known = {
                "input_tokens": count(each.get("inputTokens")),
                "cached_tokens": count(each.get("cachedInputTokens")),
                "output_tokens": count(each.get("outputTokens")),
                "reasoning_tokens": count(each.get("reasoningTokens")),
                "total_tokens": count(each.get("totalTokens")),
            }
            usage: dict[str, Any] = {key: n for key, n in known.items() if n is not None}
            native = self.state.get("native") or self.tell.run
            spent = Spent(
                key=native if len(told) == 1 else f"{native}/{place}",
                provider=word(each.get("provider")),
                model=word(each.get("model")),
                usage={**usage, "raw": each},
            )
            self._tell(spent)

    def _step_began(self, value: dict[str, Any]) -> None:
        self._tell(Began(what="step", step=word(value.get("stepName"))), self._rest)

    def _step_ended(self, value: dict[str, Any]) -> None:
        self._tell(Ended(what="step", step=word(value.get("stepName"))), self._rest)

    def _open(self, kind: str, id: str, value: dict[str, Any], *, chunk: bool = False) -> Any:
        """Something that is told when its end comes; of the event that began it."""
        waiting = self.state.setdefault("open", {})
        key = f"{kind} {id}"
        if key not in waiting:
            waiting[key] = {
                "kind": kind,
                "id": id,
                "named": id in (value.get("messageId"), value.get("toolCallId")),
                "at": self._at,
                "run": self._run,
                "mark": self.tell.mark(),
                "text": "",
                "parts": 0,
                "chunk": chunk,
                "extra": {},
                "told": self._told,
            }
        known = waiting[key]
        for name in ("role", "name", "toolCallName", "parentMessageId", "title"):
            if value.get(name) is not None:
                known.setdefault(name, value[name])
        known["extra"] |= self._rest
        known["parts"] += 1
        return known

    def _grow(self, kind: str, id: str, value: dict[str, Any], *, chunk: bool = False) -> None:
        known = self._open(kind, id, value, chunk=chunk)
        delta = value.get("delta")
        known["text"] += delta if isinstance(delta, str) else ""

    def _close(self, kind: str, id: str, *, partial: bool = False, whole: bool = True) -> None:
        known = self.state.get("open", {}).pop(f"{kind} {id}", None)
        if known is None or known["told"]:
            return
        here, at = self.tell.mark(), self._at if hasattr(self, "_at") else None
        raw = self.tell._raw  # what is told next is again of the record at hand
        self.tell.again(known["mark"])
        self._at = known["at"]
        # What may still go on is told under a place of its own, by how far it came.
        place = 0 if whole else 1000 * known["parts"]
        self._tell(_opened(known, partial), known["extra"], run=known["run"], n=place)
        self.tell.again(here)
        self.tell._raw, self._at = raw, at

    def _close_all(self, *, partial: bool) -> None:
        for known in [*self.state.get("open", {}).values()]:
            self._close(known["kind"], known["id"], partial=partial, whole=False)

    def _close_chunks(self, kind: str, value: dict[str, Any]) -> None:
        """A message of chunks has no end of its own: anything else ends it."""
        for known in [*self.state.get("open", {}).values()]:
            if known["chunk"]:
                same = kind.endswith("_CHUNK") and kind.startswith(CHUNKS[known["kind"]])
                id = word(value.get("messageId")) or word(value.get("toolCallId")) or known["id"]
                if not (same and id == known["id"]):
                    self._close(known["kind"], known["id"])

    def _chunk(self, kind: str, value: dict[str, Any]) -> None:
        key = "toolCallId" if kind == "call" else "messageId"
        open_ = [e["id"] for e in self.state.get("open", {}).values() if e["kind"] == kind]
        id = word(value.get(key)) or next(iter(open_), None) or "chunk"
        self._grow(kind, id, value, chunk=True)

    def _result(self, value: dict[str, Any]) -> None:
        call = word(value.get("toolCallId")) or "unknown"
        self._close("call", call)
        output = value.get("content")
        extra = self._rest | ({"messageId": value["messageId"]} if "messageId" in value else {})
        self._hear(word(value.get("messageId")))
        self._tell(Returned(call_id=call, ok=None, output=output), extra)

    def _hear(self, id: str | None) -> None:
        if id:
            remember(self.state.setdefault("known", {}), id, 1, LONG)

    def _snapshot(self, value: dict[str, Any]) -> None:
        """Of the messages that are repeated, what was not heard before."""
        for place, message in enumerate(_listed(value.get("messages"))):
            told = message if isinstance(message, dict) else {"content": message}
            id = word(told.get("id"))
            heard, open_ = self.state.get("known", {}), self.state.get("open", {})
            if id and (id in heard or f"text {id}" in open_):
                continue
            self._hear(id)
            self._message(told, id, place)

    def _message(self, told: dict[str, Any], id: str | None, place: int) -> None:
        role, content = word(told.get("role")) or "user", told.get("content")
        if role == "tool":
            call = word(told.get("toolCallId")) or "unknown"
            self._tell(Returned(call_id=call, output=content, error=told.get("error")))
            return
        if role == "activity":
            text = word(told.get("activityType"))
            self._tell(Noted(label=ACTIVITY, kind=ACTIVITY, text=text, data=told))
            return
        blocks = [_block(each, role == "reasoning") for each in _contents(content)]
        if opaque := word(told.get("encryptedValue")):
            self.tell.report.opaque["reasoning"] += 1
            blocks.append({"type": "thinking", "opaque": opaque})
        calls = [each for each in _listed(told.get("toolCalls")) if isinstance(each, dict)]
        if blocks or not calls:
            said = Said(
                role=ROLES.get(role, "assistant"),
                blocks=tuple(blocks),
                message_id=id,
                agent=word(told.get("name")),
            )
            self._tell(said)
        for n, each in enumerate(calls):
            self._called(each, f"{id or place}/{n}")

    def _called(self, call: dict[str, Any], synthetic: str) -> None:
        asked = call.get("function")
        function: dict[str, Any] = asked if isinstance(asked, dict) else {}
        id = word(call.get("id"))
        if id in self.state.setdefault("calls", []):
            return
        self.state["calls"].append(id)
        called = Called(
            tool=word(function.get("name")) or "unknown",
            call_id=id or synthetic,
            input=input_of(function.get("arguments")),
            synthetic_id=id is None,
        )
        self._tell(called)

    def _encrypted(self, value: dict[str, Any]) -> None:
        self.tell.report.opaque["reasoning"] += 1
        block = {"type": "thinking", "opaque": value.get("encryptedValue")}
        extra = {key: value[key] for key in ("subtype", "entityId") if key in value} | self._rest
        said = Said(role="assistant", blocks=(block,), message_id=word(value.get("entityId")))
        self._tell(said, extra)

    def _mark_heard(self, kind: str, id: str) -> None:
        if kind == "call":
            self.state.setdefault("calls", []).append(id)
        else:
            self._hear(id)


def _of(
    kind: str, act: str, key: str = "messageId"
) -> Callable[[AguiReader, dict[str, Any]], None]:
    """What an event does to the message, the thought or the call that it names."""

    def meaning(reader: AguiReader, value: dict[str, Any]) -> None:
        id = word(value.get(key)) or kind
        if act == "start":
            reader._open(kind, id, value)
            reader._mark_heard(kind, id)
        elif act == "grow":
            reader._grow(kind, id, value)
        else:
            known = reader.state.get("open", {}).get(f"{kind} {id}")
            if known is not None:
                known["extra"] |= reader._rest
            reader._close(kind, id)

    return meaning


CHUNKS = {"text": "TEXT_MESSAGE", "call": "TOOL_CALL", "thought": "REASONING_MESSAGE"}
MEANINGS: dict[str, Callable[[AguiReader, dict[str, Any]], None]] = {
    "RUN_STARTED": AguiReader._began,
    "RUN_FINISHED": AguiReader._finished,
    "RUN_ERROR": AguiReader._failed,
    "STEP_STARTED": AguiReader._step_began,
    "STEP_FINISHED": AguiReader._step_ended,
    "TEXT_MESSAGE_START": _of("text", "start"),
    "TEXT_MESSAGE_CONTENT": _of("text", "grow"),
    "TEXT_MESSAGE_END": _of("text", "end"),
    "TEXT_MESSAGE_CHUNK": lambda reader, value: reader._chunk("text", value),
    "TOOL_CALL_START": _of("call", "start", "toolCallId"),
    "TOOL_CALL_ARGS": _of("call", "grow", "toolCallId"),
    "TOOL_CALL_END": _of("call", "end", "toolCallId"),
    "TOOL_CALL_CHUNK": lambda reader, value: reader._chunk("call", value),
    "TOOL_CALL_RESULT": AguiReader._result,
    "MESSAGES_SNAPSHOT": AguiReader._snapshot,
    "REASONING_START": lambda _reader, _value: None,
    "REASONING_END": lambda _reader, _value: None,
    "REASONING_MESSAGE_START": _of("thought", "start"),
    "REASONING_MESSAGE_CONTENT": _of("thought", "grow"),
    "REASONING_MESSAGE_END": _of("thought", "end"),
    "REASONING_MESSAGE_CHUNK": lambda reader, value: reader._chunk("thought", value),
    "REASONING_ENCRYPTED_VALUE": AguiReader._encrypted,
    "THINKING_START": lambda _reader, _value: None,
    "THINKING_END": lambda _reader, _value: None,
    "THINKING_TEXT_MESSAGE_START": _of("thought", "start"),
    "THINKING_TEXT_MESSAGE_CONTENT": _of("thought", "grow"),
    "THINKING_TEXT_MESSAGE_END": _of("thought", "end"),
}


def _opened(known: dict[str, Any], partial: bool) -> Fact:
    """A message, a thought or a call, as far as it came."""
    cut = {"partial": True} if partial else {}
    id, text = known["id"], known["text"]
    if known["kind"] == "call":
        return Called(
            tool=word(known.get("toolCallName")) or "unknown",
            call_id=id,
            input=input_of(text) if text else None,
            synthetic_id=not known["named"],
        )
    name = id if known["named"] else None
    if known["kind"] == "thought":
        block = {"type": "thinking", "thinking": text, **cut}
        return Said(role="assistant", blocks=(block,), message_id=name)
    role = ROLES.get(word(known.get("role")) or "assistant", "assistant")
    blocks = ({"type": "text", "text": text, **cut},) if text else ()
    return Said(role=role, blocks=blocks, message_id=name, agent=word(known.get("name")))


def _key(event: dict[str, Any]) -> str | None:
    for key in ("toolCallId", "messageId", "runId", "entityId"):
        if found := word(event.get(key)):
            return found
    return None


def _parted(value: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """What one of our exports put beside an event, and the event without it."""
    metadata = value.get("metadata")
    if not isinstance(metadata, dict) or "tracklog" not in metadata:
        return None, value
    rest = {key: each for key, each in metadata.items() if key != "tracklog"}
    bare = {key: each for key, each in value.items() if key != "metadata"}
    return metadata["tracklog"], bare | ({"metadata": rest} if rest else {})


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _contents(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [content] if content else []


def _block(part: Any, thought: bool) -> dict[str, Any]:
    text = part if isinstance(part, str) else part.get("text") if isinstance(part, dict) else None
    if not isinstance(text, str):
        kind = (word(part.get("type")) if isinstance(part, dict) else None) or "part"
        return {"type": "stream", "provider_type": kind, "chunk": part}
    return {"type": "thinking", "thinking": text} if thought else {"type": "text", "text": text}


def form(path: Path, head: bytes) -> Form:
    text = head.lstrip()
    if text.startswith((b"data:", b"event:", b":", b"id:", b"retry:")):
        return "sse"
    if path.suffix in (".jsonl", ".ndjson"):
        return "lines"
    return "document" if text.startswith(b"[") or b"\n" not in text.rstrip() else "lines"


def recognise(path: Path, head: bytes) -> float:  # noqa: ARG001  # the shape
    head = unquoted(head)
    if b'"RUN_STARTED"' in head and b'"threadId"' in head:
        return 0.95
    return 0.6 if b'"TEXT_MESSAGE_' in head or b'"TOOL_CALL_START"' in head else 0.0


importer = Importer(
    name=NAME,
    about="AG-UI: the events of runs, as SSE, JSON lines or one array.",
    mapping="2",
    reader=AguiReader,
    recognise=recognise,
    form=form,
)
