"""Apply records to the rules and the folds, and collect the changed states.

The states that were used last stay in memory, so that the next batch need not load them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any
from zlib import crc32

import orjson

from tracklog.dialects import Dialect
from tracklog.folds import Fold, Position, Sums, less, rows_of, summed
from tracklog.folds._cells import Cell, changed_cells, with_sums
from tracklog.index.batch import PAST, ActiveRun, Batch, CachedState
from tracklog.index.codec import freeze, thaw
from tracklog.index.indexes import Change, Index, RecordFinding, Words
from tracklog.index.search_text import searchable_text
from tracklog.journal.frame import Record, Run
from tracklog.journal.journal import Journal
from tracklog.model.errors import IndexDamaged
from tracklog.model.event import Finding
from tracklog.model.fact import Fact, Noted
from tracklog.reading.record import event_of, failure
from tracklog.reading.walk import Reading, Walker

REST = "rest:"
"""Stored like a fold: the runs that have findings if no more records come."""
SUMS = "sums:"
"""Prefix of a fold's name: the sums of its states over all runs."""
RANKED = "ranked:"
"""Prefix of a fold's name: those of its sums that have the amount by which they are ranked."""
SHARED = "shared:"
"""Prefix of a fold's name: those of its sums that several runs add to."""

_STEPS = 20_000  # facts of a run that is folded again, held at once
_STATES = 4 << 20  # bytes of JSON whose states stay in memory from one batch to the next
_WALKED = 100_000  # events whose runs' walkers stay in memory
_WALKER = 30  # events that take as much memory as a walker without events
_LAST_ACTIVE = 16  # runs whose walkers stay in any case
_DROPPED = 1 << 18  # runs of which it is remembered that their walker was dropped
_INTERVAL = 2000  # events of a run between two stored past states


