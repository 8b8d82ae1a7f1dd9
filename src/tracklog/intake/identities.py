"""The identities of recorded events, run by run: how a duplicate is recognised."""

import json
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from tracklog.dialects import Dialect
from tracklog.dialects.checking import parse, understood
from tracklog.dialects.rules import digest
from tracklog.journal.frame import Record, Run
from tracklog.journal.journal import Journal
from tracklog.model.event import REDACTED, Body, Event, Passed, Problem, Refusal

if TYPE_CHECKING:
    from sqlite3 import Connection

MOST_KNOWN = 1_000_000
"""How many identities are remembered over all runs; a run that was dropped is read again."""
LONG = 690_000
"""How many of one run are in memory; older ones go to a file. (A dict doubles at 699,050.)"""

Key = tuple[str, str, str]
"""Dialect, family and run."""

Stretch = tuple[Key, int]

PENDING = 0
"""Stands for the number of an event that is being appended."""

UNNUMBERED = -1
"""Stands for the number of an event that is stored, where its number is not known."""


class Known(NamedTuple):
    """An event that is stored already."""

    seq: int


Outcome = int | Known | Refusal
"""The number that a new event got, the one that a known event has, or why it is refused."""


class KnownIdentities(dict[int, int]):
    """The identities of one run, by hash: their numbers, those of a very long run in a file.

    The file has no name, and goes with the process.
    """

    _file: "Connection | None" = None
    run: Run = ("", "")
    through = 0
    """The record of the journal up to which the run was looked at."""

    def knows_any(self, names: Collection[int]) -> bool:
        """Whether one of these came before."""
        if not self.keys().isdisjoint(names):
            return True
        return self._file is not None and any(map(self._older, names))

    def __contains__(self, name: object) -> bool:
        return dict.__contains__(self, name) or self._older(name) is not None

    def __missing__(self, name: int) -> int:
        seq = self._older(name)
        if seq is None:
            raise KeyError(name)
        return seq

    def get(self, name: int, default: Any = None, /) -> Any:
        seq = dict.get(self, name)
        seq = self._older(name) if seq is None else seq
        return default if seq is None else seq

    def put_away(self) -> int:
        """Move all that have a number to the file; returns how many these were."""
        if self._file is None:
            import sqlite3  # noqa: PLC0415  # seldom needed

            self._file = sqlite3.connect("", check_same_thread=False, isolation_level=None)
            for setting in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -8192"):
                self._file.execute(f"PRAGMA {setting}")
            self._file.execute("CREATE TABLE known (name INTEGER PRIMARY KEY, seq INTEGER)")
        before, waiting = len(self), [name for name, seq in self.items() if seq == PENDING]
        for name in waiting:
            del self[name]
        self._file.execute("BEGIN")
        rows = ((name, self[name]) for name in sorted(self))
        self._file.executemany("INSERT OR REPLACE INTO known VALUES (?, ?)", rows)
        self._file.execute("COMMIT")
        self.clear()
        self.update(dict.fromkeys(waiting, PENDING))
        return before - len(waiting)

    def _older(self, name: object) -> int | None:
        if self._file is None:
            return None
        row = self._file.execute("SELECT seq FROM known WHERE name = ?", (name,)).fetchone()
        return row and int(row[0])

    def close(self) -> None:
        """Remove the file; any number of times."""
        if self._file is not None:  # it stays: to ask it then is an error, not "unknown"
            self._file.close()

    def __del__(self) -> None:
        self.close()  # of a run that left the memory: with the last thread that still looks at it


Fresh = list[tuple[KnownIdentities, Sequence[int], Sequence[int]]]
"""The new identities of a list of events: what is known of a run, new ones, places in the list.

An id is remembered by its hash, which takes half the room: a run may have millions.
"""

_KEY, _ID = itemgetter(slice(3)), itemgetter(4)


