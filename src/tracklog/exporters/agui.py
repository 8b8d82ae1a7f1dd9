"""agui: the run as an AG-UI event stream (SSE), in the order that its clients insist on."""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from tracklog.exporters import (
    MAPPING,
    VOICES,
    Calls,
    Exporter,
    Flight,
    Heard,
    Option,
    Options,
    dumps,
    every,
    nanoseconds,
    plain,
    some,
    text_of,
    words_of,
)
from tracklog.fact import (
    FACTS,
    Answered,
    Asked,
    Began,
    Called,
    Ended,
    Fact,
    Moved,
    Returned,
    Said,
)
from tracklog.loss import Fate

Message = dict[str, Any]
SPEAKERS = {"user": "user", "system": "system", "world": "developer", "note": "developer"}
"""The roles of a message that no model speaks."""


def write(flight: Flight, options: Options) -> Iterator[bytes]:
    stream, last = _Stream(flight, raw=options["raw"] == "yes"), 0
    for heard in flight.heard():
        for event in stream.hear(heard):
            yield b"id: %d\ndata: %b\n\n" % (heard.seq, dumps(event))
        last = heard.seq
    for event in stream.end():
        yield b"id: %d\ndata: %b\n\n" % (last, dumps(event))


class _Stream:
    """What is open, so that nothing is closed twice or left open behind the end."""

    def __init__(self, flight: Flight, *, raw: bool) -> None:
        self.flight, self.raw = flight, raw
        self.begun = self.open = self.ended = False
        self.steps: list[str] = []
        self.calls = Calls()
        self.messages: list[Message] = []
        self.keeps = flight.asks
        self.state: dict[str, Any] = {}
        self.stamp = 0

    def hear(self, heard: Heard) -> Iterator[Message]:
        self.stamp = nanoseconds(heard.at) // 10**6
        if self.raw and heard.record.line:
            yield from self._begin()
            line = orjson.Fragment(heard.record.line)
            event = line if heard.event else heard.record.line.decode("utf-8", "replace")
            yield self._event("RAW", event=event, source=heard.record.dialect)
        for place, fact in enumerate(heard.facts):
            if isinstance(fact, Answered) and self.begun and not self.open:
                yield from self._resume(fact)
                continue
            name = heard.identity if place == 0 else f"{heard.identity}.{place}"
            yield from self._tell(heard, fact, name)

    def end(self) -> Iterator[Message]:
        """A run whose agents have all ended has ended, too; another one is still open."""
        if self.open and self.flight.summary.get("ended"):
            yield from self._finish(dict(self.flight.summary))

    def _event(self, type: str, **said: Any) -> Message:
        known = {key: value for key, value in said.items() if value is not None}
        return {"type": type, "timestamp": self.stamp, **known}

    def _begin(self, began: Fact | None = None, **more: Any) -> Iterator[Message]:
        if not self.open:
            self.begun = self.open = True
            thread, run = self.flight.root[1], self.flight.run
            beside = _beside(began, "what") if began else None
            told = {"mapping": MAPPING, **(beside["tracklog"] if beside else {})}
            more["metadata"] = {"tracklog": told}
            yield self._event("RUN_STARTED", threadId=thread, runId=run, **more)

    def _tell(self, heard: Heard, fact: Fact, name: str) -> Iterator[Message]:
        if isinstance(fact, Began) and fact.what == "run" and not self.open:
            yield from self._begin(fact)
            return
        yield from self._begin()
        match fact:
            case Said():
                yield from self._say(fact, name)
            case Called():
                yield from self._call(heard, fact, name)
            case Returned():
                yield from self._return(heard, fact, name)
            case Began(what="step", step=str(step)) if step not in self.steps:
                self.steps.append(step)
                more = _beside(fact, "what step")
                yield self._event("STEP_STARTED", stepName=step, metadata=more)
            case Ended(what="step", step=str(step)) if step in self.steps:
                self.steps.remove(step)
                more = _beside(fact, "what step")
                yield self._event("STEP_FINISHED", stepName=step, metadata=more)
            case Ended(what="run"):
                more = _beside(fact, "what")
                yield from self._finish({**plain(fact), "passed": fact.passed}, more)
            case Asked():
                yield from self._ask(fact)
            case _:
                yield from self._custom(fact)

    def _custom(self, fact: Fact) -> Iterator[Message]:
        """What has no event of its own."""
        name = f"tracklog.{type(fact).__name__.lower()}"
        yield self._event("CUSTOM", name=name, value=plain(fact))
        if isinstance(fact, Moved):
            self.state[fact.agent or fact.step or "run"] = fact.to

    def _say(self, fact: Said, name: str) -> Iterator[Message]:
        """The words, and what else is known of them beside the first; the rest say they are more."""
        thought = fact.role == "thought"
        more = _beside(fact, "" if _odd(fact) else "role blocks")
        also = {"tracklog": "more"} if _odd(fact) else more
        spoken = "\n\n".join(
            words for block in fact.blocks if (words := words_of(block)) and _aloud(block, thought)
        )
        thoughts = "\n\n".join(
            words
            for block in fact.blocks
            if (words := words_of(block)) and not _aloud(block, thought)
        )
        if thoughts:
            yield from self._reason(f"{name}.reasoning", thoughts, more)
            more = also
        if spoken:
            role = "assistant" if fact.role in VOICES else SPEAKERS[fact.role]
            yield self._event(
                "TEXT_MESSAGE_START", messageId=name, role=role, name=fact.agent, metadata=more
            )
            more = also
            yield self._event("TEXT_MESSAGE_CONTENT", messageId=name, delta=spoken)
            yield self._event("TEXT_MESSAGE_END", messageId=name)
            self._keep({"id": name, "role": role, "content": spoken})
        for block in fact.blocks:
            if "opaque" in block:
                sealed = text_of(block["opaque"])
                yield self._event(
                    "REASONING_ENCRYPTED_VALUE",
                    subtype="message",
                    entityId=name,
                    encryptedValue=sealed,
                    metadata=more,
                )
                more = also
        if more is not also:  # it says nothing that there are words for
            yield from self._custom(fact)

    def _reason(self, name: str, words: str, more: Message | None) -> Iterator[Message]:
        yield self._event("REASONING_START", messageId=name)
        yield self._event(
            "REASONING_MESSAGE_START", messageId=name, role="reasoning", metadata=more
        )
        yield self._event("REASONING_MESSAGE_CONTENT", messageId=name, delta=words)
        yield self._event("REASONING_MESSAGE_END", messageId=name)
        yield self._event("REASONING_END", messageId=name)
        self._keep({"id": name, "role": "reasoning", "content": words})

    def _call(self, heard: Heard, fact: Called, name: str) -> Iterator[Message]:
        call = self.calls.called(heard, fact)
        if call is None:
            yield from self._custom(fact)  # a copy: shown, not counted
            return
        given = "" if fact.input is None else text_of(fact.input)
        # A text that is no JSON reads as the text it is; one that is would read as what it says.
        more = _beside(
            fact, "tool call_id" if isinstance(fact.input, str) else "tool call_id input"
        )
        yield self._event("TOOL_CALL_START", toolCallId=call, toolCallName=fact.tool, metadata=more)
        if given:
            yield self._event("TOOL_CALL_ARGS", toolCallId=call, delta=given)
        yield self._event("TOOL_CALL_END", toolCallId=call)
        function = {"name": fact.tool, "arguments": given}
        told = {"id": call, "type": "function", "function": function}
        self._keep({"id": name, "role": "assistant", "toolCalls": [told]})

    def _return(self, heard: Heard, fact: Returned, name: str) -> Iterator[Message]:
        call = self.calls.returned(heard, fact)
        if call is None:
            yield from self._custom(fact)  # a copy
            return
        content = "" if fact.output is None else text_of(fact.output)
        content = content or ("" if fact.error is None else text_of(fact.error))
        more = _beside(fact, "call_id output") or {"tracklog": {}}
        if not isinstance(fact.output, str):
            more["tracklog"]["output"] = fact.output  # the content is how it reads, or an error
        result = {"messageId": name, "toolCallId": call, "content": content, "role": "tool"}
        known = more if more["tracklog"] else None
        yield self._event("TOOL_CALL_RESULT", **result, metadata=known)
        self._keep({"id": name, "role": "tool", "toolCallId": call, "content": content})

    def _keep(self, message: Message) -> None:
        if self.keeps:
            self.messages.append(message)

    def _ask(self, fact: Asked) -> Iterator[Message]:
        """A question ends the run for now: its client sends the answer with the next one."""
        yield from self._close()
        yield self._event("STATE_SNAPSHOT", snapshot=dict(self.state))
        yield self._event("MESSAGES_SNAPSHOT", messages=list(self.messages))
        interrupt = {
            "id": fact.question_id,
            "reason": fact.what or "question",
            "message": fact.text,
            "toolCallId": fact.call_id,
            "responseSchema": fact.schema if isinstance(fact.schema, Mapping) else None,
            "expiresAt": fact.expires,
            "metadata": _beside(fact, "question_id text what call_id expires"),
        }
        known = {key: value for key, value in interrupt.items() if value is not None}
        self.open = False
        yield self._event(
            "RUN_FINISHED",
            threadId=self.flight.root[1],
            runId=self.flight.run,
            outcome={"type": "interrupt", "interrupts": [known]},
        )

    def _resume(self, fact: Answered) -> Iterator[Message]:
        answer = {"interruptId": fact.question_id, "status": "resolved", "payload": fact.answer}
        if more := _beside(fact, "question_id answer"):
            answer["metadata"] = more
        given = {
            "threadId": self.flight.root[1],
            "runId": self.flight.run,
            "state": dict(self.state),
            "messages": list(self.messages),
            "tools": [],
            "context": [],
            "forwardedProps": {},
            "resume": [answer],
        }
        yield from self._begin(input=given)

    def _close(self) -> Iterator[Message]:
        for step in reversed(self.steps):
            yield self._event("STEP_FINISHED", stepName=step)
        self.steps.clear()

    def _finish(self, ended: Mapping[str, Any], more: Message | None = None) -> Iterator[Message]:
        yield from self._close()
        self.open, usage = False, [] if self.ended else list(self._usage())
        self.ended = True
        told = {"usage": usage or None, "metadata": more}
        if ended.get("passed") is False:
            error = ended.get("error")
            outcome = ended.get("outcome") or "failed"
            message = text_of(error) if error is not None else ended.get("reason") or outcome
            yield self._event("RUN_ERROR", message=str(message), code=outcome, **told)
            return
        keys = ("outcome", "passed", "score", "reason", "exit_code", "seconds", "winner")
        result = {key: ended[key] for key in keys if ended.get(key) is not None}
        success = {"type": "success"} if ended.get("passed") is True else None
        yield self._event(
            "RUN_FINISHED",
            threadId=self.flight.root[1],
            runId=self.flight.run,
            result=result or None,
            outcome=success,
            **told,
        )

    def _usage(self) -> Iterator[Message]:
        """What the run took, by provider and model."""
        sums: dict[tuple[str | None, str | None], dict[str, int]] = {}
        for spend in self.flight.spends:
            known = sums.setdefault((spend.provider, spend.model), {})
            for name, amount in spend.amounts.items():
                known[name] = known.get(name, 0) + amount
        for (provider, model), known in sums.items():
            amounts = {theirs: known[ours] for ours, theirs in TOKENS.items() if ours in known}
            names = {"provider": provider, "model": model}
            if amounts:
                yield {key: value for key, value in names.items() if value} | amounts


