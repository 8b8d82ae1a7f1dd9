"""Update the index: read the journal after the cursor, and store the states of the folds.

It knows the shapes of dialects, folds and indexes, and no particular one.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import orjson

from tracklog import __version__
from tracklog.dialects import Dialect
from tracklog.folds import Fold, Position, rows_of, run_of
from tracklog.folds._cells import AMOUNTS, Cells, in_pieces, longer
from tracklog.index.batch import PAST, TOO_LARGE
from tracklog.index.codec import thaw, usual
from tracklog.index.fingerprint import fingerprint
from tracklog.index.folding import RANKED, REST, SHARED, SUMS, Folding, number_of
from tracklog.index.gc_paused import gc_paused
from tracklog.index.indexes import NO_FILTER, Index, QueryResult, RecordFinding, Total
from tracklog.index.search_text import searchable_text, terms
from tracklog.journal.frame import Record, Run
from tracklog.journal.journal import Journal
from tracklog.model.errors import IndexDamaged, IndexOvertaken, IndexUnusable, UnknownName
from tracklog.model.event import Finding
from tracklog.model.fact import Fact
from tracklog.reading.walk import facts_in, read_alone

Progress = Callable[[int, int], None]
"""Called with the last indexed record and the last record of the journal."""

T = TypeVar("T")

_ATTEMPTS = 5  # at building an index, each undone by something else that happened
_BATCH = 5000  # records that are applied together
_BATCH_BYTES = 16 << 20  # and no more than this of them, but for the last
_PAGE = 1000  # states that are read at once
_LOOK = 0.02  # seconds after which somebody who waits for the turn looks how far the index is
_TURN = 1.0  # seconds between two attempts to get the turn, or to find new records

BEHIND = "index-behind"
"""The finding that another process is indexing and has not reached the end."""
MOST_CALLED = 64
"""Records of one name that are looked at, at most."""


class Hit(NamedTuple):
    """A record that matches a search."""

    record: Record
    text: str
    """Its searchable text."""
    at: str | None
    """Its time, by its emitter's clock."""
    facts: Sequence[Fact]
    position: Position | None


