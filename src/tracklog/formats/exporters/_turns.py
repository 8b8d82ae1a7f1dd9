"""Group the facts of a run: the copies of a call, and the turns of a model."""

from dataclasses import dataclass, field

from tracklog.formats.exporters import ExportRecord, ExportRun, Spend, call_name, span_of
from tracklog.model.fact import Called, Fact, Returned, Said, Spent


class CallCopies:
    """Recognises the copies of a call: the first report of a call, and of its return, is written.

    Two calls are the same when `join_call` of the folds says so.
    """

    def __init__(self, run: ExportRun) -> None:
        self._originals = dict(run.same_calls)
        """By the name of a copy, the name of its original."""
        self._written: dict[str, str] = {}
        """By the name of an original, the name under which it was written."""
        self._returned: set[str] = set()

    def called(self, entry: ExportRecord, fact: Called) -> str | None:
        """The name of a call that appears for the first time; None for a copy."""
        name = call_name(entry, fact)
        original, copy = self._original(name), fact.provider_call_id
        known = self._written.get(original)
        if copy and copy != original and copy not in self._originals:
            self._originals[copy] = original
            known = known or self._written.pop(copy, None)
            if copy in self._returned:
                self._returned.add(original)
        self._written[original] = known or name
        return None if known else name

    def returned(self, entry: ExportRecord, fact: Returned) -> str | None:
        """The name of a call that returns for the first time; None for a copy."""
        original = self._original(call_name(entry, fact))
        if original in self._returned:
            return None
        self._returned.add(original)
        return self._written.get(original, original)

    def _original(self, name: str) -> str:
        while name in self._originals:
            name = self._originals[name]
        return name


@dataclass(slots=True)
class Turn:
    """One turn of a model: its thoughts, messages, calls and usage."""

    first: ExportRecord
    last: ExportRecord
    agent: str | None
    step: str | None
    message_id: str | None = None
    said: list[Said] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    spends: list[Spend] = field(default_factory=list)
    over: bool = False
    """A result came back to the model, so the next fact begins another turn."""

    @property
    def spoke(self) -> bool:
        """Whether the turn has messages of the model, not only calls."""
        return bool(self.said or self.spends)


VOICES = ("assistant", "thought", "belief")
"""The roles of a model's messages."""
OPEN_TURNS = 256
"""How many turns may be open at once, one per agent and step."""


class ModelTurns:
    """Collects the turns of a run's models from its facts."""

    def __init__(self) -> None:
        self._open: dict[tuple[str | None, str | None], Turn] = {}
        self._over: list[Turn] = []

    def said(self, entry: ExportRecord, fact: Said) -> Turn:
        """The turn of this message."""
        now = self._now(fact)
        if now is None or not self._joins(now, entry, fact.message_id):
            now = self._begin(entry, fact)
        now.message_id = now.message_id or fact.message_id
        now.said.append(fact)
        now.last = entry
        return now

    def called(self, entry: ExportRecord, fact: Called, name: str) -> Turn:
        """The turn of this call."""
        now = self._now(fact)
        if now is None or (now.over and not self._together(now, entry)):
            now = self._begin(entry, fact)
        now.calls.append(name)
        now.last = entry
        return now

    def spent(self, entry: ExportRecord, fact: Spent, spend: Spend) -> Turn:
        """The turn of this spend."""
        now = self._now(fact)
        if now is None or not self._takes(now, entry, fact):
            now = self._begin(entry, fact)
        now.spends.append(spend)
        now.last = entry
        return now

    def interrupted(self, fact: Fact) -> None:
        """End the turn: a result came back, or somebody else spoke."""
        now = self._now(fact)
        if now is not None:
            now.over = True

    def finished(self, *, all: bool = False) -> list[Turn]:
        """The turns to which nothing can be added any more, each once."""
        done, self._over = self._over, []
        if all:
            done += self._open.values()
            self._open = {}
        return done

    def _now(self, fact: Fact) -> Turn | None:
        return self._open.get((fact.agent, fact.step))

    def _begin(self, entry: ExportRecord, fact: Fact) -> Turn:
        key = (fact.agent, fact.step)
        if key in self._open or len(self._open) >= OPEN_TURNS:
            self._over.append(self._open.pop(key if key in self._open else next(iter(self._open))))
        self._open[key] = Turn(entry, entry, fact.agent, fact.step)
        return self._open[key]

    def _together(self, now: Turn, entry: ExportRecord) -> bool:
        """Whether two facts belong to one turn: the same record, or spans with the same name."""
        return now.last.seq == entry.seq or bool(_foreign(now.first) & _foreign(entry))

    def _joins(self, now: Turn, entry: ExportRecord, message: str | None) -> bool:
        if self._together(now, entry):
            return True
        if message is not None and now.message_id is not None:
            return message == now.message_id
        # A thought belongs to the message that follows it.
        return not now.over and not now.spends and all(s.role == "thought" for s in now.said)

    def _takes(self, now: Turn, entry: ExportRecord, fact: Spent) -> bool:
        if self._together(now, entry) or (fact.key is not None and fact.key == now.message_id):
            return True
        models = {message.model for message in now.said if message.model} | {fact.model or ""} - {
            ""
        }
        return now.spoke and not now.spends and len(models) < 2


def _foreign(entry: ExportRecord) -> set[str]:
    return {name for name in entry.names if span_of((name,))}
