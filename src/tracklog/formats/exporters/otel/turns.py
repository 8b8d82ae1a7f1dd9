"""The turns of a run's models, each a `chat` span: its input, its output, its usage."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tracklog.formats.exporters import (
    ExportRecord,
    ExportRun,
    Options,
    as_text,
    blob_path,
    span_of,
)
from tracklog.formats.exporters._turns import ModelTurns, Turn
from tracklog.formats.exporters.otel.spans import (
    CLIENT,
    ExportSpan,
    Facts,
    Values,
    parent_of,
    span_id,
)
from tracklog.model.fact import Block, Called, Fact, Returned, Said, Spent, blob_of

TOKENS = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_write_tokens": "gen_ai.usage.cache_creation.input_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
    "total_tokens": "tracklog.usage.total_tokens",
}
NEWER = {"cache_write_tokens": "gen_ai.usage.cache_write.input_tokens"}
"""The attributes that the newer generation has renamed."""
Message = dict[str, Any]


@dataclass(slots=True)
class Open:
    """The context of an open turn."""

    above: str
    inputs: list[Message] = field(default_factory=list)
    calls: list[Message] = field(default_factory=list)
    facts: Facts = field(default_factory=list)


class Chats:
    """Collects the turns, and makes a span of each that has ended."""

    def __init__(self, run: ExportRun, options: Options, taken: set[str]) -> None:
        self.run = run
        self.content = options["content"] == "yes"
        self.newer = options["generation"] == "1.42"
        self.taken = taken
        """The ids of spans that were imported with their ids."""
        self.turns = ModelTurns()
        self.open: dict[int, Open] = {}
        self.inputs: list[Message] = []
        """The messages to a model since its last turn."""
        self.made_up: set[str] = set()
        """Required values that no fact gives."""

    def add_input(self, fact: Said) -> None:
        """Add a message to a model."""
        self.turns.interrupted(fact)
        self._add(fact.role, [_part(block) for block in fact.blocks])

    def returned(self, fact: Returned, name: str | None) -> None:
        """Add the return of a call to the model, for the first time if it has a name."""
        self.turns.interrupted(fact)
        if name is not None and fact.output is not None:
            answer = {"type": "tool_call_response", "id": name, "response": fact.output}
            self._add("tool", [answer])

    def said(self, entry: ExportRecord, fact: Said, above: str) -> Open:
        return self._now(self.turns.said(entry, fact), above)

    def spent(self, entry: ExportRecord, place: int, fact: Spent, above: str) -> Open:
        return self._now(self.turns.spent(entry, fact, entry.spends[place]), above)

    def called(self, entry: ExportRecord, fact: Called, name: str, above: str) -> None:
        now = self._now(self.turns.called(entry, fact, name), above)
        if self.content:
            part: Message = {"type": "tool_call", "id": name, "name": str(fact.tool)}
            given = {} if fact.input is None else {"arguments": fact.input}
            now.calls.append(part | given)

    def over(self, trace: str, *, all: bool = False) -> Iterator[ExportSpan]:
        """The turns to which nothing can be added any more."""
        for turn in self.turns.finished(all=all):
            now = self.open.pop(id(turn))
            if turn.spoke:
                yield self._span(turn, now, trace)
            else:
                self.inputs[:0] = now.inputs

    def known(self, name: str, texts: list[str]) -> str:
        """The first value that is known, or a word for "unknown"."""
        if not texts:
            self.made_up.add(name)
        return texts[0] if texts else "unknown"

    def given(self, messages: list[Message]) -> Values:
        """The input of a model, in the words of the conventions."""
        system = [part for each in messages if each["role"] == "system" for part in each["parts"]]
        others = [each for each in messages if each["role"] != "system"]
        values: Values = {}
        if system:
            values["gen_ai.system_instructions"] = as_text(system)
        if others:
            values["gen_ai.input.messages"] = as_text(others)
        return values

    def _add(self, role: str, parts: list[Message]) -> None:
        if self.content:
            self.inputs.append({"role": role, "parts": parts})

    def _now(self, turn: Turn, above: str) -> Open:
        """The messages to a model belong to the turn that follows."""
        now = self.open.setdefault(id(turn), Open(above))
        now.inputs += self.inputs
        self.inputs = []
        if turn.spoke and (own := span_of(turn.first.names)):
            self.taken.add(own[1])
        return now

    def _span(self, turn: Turn, now: Open, trace: str) -> ExportSpan:
        models = [message.model for message in turn.said] + [spend.model for spend in turn.spends]
        model = next(filter(None, models), None)
        asked = model or self.run.opening.get("model")
        providers = [spend.provider for spend in turn.spends if spend.provider]
        own = span_of(turn.first.names)
        made = span_id(self.run.family, self.run.id, "model", str(turn.first.seq))
        values: Values = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": self.known("gen_ai.provider.name", providers),
            "gen_ai.conversation.id": self.run.root[1],
        }
        if asked:
            values["gen_ai.request.model"] = str(asked)
        if model:
            values["gen_ai.response.model"] = str(model)
        if turn.message_id and turn.first.event and turn.message_id != turn.first.event.id:
            values["gen_ai.response.id"] = turn.message_id
        reasons = [str(message.stop_reason) for message in turn.said if message.stop_reason]
        if reasons:
            values["gen_ai.response.finish_reasons"] = reasons[-1:]
        if turn.agent:
            values["gen_ai.agent.name"] = turn.agent
        if turn.step:
            values["tracklog.step"] = turn.step
        values |= self._usage(turn)
        if self.content:
            values |= self.given(now.inputs) | self._answer(turn, now, reasons)
        return ExportSpan(
            own[1] if own else made,
            f"chat {asked}" if asked else "chat",
            CLIENT,
            parent_of(turn.first) if own else now.above,
            own[0] if own else trace,
            turn.first,
            turn.last,
            values,
            now.facts,
        )

    def _usage(self, turn: Turn) -> Values:
        names = TOKENS | NEWER if self.newer else TOKENS
        values: Values = {}
        for spend in turn.spends:
            for ours, theirs in names.items():
                if ours in spend.amounts:
                    values[theirs] = values.get(theirs, 0) + spend.amounts[ours]
            if spend.cost_usd is not None:
                values["tracklog.cost_usd"] = values.get("tracklog.cost_usd", 0.0) + spend.cost_usd
            if spend.calls is not None:
                values["tracklog.calls"] = values.get("tracklog.calls", 0) + spend.calls
        return values

    def _answer(self, turn: Turn, now: Open, reasons: list[str]) -> Values:
        """The messages and calls of a model as one message: several would be several choices."""
        parts = [_part(block, fact.role) for fact in turn.said for block in fact.blocks]
        parts += now.calls
        if not parts:
            return {}
        message: Message = {"role": "assistant", "parts": parts}
        if not self.newer:
            message["finish_reason"] = self.known("finish_reason", reasons[-1:])
        return {"gen_ai.output.messages": as_text([message])}


def is_priced(entry: ExportRecord, place: int, fact: Fact) -> bool:
    """Whether a spend counts, and is a model's: a run's total alone is not."""
    if not isinstance(fact, Spent) or place not in entry.spends:
        return False
    spend = entry.spends[place]
    return bool(spend.model or spend.amounts.keys() & {"input_tokens", "output_tokens"})


def _part(block: Block, role: str = "") -> Message:
    """A content block as a part of a message; a blob is referenced, never inlined."""
    for key in ("text", "thinking", "chunk", "command"):
        lifted = blob_of(block.get(key))
        if lifted is not None:
            kind = str(lifted.get("media_type") or "")
            modality = kind.partition("/")[0]
            part = {
                "type": "uri",
                "modality": modality if modality in ("image", "audio", "video") else "document",
                "uri": blob_path(lifted),
            }
            return part | ({"mime_type": kind} if kind else {})
    match block.get("type"):
        case "thinking":
            return _words("reasoning", "thinking", block)
        case "text":
            return _words("reasoning" if role == "thought" else "text", "text", block)
    return dict(block)


def _words(kind: str, key: str, block: Block) -> Message:
    """A part with the text, and the other keys of the block, such as a signature."""
    rest = {name: each for name, each in block.items() if name not in ("type", key)}
    return {"type": kind, "content": as_text(block.get(key, "")), **rest}
