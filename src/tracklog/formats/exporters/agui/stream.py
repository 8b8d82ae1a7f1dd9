"""The events of a run, one after the other, with the open messages, calls and steps."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from tracklog.formats.exporters import (
    MAPPING,
    ExportRecord,
    ExportRun,
    as_text,
    carried,
    fact_fields,
    nanoseconds,
)
from tracklog.formats.exporters import words_of as words
from tracklog.formats.exporters._turns import VOICES, CallCopies
from tracklog.formats.exporters.agui.messages import Messages
from tracklog.model.fact import Answered, Asked, Began, Called, Ended, Fact, Moved, Returned, Said

Event = dict[str, Any]
SPEAKERS = {"user": "user", "system": "system", "world": "developer", "note": "developer"}
"""The roles of messages that are not of a model."""
MORE = {"tracklog": "more"}
"""The mark on an event with no new information: it is part of an earlier one, or prepares for one.
"""
WITHIN = ("_CONTENT", "_ARGS", "_END")
"""Events that continue an earlier event."""
TOKENS = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "total_tokens": "totalTokens",
    "reasoning_tokens": "reasoningTokens",
    "cached_tokens": "cachedInputTokens",
}
EXACT = 2**53 - 1
"""The greatest integer that JavaScript represents exactly."""


class EventStream:
    """The open parts of a run, so that nothing is closed twice or left open at the end."""

    def __init__(self, now: Callable[[], ExportRun], *, raw: bool, keeps: bool) -> None:
        """`now` returns the run so far; messages are kept for snapshots."""
        run = now()
        self.now, self.raw = now, raw
        self.names = {"threadId": run.conversation or run.root[1], "runId": run.id}
        self.begun = self.open = self.ended = False
        self.closed: Event | None = None
        """The event that closed the run last."""
        self.steps: list[str] = []
        self.asked: dict[str, Event] = {}
        """The open questions, as they were sent."""
        self.calls = CallCopies(run)
        self.messages = Messages(keeps=keeps)
        self.state: dict[str, Any] = {}
        self.speaking: str | None = None
        """The model's message in the current record, which its calls are part of."""
        self.stamp = 0

    def add(self, entry: ExportRecord) -> Iterator[Event]:
        self.stamp, self.speaking = nanoseconds(entry.at) // 10**6, None
        if self.raw and entry.record.line:
            yield from self._begin()
            line = orjson.Fragment(entry.record.line)
            event = line if entry.event else entry.record.line.decode("utf-8", "replace")
            yield self._event("RAW", event=event, source=entry.record.dialect)
        for place, fact in enumerate(entry.facts):
            name = entry.identity if place == 0 else f"{entry.identity}.{place}"
            yield from _marked(self._events_of(entry, fact, name), carried(entry, fact))

    def join(self) -> Iterator[Event]:
        """The state that a late subscriber needs."""
        if not self.begun:
            return
        yield self._started()
        yield self._event("MESSAGES_SNAPSHOT", messages=self.messages.snapshot())
        yield self._event("STATE_SNAPSHOT", snapshot=dict(self.state))
        if self.open:
            yield from self._go_on()
        elif self.closed is not None:
            yield self.closed

    def miss(self, gap: Mapping[str, int]) -> Iterator[Event]:
        """The event for records that were deleted."""
        yield from self._begin()
        yield self._event("CUSTOM", name="tracklog.gap", value=dict(gap))

    def end(self) -> Iterator[Event]:
        """End a run whose agents have all ended; once more if records follow."""
        if self.open:
            yield from _marked(self._finish(self.now().summary))

    def _event(self, type: str, **fields: Any) -> Event:
        return {"type": type, "timestamp": self.stamp, **_known(fields)}

    def _started(self, **more: Any) -> Event:
        mapping = {"tracklog": {"mapping": MAPPING}}
        return self._event("RUN_STARTED", **self.names, metadata=mapping, **more)

    def _begin(self) -> Iterator[Event]:
        if not self.open:
            self.begun = self.open = True
            yield self._started()
            yield from self._go_on()

    def _go_on(self) -> Iterator[Event]:
        """The open steps, started again where a run begins in the middle of them."""
        for step in self.steps:
            yield self._event("STEP_STARTED", stepName=step)

    def _pause(self) -> Iterator[Event]:
        """Close what is open before the run is closed."""
        for step in reversed(self.steps):
            yield self._event("STEP_FINISHED", stepName=step)

    def _close(self, event: Event) -> Event:
        self.open, self.closed = False, event
        return event

    def _events_of(self, entry: ExportRecord, fact: Fact, name: str) -> Iterator[Event]:
        # A copy of another run's history neither begins nor ends this run.
        own = fact.copied is not True
        if isinstance(fact, Answered) and own and self._awaits(fact):
            yield from self._resume(fact)
            return
        is_open = self.open
        yield from self._begin()
        if isinstance(fact, Began) and own and fact.what == "run" and not is_open:
            return
        match fact:
            case Said():
                yield from self._message(fact, name)
            case Called():
                yield from self._call(entry, fact, name)
            case Returned():
                yield from self._return(entry, fact, name)
            case Began(what="step", step=str(step)) if own and step not in self.steps:
                self.steps.append(step)
                yield self._event("STEP_STARTED", stepName=step)
            case Ended(what="step", step=str(step)) if own and step in self.steps:
                self.steps.remove(step)
                yield self._event("STEP_FINISHED", stepName=step)
            case Ended(what="run") if own:
                yield from self._finish({**fact_fields(fact), "passed": fact.passed})
            case Asked() if own:
                yield from self._ask(fact)
            case _:
                yield from self._custom(fact)

    def _custom(self, fact: Fact) -> Iterator[Event]:
        """A custom event for a fact that has no event of its own."""
        name = f"tracklog.{type(fact).__name__.lower()}"
        yield self._event("CUSTOM", name=name, value=fact_fields(fact))
        if isinstance(fact, Moved):
            self.state[fact.agent or fact.step or "run"] = fact.to

    def _message(self, fact: Said, name: str) -> Iterator[Event]:
        thought = fact.role == "thought"
        content = "\n\n".join(
            piece for block in fact.blocks if (piece := words(block)) and _aloud(block, thought)
        )
        thoughts = "\n\n".join(
            piece for block in fact.blocks if (piece := words(block)) and not _aloud(block, thought)
        )
        role = "assistant" if fact.role in VOICES else SPEAKERS[fact.role]
        entity = name
        if thoughts:
            entity = f"{name}.reasoning"
            yield from self._reason(entity, thoughts)
        if content:
            yield self._event("TEXT_MESSAGE_START", messageId=name, role=role, name=fact.agent)
            yield self._event("TEXT_MESSAGE_CONTENT", messageId=name, delta=content)
            yield self._event("TEXT_MESSAGE_END", messageId=name)
            self.messages.said(name, role, content, fact.agent)
        self.speaking = name if content and role == "assistant" else None
        opaque = [as_text(block["opaque"]) for block in fact.blocks if "opaque" in block]
        for sealed in opaque:
            yield self._event(
                "REASONING_ENCRYPTED_VALUE",
                subtype="message",
                entityId=entity,
                encryptedValue=sealed,
            )
            self.messages.sealed(entity, sealed)
        if not (thoughts or content or opaque):  # it has no text
            yield from self._custom(fact)

    def _reason(self, name: str, thoughts: str) -> Iterator[Event]:
        yield self._event("REASONING_START", messageId=name)
        yield self._event("REASONING_MESSAGE_START", messageId=name, role="reasoning")
        yield self._event("REASONING_MESSAGE_CONTENT", messageId=name, delta=thoughts)
        yield self._event("REASONING_MESSAGE_END", messageId=name)
        yield self._event("REASONING_END", messageId=name)
        self.messages.said(name, "reasoning", thoughts)

    def _call(self, entry: ExportRecord, fact: Called, name: str) -> Iterator[Event]:
        call = self.calls.called(entry, fact)
        if call is None:
            yield from self._custom(fact)  # a copy: shown, not counted
            return
        given = "" if fact.input is None else as_text(fact.input)
        self.speaking = self.speaking or name
        yield self._event(
            "TOOL_CALL_START",
            toolCallId=call,
            toolCallName=fact.tool,
            parentMessageId=self.speaking,
        )
        if given:
            yield self._event("TOOL_CALL_ARGS", toolCallId=call, delta=given)
        yield self._event("TOOL_CALL_END", toolCallId=call)
        self.messages.called(self.speaking, call, fact.tool, given)

    def _return(self, entry: ExportRecord, fact: Returned, name: str) -> Iterator[Event]:
        call = self.calls.returned(entry, fact)
        if call is None:
            yield from self._custom(fact)  # a copy
            return
        content = "" if fact.output is None else as_text(fact.output)
        content = content or ("" if fact.error is None else as_text(fact.error))
        yield self._event(
            "TOOL_CALL_RESULT", messageId=name, toolCallId=call, content=content, role="tool"
        )
        self.speaking = None
        self.messages.returned(name, call, content)

    def _ask(self, fact: Asked) -> Iterator[Event]:
        """A question ends the run for now: the client sends the answer with the next one."""
        interrupt = {
            "id": fact.question_id,
            "reason": fact.what or "question",
            "message": fact.text,
            "toolCallId": fact.call_id,
            "responseSchema": fact.schema if isinstance(fact.schema, Mapping) else None,
            "expiresAt": fact.expires,
        }
        self.asked[fact.question_id] = _known(interrupt)
        yield from self._pause()
        yield self._event("STATE_SNAPSHOT", snapshot=dict(self.state))
        yield self._event("MESSAGES_SNAPSHOT", messages=self.messages.snapshot())
        outcome = {"type": "interrupt", "interrupts": [*self.asked.values()]}
        yield self._close(self._event("RUN_FINISHED", **self.names, outcome=outcome))

    def _awaits(self, fact: Answered) -> bool:
        return fact.question_id in self.asked or (self.begun and not self.open)

    def _resume(self, fact: Answered) -> Iterator[Event]:
        """An answer begins the next run, although others may have continued in the meantime."""
        self.asked.pop(fact.question_id, None)
        if self.open:
            yield from self._pause()
            yield self._close(self._event("RUN_FINISHED", **self.names))
        answer = {
            "interruptId": fact.question_id,
            "status": "resolved",
            "payload": fact.answer,
        }
        given = {
            **self.names,
            "state": dict(self.state),
            "messages": self.messages.snapshot(),
            "tools": [],
            "context": [],
            "forwardedProps": {},
            "resume": [_known(answer)],
        }
        self.open = True
        yield self._started(input=given)
        yield from self._go_on()

    def _finish(self, ended: Mapping[str, Any]) -> Iterator[Event]:
        yield from self._pause()
        self.steps.clear()
        self.asked.clear()
        usage = [] if self.ended else list(self._usage())
        self.ended = True
        fields = {"usage": usage or None}
        if ended.get("passed") is False:
            error = ended.get("error")
            outcome = as_text(ended.get("outcome") or "failed")
            message = as_text(error) if error is not None else ended.get("reason") or outcome
            yield self._close(
                self._event("RUN_ERROR", message=as_text(message), code=outcome, **fields)
            )
            return
        keys = ("outcome", "passed", "score", "reason", "exit_code", "seconds", "winner")
        result = {key: ended[key] for key in keys if ended.get(key) is not None}
        success = {"type": "success"} if ended.get("passed") is True else None
        yield self._close(
            self._event(
                "RUN_FINISHED", **self.names, result=result or None, outcome=success, **fields
            )
        )

    def _usage(self) -> Iterator[Event]:
        """The usage of the run, by provider and model."""
        sums: dict[tuple[str | None, str | None], dict[str, int]] = {}
        for spend in self.now().spends:
            known = sums.setdefault((spend.provider, spend.model), {})
            for name, amount in spend.amounts.items():
                known[name] = known.get(name, 0) + amount
        for (provider, model), known in sums.items():
            amounts = {
                theirs: known[ours]
                for ours, theirs in TOKENS.items()
                if 0 <= known.get(ours, -1) <= EXACT
            }
            if amounts:
                yield _known({"provider": provider or None, "model": model or None}) | amounts


def _known(event: Event) -> Event:
    """Leave unknown values out: clients do not accept null."""
    return {key: value for key, value in event.items() if value is not None}


def _marked(events: Iterator[Event], fact: Mapping[str, Any] | None = None) -> Iterator[Event]:
    """The events of a fact: the first carries the fact, the others are marked as a part of it."""
    for event in events:
        if not event["type"].endswith(WITHIN):
            mapping = event.get("metadata", MORE)["tracklog"]
            extra = fact if mapping == "more" or fact is None else {**mapping, **fact}
            event["metadata"] = MORE if extra is None else {"tracklog": extra}
            fact = None
        yield event


def _aloud(block: Mapping[str, Any], thought: bool) -> bool:
    return not thought and block.get("type") != "thinking"
