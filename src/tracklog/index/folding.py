"""Takes records into an index: what each means to the rules and the folds, and what that changes.

What was read last stays in memory, so that the next batch need not ask the index for it.
"""

from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any
from zlib import crc32

import orjson

from tracklog.dialects import Dialect, Source
from tracklog.folds import Fold, Sums, Told, is_of, rows_of, run_key, summed
from tracklog.index.batch import PAST, Batch, Watch
from tracklog.index.codec import freeze, thaw
from tracklog.index.indexes import Change, Found, Index, Words
from tracklog.index.search_text import spoken
from tracklog.journal.frame import Record, Run
from tracklog.journal.journal import Journal
from tracklog.model.errors import IndexDamaged
from tracklog.model.event import Event, Finding
from tracklog.model.fact import Fact, Noted
from tracklog.reading.replay import event_of, facts_of, failure, names_of, source_of, told_of

REST = "rest:"
"""Beside the folds: the runs of which something is amiss if nothing more comes."""
SUMS = "sums:"
"""Before a fold's name: what its states of all runs come to."""

_STEPS = 20_000  # facts of a run that is folded anew, held at once
_STATES = 16 << 20  # bytes of JSON whose states stay in memory from one batch to the next
_WATCHED = 100_000  # events whose runs' rules stay in memory
_MOMENT = 2000  # events of a run between two of which its states are kept


