"""The index: reads the journal behind its cursor, understands it, and keeps what the folds say.

It knows the shapes of dialects, folds and indexes, and no particular one.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from functools import partial
from hashlib import sha256
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from zlib import crc32

import orjson

from tracklog import __version__
from tracklog.batch import PAST, Batch, Watch
from tracklog.dialects import Dialect, Source
from tracklog.errors import IndexDamaged, IndexUnusable, UnknownName
from tracklog.event import Event, Finding
from tracklog.fact import Fact, Noted
from tracklog.folds import Fold, Sums, Told, is_of, rows_of, run_key, run_of, summed
from tracklog.frame import Record, Run
from tracklog.indexes import Answer, Change, Found, Index, Words
from tracklog.journal import Journal
from tracklog.kept import freeze, thaw, usual
from tracklog.replay import event_of, facts_of, failure, meaning, names_of, source_of, told_of
from tracklog.spoken import spoken, terms
from tracklog.unswept import unswept

Progress = Callable[[int, int], None]
"""Told how far the index is, and how far the journal."""

T = TypeVar("T")

_ATTEMPTS = 5  # at building an index, each undone by something else that happened
_BATCH = 5000  # records that are applied together
_BATCH_BYTES = 16 << 20  # and no more than this of them, but for the last
_STEPS = 20_000  # facts of a run that is folded anew, held at once
_STATES = 16 << 20  # bytes of JSON whose states stay in memory from one batch to the next
_WATCHED = 100_000  # events whose runs' rules stay in memory
_REST = "rest:"
"""Beside the folds: the runs of which something is amiss if nothing more comes."""
_SUMS = "sums:"
"""Before a fold's name: what its states of all runs come to."""
_PAGE = 1000  # states that are read at once
_MOMENT = 2000  # events of a run between two of them


MOST_CALLED = 64
"""Records of one name that are looked at, at most."""


class Hit(NamedTuple):
    """A record in which something was said."""

    record: Record
    text: str
    """All that was said in it."""