TOKENS = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "total_tokens": "totalTokens",
    "reasoning_tokens": "reasoningTokens",
    "cached_tokens": "cachedInputTokens",
}


def _beside(fact: Fact, told: str) -> Message | None:
    """What a fact says beside what its event does; None where that is nothing."""
    rest = {key: value for key, value in plain(fact).items() if key not in told.split()}
    return {"tracklog": rest} if rest else None


def _odd(fact: Said) -> bool:
    """Whether the words alone do not say what was said: by whom, or in which blocks."""
    kinds = [block.get("type") for block in fact.blocks]
    plainly = all(
        {"type", block.get("type")} == block.keys() and words_of(block) for block in fact.blocks
    )
    known = kinds in (["text"], ["thinking"], ["thinking", "text"])
    return not (plainly and known and fact.role in ("user", "system", "assistant"))


def _aloud(block: Mapping[str, Any], thought: bool) -> bool:
    return not thought and block.get("type") != "thinking"


def fates(options: Options) -> dict[str, Fate]:
    raw: Fate = "carried" if options["raw"] == "yes" else "dropped"
    return (
        every("carried", FACTS)
        | {"unreadable": raw}
        | some("kept", Began, "what step")
        | some("kept", Returned, "call_id output")
        | some("kept", Called, "tool call_id input")
        | some("kept", Said, "role blocks agent")
    )


exporter = Exporter(
    name="agui",
    about="AG-UI: the run as the event stream that agent user interfaces read.",
    media_type="text/event-stream",
    suffix=".sse",
    write=write,
    fates=fates,
    options={
        "raw": Option("Each line as it is, before its translation.", ("no", "yes"), "no"),
    },
)
