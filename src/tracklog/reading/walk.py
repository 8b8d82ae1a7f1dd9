"""The walk over the records of a run: the facts of each, and whether it counts.

A record does not count where a newer mapping of its source, or a correction, replaced it, or where
it repeats a message that another channel of the same conversation reported. A fact that repeats history of another run is marked by itself, as `copied`. That two runs tell one
conversation is a question about runs, which `answers.duplicates` answers.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from tracklog.dialects import Dialect, SourceRecord
from tracklog.folds import Position
from tracklog.journal.frame import Record, Run
from tracklog.model.event import Event, Finding
from tracklog.model.fact import Fact, Marked
from tracklog.model.own_notes import IMPORTED
from tracklog.reading.record import (
    Dialects,
    event_or_finding,
    facts_of,
    names_of,
    position_of,
    source_of,
)
from tracklog.reading.revisions import Revisions
from tracklog.reading.rules import RunRules

Records = Iterable[Record] | Callable[[], Iterable[Record]]
"""Some records; or what gives them, from the first on, every time it is called, so that they need
not be held in memory to be read twice."""

T = TypeVar("T")


class Reading(NamedTuple):
    """What was read from a record: its event, its facts, its findings, and whether it counts."""

    record: Record
    event: Event | None
    """None when the record was erased or damaged, or its dialect is not here."""
    facts: Sequence[Fact] = ()
    """All its facts, whether they count or not."""
    findings: Sequence[Finding] = ()
    position: Position | None = None
    dialect: Dialect | None = None
    superseded: bool = False
    """A newer mapping of its source, a correction of its record, or the first report of the same
    message counts instead."""
    marks: Sequence[Marked] = ()
    """The marks of a person; such a record has no facts, so that no view of the run depends on it."""
    original: int | None = None
    """The record that reported the same message first, and counts instead."""

    @property
    def counts(self) -> bool:
        """Whether its facts are part of the run: views of the run add up these, and no others."""
        return self.event is not None and not self.superseded

    @property
    def withdrawn(self) -> bool:
        """A later record withdrew it: its calls and costs count, its messages do not."""
        return self.position is not None and self.position.withdrawn

    @property
    def stands(self) -> bool:
        """Whether it is part of the conversation as it is now."""
        return self.counts and not self.withdrawn

    @property
    def own_facts(self) -> list[Fact]:
        """The facts that happened in this run: not those copied from the history of another."""
        return [fact for fact in self.facts if fact.copied is not True]

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which other events may refer to it."""
        if self.dialect is None or self.event is None:
            return ()
        return names_of(self.dialect, self.event)


class Walker:
    """Reads the records of one run, one after another.

    A later record can change how earlier ones count: then `changed` is set, and whoever added
    those up reads the run again, from `begin_again` on, with `reread`.
    """

    __slots__ = ("_begun", "_dialects", "_imported", "_rules", "changed", "checked", "revisions")

    def __init__(
        self, dialects: Dialects, *, rules: bool = True, revisions: Revisions | None = None
    ) -> None:
        """Without `rules`, nothing is found that takes more than the record itself."""
        self.revisions = Revisions() if revisions is None else revisions
        self.changed = False
        """Whether a record that was read before counts differently now."""
        self.checked = RunRules()
        self._dialects, self._rules = dialects, rules
        self._begun = False
        self._imported = False
        """Whether lines of the run came from a file: its own clock tells how old they are."""

    def read(self, record: Record) -> Reading:
        """The next record of the run."""
        return self._read(record, is_new=True)

    def begin_again(self) -> None:
        """Prepares for the first record once more, with all revisions known."""
        self.changed = False
        self.checked = RunRules()

    def reread(self, record: Record) -> Reading:
        """A record that was read before, by what is known now."""
        return self._read(record, is_new=False)

    def note(self, record: Record) -> None:
        """Takes in only which revisions there are, before the records are read."""
        dialect = self._dialects.get(record.dialect)
        if dialect is None or dialect.source is None:
            return
        event = event_or_finding(record, self._dialects)
        if not isinstance(event, Event):
            return
        self._imported = self._imported or _is_imported(event)
        self.revisions.take(record.seq, event, source_of(dialect, event))

    def skim(self, records: Callable[[], Iterable[Record]]) -> int:
        """Read a run so far, without its facts; returns the number of its last record."""
        last = self._skim(records(), is_new=True)
        if self.changed:
            self.begin_again()
            self._skim(records(), is_new=False)
        return last

    def at_rest(self) -> list[Finding]:
        """The findings that remain if nothing more comes."""
        return self.checked.at_rest(self._dialects)

    def _skim(self, records: Iterable[Record], *, is_new: bool) -> int:
        last = 0
        for record in records:
            event = event_or_finding(record, self._dialects)
            if isinstance(event, Event):
                dialect = self._dialects[record.dialect]
                if _marks_of(dialect, event):
                    continue
                source = self._source(record, dialect, event, is_new=is_new)
                self._begun = True
                if self._counts(record, source):
                    self.checked.check(dialect, event)
            last = record.seq
        return last

    def _read(self, record: Record, *, is_new: bool) -> Reading:
        event = event_or_finding(record, self._dialects)
        if not isinstance(event, Event):
            return Reading(record, None, findings=() if event is None else (event,))
        dialect = self._dialects[record.dialect]
        if marks := _marks_of(dialect, event):
            return _mark(record, event, dialect, marks)
        facts, failed = facts_of(dialect, event)
        position, correction = position_of(record, event), None
        if self._imported:
            position = position._replace(read=True)
        if dialect.source is not None:
            source, revisions = self._source(record, dialect, event, is_new=is_new), self.revisions
            if not self._counts(record, source):
                original = revisions.original(record.seq)
                return Reading(record, event, facts, (), position, dialect, True, (), original)
            if revisions.is_withdrawn(record.seq, source):
                position = position._replace(withdrawn=True)
            if source is not None:
                correction = revisions.correction(record.seq, source)
        self._begun = True
        findings = self.checked.check(dialect, event) if self._rules else event.odd
        if correction is not None or failed is not None:
            findings = [*filter(None, (correction,)), *findings, *filter(None, (failed,))]
        return Reading(record, event, facts, findings, position, dialect)

    def _source(
        self, record: Record, dialect: Dialect, event: Event, *, is_new: bool
    ) -> SourceRecord | None:
        if not self._imported and _is_imported(event):
            self._imported = True
            self.changed = self.changed or (is_new and self._begun)
        source = source_of(dialect, event)
        if is_new and self.revisions.take(record.seq, event, source):
            self.changed = True
        return source

    def _counts(self, record: Record, source: SourceRecord | None) -> bool:
        revisions = self.revisions
        is_current = source is None or revisions.is_current(source)
        return is_current and revisions.original(record.seq) is None


