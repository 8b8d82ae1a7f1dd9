"""What a fold's states were at any past moment: the same steps, over the same records."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from tracklog.dialects import Dialect, Source
from tracklog.dialects.checking import understand
from tracklog.folds import Fold, Told
from tracklog.journal.frame import Record, Run
from tracklog.journal.journal import Journal
from tracklog.model.event import Event, Finding
from tracklog.model.fact import Fact

S = TypeVar("S")


def replay(
    fold: Fold[S],
    records: Iterable[Record],
    dialects: Mapping[str, Dialect],
    until: int | None = None,
) -> dict[str, S]:
    """The fold's states by key, as they were when record `until` had been heard, or at the end.

    What was erased since, or is in a dialect that is not here, says nothing.
    """
    return replay_all([fold], records, dialects, until)[fold.name]


def replay_all(
    folds: Collection[Fold[Any]],
    records: Iterable[Record],
    dialects: Mapping[str, Dialect],
    until: int | None = None,
    begin: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> dict[str, dict[str, Any]]:
    """The same for several folds at once, by the name of each.

    The records may go on from the states that `begin` has, of runs that were read once only.
    """
    heard = [record for record in records if until is None or record.seq <= until]
    tellings: dict[Run, Retold] = defaultdict(Retold)
    states = {fold.name: dict(begin.get(fold.name, ())) for fold in folds}
    if not _folded(folds, heard, dialects, tellings, states, hear=True):
        states = {fold.name: {} for fold in folds}
        _folded(folds, heard, dialects, tellings, states, hear=False)
    return states


def _folded(
    folds: Collection[Fold[Any]],
    records: Iterable[Record],
    dialects: Mapping[str, Dialect],
    tellings: Mapping[Run, "Retold"],
    states: dict[str, dict[str, Any]],
    *,
    hear: bool,
) -> bool:
    """Brings the states on; whether no record made an earlier one read differently."""
    settled = True
    for record in records:
        event = event_of(record, dialects)
        if not isinstance(event, Event):
            continue
        dialect, told = dialects[record.dialect], told_of(record, event)
        source = source_of(dialect, event)
        if source is not None:
            retold = tellings[record.family, record.run]
            if hear and retold.hear(record.seq, source):
                settled = False
            if not retold.counts(source):
                continue
            if retold.is_back(record.seq, source):
                told = told._replace(withdrawn=True)
        for fact in facts_of(dialect, event)[0]:
            for fold in folds:
                if isinstance(fact, fold.facts):
                    _step(fold, states[fold.name], told, fact)
    return settled


def _step(fold: Fold[S], states: dict[str, S], told: Told, fact: Fact) -> None:
    try:
        key = fold.key(told, fact)
        if key is not None:
            states[key] = fold.step(states.get(key) or fold.State(), told, fact)
    except Exception:  # noqa: BLE001, S110  # the index has it as a finding
        pass


def history(
    records: Iterable[Record], dialects: Mapping[str, Dialect]
) -> Iterator[tuple[Told, Fact]]:
    """The facts of those records that count, in order, each with where and when it was told."""
    kept = list(records)
    tellings: dict[Run, Retold] = defaultdict(Retold)
    for record in kept:
        if (source := _source_in(record, dialects)) is not None:
            tellings[record.family, record.run].hear(record.seq, source)
    for record in kept:
        source = _source_in(record, dialects)
        retold = tellings[record.family, record.run]
        if source is not None and not retold.counts(source):
            continue
        back = source is not None and retold.is_back(record.seq, source)
        for told, fact in meaning(record, dialects):
            yield told._replace(withdrawn=True) if back else told, fact


def _source_in(record: Record, dialects: Mapping[str, Dialect]) -> Source | None:
    dialect = dialects.get(record.dialect)
    if dialect is None or dialect.source is None:
        return None
    event = event_of(record, dialects)
    return source_of(dialect, event) if isinstance(event, Event) else None


class Retold:
    """Which events of a run count, when its source was read more than once.

    Of the events made from one record of the source those of the newest mapping count, and of
    a record that was corrected those of the last content, in whatever order they were heard.
    """

    __slots__ = ("_backs", "_known", "mixed")

    def __init__(self) -> None:
        self.mixed = False
        """Whether some record was told more than once, or something was taken back."""
        self._known: dict[tuple[str, str], _Known] = {}
        self._backs: list[tuple[int, Source]] = []

    def hear(self, seq: int, source: Source) -> bool:
        """Takes an event into account; whether one that was heard before reads differently now."""
        changed = False
        for name in source.names:
            of = (source.writer, name)
            known = self._known.get(of)
            self.mixed = self.mixed or (known is not None and known.version != source.version)
            held = () if source.content is None else (source.content,)
            if known is None or source.version > known.version:
                changed |= known is not None
                self._known[of] = _Known(source.version, seq, seq, held)
            elif source.version == known.version and held and held[0] not in known.contents:
                changed |= bool(known.contents)
                self._known[of] = known._replace(contents=known.contents + held, since=seq)
        if source.back is not None:
            self._backs.append((seq, source))
            changed = True
        self.mixed = self.mixed or changed
        return changed

    def counts(self, source: Source) -> bool:
        """Whether an event that was heard is one of those that count."""
        for name in source.names:
            known = self._known[source.writer, name]
            if known.version != source.version:
                return False
            if source.content is not None and known.contents[-1] != source.content:
                return False
        return True

    def is_back(self, seq: int, source: Source) -> bool:
        """Whether what an event tells was taken back by a later one."""
        return bool(self._backs) and any(
            by.writer == source.writer
            and self.counts(by)
            and (known := self._known.get((by.writer, by.back or ""))) is not None
            and known.first <= seq < at
            for at, by in self._backs
        )

    def corrected(self, seq: int, source: Source) -> Finding | None:
        """What is found at the first event of a record that was sent with another content."""
        for name in source.names:
            known = self._known[source.writer, name]
            if len(known.contents) > 1 and known.since == seq:
                said = f"{name} was told before with another content; this one counts"
                return Finding("corrected", said, "info")
        return None


class _Known(NamedTuple):
    """What is known of one record of a source."""

    version: tuple[tuple[int, str], ...]
    first: int
    """The first event of this version."""
    since: int
    """The first event of the last content."""
    contents: tuple[str, ...]
    """Each content once, in the order in which they came."""


class Standing(NamedTuple):
    """Which records of one run do not count as they are, by number.

    Every view asks this, through `standing` or `Counting`, before it reads facts from records.
    """

    superseded: frozenset[int] = frozenset()
    """Their source was read again by a newer mapping, or their record corrected: not counted."""
    withdrawn: frozenset[int] = frozenset()
    """A later record took back what they say: counted as spent and called, marked where shown."""

    @property
    def over(self) -> frozenset[int]:
        """Both: what is no part of the conversation any more."""
        return self.superseded | self.withdrawn

    def place(self, told: Told) -> Told | None:
        """Where and when a fact was told, marked if it was withdrawn; None if it does not count."""
        if told.seq in self.superseded:
            return None
        return told._replace(withdrawn=True) if told.seq in self.withdrawn else told


ALL_COUNT = Standing()


class Counting:
    """Finds out, while the records of one run are read, which of them count."""

    def __init__(self) -> None:
        self._retold = Retold()
        self._sources: list[tuple[int, Source]] = []
        self.changed = False
        """Whether a record changed how an earlier one counts."""

    def hear(self, seq: int, dialect: Dialect, event: Event) -> bool:
        """Takes a record into account; whether it counts, as far as is known by now."""
        if dialect.source is None or (source := source_of(dialect, event)) is None:
            return True
        self.changed |= self._retold.hear(seq, source)
        self._sources.append((seq, source))
        return self._retold.counts(source)

    def standing(self) -> Standing:
        """Which of the records that were read so far do not count."""
        if not self._retold.mixed:
            return ALL_COUNT
        counts, is_back = self._retold.counts, self._retold.is_back
        again = {seq for seq, source in self._sources if not counts(source)}
        back = {seq for seq, source in self._sources if is_back(seq, source)}
        return Standing(frozenset(again), frozenset(back - again))


def standing(records: Iterable[Record], dialects: Mapping[str, Dialect]) -> Standing:
    """Which of the records of one run do not count."""
    counting = Counting()
    for record in records:
        dialect = dialects.get(record.dialect)
        if dialect is None or dialect.source is None:
            continue
        event = event_of(record, dialects)
        if isinstance(event, Event):
            counting.hear(record.seq, dialect, event)
    return counting.standing()


FEW = 64
"""Records that are looked up one by one; more are found by reading their run."""


def picked(journal: Journal, run: Run, seqs: Collection[int]) -> Iterator[Record]:
    """Some records of a run, in order."""
    records: Iterator[Record]
    if len(seqs) <= FEW:
        records = (each for seq in sorted(seqs) for each in journal.read(seq - 1, 1))
    else:
        records = journal.records(min(seqs) - 1, run, through=max(seqs))
    return (each for each in records if each.seq in seqs)


def meaning(record: Record, dialects: Mapping[str, Dialect]) -> Iterator[tuple[Told, Fact]]:
    """The facts of a record, each with where and when it was told."""
    event = event_of(record, dialects)
    if isinstance(event, Event):
        told = told_of(record, event)
        for fact in facts_of(dialects[record.dialect], event)[0]:
            yield told, fact


def event_of(record: Record, dialects: Mapping[str, Dialect]) -> Event | Finding | None:
    """The event of a record; None when it was erased, and why when it cannot be understood."""
    if not record.line:
        return None
    dialect = dialects.get(record.dialect)
    if dialect is None:
        return Finding("unknown-dialect", f"no dialect {record.dialect!r} is here to read it")
    try:
        return understand(dialect, record.line)
    except Exception as error:  # noqa: BLE001  # one record must not stop the others
        return failure(f"the dialect {record.dialect}", error)


def facts_of(dialect: Dialect, event: Event) -> tuple[list[Fact], Finding | None]:
    """What an event means, as far as its dialect can say it, and why not further."""
    facts: list[Fact] = []
    try:
        facts += dialect.facts(event)
    except Exception as error:  # noqa: BLE001  # one record must not stop the others
        return facts, failure(f"the dialect {dialect.name}", error)
    return facts, None


def source_of(dialect: Dialect, event: Event) -> Source | None:
    """What an event was made from, as far as its dialect can say it."""
    try:
        return None if dialect.source is None else dialect.source(event)
    except Exception:  # noqa: BLE001  # a source that cannot be read is none
        return None


def names_of(dialect: Dialect, event: Event) -> list[str]:
    """What an event goes by, as far as its dialect can say it."""
    try:
        return [name for name in dialect.names(event) if isinstance(name, str)]
    except Exception:  # noqa: BLE001  # what has no name cannot be called by it
        return []


def told_of(record: Record, event: Event) -> Told:
    writer, read = _origin(event.body.get("origin"))
    return Told(
        record.seq,
        record.received,
        record.family,
        record.run,
        event.at,
        event.kind,
        event.id,
        event.cause,
        record.dialect,
        writer=writer,
        read=read,
        unnamed=event.body.get("synthetic_id") is True,
    )


def _origin(origin: object) -> tuple[str, bool]:
    """Who wrote a line of somebody else's record, and whether it was read from a file."""
    if not isinstance(origin, dict):
        return "", False
    writer = origin.get("writer")
    return writer if isinstance(writer, str) else "", "path" in origin and "mapping" in origin


def failure(who: str, error: Exception) -> Finding:
    """What is found when a plug raises, though no plug may."""
    said = f"{who} failed here: {type(error).__name__}: {error}"
    return Finding("not-understood", said, "error")