class Identities:
    """The identities of a journal, in bounded memory: those of the runs that were active last.

    A caller that decides about a run holds the lock of that run until `settle` or `give_up`.
    """

    def __init__(self, journal: Journal, dialects: Mapping[str, Dialect]) -> None:
        self._journal = journal
        self._dialects = dialects
        self.named = {
            name for name, dialect in dialects.items() if dialect.policy.identity != "none"
        }
        """The dialects whose events have an identity."""
        self._mutex = threading.Lock()
        self._hot: OrderedDict[Key, KnownIdentities] = OrderedDict()
        self._count = 0

    def close(self) -> None:
        """Forget every run, and close the files of the long ones."""
        with self._mutex:
            for known in self._hot.values():
                known.close()
            self._hot.clear()
            self._count = 0

    def stretches(self, events: Sequence[Passed]) -> list[Stretch]:
        """The runs of these events, in order, with how many follow each other in each."""
        if len(events) == 1:
            return [(events[0][:3], 1)]
        return [(key, len(list(group))) for key, group in groupby(map(_KEY, events))]

    def decide(
        self, events: Sequence[Passed], stretches: Iterable[Stretch]
    ) -> tuple[list[Outcome | None], Fresh]:
        """For each event None when it is to be appended, and which identities are new by that."""
        decided: list[Outcome | None] = [None] * len(events)
        fresh: Fresh = []
        end = 0
        for key, count in stretches:
            begin, end = end, end + count
            if key[0] not in self.named:
                continue
            known = self._run(key)
            ids = list(map(_ID, events[begin:end]))
            new = dict.fromkeys(map(hash, ids), PENDING)
            if len(new) == count and None not in ids and not known.knows_any(new):
                known.update(new)
                fresh.append((known, list(new), range(begin, end)))
            else:
                self._decide_each(events, range(begin, end), known, decided, fresh)
        return decided, fresh

    def _decide_each(
        self,
        events: Sequence[Passed],
        places: range,
        known: KnownIdentities,
        decided: list[Outcome | None],
        fresh: Fresh,
    ) -> None:
        """The same for events of one run of which some are known, or have no identity."""
        new_ids: list[int] = []
        new_places: list[int] = []
        fresh.append((known, new_ids, new_places))
        for n in places:
            event = events[n]
            if event.id is None:
                continue
            name = hash(event.id)
            if name in known:
                decided[n] = self._compare(event, known[name], events[:n])
                if decided[n] is not None:
                    continue
                name = self._variant(event)
                if name in known:
                    decided[n] = Known(known[name])
                    continue
            known[name] = PENDING
            new_ids.append(name)
            new_places.append(n)

    def settle(
        self, events: Sequence[Passed], decided: list[Outcome | None], fresh: Fresh, seqs: range
    ) -> list[Outcome]:
        """The same list with the numbers that the new ones got, which are known from now on."""
        numbers = iter(seqs)
        settled: list[Any]
        if len(seqs) == len(decided):
            settled = list(numbers)
        else:
            settled = [next(numbers) if outcome is None else outcome for outcome in decided]
        for known, ids, places in fresh:
            known.update(zip(ids, map(settled.__getitem__, places), strict=True))
            if seqs:
                known.through = seqs[-1]  # nobody else appended to it up to there: it was expected
        with self._mutex:
            for known, ids, _ in fresh:
                self._count += len(ids)
                if len(known) > LONG:
                    self._count -= known.put_away()
        if len(seqs) < len(decided) and Known(PENDING) in settled:
            for n, outcome in enumerate(settled):
                if outcome == Known(PENDING):
                    settled[n] = Known(self.first(events[n], events, settled))
        return settled

    def give_up(self, fresh: Fresh) -> None:
        """The events were not appended after all."""
        for known, ids, _ in fresh:
            for id in ids:
                if known.get(id) == PENDING:
                    del known[id]

    def expected(self, fresh: Fresh) -> dict[Run, int]:
        """The record up to which each run of these events is known."""
        lasts: dict[Run, int] = {}
        for known, _, _ in fresh:
            run, through = known.run, known.through
            if lasts.setdefault(run, through) > through:
                lasts[run] = through
        return lasts

    def catch_up(self, stretches: Iterable[Stretch], runs: Mapping[Run, int]) -> None:
        """Looks at what others appended to those of these runs that moved, up to the numbers given
        at least.
        """
        for key in {key for key, _ in stretches}:
            known = self._hot.get(key)  # a run that left the memory is read when it is needed
            if known is not None and known.run in runs:
                self._read(key, known, runs[known.run])

    def first(self, event: Passed, events: Sequence[Passed], settled: Sequence[object]) -> int:
        """The number of the first of these events that has this one's identity, and its content."""
        named = [
            (other, outcome)
            for other, outcome in zip(events, settled, strict=True)
            if isinstance(outcome, int) and _same(event, other)
        ]
        for other, number in named:
            if self._variant(other) == self._variant(event):
                return number
        return named[0][1]  # it was redacted on its way in: a pending identity is in the same list

    def _variant(self, event: Event | Passed) -> int:
        """The name of an event that was stored although its identity came before."""
        return hash((event.id, digest(self._dialects[event.dialect], _exact(event.line))))

    def _compare(self, event: Passed, seq: int, before: Sequence[Passed]) -> Outcome | None:
        dialect = self._dialects[event.dialect]
        earlier: Event | Passed | None
        if seq == PENDING:
            earlier = next((other for other in before if _same(event, other)), None)
        else:
            record = next(iter(self._journal.read(seq - 1, 1)), None)
            if record is None or record.seq != seq:
                return None  # the record is damaged: the event is stored again
            if record.erased is not None:
                return Known(seq)  # an erased event is not accepted again
            earlier = understood(dialect, record.line)
        if earlier is None or earlier.id != event.id:
            return None  # not understood any more, or another id with the same hash
        if event.line == earlier.line:
            return Known(seq)
        now, then = _exact(event.line), _exact(earlier.line)
        if digest(dialect, now) == digest(dialect, then):
            return Known(seq)
        if _differ_by_redaction(now, then, dialect.policy.ignores):
            return Known(seq)  # the stored line stays as it is, with its secrets or without
        if dialect.policy.identity == "keep":
            return None
        message = f"{event.id!r} came before in this run, with another line"
        hint = "an event cannot be changed: give the new one an identity of its own"
        problem = Problem("", message, hint, "event-changed")
        return Refusal((problem,), event.dialect, event.kind, event.run)

    def _run(self, key: Key) -> KnownIdentities:
        """What is known of a run, read from the journal when it is not in memory."""
        with self._mutex:
            known = self._hot.get(key)
            if known is not None:
                self._hot.move_to_end(key)
                return known
        known = KnownIdentities()
        known.run = key[1:]
        last = self._journal.last
        if self._journal.store.last_of((known.run,)):
            self._read(key, known, last)
        known.through = max(known.through, last)
        with self._mutex:
            self._hot[key] = known
            while self._count > MOST_KNOWN and len(self._hot) > 1:
                _, ids = self._hot.popitem(last=False)
                self._count -= len(ids)
        return known

    def _read(self, key: Key, known: KnownIdentities, through: int) -> None:
        """Notes the records of a run behind those that are known."""
        dialect, before = self._dialects[key[0]], len(known)
        through = max(through, self._journal.last)
        for record in self._journal.records(known.through, known.run):
            self._note(dialect, record, known)
            if len(known) > LONG:
                known.put_away()
            through = max(through, record.seq)
        known.through = through
        with self._mutex:
            self._count += len(known) - before

    def _note(self, dialect: Dialect, record: Record, known: KnownIdentities) -> None:
        if record.dialect == dialect.name and record.erased is not None:
            if record.erased.id is not None:
                known.setdefault(hash(record.erased.id), record.seq)
        elif record.dialect == dialect.name and record.line:
            event = understood(dialect, record.line)
            if event is None or event.id is None:
                return
            name = hash(event.id)
            if known.get(name, PENDING) != PENDING:
                name = self._variant(event)
            if known.get(name, PENDING) == PENDING:
                known[name] = record.seq


def _exact(line: bytes) -> Body:
    """The body with every integer as it is written: the quick parser rounds those of 65 bits."""
    try:
        body: Body = json.loads(line)
    except (RecursionError, ValueError):  # too deep, or a number too long, for the standard library
        parsed = parse(line)
        assert not isinstance(parsed, Refusal), "the intake accepted it"
        body, _ = parsed
    return body


def _differ_by_redaction(one: Body, other: Body, ignored: Collection[str]) -> bool:
    """Whether two bodies differ in nothing but what was taken out of one of them on its way in."""
    keys = (one.keys() | other.keys()) - set(ignored)
    try:
        return all(key in one and key in other and _alike(one[key], other[key]) for key in keys)
    except RecursionError:
        return False


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return one == other or REDACTED in one or REDACTED in other
    if isinstance(one, dict) and isinstance(other, dict):
        if _is_redacted_blob(one) or _is_redacted_blob(other):
            return "$blob" in one and "$blob" in other
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    # True is 1 to Python, and not to JSON.
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _is_redacted_blob(value: Body) -> bool:
    blob = value.get("$blob")
    return isinstance(blob, dict) and "redacted" in blob


def _same(event: Passed, other: Passed) -> bool:
    return event.id == other.id and event[:3] == other[:3]