class Indexer:
    """Keeps an index abreast of a journal; any number of processes may do so at once."""

    def __init__(
        self,
        journal: Journal,
        index: Index,
        dialects: Iterable[Dialect],
        folds: Iterable[Fold[Any]],
        *,
        words: bool = True,
    ) -> None:
        self.journal = journal
        self.index = index
        self.dialects = {dialect.name: dialect for dialect in dialects}
        self.folds = {fold.name: fold for fold in folds}
        self._words = words
        self._print = _fingerprint(self.dialects, self.folds, words)
        self._rewound = [fold.name for fold in self.folds.values() if fold.rewound]
        self._listeners: dict[type[Fact], list[Fold[Any]]] = {}
        for fold in self.folds.values():
            for kind in fold.facts:
                self._listeners.setdefault(kind, []).append(fold)
        self._at, self._whole, self._through = -1, False, 0
        self._forget()

    def catch_up(self, progress: Progress | None = None, patience: float = 1) -> list[Finding]:
        """Reads to the journal's end; what is to be said about it, which is mostly nothing.

        While another process does the same, it waits that many seconds, then leaves it at that.
        """
        said: list[Finding] = []
        try:
            if self._is_current():
                return said
        except IndexDamaged:
            pass  # seen to below
        with self.index.turn(patience) as mine:
            if not mine:
                return [self._behind()]
            for _ in range(_ATTEMPTS):
                why = self._advance(progress)
                if why is None:
                    return said
                said.append(Finding("index-rebuilt", f"the index was rebuilt: {why}", "info"))
        raise IndexUnusable("the index is damaged again and again", "look at the disk it is on")

    def rebuild(self, progress: Progress | None = None, patience: float = 60) -> list[Finding]:
        """Builds the index anew, from the first record that is kept."""
        with self.index.turn(patience) as mine:
            if not mine:
                return [self._behind()]
            self._clear()
        return self.catch_up(progress, patience)

    def forget(self, patience: float = 10) -> bool:
        """Empties the index, to be built again when it is asked next; whether it was its turn.

        Whoever else is indexing finds out by itself that something was erased.
        """
        with self.index.turn(patience) as mine:
            if mine:
                self._clear()
            return mine

    def state(self, fold: str, key: str) -> Any:
        """The state of a fold under a key; that before any fact when there is none."""
        plug = self._fold(fold)
        found = self._asked(lambda: self.index.load([(fold, key)]))
        return thaw(plug, key, found[fold, key]) if found else plug.State()

    def load(self, fold: str, keys: Iterable[str]) -> dict[str, Any]:
        """The states of a fold under these keys, those that there are."""
        plug = self._fold(fold)
        found = self._asked(lambda: self.index.load([(fold, key) for key in keys]))
        return {key: thaw(plug, key, state) for (_, key), state in found.items()}

    def states(self, fold: str, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """The states of a fold by key, those whose key begins so."""
        plug = self._fold(fold)
        for key, state in self._paged(fold, prefix, ""):
            yield key, thaw(plug, key, state)

    def newest(self, fold: str, limit: int = 50) -> list[tuple[str, Any]]:
        """The states of a listed fold that changed last, the newest first."""
        plug = self._fold(fold)
        return [(key, thaw(plug, key, state)) for key, state in self.newest_kept(fold, limit)]

    def newest_kept(self, fold: str, limit: int = 50) -> list[tuple[str, bytes]]:
        """The same as the index keeps them, for those who know some of them already."""
        return self._asked(lambda: self.index.newest(fold, limit))

    def thawed(self, fold: str, key: str, state: bytes) -> Any:
        """A state that is kept under a key, to be read."""
        return thaw(self._fold(fold), key, state)

    def sums(
        self, fold: str, after: str = "", prefix: str = ""
    ) -> Iterator[tuple[str, dict[str, int]]]:
        """What a fold's states of all runs come to, in rows by key, those behind `after`."""
        self._fold(fold)
        for key, row in self._paged(_SUMS + fold, prefix, after):
            yield key, orjson.loads(row)

    def summed(self, fold: str, keys: Iterable[str]) -> dict[str, dict[str, int]]:
        """Some of those rows, by key."""
        self._fold(fold)
        rows = self._asked(lambda: self.index.load([(_SUMS + fold, key) for key in keys]))
        return {key: orjson.loads(row) for (_, key), row in rows.items()}

    def past(self, fold: str, run: Run, seq: int) -> tuple[int, Any] | None:
        """A record at `seq` or before it and a run's state then; None where none is kept."""
        plug, rows = self._fold(fold), rows_of(*run)
        try:
            if self._stale() is not None or self.index.cursor < min(seq, self.journal.last):
                return None  # it may know less of the run than there is to know
            kept = self.index.states(PAST + fold, prefix=rows, limit=10_000)
        except IndexDamaged:
            return None  # it is a cache
        places = [(int(key[len(rows) :]), state) for key, state in kept]
        found = [each for each in places if each[0] <= seq]
        return (found[-1][0], thaw(plug, ":".join(run), found[-1][1])) if found else None

    def findings(self, run: Run | None = None, limit: int = 1000) -> list[Found]:
        """The newest findings first, of one run if asked."""
        return self._asked(lambda: self.index.findings(run, limit))

    def unfinished(self, limit: int = 1000) -> list[Run]:
        """The runs of which something is amiss if nothing more comes, the latest heard first."""
        found = self._asked(lambda: self.index.newest(_REST, limit))
        return [run_of(key) for key, _ in found]

    def rest(self, run: Run) -> list[Found]:
        """What is amiss in a run if nothing more comes, read from its own records."""
        watch, last = self._recall(run, self.index.cursor)
        return [Found(last, *run, found) for found in watch.rest(self.dialects)]

    def search(self, text: str, limit: int = 50) -> list[Hit]:
        """The records in which all these words were said, the newest first.

        "Words in quotes" stand next to each other; a word that ends with * is a beginning.
        """
        seqs = self._asked(lambda: self.index.search(terms(text), limit))
        records = (record for seq in seqs for record in self.journal.read(seq - 1, 1))
        wanted = set(seqs)
        return [Hit(each, self.text(each)) for each in records if each.line and each.seq in wanted]

    def query(self, sql: str, *, limit: int = 1000, seconds: float = 10) -> Answer:
        """The answer to one question in SQL, which can change nothing; else `BadQuery`."""
        return self._asked(lambda: self.index.query(sql, limit=limit, seconds=seconds))

    def text(self, record: Record) -> str:
        """What was said in a record, read from its own bytes."""
        return spoken(fact for _, fact in meaning(record, self.dialects))

    def facts(self, seq: int) -> list[Fact]:
        """What a record means, read from its own bytes."""
        return [
            fact
            for record in self.journal.read(seq - 1, 1)
            if record.seq == seq
            for _, fact in meaning(record, self.dialects)
        ]

    def called(self, name: str) -> set[Run]:
        """The runs, wherever they are, that may have a record of this name."""
        return self._runs_of(_number(name))

    def caused_by(self, name: str) -> set[Run]:
        """The runs that may have a record which names this one as its cause."""
        return self._runs_of(_number(name, is_cause=True))

    def close(self) -> None:
        self.index.close()

    def _fold(self, name: str) -> Fold[Any]:
        if name not in self.folds:
            raise UnknownName(
                f"there is no fold {name!r}", f"the folds are: {', '.join(sorted(self.folds))}"
            )
        return self.folds[name]

    def _paged(self, fold: str, prefix: str, after: str) -> Iterator[tuple[str, bytes]]:
        """States page by page, so that few are held at once."""
        more = True
        while more:
            states = partial(self.index.states, fold, prefix=prefix, after=after, limit=_PAGE)
            page = self._asked(states)
            yield from page
            more = len(page) == _PAGE
            after = page[-1][0] if page else ""

    def _asked(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except IndexDamaged:
            with self.index.turn(60):
                self._replace()
            self.catch_up()
            return ask()

    def _is_current(self) -> bool:
        return self._stale() is None and self.index.cursor >= self.journal.last

    def _stale(self) -> str | None:
        """Why the index cannot be gone on with; None when it can."""
        notes = self.index.notes
        if not notes:
            return ""
        if notes.get("print") != self._print:
            before = notes.get("version", "?")
            if before != __version__:
                return f"it was made by version {before}, this is {__version__}"
            return "a fold or a dialect is not what it was"
        if notes.get("first") != str(self.journal.first) and self.index.cursor:
            return "records were pruned"
        if self.index.cursor > self.journal.last:
            return "the journal is shorter than it was"
        return None

    def _behind(self) -> Finding:
        cursor, last = self.index.cursor, self.journal.last
        message = f"another process is indexing; this is as of record {cursor} of {last}"
        return Finding("index-behind", message, "info")

    def _advance(self, progress: Progress | None) -> str | None:
        """Goes to the journal's end; why it has to be gone through once more, or None."""
        try:
            why = self._stale()
            if why is not None:
                self._clear()
                if why:
                    return why
            if self.index.cursor != self._at:
                self._forget()
                self._at = self.index.cursor
                self._whole = self._at == 0
            self._through = int(self.index.notes["through"])
            while records := self.journal.read(self._at, _BATCH):
                for part in _parts(records):
                    with unswept():
                        erased = self._apply(part)
                    if erased:
                        self._clear()
                        return f"record {erased} was erased"
                    if progress is not None:
                        progress(self._at, self.journal.last)
        except IndexDamaged:
            return f"it was damaged, and was put aside as {self._replace()}"
        except BaseException:
            self._forget()  # what is in memory may be ahead of what was kept
            raise
        return None

    def _replace(self) -> str:
        where = self.index.replace()
        self._forget()
        return where

    def _clear(self) -> None:
        shown = {fold.name: usual(fold) for fold in self.folds.values()}
        listed = [fold.name for fold in self.folds.values() if fold.listed] + [_REST]
        journal = self.journal
        notes = {"version": __version__, "print": self._print}
        notes |= {"first": str(journal.first), "through": str(journal.last)}
        try:
            self.index.clear(shown, notes, listed)
        except IndexDamaged:
            self.index.replace()
            self.index.clear(shown, notes, listed)
        self._forget()

    def _forget(self) -> None:
        """Nothing is known in memory of what the index holds."""
        self._at = -1
        self._whole = False
        self._kept: dict[tuple[str, str], Any] = {}
        self._sizes: dict[tuple[str, str], int] = {}
        self._size = 0
        self._watched: dict[Run, Watch] = {}
        self._watching = 0

    def _apply(self, records: list[Record]) -> int:
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
        self.index.apply(cursor, changes, *told)
        self._at = cursor
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
                known.setdefault(_number(name), record.seq)
            if isinstance(event.cause, str):
                known.setdefault(_number(event.cause, is_cause=True), record.seq)
            if event.id is not None and dialect.policy.elsewhere is not None:
                batch.ids.append((_number(event.id), told))
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
            watch = Watch() if self._whole else self._recall(run, record.seq - 1)[0]
            self._watching += watch.count
        self._watched[run] = watch
        self._watching += 1
        return watch

    def _recall(self, run: Run, through: int) -> tuple[Watch, int]:
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
        for record in self._records(seq for seq in places if seq < told.seq):
            event = event_of(record, self.dialects)
            if record.dialect == told.dialect and isinstance(event, Event) and event.id == told.id:
                yield record

    def _records(self, seqs: Iterable[int]) -> Iterator[Record]:
        for seq in seqs:
            yield from (each for each in self.journal.read(seq - 1, 1) if each.seq == seq)

    def _runs_of(self, number: int) -> set[Run]:
        places = self._asked(lambda: self.index.heard([number])).get(number, [])
        return {(record.family, record.run) for record in self._records(places[:MOST_CALLED])}

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
            table = _SUMS + fold_name
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
                yield (_REST, ":".join(run), seq, orjson.dumps({"n": amiss}) if amiss else b"")
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


def _number(name: str, *, is_cause: bool = False) -> int:
    """What a name is kept as; two that are the same number are compared in the journal."""
    return crc32(name.encode(errors="surrogatepass")) << 1 | is_cause


def _parts(records: list[Record]) -> Iterator[list[Record]]:
    """The records, in parts that are not too large to be held in memory understood."""
    part: list[Record] = []
    size = 0
    for record in records:
        part.append(record)
        size += len(record.line)
        if size > _BATCH_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _fingerprint(
    dialects: Mapping[str, Dialect], folds: Mapping[str, Fold[Any]], words: bool
) -> str:
    """Another one when a fold, a dialect or this version may say something else of a record."""
    shapes = [
        [fold.name, *sorted(each.__name__ for each in fold.facts)]
        + [f"{each.name}:{each.type}" for each in fields(fold.State)]
        for fold in folds.values()
    ]
    modules = {__name__, freeze.__module__, event_of.__module__, spoken.__module__}
    for dialect in dialects.values():
        modules |= {each.__module__ for each in (dialect.read, dialect.facts, dialect.rules)}
    for fold in folds.values():
        modules |= {fold.key.__module__, fold.step.__module__}
    sources = [[name, _source(name)] for name in sorted(modules)]
    said = [__version__, words, sorted(shapes), sorted(dialects), sources]
    return sha256(orjson.dumps(said)).hexdigest()


def _source(module: str) -> str:
    """The hash of a module's source, where it has one."""
    path = getattr(sys.modules.get(module), "__file__", None)
    try:
        return sha256(Path(path).read_bytes()).hexdigest() if path else ""
    except OSError:
        return ""
