"""Read the events of AG-UI runs: one fact for the many events of a message; our own exports as
facts.
"""

from collections.abc import Callable
from typing import Any

from tracklog.formats.importers import LONG, Raw, Reader, count, remember, run_id, utc_time, word
from tracklog.formats.importers._carried import Carried, carried
from tracklog.formats.importers.agui.messages import ACTIVITY, facts_of, listed, rest_of
from tracklog.formats.importers.agui.pieces import IDS, Pieces, fact_of
from tracklog.model.fact import (
    Answered,
    Asked,
    Began,
    Called,
    Ended,
    Fact,
    Linked,
    Noted,
    Returned,
    Said,
    Spent,
)

NAME = "agui"
THREAD = "threadId"
"""The system name of the conversation that a run is part of."""
BASE = ("type", "timestamp")
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
    "TOOL_CALL_START": ("toolCallId", "toolCallName"),
    "TOOL_CALL_ARGS": ("toolCallId", "delta"),
    "TOOL_CALL_END": ("toolCallId",),
    "TOOL_CALL_CHUNK": ("toolCallId", "toolCallName", "delta"),
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
KNOWN_IN = {"text": "known", "call": "calls", "thought": "known"}
"""Where known ids are remembered, so that a snapshot gives only what is new."""
MORE = "more"
"""The mark in our exports on an event with no new information."""
OPENING = ("TEXT_MESSAGE_START", "REASONING_MESSAGE_START", "TOOL_CALL_START")
NOTED = ("STATE_SNAPSHOT", "STATE_DELTA", ACTIVITY, "ACTIVITY_DELTA", "RAW", "CUSTOM")