class Folding:
    """What is known in memory of the index of a journal, and how it goes on."""

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
        """Nothing is known in memory of what the index holds."""
        self.at = -1
        """The last record that was taken in; -1 when that is not known."""
        self._whole = False
        """Whether everything that the index holds is in memory."""
        self._kept: dict[tuple[str, str], Any] = {}
        self._sizes: dict[tuple[str, str], int] = {}
        self._size = 0
        self._watched: dict[Run, Watch] = {}
        self._watching = 0

    def resume(self) -> None:
        """From where the index is, which another process may have brought on."""
        if self.index.cursor != self.at:
            self.forget()
            self.at = self.index.cursor
            self._whole = self.at == 0
        self._through = int(self.index.notes["through"])

    def apply(self, records: list[Record]) -> int:
        """Applies a batch; or nothing, and the number of a record that was erased meanwhile."""
        batch = Batch()
        for record in records:
            self._hear(record, batch)
        for noted in batch.erasures:
            if self._was_erased(noted):
                return noted
        cursor = records[-1].seq
        for run in batch.anew:
            self._fold_anew(run, cursor, batch)
        self._load(batch)
        self._step(batch)
        self._find_elsewhere(batch)
        batch.findings.sort(key=itemgetter(0))
        changes = [*self._changes(batch), *self._sums(batch), *self._rests(batch)]
        changes += self._pasts(batch)
        told = (batch.findings, batch.words, _names(batch), batch.silent, batch.anew)
        self.index.apply(cursor, changes, *told, link=self.journal.link(cursor))
        self.at = cursor
        self._trim()
        return 0

    def _hear(self, record: Record, batch: Batch) -> None:
        """Takes one more record into account."""
        event = event_of(record, self.dialects)
        if not isinstance(event, Event):
            if event is not None:
                batch.find(record, event)
            return
        dialect = self.dialects[record.dialect]
        watch = self._watch(record)
        source = None if dialect.source is None else source_of(dialect, event)
        if source is not None and watch.retold.hear(record.seq, source):
            batch.anew[record.family, record.run] = None
        if watch.retold.mixed:
            batch.mixed.add((record.family, record.run))
        facts = self._understand(record, dialect, event, source, watch, batch)
        for fact in facts:
            if type(fact) is Noted and fact.label == "erasure":
                batch.note_erasure(record, fact, self._through)
        if self._words and (text := spoken(facts)):
            batch.words.append(Words(record.seq, text))

    def _understand(
        self,
        record: Record,
        dialect: Dialect,
        event: Event,
        source: Source | None,
        watch: Watch,
        batch: Batch,
    ) -> list[Fact]:
        """What a record means: to the rules, and to the folds that listen, unless it counts no more."""
        facts, failed = facts_of(dialect, event)
        told = told_of(record, event)
        if dialect.policy.identity == "refuse":  # else an identity means something in its run only
            known = batch.names.setdefault((record.family, record.run), {})
            for name in names_of(dialect, event):
                known.setdefault(number_of(name), record.seq)
            if isinstance(event.cause, str):
                known.setdefault(number_of(event.cause, is_cause=True), record.seq)
            if event.id is not None and dialect.policy.elsewhere is not None:
                batch.ids.append((number_of(event.id), told))
        if source is not None:
            if not watch.retold.counts(source):
                batch.silent.append(record.seq)
                return facts
            if watch.retold.is_back(record.seq, source):
                told = told._replace(withdrawn=True)
            if (corrected := watch.retold.corrected(record.seq, source)) is not None:
                batch.find(record, corrected)
        for found in watch.hear(dialect, event):
            batch.find(record, found)
        if failed is not None:
            batch.find(record, failed)
        batch.heard[record.family, record.run] = record.seq
        steps = batch.steps
        for fact in facts:
            for fold in self._listeners.get(type(fact), ()):
                try:
                    key = fold.key(told, fact)
                except Exception as error:  # noqa: BLE001  # one fold must not stop the others
                    batch.find(record, failure(f"the fold {fold.name}", error))
                    continue
                if key is not None:
                    steps.append(((fold.name, key), fold, told, fact))
        if watch.count % _MOMENT == 0 and not watch.retold.mixed:
            key = run_key(told)
            steps += [((name, key), None, told, None) for name in self._rewound]
        return facts

    def _fold_anew(self, run: Run, through: int, batch: Batch) -> None:
        """Forgets what a run's states were and folds it once more, now that it reads differently."""
        batch.forget(run)
        for name, json in self._states_of(run):
            before = self._kept.pop(name, None)
            self._size -= self._sizes.pop(name, 0)
            batch.changed[name] = 0
            sums = self.folds[name[0]].sums
            if sums is not None:
                batch.before[name] = sums(name[1], before or self._thawed(name, json))
        watch = self._watched[run]
        watch.begin_again()
        for record in self.journal.records(run=run, through=through):
            event = event_of(record, self.dialects)
            if isinstance(event, Event):
                dialect = self.dialects[record.dialect]
                source = source_of(dialect, event)
                self._understand(record, dialect, event, source, watch, batch)
            elif event is not None:
                batch.find(record, event)
            if len(batch.steps) > _STEPS:
                self._load(batch)
                self._step(batch)

    def _states_of(self, run: Run) -> Iterator[tuple[tuple[str, str], bytes]]:
        """Every state of a run that the index keeps."""
        whole, rows = ":".join(run), rows_of(*run)
        yield from self.index.load((fold, whole) for fold in self.folds).items()
        for fold in self.folds:
            after = ""
            while page := self.index.states(fold, prefix=rows, after=after):
                for key, state in page:
                    yield (fold, key), state
                after = page[-1][0]

    def _watch(self, record: Record) -> Watch:
        """What is remembered of a record's run; read again when it went cold."""
        run = (record.family, record.run)
        watch = self._watched.pop(run, None)
        if watch is None:
            watch = Watch() if self._whole else self.recall(run, record.seq - 1)[0]
            self._watching += watch.count
        self._watched[run] = watch
        self._watching += 1
        return watch

    def recall(self, run: Run, through: int) -> tuple[Watch, int]:
        """What is to be remembered of a run as of a record, and the run's last record until then."""
        watch = Watch()
        last, settled = self._recall_into(watch, run, through, hear=True)
        if not settled:
            watch.begin_again()
            self._recall_into(watch, run, through, hear=False)
        return watch, last

    def _recall_into(self, watch: Watch, run: Run, through: int, *, hear: bool) -> tuple[int, bool]:
        last, settled = 0, True
        for record in self.journal.records(run=run, through=through):
            event, last = event_of(record, self.dialects), record.seq
            if not isinstance(event, Event):
                continue
            dialect = self.dialects[record.dialect]
            source = source_of(dialect, event)
            if source is not None:
                if hear and watch.retold.hear(record.seq, source):
                    settled = False
                if not watch.retold.counts(source):
                    continue
            for _ in watch.hear(dialect, event):
                pass  # found when it was first heard
        return last, settled

    def _find_elsewhere(self, batch: Batch) -> None:
        """Finds the identities that were heard in another run before."""
        known = self.index.heard({id for id, _ in batch.ids})
        for id, told in sorted(batch.ids, key=lambda each: each[1].seq):
            places = known.setdefault(id, [])
            other = next(self._same(places, told), None)
            places.append(told.seq)
            if other is not None and other.run != told.run:
                said = f"{told.id} was heard in run {other.run} before, in record {other.seq}"
                name = self.dialects[told.dialect].policy.elsewhere or ""
                batch.findings.append(Found(told.seq, told.family, told.run, Finding(name, said)))

    def _same(self, places: Iterable[int], told: Told) -> Iterator[Record]:
        """Of some records those before one that have its identity in its dialect."""
        for record in self.records(seq for seq in places if seq < told.seq):
            event = event_of(record, self.dialects)
            if record.dialect == told.dialect and isinstance(event, Event) and event.id == told.id:
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
        """Brings the states that the batch needs into memory; those of a run anew are none."""
        if self._whole:
            return
        keys = {name for name, _, _, _ in batch.steps} - self._kept.keys() - batch.changed.keys()
        for name, state in self.index.load(keys).items():
            self._kept[name] = self._thawed(name, state)

    def _thawed(self, name: tuple[str, str], state: bytes) -> Any:
        try:
            return thaw(self.folds[name[0]], name[1], state)
        except (ValueError, TypeError) as error:
            raise IndexDamaged(f"the state {name} is none: {error}") from error

    def _step(self, batch: Batch) -> None:
        kept, changed = self._kept, batch.changed
        for name, fold, told, fact in batch.steps:
            before = kept.get(name)
            if fold is None or fact is None:
                batch.keep_past(name, told, before)
                continue
            if fold.sums is not None and name not in batch.before:
                batch.before[name] = {} if before is None else fold.sums(name[1], before)
            try:
                if before is None and not is_of(name[1], told):
                    raise ValueError(f"the key {name[1]!r} is not of the run")  # noqa: TRY301  # found like any failure of it
                kept[name] = fold.step(fold.State() if before is None else before, told, fact)
            except Exception as error:  # noqa: BLE001  # one fold must not stop the others
                found = failure(f"the fold {fold.name}", error)
                batch.findings.append(Found(told.seq, told.family, told.run, found))
                if before is None:
                    continue
            changed[name] = told.seq
        batch.steps.clear()

    def _changes(self, batch: Batch) -> Iterator[Change]:
        kept, sizes = self._kept, self._sizes
        for name in sorted(batch.changed):
            state = kept.pop(name, None)
            if state is None:
                yield (*name, 0, b"")  # of a run that was folded anew, which has it no more
                continue
            kept[name] = state  # what was used last is let go last
            json = freeze(name[1], state)
            self._size += len(json) - sizes.get(name, 0)
            sizes[name] = len(json)
            yield (*name, batch.changed[name], json)

    def _sums(self, batch: Batch) -> Iterator[Change]:
        """What the states of all runs come to, after what those of this batch add and take away."""
        added: dict[str, list[Sums]] = {}
        for name, before in batch.before.items():
            fold, state = self.folds[name[0]], self._kept.get(name)
            added.setdefault(fold.name, []).append(_less(before))
            if state is not None and fold.sums is not None:
                added[fold.name].append(fold.sums(name[1], state))
        for fold_name, sums in added.items():
            table = SUMS + fold_name
            changed = summed(sums)
            known = self.index.load((table, key) for key in changed)
            before = {key: orjson.loads(row) for (_, key), row in known.items()}
            after = summed([before, changed])
            for key in sorted(changed):
                yield (table, key, 0, _row(after[key]) if key in after else b"")

    def _pasts(self, batch: Batch) -> Iterator[Change]:
        """What states were at some moments; none of a run that was told more than once."""
        told_twice = {rows_of(*run) for run in batch.mixed}
        for (fold, key), state in batch.past.items():
            if key[:-15] not in told_twice:
                yield (fold, key, int(key[-15:]), state)
        for run in batch.mixed:
            for fold in self._rewound:
                for key, _ in self.index.states(PAST + fold, prefix=rows_of(*run), limit=10_000):
                    yield (PAST + fold, key, 0, b"")

    def _rests(self, batch: Batch) -> Iterator[Change]:
        """Notes of which runs something is amiss if nothing more comes."""
        for run, seq in batch.heard.items():
            watch = self._watched[run]
            amiss = len(watch.rest(self.dialects))
            if amiss or watch.amiss:
                yield (REST, ":".join(run), seq, orjson.dumps({"n": amiss}) if amiss else b"")
            watch.amiss = amiss

    def _trim(self) -> None:
        """Lets go of what was not needed for longest."""
        if self._size > _STATES:
            self._whole = False
            for name in list(self._kept):
                if self._size <= _STATES // 2:
                    break
                del self._kept[name]
                self._size -= self._sizes.pop(name, 0)
        if self._watching > _WATCHED:
            self._whole = False
            self._watching = sum(watch.count for watch in self._watched.values())
            for run in list(self._watched):
                if self._watching <= _WATCHED // 2:
                    break
                self._watching -= self._watched.pop(run).count


def _row(amounts: Mapping[str, int]) -> bytes:
    return orjson.dumps(amounts, option=orjson.OPT_SORT_KEYS)


def _less(sums: Sums) -> Sums:
    return {
        key: {name: -amount for name, amount in amounts.items()} for key, amounts in sums.items()
    }


def _names(batch: Batch) -> Iterator[tuple[int, int]]:
    """What the records of a batch are called; a cause in the same run is found by reading that."""
    for known in batch.names.values():
        for number, seq in known.items():
            if not number & 1 or number - 1 not in known:
                yield number, seq


def number_of(name: str, *, is_cause: bool = False) -> int:
    """What a name is kept as; two that are the same number are compared in the journal."""
    return crc32(name.encode(errors="surrogatepass")) << 1 | is_cause