class Folding:
    """Folds records into an index, with the states that were used last in memory."""

    def __init__(
        self,
        journal: Journal,
        index: Index,
        dialects: Mapping[str, Dialect],
        folds: Mapping[str, Fold[Any]],
        *,
        words: bool,
    ) -> None:
        self.journal, self.index = journal, index
        self.dialects, self.folds = dialects, folds
        self._words = words
        self._rewound = [fold for fold in folds.values() if fold.rewound]
        self._entries: dict[str, dict[str, CachedState]] = {name: {} for name in folds}
        """The states in memory, by fold and key."""
        self._listeners: dict[type[Fact], list[tuple[Fold[Any], dict[str, CachedState]]]] = {}
        for fold in folds.values():
            for kind in fold.facts:
                self._listeners.setdefault(kind, []).append((fold, self._entries[fold.name]))
        self._through = 0
        self._batches = 0
        self.forget()

    def forget(self) -> None:
        """Drop everything in memory."""
        self.at = -1
        """The last record that was folded; -1 where that is not known."""
        for entries in self._entries.values():
            entries.clear()
        self._size = 0
        """The size of these states, in bytes of JSON."""
        self._runs: dict[Run, ActiveRun] = {}
        """The runs with a walker in memory, the one that was active last at the end."""
        self._walked = 0
        """The size of these walkers, in events."""
        self._dropped: set[int] | None = None
        """Hashes of the runs that the index has and that have no walker in memory; None where any
        run may be one of them."""

    def resume(self) -> None:
        """Continue from the cursor of the index, which another process may have moved."""
        if self.index.cursor != self.at:
            self.forget()
            self.at = self.index.cursor
            self._dropped = None if self.at else set()
        self._through = int(self.index.notes["through"])

    def apply(self, records: list[Record]) -> int:
        """Apply a batch; if a record was erased meanwhile, apply nothing and return its number."""
        self._batches += 1
        batch = Batch(self._batches)
        for record in records:
            self._read(record, batch)
        for noted in batch.erasures:
            if self._was_erased(noted):
                return noted
        cursor = records[-1].seq
        for run in batch.refolded:
            batch.forget(self._runs[run])
        for run in batch.refolded:
            self._refold(run, cursor, batch)
        self._load(batch)
        self._step(batch)
        self._find_elsewhere(batch)
        batch.findings.sort(key=itemgetter(0))
        changes = [*self._changes(batch), *self._sums(batch), *self._rests(batch)]
        changes += self._pasts(batch)
        rows = (batch.findings, batch.words, _names(batch), batch.superseded, batch.refolded)
        link, cells = self.journal.link(cursor), list(self._cells(batch))
        self.index.apply(cursor, changes, *rows, link=link, after=self.at, cells=cells)
        self.at = cursor
        self._trim(records)
        return 0

    def _read(self, record: Record, batch: Batch) -> None:
        """Add one record to the batch."""
        active = self._active(record)
        walker = active.walker
        reading = walker.read(record)
        if walker.changed:
            batch.refolded[active.run] = None
        if walker.revisions.mixed:
            batch.mixed.add(active.run)
        self._add(reading, active, batch)
        for fact in reading.facts:
            if type(fact) is Noted and fact.label == "erasure":
                batch.note_erasure(record, fact, self._through)
        if self._words and (text := searchable_text(reading.facts)):
            batch.words.append(Words(record.seq, text))

    def _add(self, reading: Reading, active: ActiveRun, batch: Batch) -> None:
        """Add the facts and findings of a record; of one that does not count, only its names."""
        record, _, facts, findings, position, dialect, superseded, marks, _ = reading
        if position is not None and dialect is not None and dialect.policy.identity == "refuse":
            self._name(reading, position, dialect, batch)
        if superseded:
            batch.superseded.append(record.seq)
            return
        for finding in findings:
            batch.find(record, finding)
        if position is None:
            return
        if not marks:
            batch.active[active.run] = record.seq
        steps = batch.steps
        for fact in marks or facts:
            for fold, entries in self._listeners.get(type(fact), ()):
                try:
                    key = fold.key(position, fact)
                except Exception as error:  # noqa: BLE001  # one fold must not stop the others
                    batch.find(record, failure(f"the fold {fold.name}", error))
                    continue
                if key is None:
                    continue
                entry = entries.get(key) or self._entry(fold, key, active, batch)
                steps.append((entry, position, fact))
        if active.walker.checked.count % _INTERVAL == 0 and not active.walker.revisions.mixed:
            for fold in self._rewound:
                known = self._entries[fold.name].get(active.key)
                entry = known or self._entry(fold, active.key, active, batch)
                steps.append((entry, position, None))

    def _entry(self, fold: Fold[Any], key: str, active: ActiveRun, batch: Batch) -> CachedState:
        """A place in memory for a state that is not there."""
        entry = self._entries[fold.name][key] = CachedState(fold, key, active)
        if not active.whole:
            batch.missing.append(entry)
        return entry

    def _name(self, reading: Reading, position: Position, dialect: Dialect, batch: Batch) -> None:
        """Add the names of a record whose identity is unique over all runs."""
        known = batch.names.setdefault((position.family, position.run), {})
        for name in reading.names:
            known.setdefault(number_of(name), position.seq)
        if isinstance(position.cause, str):
            known.setdefault(number_of(position.cause, is_cause=True), position.seq)
        if position.id is not None and dialect.policy.elsewhere is not None:
            batch.ids.append((number_of(position.id), position))

    def _refold(self, run: Run, through: int, batch: Batch) -> None:
        """Drop the states of a run and fold it again, because earlier records count differently."""
        active = self._runs[run]
        active.whole = True  # what the index has of it is dropped here
        for (name, key), json in self._states_of(run):
            fold = self.folds[name]
            entry = self._entries[name].get(key) or self._entry(fold, key, active, batch)
            if entry.state is None:
                entry.state = self._thawed(fold, key, json)
            batch.change(entry)
            entry.state = None
        walker = active.walker
        walker.begin_again()
        for record in self.journal.records(run=run, through=through):
            self._add(walker.reread(record), active, batch)
            if len(batch.steps) > _STEPS:
                self._load(batch)
                self._step(batch)

    def _states_of(self, run: Run) -> Iterator[tuple[tuple[str, str], bytes]]:
        """Every stored state of a run."""
        run_key, rows = ":".join(run), rows_of(*run)
        yield from self.index.load((fold, run_key) for fold in self.folds).items()
        for fold in self.folds:
            after = ""
            while page := self.index.states(fold, prefix=rows, after=after):
                for key, state in page:
                    yield (fold, key), state
                after = page[-1][0]

    def _active(self, record: Record) -> ActiveRun:
        """The run of a record, with its walker; where it is not in memory, a walker reads the run."""
        run = (record.family, record.run)
        active = self._runs.pop(run, None)
        if active is None:
            stored = self._dropped is None or hash(run) in self._dropped
            walker = self.recall(run, record.seq - 1)[0] if stored else Walker(self.dialects)
            active = ActiveRun(run, walker, whole=not stored)
            self._walked += _size(walker)
        self._runs[run] = active
        self._walked += 1
        return active

    def recall(self, run: Run, through: int) -> tuple[Walker, int]:
        """The walker of a run as it was after a record, and the run's last record until then."""
        walker = Walker(self.dialects)
        last = walker.skim(lambda: self.journal.records(run=run, through=through))
        return walker, last

    def _find_elsewhere(self, batch: Batch) -> None:
        """Add a finding for each identity that came in another run before."""
        known = self.index.records_named({id for id, _ in batch.ids})
        for id, position in sorted(batch.ids, key=lambda each: each[1].seq):
            places = known.setdefault(id, [])
            other = next(self._same(places, position), None)
            places.append(position.seq)
            if other is not None and other.run != position.run:
                message = f"{position.id} came in run {other.run} before, in record {other.seq}"
                name = self.dialects[position.dialect].policy.elsewhere or ""
                entry = RecordFinding(
                    position.seq, position.family, position.run, Finding(name, message)
                )
                batch.findings.append(entry)

    def _same(self, places: Iterable[int], position: Position) -> Iterator[Record]:
        """Those of these records before a position that have its identity in its dialect."""
        for record in self.records(seq for seq in places if seq < position.seq):
            event = event_of(record, self.dialects) if record.dialect == position.dialect else None
            if event is not None and event.id == position.id:
                yield record

    def records(self, seqs: Iterable[int]) -> Iterator[Record]:
        for seq in seqs:
            yield from (each for each in self.journal.read(seq - 1, 1) if each.seq == seq)

    def _was_erased(self, seq: int) -> bool:
        return any(
            record.seq == seq and record.erased is not None
            for record in self.journal.read(seq - 1, 1)
        )

    def _load(self, batch: Batch) -> None:
        """Load the states that the batch needs and that are not in memory."""
        if not batch.missing:
            return
        stored = self.index.load((entry.fold.name, entry.key) for entry in batch.missing)
        for entry in batch.missing:
            state = stored.get((entry.fold.name, entry.key))
            if state is not None:
                entry.state = self._thawed(entry.fold, entry.key, state)
        batch.missing.clear()

    def _thawed(self, fold: Fold[Any], key: str, state: bytes) -> Any:
        try:
            return thaw(fold, key, state)
        except (ValueError, TypeError) as error:
            raise IndexDamaged(f"the state {(fold.name, key)} is none: {error}") from error

    def _step(self, batch: Batch) -> None:
        for entry, position, fact in batch.steps:
            if fact is None:
                batch.store_past(entry, position)
                continue
            fold, before = entry.fold, entry.state
            if entry.batch != batch.number:
                batch.change(entry)
            try:
                if before is None:
                    if not entry.run.owns(entry.key):
                        raise ValueError(f"the key {entry.key!r} is not of the run")  # noqa: TRY301  # found like any failure of it
                    before = fold.State()
                entry.state = fold.step(before, position, fact)
            except Exception as error:  # noqa: BLE001  # one fold must not stop the others
                finding = failure(f"the fold {fold.name}", error)
                batch.findings.append(
                    RecordFinding(position.seq, position.family, position.run, finding)
                )
                if entry.state is None:
                    continue
            entry.seq = position.seq
        batch.steps.clear()

    def _changes(self, batch: Batch) -> Iterator[Change]:
        for fold, changed in sorted(batch.changed.items()):
            for entry in sorted(changed, key=attrgetter("key")):
                key = entry.key
                if entry.state is None:  # the run was folded again and has no such state now
                    del self._entries[fold][key]
                    self._size -= entry.size
                    yield (fold, key, 0, b"")
                    continue
                json = freeze(key, entry.state)
                self._size += len(json) - entry.size
                entry.size = len(json)
                yield (fold, key, entry.seq, json)

    def _sums(self, batch: Batch) -> Iterator[Change]:
        """The sums over all runs, changed by what the states of this batch add and subtract."""
        added: dict[str, list[Sums]] = {}
        for entry, before in batch.sums:
            after = entry.sums()
            if after != before:
                added.setdefault(entry.fold.name, []).extend((less(before), after))
        for fold_name, sums in added.items():
            fold, table, changed = self.folds[fold_name], SUMS + fold_name, summed(sums)
            known = self.index.load((table, key) for key in changed)
            rows = {key: orjson.loads(row) for (_, key), row in known.items()}
            merged = summed([rows, {key: changed[key] for key in rows}])
            for key in sorted(changed):
                old = rows.get(key)
                row = changed[key] if old is None else merged.get(key, {})
                json = _row(row) if row else b""
                yield (table, key, 0, json)
                if (rank := fold.ranked) and (rank in row or (old and rank in old)):
                    yield (RANKED + fold_name, key, row.get(rank, 0), json)
                if fold.shared and (len(row) > 1 or (old and len(old) > 1)):
                    yield (SHARED + fold_name, key, 0, json if len(row) > 1 else b"")

    def _cells(self, batch: Batch) -> Iterator[tuple[Cell, Sequence[int]]]:
        """What the states of this batch add to what happened in each minute."""
        return with_sums(
            change
            for entry, before in batch.cells
            for change in changed_cells(before, entry.cells())
        )

    def _pasts(self, batch: Batch) -> Iterator[Change]:
        """The past states to store; none of a run whose source record has several revisions."""
        mixed = {rows_of(*run) for run in batch.mixed}
        for (fold, key), state in batch.past.items():
            if key[:-15] not in mixed:
                yield (fold, key, int(key[-15:]), state)
        for run in batch.mixed:
            for past in (PAST + fold.name for fold in self._rewound):
                for key, _ in self.index.states(past, prefix=rows_of(*run), limit=10_000):
                    yield (past, key, 0, b"")

    def _rests(self, batch: Batch) -> Iterator[Change]:
        """Note which runs have findings if no more records come."""
        for run, seq in batch.active.items():
            active = self._runs[run]
            count = len(active.walker.at_rest())
            if count or active.unsettled:
                yield (REST, active.key, seq, orjson.dumps({"n": count}) if count else b"")
            active.unsettled = count

    def _trim(self, records: Iterable[Record]) -> None:
        """Drop from memory what was not used for the longest time.

        The walkers of the runs that were active last stay, however long these are: to make one again,
        its run is read from its first record.
        """
        if self._size > _STATES:
            every = [entry for entries in self._entries.values() for entry in entries.values()]
            for entry in sorted(every, key=attrgetter("seq")):
                if self._size <= _STATES // 2:
                    break
                del self._entries[entry.fold.name][entry.key]
                self._size -= entry.size
                entry.run.whole = False
        if self._walked > _WALKED:
            active = {(record.family, record.run) for record in records}
            self._walked = sum(_size(each.walker) for each in self._runs.values())
            for run in list(self._runs)[: max(0, len(self._runs) - _LAST_ACTIVE)]:
                if self._walked <= _WALKED // 2:
                    break
                if run in active:
                    continue
                self._walked -= _size(self._runs.pop(run).walker)
                self._note_dropped(run)

    def _note_dropped(self, run: Run) -> None:
        if self._dropped is not None:
            self._dropped.add(hash(run))
            if len(self._dropped) > _DROPPED:
                self._dropped = None


def _size(walker: Walker) -> int:
    """How much memory a walker takes, in events."""
    return _WALKER + walker.checked.count


def _row(amounts: Mapping[str, int]) -> bytes:
    return orjson.dumps(amounts, option=orjson.OPT_SORT_KEYS)


def _names(batch: Batch) -> Iterator[tuple[int, int]]:
    """The names of the records of a batch. A cause in the same run is found by reading the run."""
    for known in batch.names.values():
        for number, seq in known.items():
            if not number & 1 or number - 1 not in known:
                yield number, seq


def number_of(name: str, *, is_cause: bool = False) -> int:
    """The number under which a name is stored. Names with the same number are compared in the
    journal.
    """
    return crc32(name.encode(errors="surrogatepass")) << 1 | is_cause