class AguiReader(Reader):
    """Reads events; messages and calls are written complete, for the event that began them."""

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
        # Events have no ids: equal ones without a time are distinguished by their count.
        bare = not isinstance(event, dict) or event.get("timestamp") is None
        value = self.out.about(raw, key=_key(event) if kind else None, bare=bare)
        if kind is None:
            self.out.unknown("record", value)
            return
        ours, bare_value = _parted(value)
        fact = carried(ours)
        self._mapped = fact is not None or self._is_ours(kind, ours)
        # A fact that our export carries has its own time, or none.
        self._at = None if self._mapped else utc_time(value.get("timestamp"))
        value = bare_value if self._mapped else value
        self._rest = {
            key: each for key, each in value.items() if key not in (*BASE, *KNOWN.get(kind, ()))
        }
        for known in self._pieces.ended_by(kind, value):
            self._end(known["kind"], known["id"])
        if self._mapped:
            self.out.report.mapped[kind] += 1
            self._again(kind, value, fact, is_more=ours == MORE)
        elif kind in NOTED:
            self.out.report.mapped[kind] += 1
            text = word(value.get("name")) or word(value.get("activityType"))
            data = {key: each for key, each in value.items() if key not in BASE}
            self._write(Noted(label=kind, kind=kind, text=text, data=data))
        elif kind in MEANINGS:
            self.out.report.mapped[kind] += 1
            MEANINGS[kind](self, value)
        else:
            self.out.unknown(kind, value, at=self._at, run=self._run)

    def finish(self) -> None:
        self._cut_off()

    @property
    def _run(self) -> str | None:
        run: str | None = self.state.get("run")
        return run

    @property
    def _pieces(self) -> Pieces:
        return Pieces(self.state.setdefault("open", {}))

    def _write(self, fact: Fact, extra: dict[str, Any] | None = None, **more: Any) -> None:
        more.setdefault("run", self._run)
        self.out.write(fact, at=self._at, extra=extra or None, **more)

    def _is_ours(self, kind: str, ours: Any) -> bool:
        """Whether an event without a fact is one that our export needs for the order of events.

        A part of a fact that cannot be read is mapped like any other event of the format.
        """
        if ours is None:
            return False
        if ours != MORE:
            orderly = kind == "RUN_STARTED" and isinstance(ours, dict) and "fact" not in ours
            self.state["broken"] = not orderly
        return not self.state.get("broken")

    def _again(
        self, kind: str, value: dict[str, Any], fact: Carried | None, *, is_more: bool
    ) -> None:
        """An event of one of our exports: it carries a fact, or is a part of an earlier one."""
        if kind == "RUN_STARTED":
            self._enter(value)
        if fact is not None:
            self.state["broken"] = False
            fact.write(self.out, run=self._run)
        if kind == "RUN_STARTED" and not is_more and self.state.get("named") != self._run:
            self.state["named"] = self._run
            self._name(value)
        elif kind in OPENING:  # it was written already
            MEANINGS[kind](self, value)

    def _enter(self, value: dict[str, Any]) -> None:
        self.state["native"] = word(value.get("runId")) or self.source.path.stem
        self.state["run"] = run_id(NAME, self.state["native"])

    def _name(self, value: dict[str, Any]) -> None:
        names = ((NAME, self.state["native"]), (THREAD, word(value.get("threadId"))))
        for system, alias in names:
            if alias:
                self._write(Linked(kind="alias", system=system, alias=alias))

    def _began(self, value: dict[str, Any]) -> None:
        self._enter(value)
        self._write(Began(what="run"), self._rest)
        self._name(value)
        if parent := word(value.get("parentRunId")):
            self._write(Linked(kind="branch", parent=run_id(NAME, parent)))
        given = value.get("input")
        given = given if isinstance(given, dict) else {}
        for answer in listed(given.get("resume")):
            if isinstance(answer, dict) and (id := word(answer.get("interruptId"))):
                asked = self.state.get("asked", {}).pop(id, None) or self._run
                payload = answer.get("payload", answer)
                self._write(Answered(question_id=id, answer=payload), run=asked)
        self._snapshot(given)
        rest = {key: given[key] for key in given if key not in ("resume", "messages", "threadId")}
        if rest.keys() - {"runId"}:
            self._write(Noted(label="input", kind="RUN_STARTED", data=rest))

    def _finished(self, value: dict[str, Any]) -> None:
        self._cut_off()
        self._spend(value.get("usage"))
        outcome = value.get("outcome")
        outcome = outcome if isinstance(outcome, dict) else {}
        if outcome.get("type") == "interrupt":
            for each in listed(outcome.get("interrupts")):
                self._ask(each if isinstance(each, dict) else {})
            return
        kind = word(outcome.get("type"))
        if value.get("result") is not None:
            self._rest["result"] = value["result"]
        ended = Ended(what="run", outcome=kind, passed=True if kind == "success" else None)
        self._write(ended, self._rest)

    def _ask(self, interrupt: dict[str, Any]) -> None:
        id = word(interrupt.get("id")) or "interrupt"
        pending = self.state.setdefault("asked", {})
        if pending.get(id) == self._run:
            return  # it is still pending, and repeated beside another
        pending[id] = self._run
        asked = Asked(
            question_id=id,
            text=word(interrupt.get("message")) or word(interrupt.get("reason")),
            what=word(interrupt.get("reason")),
            call_id=word(interrupt.get("toolCallId")),
            schema=interrupt.get("responseSchema"),
            expires=utc_time(interrupt.get("expiresAt")),
        )
        known = ("id", "reason", "message", "toolCallId", "responseSchema", "expiresAt")
        self._write(
            asked,
            {key: each for key, each in interrupt.items() if key not in known},
        )

    def _failed(self, value: dict[str, Any]) -> None:
        self._cut_off()
        self._spend(value.get("usage"))
        ended = Ended(
            what="run",
            outcome=word(value.get("code")),
            passed=False,
            error=value.get("message"),
        )
        self._write(ended, self._rest)

    def _spend(self, usages: Any) -> None:
        counts = [each for each in listed(usages) if isinstance(each, dict)]
        for place, each in enumerate(counts):
            known = {
                "input_tokens": count(each.get("inputTokens")),
                "cached_tokens": count(each.get("cachedInputTokens")),
                "output_tokens": count(each.get("outputTokens")),
                "reasoning_tokens": count(each.get("reasoningTokens")),
                "total_tokens": count(each.get("totalTokens")),
            }
            usage: dict[str, Any] = {key: n for key, n in known.items() if n is not None}
            native = self.state.get("native") or self.out.run
            spent = Spent(
                key=native if len(counts) == 1 else f"{native}/{place}",
                provider=word(each.get("provider")),
                model=word(each.get("model")),
                usage={**usage, "raw": each},
            )
            self._write(spent)

    def _step_began(self, value: dict[str, Any]) -> None:
        self._write(Began(what="step", step=word(value.get("stepName"))), self._rest)

    def _step_ended(self, value: dict[str, Any]) -> None:
        self._write(Ended(what="step", step=word(value.get("stepName"))), self._rest)

    def _begin(self, kind: str, id: str, value: dict[str, Any], *, chunk: bool = False) -> None:
        """Begin or continue a piece; it is written at its end."""
        known = self._pieces.begin(
            kind,
            id,
            value,
            at=self._at,
            run=self._run,
            mark=self.out.mark(),
            chunk=chunk,
            told=self._mapped,
        )
        known["extra"] |= self._rest

    def _end(self, kind: str, id: str, *, whole: bool = True) -> None:
        known = self._pieces.end(kind, id)
        if known is None or known["told"]:
            return
        here, at = self.out.mark(), self._at if hasattr(self, "_at") else None
        raw = self.out._raw  # the next facts belong to the current record again
        self.out.again(known["mark"])
        self._at = known["at"]
        # A piece that may continue is written under a position of its own, by its length so far.
        place = 0 if whole else 1000 * known["parts"]
        fact = fact_of(known, partial=not whole)
        self._write(fact, known["extra"], run=known["run"], n=place)
        self.out.again(here)
        self.out._raw, self._at = raw, at

    def _cut_off(self) -> None:
        for known in [*self._pieces.open.values()]:
            self._end(known["kind"], known["id"], whole=False)

    def _chunk(self, kind: str, value: dict[str, Any]) -> None:
        id = word(value.get(IDS[kind])) or self._pieces.chunked(kind) or "chunk"
        self._begin(kind, id, value, chunk=True)
        self._is_new(id, KNOWN_IN[kind])

    def _bracket(self, value: dict[str, Any]) -> None:
        """The begin and end of thoughts; they may have a title."""
        title = word(value.get("title"))
        if title or self._rest:
            kind = value["type"]
            self._write(Noted(label=kind, kind=kind, text=title, data=self._rest or None))

    def _result(self, value: dict[str, Any]) -> None:
        id = word(value.get("toolCallId"))
        call = id or "unknown"
        self._end("call", call)
        output = value.get("content")
        extra = self._rest | ({"messageId": value["messageId"]} if "messageId" in value else {})
        self._is_new(word(value.get("messageId")))
        self._write(Returned(call_id=call, ok=None, output=output, synthetic_id=id is None), extra)

    def _is_new(self, id: str | None, known: str = "known") -> bool:
        """Whether a message or a call appears for the first time."""
        ids = self.state.setdefault(known, {})
        if not id or id in ids:
            return not id
        remember(ids, id, 1, LONG)
        return True

    def _snapshot(self, value: dict[str, Any]) -> None:
        """Of the repeated messages, those that are new."""
        for place, each in enumerate(listed(value.get("messages"))):
            message = each if isinstance(each, dict) else {"content": each}
            if not self._is_new(word(message.get("id"))):
                continue
            extra = rest_of(message)
            if "encryptedValue" in message:
                self.out.report.opaque["reasoning"] += 1
            for fact in facts_of(message, place):
                call = None if not isinstance(fact, Called) or fact.synthetic_id else fact.call_id
                if self._is_new(call, "calls"):
                    self._write(fact, extra)

    def _encrypted(self, value: dict[str, Any]) -> None:
        self.out.report.opaque["reasoning"] += 1
        block = {"type": "thinking", "opaque": value.get("encryptedValue")}
        extra = {key: value[key] for key in ("subtype", "entityId") if key in value} | self._rest
        fact = Said(role="assistant", blocks=(block,), message_id=word(value.get("entityId")))
        self._write(fact, extra)