class Indexer:
    """Keeps an index up to date with a journal; any number of processes may do so at once."""

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
        self._print = fingerprint(self.dialects, self.folds, words)
        self.waits = False
        """Whether another process keeps the index up to date, so that this one only waits for it."""
        self._same_history = False
        self._folding = Folding(journal, index, self.dialects, self.folds, words=words)

    def catch_up(self, progress: Progress | None = None, patience: float = 1) -> list[Finding]:
        """Index the journal to its end, and return findings about that; mostly there are none.

        While another process does the same, it waits `patience` seconds, and then gives up.
        """
        try:
            if self._is_current():
                return []
        except IndexDamaged:
            pass  # seen to below
        through = self.journal.last
        for left in _slices(patience):
            if self.waits:
                time.sleep(left)
            else:
                with self.index.turn(left) as mine:
                    if mine:
                        return self._complete(progress)
            if self._reached(through):
                return []
        return [self._behind()]

    def keep_up(self, stop: Callable[[], bool]) -> None:
        """Keep a shared index up to date until `stop` says so.

        One process of all that do so has the turn; when it ends, another one continues.
        """
        while not stop():
            with self.index.turn(_TURN) as mine:
                while mine and not stop():
                    self._complete(None)
                    self.journal.wait(self._folding.at, _TURN)

    def _complete(self, progress: Progress | None) -> list[Finding]:
        """Index the journal to its end; the caller has the turn."""
        findings: list[Finding] = []
        for _ in range(_ATTEMPTS):
            why = self._advance(progress)
            if why is None:
                return findings
            if why:
                findings.append(Finding("index-rebuilt", f"the index was rebuilt: {why}", "info"))
        raise IndexUnusable("the index is damaged again and again", "look at the disk it is on")

    def _reached(self, seq: int) -> bool:
        """Whether somebody else has indexed up to a record."""
        try:
            return self.index.cursor >= seq and self._stale() is None
        except IndexDamaged:
            return False

    def rebuild(self, progress: Progress | None = None, patience: float = 60) -> list[Finding]:
        """Build the index again from the first record of the journal."""
        with self.index.turn(patience) as mine:
            if not mine:
                return [self._behind()]
            self._clear()
        return self.catch_up(progress, patience)

    def forget(self, patience: float = 10) -> bool:
        """Empty the index; the next question builds it again. Returns whether that was possible.

        It is not possible while another process is indexing; that process notices by itself that
        something was erased, and begins again.
        """
        through = self.journal.last
        for left in _slices(patience):
            with self.index.turn(left) as mine:
                if mine:
                    self._clear()
                    return True
            if int(self.index.notes.get("through", 0)) >= through:
                return True  # it has begun again since
        return False

    def state(self, fold: str, key: str) -> Any:
        """The state of a fold under a key; the initial state where none is stored."""
        plug = self._fold(fold)
        states = self._asked(lambda: self.index.load([(fold, key)]))
        return thaw(plug, key, states[fold, key]) if states else plug.State()

    def load(self, fold: str, keys: Iterable[str]) -> dict[str, Any]:
        """The stored states of a fold under these keys."""
        plug = self._fold(fold)
        states = self._asked(lambda: self.index.load([(fold, key) for key in keys]))
        return {key: thaw(plug, key, state) for (_, key), state in states.items()}

    def states(self, fold: str, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """The states of a fold whose key has this prefix, by key."""
        plug = self._fold(fold)
        for key, state in self._paged(fold, prefix, ""):
            yield key, thaw(plug, key, state)

    def keys(self, fold: str, prefix: str, limit: int) -> list[str]:
        """The first keys of a fold that have this prefix."""
        rows = self._asked(lambda: self.index.states(fold, prefix=prefix, limit=limit))
        return [key for key, _ in rows]

    def newest(self, fold: str, limit: int = 50) -> list[tuple[str, Any]]:
        """The states of a listed fold that changed last, the newest first."""
        plug = self._fold(fold)
        return [(key, thaw(plug, key, state)) for key, state in self.newest_stored(fold, limit)]

    def newest_stored(self, fold: str, limit: int = 50) -> list[tuple[str, bytes]]:
        """The same as JSON, for callers that have some of them in memory."""
        return self._asked(lambda: self.index.newest(fold, limit))

    def thawed(self, fold: str, key: str, state: bytes) -> Any:
        """A state from the JSON that is stored under a key."""
        return thaw(self._fold(fold), key, state)

    def sums(
        self, fold: str, after: str = "", prefix: str = "", limit: int | None = None
    ) -> Iterator[tuple[str, dict[str, int]]]:
        """The sums of a fold over all runs, as rows by key, those after the key `after`."""
        self._fold(fold)
        for key, row in self._paged(SUMS + fold, prefix, after, limit):
            yield key, orjson.loads(row)

    def largest(self, fold: str, limit: int) -> dict[str, dict[str, int]]:
        """Those rows that have most of the amount by which they are ranked."""
        self._fold(fold)
        rows = self._asked(lambda: self.index.newest(RANKED + fold, limit))
        return {key: orjson.loads(row) for key, row in rows}

    def shared(self, fold: str) -> Iterator[dict[str, int]]:
        """Those rows that several runs add to, of a fold that has them listed."""
        self._fold(fold)
        return (orjson.loads(row) for _, row in self._paged(SHARED + fold, "", ""))

    def cells(self, fold: str, run: str) -> Cells:
        """What a run adds to what happened in each minute."""
        plug, state = self._fold(fold), self.load(fold, [run])
        return plug.cells(state[run]) if state and plug.cells is not None else Cells()

    def totals(
        self,
        kind: str,
        spans: Sequence[tuple[int, int]],
        *,
        by: str = "",
        where: Mapping[str, Collection[str]] = NO_FILTER,
    ) -> list[Total]:
        """The sums of the cells of a kind, for each span of minutes, name and part.

        One name and part may have several rows in a span.
        """
        found: list[Total] = []
        amounts = AMOUNTS.get(kind, 1)
        for length, pieces in in_pieces(spans).items():
            of, parts = kind if length == 1 else longer(kind, length), [each for _, each in pieces]
            ask = partial(self.index.totals, of, parts, by=by, where=where, amounts=amounts)
            rows = self._asked(ask)
            numbers = [number for number, _ in pieces]
            is_same = numbers == [*range(len(numbers))]
            found += rows if is_same else [row._replace(span=numbers[row.span]) for row in rows]
        return found

    def summed(self, fold: str, keys: Iterable[str]) -> dict[str, dict[str, int]]:
        """Some of those rows, by key."""
        self._fold(fold)
        rows = self._asked(lambda: self.index.load([(SUMS + fold, key) for key in keys]))
        return {key: orjson.loads(row) for (_, key), row in rows.items()}

    def past(self, folds: Sequence[str], run: Run, seq: int) -> tuple[int, dict[str, Any]]:
        """The states of a run at record `seq` or before it, by fold, and the record they are of.

        The record is 0 where no past states are stored. Every run must have a state of the first
        fold; another fold is left out where the run had no state of it then.
        """
        key, rows = ":".join(run), rows_of(*run)
        try:
            if self._stale() is not None or self.index.cursor < min(seq, self.journal.last):
                return 0, {}  # records of the run may not be indexed yet
            every = self.index.states(PAST + folds[0], prefix=rows, limit=10_000)
            for past_key in reversed([name for name, _ in every if int(name[len(rows) :]) <= seq]):
                states = self.index.load((PAST + fold, past_key) for fold in folds)
                if TOO_LARGE not in states.values():
                    then = {
                        fold: thaw(self._fold(fold), key, state)
                        for fold in folds
                        if (state := states.get((PAST + fold, past_key)))
                    }
                    return int(past_key[len(rows) :]), then
        except IndexDamaged:
            pass  # it is a cache
        return 0, {}

    def findings(self, run: Run | None = None, limit: int = 1000) -> list[RecordFinding]:
        """The newest findings first, of one run if asked."""
        return self._asked(lambda: self.index.findings(run, limit))

    def unfinished(self, limit: int = 1000) -> list[Run]:
        """The runs with findings if no more records come, by last activity, the newest first."""
        rows = self._asked(lambda: self.index.newest(REST, limit))
        return [run_of(key) for key, _ in rows]

    def rest(self, run: Run) -> list[RecordFinding]:
        """The findings of a run if no more records come, read from its own records."""
        walker, last = self._folding.recall(run, self.index.cursor)
        return [RecordFinding(last, *run, finding) for finding in walker.at_rest()]

    def search(
        self, text: str, limit: int = 50, between: tuple[int, int] | None = None
    ) -> list[Hit]:
        """The records that contain all these words, the newest first; `between`: only from which to which.

        "Words in quotes" stand next to each other; a word that ends with * is a beginning.
        """
        seqs = self._asked(lambda: self.index.search(terms(text), limit, between))
        records = (record for seq in seqs for record in self.journal.read(seq - 1, 1))
        wanted = set(seqs)
        return [self._hit(each) for each in records if each.line and each.seq in wanted]

    def newest_hits(self, limit: int) -> list[Hit]:
        """The records with text that were recorded last, the newest first."""
        cursor = self.index.cursor
        records = [
            each
            for each in self.journal.records(
                max(0, cursor - limit * self.journal.step), through=cursor
            )
            if each.line
        ]
        silent = self.silent([each.seq for each in records])
        hits = (self._hit(each) for each in reversed(records) if each.seq not in silent)
        return [each for each in hits if each.text]

    def _hit(self, record: Record) -> Hit:
        reading = read_alone(record, self.dialects)
        return Hit(
            record,
            searchable_text(reading.facts),
            reading.event.at if reading.event else None,
            reading.facts,
            reading.position,
        )

    def silent(self, seqs: Collection[int]) -> set[int]:
        """Those of the records that another record replaces, so that they do not count."""
        return self._asked(lambda: self.index.silent(seqs))

    def query(self, sql: str, *, limit: int = 1000, seconds: float = 10) -> QueryResult:
        """The answer to one SQL query; a query that could change something is a `BadQuery`."""
        return self._asked(lambda: self.index.query(sql, limit=limit, seconds=seconds))

    def text(self, record: Record) -> str:
        """The searchable text of a record, read from its own bytes."""
        return searchable_text(facts_in(record, self.dialects))

    def facts_at(self, seq: int) -> list[Fact]:
        """The facts of a record, read from its own bytes."""
        return [
            fact
            for record in self.journal.read(seq - 1, 1)
            if record.seq == seq
            for fact in facts_in(record, self.dialects)
        ]

    def called(self, name: str) -> set[Run]:
        """The runs that may have a record with this name."""
        return self._runs_of(number_of(name))

    def caused_by(self, name: str) -> set[Run]:
        """The runs that may have a record with this name as its cause."""
        return self._runs_of(number_of(name, is_cause=True))

    def close(self) -> None:
        self.index.close()

    def _fold(self, name: str) -> Fold[Any]:
        if name not in self.folds:
            raise UnknownName(
                f"there is no fold {name!r}", f"the folds are: {', '.join(sorted(self.folds))}"
            )
        return self.folds[name]

    def _paged(
        self, fold: str, prefix: str, after: str, limit: int | None = None
    ) -> Iterator[tuple[str, bytes]]:
        """States page by page, so that few are held at once."""
        most = _PAGE if limit is None else min(_PAGE, limit)
        while most:
            states = partial(self.index.states, fold, prefix=prefix, after=after, limit=most)
            page = self._asked(states)
            yield from page
            if len(page) < most:
                return
            after = page[-1][0]
            if limit is not None:
                limit -= len(page)
                most = min(_PAGE, limit)

    def _asked(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except IndexDamaged:
            with self.index.turn(60):
                self._replace()
            self.catch_up()
            return ask()

    @property
    def known(self) -> int | None:
        """The last indexed record, if the index can be used as it is; None while it is empty."""
        return self.index.cursor or None if self._stale() is None else None

    @property
    def cursor_text(self) -> str:
        """The last indexed record, as a client gives it to continue the live stream there."""
        return str(self.index.cursor)

    def _is_current(self) -> bool:
        return self._stale() is None and self.index.cursor >= self.journal.last

    def _stale(self) -> str | None:
        """The reason why the index must be built again; None where it can be used."""
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
        if not self._same_history:
            if notes.get("link", "") != self.journal.link(self.index.cursor):
                return "it was made from another history of the journal"
            self._same_history = True
        return None

    def _behind(self) -> Finding:
        cursor, last = self.index.cursor, self.journal.last
        message = f"another process is indexing; this is as of record {cursor} of {last}"
        return Finding(BEHIND, message, "info")

    def _advance(self, progress: Progress | None) -> str | None:
        """Index to the end of the journal; the reason why it must be repeated, or None."""
        folding = self._folding
        try:
            why = self._stale()
            if why is not None:
                self._clear()
                if why:
                    return why
            folding.resume()
            while records := self.journal.read(folding.at, _BATCH):
                for part in _parts(records):
                    with gc_paused():
                        erased = folding.apply(part)
                    if erased:
                        self._clear()
                        return f"record {erased} was erased"
                    if progress is not None:
                        progress(folding.at, self.journal.last)
        except IndexOvertaken:
            folding.forget()
            return ""
        except IndexDamaged:
            return f"it was damaged, and was put aside as {self._replace()}"
        except BaseException:
            folding.forget()  # the states in memory may be newer than those in the index
            raise
        return None

    def _replace(self) -> str:
        where = self.index.replace()
        self._folding.forget()
        return where

    def _clear(self) -> None:
        usuals = {fold.name: usual(fold) for fold in self.folds.values()}
        listed = [fold.name for fold in self.folds.values() if fold.listed] + [REST]
        listed += [RANKED + fold.name for fold in self.folds.values() if fold.ranked]
        journal = self.journal
        notes = {"version": __version__, "print": self._print}
        notes |= {"first": str(journal.first), "through": str(journal.last)}
        try:
            self.index.clear(usuals, notes, listed)
        except IndexDamaged:
            self.index.replace()
            self.index.clear(usuals, notes, listed)
        self._folding.forget()

    def _runs_of(self, number: int) -> set[Run]:
        places = self._asked(lambda: self.index.records_named([number])).get(number, [])
        return {
            (record.family, record.run) for record in self._folding.records(places[:MOST_CALLED])
        }


def _slices(patience: float) -> Iterator[float]:
    """The time that somebody waits, in parts: whoever waits looks around in between."""
    until = time.monotonic() + patience
    left = patience
    while True:
        yield min(left, _LOOK)
        left = until - time.monotonic()
        if left <= 0:
            return


def _parts(records: list[Record]) -> Iterator[list[Record]]:
    """The records in parts that are small enough to hold with their events in memory."""
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
