"""Apply records to the rules and the folds, and collect the changed states.

The states that were used last stay in memory, so that the next batch need not load them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import add, itemgetter
from typing import Any
from zlib import crc32

import orjson

from tracklog.dialects import Dialect
from tracklog.folds import Fold, Position, Sums, is_of, less, rows_of, run_key, summed
from tracklog.folds._cells import Cell, Cells, changed_cells, with_sums
from tracklog.index.batch import PAST, Batch
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
        self._rewound = [fold.name for fold in folds.values() if fold.rewound]
        self._listeners: dict[type[Fact], list[Fold[Any]]] = {}
        for fold in folds.values():
            for kind in fold.facts:
                self._listeners.setdefault(kind, []).append(fold)
        self._through = 0
        self.forget()

    def forget(self) -> None:
        """Drop everything in memory."""
        self.at = -1
        """The last record that was folded; -1 where that is not known."""
        self._complete = False
        """Whether everything that the index holds is in memory."""
        self._states: dict[tuple[str, str], Any] = {}
        self._sizes: dict[tuple[str, str], int] = {}
        self._size = 0
        self._walkers: dict[Run, Walker] = {}
        self._walked = 0
        """The size of these walkers, in events."""
        self._dropped: set[int] | None = None
        """Hashes of the runs that the index has and that have no walker in memory; None where any
        run may be one of them."""
        self._unsettled: dict[Run, int] = {}
        """By run, how many findings remain if no more records come, as stored."""

    def resume(self) -> None:
        """Continue from the cursor of the index, which another process may have moved."""
        if self.index.cursor != self.at:
            self.forget()
            self.at = self.index.cursor
            self._complete = self.at == 0
            self._dropped = set() if self._complete else None
        self._through = int(self.index.notes["through"])

    def apply(self, records: list[Record]) -> int:
        """Apply a batch; if a record was erased meanwhile, apply nothing and return its number."""
        batch = Batch()
        for record in records:
            self._read(record, batch)
        for noted in batch.erasures:
            if self._was_erased(noted):
                return noted
        cursor = records[-1].seq
        for run in batch.refolded:
            self._refold(run, cursor, batch)
        self._load(batch)
        self._step(batch)
        self._find_elsewhere(batch)
        batch.findings.sort(key=itemgetter(0))
        changes = [*self._changes(batch), *self._sums(batch), *self._rests(batch)]
        changes += self._pasts(batch)
        rows = (batch.findings, batch.words, _names(batch), batch.superseded, batch.refolded)
        link, cells = self.journal.link(cursor), self._cells(batch)
        self.index.apply(cursor, changes, *rows, link=link, after=self.at, cells=cells)
        self.at = cursor
        self._trim({(record.family, record.run) for record in records})
        return 0

    def _read(self, record: Record, batch: Batch) -> None:
        """Add one record to the batch."""
        walker = self._walker(record)
        reading = walker.read(record)
        run = (record.family, record.run)
        if walker.changed:
            batch.refolded[run] = None
        if walker.revisions.mixed:
            batch.mixed.add(run)
        self._add(reading, walker, batch)
        for fact in reading.facts:
            if type(fact) is Noted and fact.label == "erasure":
                batch.note_erasure(record, fact, self._through)
        if self._words and (text := searchable_text(reading.facts)):
            batch.words.append(Words(record.seq, text))

    def _add(self, reading: Reading, walker: Walker, batch: Batch) -> None:
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
            batch.active[record.family, record.run] = record.seq
        steps = batch.steps
        for fact in marks or facts:
            for fold in self._listeners.get(type(fact), ()):
                try:
                    key = fold.key(position, fact)
                except Exception as error:  # noqa: BLE001  # one fold must not stop the others
                    batch.find(record, failure(f"the fold {fold.name}", error))
                    continue
                if key is not None:
                    steps.append(((fold.name, key), fold, position, fact))
        if walker.checked.count % _INTERVAL == 0 and not walker.revisions.mixed:
            key = run_key(position)
            steps += [((name, key), None, position, None) for name in self._rewound]

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
        batch.forget(run)
        for name, json in self._states_of(run):
            before = self._states.pop(name, None)
            self._size -= self._sizes.pop(name, 0)
            batch.changed[name] = 0
            self._note_before(batch, self.folds[name[0]], name, before or self._thawed(name, json))
        walker = self._walkers[run]
        walker.begin_again()
        for record in self.journal.records(run=run, through=through):
            self._add(walker.reread(record), walker, batch)
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

    def _walker(self, record: Record) -> Walker:
        """The walker of a record's run; where none is in memory, a new one reads the run."""
        run = (record.family, record.run)
        walker = self._walkers.pop(run, None)
        if walker is None:
            stored = self._dropped is None or hash(run) in self._dropped
            walker = self.recall(run, record.seq - 1)[0] if stored else Walker(self.dialects)
            self._walked += _size(walker)
        self._walkers[run] = walker
        self._walked += 1
        return walker

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
        """Load the states that the batch needs; a run that is folded again needs none."""
        if self._complete:
            return
        keys = {name for name, _, _, _ in batch.steps} - self._states.keys() - batch.changed.keys()
        for name, state in self.index.load(keys).items():
            self._states[name] = self._thawed(name, state)

    def _thawed(self, name: tuple[str, str], state: bytes) -> Any:
        try:
            return thaw(self.folds[name[0]], name[1], state)
        except (ValueError, TypeError) as error:
            raise IndexDamaged(f"the state {name} is none: {error}") from error

    def _step(self, batch: Batch) -> None:
        states, changed = self._states, batch.changed
        for name, fold, position, fact in batch.steps:
            before = states.get(name)
            if fold is None or fact is None:
                batch.store_past(name, position, before)
                continue
            if name not in changed and (fold.sums is not None or fold.cells is not None):
                self._note_before(batch, fold, name, before)
            try:
                if before is None and not is_of(name[1], position):
                    raise ValueError(f"the key {name[1]!r} is not of the run")  # noqa: TRY301  # found like any failure of it
                after = fold.step(fold.State() if before is None else before, position, fact)
            except Exception as error:  # noqa: BLE001  # one fold must not stop the others
                finding = failure(f"the fold {fold.name}", error)
                batch.findings.append(
                    RecordFinding(position.seq, position.family, position.run, finding)
                )
                if before is None:
                    continue
            else:
                if after is not before:
                    states[name] = after
            changed[name] = position.seq
        batch.steps.clear()

    def _note_before(
        self, batch: Batch, fold: Fold[Any], name: tuple[str, str], before: Any
    ) -> None:
        """Note what a state added to sums and cells before this batch."""
        if fold.sums is not None and name not in batch.before:
            batch.before[name] = {} if before is None else fold.sums(name[1], before)
        if fold.cells is not None and name not in batch.cells:
            batch.cells[name] = Cells() if before is None else fold.cells(before)

    def _changes(self, batch: Batch) -> Iterator[Change]:
        states, sizes = self._states, self._sizes
        for name in sorted(batch.changed):
            state = states.pop(name, None)
            if state is None:
                yield (*name, 0, b"")  # the run was folded again and has no such state now
                continue
            states[name] = state  # at the end: the state that was used last is dropped last
            json = freeze(name[1], state)
            self._size += len(json) - sizes.get(name, 0)
            sizes[name] = len(json)
            yield (*name, batch.changed[name], json)

    def _sums(self, batch: Batch) -> Iterator[Change]:
        """The sums over all runs, changed by what the states of this batch add and subtract."""
        added: dict[str, list[Sums]] = {}
        for name, before in batch.before.items():
            fold, state = self.folds[name[0]], self._states.get(name)
            after: Sums = {} if state is None or fold.sums is None else fold.sums(name[1], state)
            if after != before:
                added.setdefault(fold.name, []).extend((less(before), after))
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

    def _cells(self, batch: Batch) -> list[tuple[Cell, Sequence[int]]]:
        """What the states of this batch add to what happened in each minute."""
        added: dict[Cell, Sequence[int]] = {}
        for name, before in batch.cells.items():
            fold, state = self.folds[name[0]], self._states.get(name)
            after = Cells() if state is None or fold.cells is None else fold.cells(state)
            for cell, amounts in changed_cells(before, after):
                known = added.get(cell)
                added[cell] = amounts if known is None else [*map(add, known, amounts)]
        changed = {cell: amounts for cell, amounts in added.items() if any(amounts)}
        return [(cell, amounts) for cell, amounts in with_sums(changed).items() if any(amounts)]

    def _pasts(self, batch: Batch) -> Iterator[Change]:
        """The past states to store; none of a run whose source record has several revisions."""
        mixed = {rows_of(*run) for run in batch.mixed}
        for (fold, key), state in batch.past.items():
            if key[:-15] not in mixed:
                yield (fold, key, int(key[-15:]), state)
        for run in batch.mixed:
            for fold in self._rewound:
                for key, _ in self.index.states(PAST + fold, prefix=rows_of(*run), limit=10_000):
                    yield (PAST + fold, key, 0, b"")

    def _rests(self, batch: Batch) -> Iterator[Change]:
        """Note which runs have findings if no more records come."""
        for run, seq in batch.active.items():
            count = len(self._walkers[run].at_rest())
            if count or self._unsettled.get(run, -1):
                yield (REST, ":".join(run), seq, orjson.dumps({"n": count}) if count else b"")
            self._unsettled[run] = count

    def _trim(self, active: Collection[Run]) -> None:
        """Drop from memory what was not used for the longest time.

        The walkers of the runs that were active last stay, however long these are: to make one again,
        its run is read from its first record.
        """
        if self._size > _STATES:
            self._complete = False
            for name in list(self._states):
                if self._size <= _STATES // 2:
                    break
                del self._states[name]
                self._size -= self._sizes.pop(name, 0)
        if self._walked > _WALKED:
            self._walked = sum(map(_size, self._walkers.values()))
            for run in list(self._walkers)[: max(0, len(self._walkers) - _LAST_ACTIVE)]:
                if self._walked <= _WALKED // 2:
                    break
                if run in active:
                    continue
                self._walked -= _size(self._walkers.pop(run))
                self._unsettled.pop(run, None)
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