def _of(kind: str, act: str) -> Callable[[AguiReader, dict[str, Any]], None]:
    """Apply an event to the message, the thought or the call that it names."""

    def meaning(reader: AguiReader, value: dict[str, Any]) -> None:
        id = word(value.get(IDS[kind])) or kind
        if act != "end" or reader._pieces.has(kind, id):
            reader._begin(kind, id, value)
        if act == "begin":
            reader._is_new(id, KNOWN_IN[kind])
        elif act == "end":
            reader._end(kind, id)

    return meaning


MEANINGS: dict[str, Callable[[AguiReader, dict[str, Any]], None]] = {
    "RUN_STARTED": AguiReader._began,
    "RUN_FINISHED": AguiReader._finished,
    "RUN_ERROR": AguiReader._failed,
    "STEP_STARTED": AguiReader._step_began,
    "STEP_FINISHED": AguiReader._step_ended,
    "TEXT_MESSAGE_START": _of("text", "begin"),
    "TEXT_MESSAGE_CONTENT": _of("text", "grow"),
    "TEXT_MESSAGE_END": _of("text", "end"),
    "TEXT_MESSAGE_CHUNK": lambda reader, value: reader._chunk("text", value),
    "TOOL_CALL_START": _of("call", "begin"),
    "TOOL_CALL_ARGS": _of("call", "grow"),
    "TOOL_CALL_END": _of("call", "end"),
    "TOOL_CALL_CHUNK": lambda reader, value: reader._chunk("call", value),
    "TOOL_CALL_RESULT": AguiReader._result,
    "MESSAGES_SNAPSHOT": AguiReader._snapshot,
    "REASONING_START": AguiReader._bracket,
    "REASONING_END": AguiReader._bracket,
    "REASONING_MESSAGE_START": _of("thought", "begin"),
    "REASONING_MESSAGE_CONTENT": _of("thought", "grow"),
    "REASONING_MESSAGE_END": _of("thought", "end"),
    "REASONING_MESSAGE_CHUNK": lambda reader, value: reader._chunk("thought", value),
    "REASONING_ENCRYPTED_VALUE": AguiReader._encrypted,
    "THINKING_START": AguiReader._bracket,
    "THINKING_END": AguiReader._bracket,
    "THINKING_TEXT_MESSAGE_START": _of("thought", "begin"),
    "THINKING_TEXT_MESSAGE_CONTENT": _of("thought", "grow"),
    "THINKING_TEXT_MESSAGE_END": _of("thought", "end"),
}


def _key(event: dict[str, Any]) -> str | None:
    for key in ("toolCallId", "messageId", "runId", "entityId"):
        if id := word(event.get(key)):
            return id
    return None


def _parted(value: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The object that one of our exports added to an event, and the event without it."""
    metadata = value.get("metadata")
    if not isinstance(metadata, dict) or "tracklog" not in metadata:
        return None, value
    rest = {key: each for key, each in metadata.items() if key != "tracklog"}
    bare = {key: each for key, each in value.items() if key != "metadata"}
    return metadata["tracklog"], bare | ({"metadata": rest} if rest else {})