def _is_imported(event: Event) -> bool:
    """Whether an event says that lines of its run were imported from a file."""
    return event.body.get("fact") == "Noted" and event.body.get("label") == IMPORTED


def walk(records: Records, dialects: Dialects, *, rules: bool = False) -> Iterator[Reading]:
    """Every record, of one run or of several, as it reads once all of them are known."""
    every = _repeatable(records)
    walkers = _Walkers(dialects, rules=rules)
    revised = {name for name, dialect in dialects.items() if dialect.source is not None}
    for record in every():
        if record.dialect in revised:
            walkers[record.family, record.run].note(record)
    for record in every():
        yield walkers[record.family, record.run].reread(record)


def accumulate(
    records: Records,
    dialects: Dialects,
    start: Callable[[], T],
    step: Callable[[T, Reading], None],
) -> T:
    """What `step` makes, from `start` on, of the records of one run or of several.

    The records are read once; and once more, from another `start`, where it turned out that a
    record which was taken in counts differently.
    """
    every, walkers = _repeatable(records), _Walkers(dialects, rules=False)
    result = start()
    for record in every():
        step(result, walkers[record.family, record.run].read(record))
    if any(walker.changed for walker in walkers.values()):
        result = start()
        for record in every():
            step(result, walkers[record.family, record.run].reread(record))
    return result


def _repeatable(records: Records) -> Callable[[], Iterable[Record]]:
    if callable(records):
        return records
    held = records if isinstance(records, list) else list(records)
    return lambda: held


class _Walkers(dict[Run, Walker]):
    """A walker for each run, made when its first record comes."""

    def __init__(self, dialects: Dialects, *, rules: bool) -> None:
        self._dialects, self._rules = dialects, rules

    def __missing__(self, run: Run) -> Walker:
        walker = self[run] = Walker(self._dialects, rules=self._rules)
        return walker


def read_alone(record: Record, dialects: Dialects) -> Reading:
    """A record by itself, without what other records change about it."""
    event = event_or_finding(record, dialects)
    if not isinstance(event, Event):
        return Reading(record, None, findings=() if event is None else (event,))
    dialect = dialects[record.dialect]
    if marks := _marks_of(dialect, event):
        return _mark(record, event, dialect, marks)
    facts, failed = facts_of(dialect, event)
    findings = event.odd if failed is None else (*event.odd, failed)
    return Reading(record, event, facts, findings, position_of(record, event), dialect)


def _marks_of(dialect: Dialect, event: Event) -> list[Marked]:
    """The marks that an event holds, where it is one of a person and none of the run."""
    if event.kind != Marked.__name__:
        return []
    return [fact for fact in facts_of(dialect, event)[0] if isinstance(fact, Marked)]


def _mark(record: Record, event: Event, dialect: Dialect, marks: list[Marked]) -> Reading:
    position = position_of(record, event)
    return Reading(record, event, (), event.odd, position, dialect, marks=marks)


def facts_in(record: Record, dialects: Dialects) -> Sequence[Fact]:
    """The facts of a record by itself; none when it was erased or cannot be read."""
    return read_alone(record, dialects).facts
