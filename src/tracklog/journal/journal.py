"""The journal: a numbered, append-only list of records; everything else can be rebuilt from it.

Any number of readers read it; each asks for the records after the last number it has.
"""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, repeat
from operator import attrgetter, itemgetter
from typing import NamedTuple, Protocol

from tracklog.journal import frame
from tracklog.journal.frame import Erased, Mark, Record, Run, stamp
from tracklog.journal.stores import Group, Make, Store, overtaken
from tracklog.model.errors import BadFormat, BadLine, NotAppended, Overtaken
from tracklog.model.event import Finding

__all__ = ["Appendable", "Erased", "Journal", "JournalEntry", "Mark", "Record", "Run"]

_NAMES = itemgetter(0, 1, 2)
_LINE = attrgetter("line")
_GROUP = 8192  # records that waiting threads are written together, at most
_PATIENCE = 0.005  # seconds that a leader waits for the others, at most


class Appendable(Protocol):
    """A value that can be appended: an `Event` or an `JournalEntry`, a tuple that begins with its three names."""

    @property
    def dialect(self) -> str: ...
    @property
    def family(self) -> str: ...
    @property
    def run(self) -> str: ...
    @property
    def line(self) -> bytes: ...
    def __getitem__(self, part: slice, /) -> tuple[object, ...]: ...


class JournalEntry(NamedTuple):
    """A line and where it belongs."""

    dialect: str
    family: str
    run: str
    line: bytes
    """One JSON object, no line end; the check is the caller's."""


class Appending(NamedTuple):
    """Lines to be kept, all or none, and what must be true of the journal then."""

    entries: Sequence[Appendable]
    lifecycle: bool = False
    """Whether something begins or ends in them."""
    redacted: Mapping[int, Sequence[str]] | None = None
    """What the intake removed from which of them, by position."""
    mark: Mark | None = None
    """Stored with the first of them."""
    expected: Mapping[Run, int] | None = None
    """The record up to which each run was known when the lines were judged."""
    guard: Callable[[int], bool] | None = None
    """Called with the number of the first line, when nobody else can append any more."""
    refused: Make | None = None
    """Makes the group of the refused lines that are committed with them, where the store can."""


class Journal:
    """Numbers and stores records; any number of threads may append and read.

    Threads that append at the same time are written, synced and acknowledged together.
    """

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self.store = store
        self.step = 1
        """The distance between the numbers of two records that follow each other."""
        self.findings: deque[Finding] = deque(store.findings, maxlen=1000)
        """What was surprising: on opening, and in what was read since."""
        self._clock = clock
        self._heads: dict[tuple[str, str, str], bytes] = {}
        self._mutex = threading.Lock()
        self._waiting: deque[_PendingAppend] = deque()
        self._leader: _PendingAppend | None = None
        self._hoped = 0
        self._gathered = threading.Lock()
        self._gathered.acquire()
        self._together = 1
        self._took = 0.0

    @property
    def first(self) -> int:
        """The first record that is still stored; `last + 1` where there is none."""
        return self.store.first

    @property
    def last(self) -> int:
        """The last record; 0 when there never was one."""
        return self.store.last

    @property
    def durable(self) -> int:
        """The last record that is known to survive the loss of power."""
        return self.store.durable

    def append(
        self,
        entries: Sequence[Appendable],
        *,
        lifecycle: bool = False,
        redacted: Mapping[int, Sequence[str]] | None = None,
        mark: Mark | None = None,
        expected: Mapping[Run, int] | None = None,
        guard: Callable[[int], bool] | None = None,
        refused: Make | None = None,
    ) -> range:
        """Keeps these lines, all or none, and returns their numbers; `Appending` has the options.

        On return they are as durable as the store is set to; an error means that none of them
        was acknowledged. If a run has records behind what is expected, or the guard says no, none
        is stored, and `Overtaken` is raised.
        """
        if not entries:
            return range(0)
        named = mark and Mark(*mark)
        asked = Appending(entries, lifecycle, redacted, named, expected, guard, refused)
        batch = self._batch(asked)
        self._commit([batch])
        if batch.error is not None:
            raise batch.error
        return range(batch.first, batch.first + len(batch.lines))

    def append_all(self, asked: Sequence["Appending"]) -> "list[range | Exception]":
        """The same for several, in one group: each has its numbers, or the error that it alone got.

        A run of one of them is in no other.
        """
        batches = [self._batch(each) if each.entries else None for each in asked]
        self._commit([batch for batch in batches if batch is not None])
        return [
            range(0)
            if batch is None
            else batch.error or range(batch.first, batch.first + len(batch.lines))
            for batch in batches
        ]

    def _commit(self, batches: "list[_PendingBatch]") -> None:
        """Write them, together with those of other threads; each has its number then, or its error."""
        if not batches:
            return
        call = _PendingAppend(batches)
        try:
            if not self._queue(call):
                call.turn.acquire()  # until it is written, or until it is its turn to lead
            if not call.done:
                self._lead(call)
        except BaseException:
            while True:
                try:
                    self._withdraw(call)
                except BaseException:  # noqa: BLE001, S112  # the first interruption is raised
                    continue  # also one at the entry of the function, before any of its lines
                break
            raise

    def make(self, entries: Sequence[Appendable]) -> Make:
        """What makes a group of these lines, for a store that commits it with that of another journal."""
        batch = self._batch(Appending(entries))
        return lambda first: self._group(first, [batch])

    def read(self, after: int = 0, limit: int = 1000, run: Run | None = None) -> list[Record]:
        """The records behind `after`, in order, at most `limit`, of one run if asked.

        An empty list means the end. A line that is no record any more is passed over and becomes
        a finding; the records around it are not affected.
        """
        behind = after
        while frames := self.store.read(behind, limit, run):
            if records := frame.records(frames):
                if run is None:
                    self._look_for_gaps(after, records)
                return records
            behind = frame.seq_of(frames[-1])  # nothing but damage: look further
        return []

    def records(
        self, after: int = 0, run: Run | None = None, through: int | None = None
    ) -> Iterator[Record]:
        """Every record behind `after`, up to the end as it is when it is reached."""
        while batch := self.read(after, 1000, run):
            after = batch[-1].seq
            if through is not None and after >= through:
                yield from (record for record in batch if record.seq <= through)
                return
            yield from batch

    def follow(
        self, after: int = 0, run: Run | None = None, stop: Callable[[], bool] = lambda: False
    ) -> Iterator[Record]:
        """Every record after `after`, and all that follow, until `stop` returns true."""
        seen = after
        while not stop():
            for record in self.records(after, run):
                after = record.seq
                yield record
            seen = max(seen, after)
            if self.store.wait(seen, 0.5) and run is not None:
                seen = self.last

    def runs(self) -> Iterable[Run]:
        """Every run that has a record."""
        return self.store.runs()

    def link(self, seq: int) -> str:
        """The end of the chain behind the group that holds a record, as `through:chain`.

        A cache that was filled up to a record notes it: the same number in another history of the
        journal has another chain. Empty when there is no such group, or its link is damaged.
        """
        try:
            link = next(self.store.links(seq - 1), None) if seq > 0 else None
        except (BadFormat, FileNotFoundError):
            return ""
        return f"{link.through}:{link.chain.hex()}" if link else ""

    def wait(self, after: int, timeout: float | None = None) -> bool:
        """Whether there is a record behind `after`, as soon as there is or when time is up."""
        return self.store.wait(after, timeout)

    def sync(self) -> None:
        """On return, everything appended before is on disk."""
        self.store.sync()

    def close(self) -> None:
        self.store.close()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _batch(self, asked: Appending) -> "_PendingBatch":
        entries, redacted, mark = asked.entries, asked.redacted, asked.mark
        lines = list(map(_LINE, entries))
        heads: list[tuple[bytes, int]] = []
        runs: list[tuple[Run, int]] = []
        for key, count in _stretches(entries):
            heads.append((self._heads.get(key) or self._head(key), count))
            runs.append((key[1:], count))
        if 10 in b"".join(lines):  # LF as a number is found ten times as fast
            raise BadLine("a line holds a line end", "cut the source at its line ends first")
        if mark and not redacted:
            (head, count), *rest = heads
            entry = entries[0]
            first = frame.head(entry.dialect, entry.family, entry.run, mark=mark)
            heads = [(first, 1), (head, count - 1), *rest]
        elif redacted:
            each = [head for head, count in heads for _ in range(count)]
            for place in {*redacted, 0}:
                entry, names = entries[place], redacted.get(place, ())
                sent = mark if place == 0 else None
                each[place] = frame.head(entry.dialect, entry.family, entry.run, names, sent)
            heads = [(head, 1) for head in each]
        return _PendingBatch(asked, heads, lines, runs)

    def _head(self, names: tuple[str, str, str]) -> bytes:
        if len(self._heads) >= 1 << 16:
            self._heads.clear()
        made = self._heads[names] = frame.head(*names)
        return made

    def _queue(self, call: "_PendingAppend") -> bool:
        """Whether it is the first of those that wait, and so the one that writes them all."""
        with self._mutex:
            self._waiting.append(call)
            if self._leader is None:
                self._leader = call
            elif self._hoped and len(self._waiting) >= self._hoped:
                self._hoped = 0
                self._gathered.release()
            return self._leader is call

    def _withdraw(self, call: "_PendingAppend") -> None:
        """An interrupted producer must not leave the others without a leader.

        It is called again if it is interrupted: every step may be done twice.
        """
        with self._mutex:
            for each in (call, *call.group):
                if each in self._waiting:
                    self._waiting.remove(each)
        for batch in _batches(call.group):
            if batch.first == 0 and batch.error is None:
                batch.error = _interrupted()
        self._hand_over(call)
        self._wake(call)

    def _lead(self, own: "_PendingAppend") -> None:
        """Writes what is waiting, wakes its owners, and hands over to the next that came."""
        self._gather()
        batches = _batches(self._take(own))
        try:
            began = time.perf_counter()
            first = self._write(batches)
            self._took = time.perf_counter() - began
            for batch in batches:
                if batch.error is None:
                    batch.first = first
                    first += len(batch.lines)
        except Exception as error:  # noqa: BLE001 - every owner is told, each in its own thread
            for batch in batches:
                batch.error = error
        except BaseException:
            for batch in batches:
                batch.error = _interrupted()
            raise
        self._hand_over(own)
        self._wake(own)

    def _write(self, group: "list[_PendingBatch]") -> int:
        """Appends the batches of which no run was overtaken; the number of the first record."""
        try:
            return self.store.append(
                lambda first: self._group(first, group),
                lifecycle=any(batch.asked.lifecycle for batch in group),
            )
        except Overtaken as error:
            left: list[_PendingBatch] = []
            for batch in group:
                moved = {
                    run: error.runs[run] for run in batch.asked.expected or () if run in error.runs
                }
                batch.error = overtaken(moved) if moved else None
                left += () if moved else (batch,)
            if len(left) == len(group):
                raise
        return self._write(left) if left else 0

    def _gather(self) -> None:
        """Wait shortly for the threads that appended last time: one sync serves them all."""
        with self._mutex:
            missing = self._together - len(self._waiting)
            if missing <= 0 or self._took <= 0:
                return
            self._hoped = self._together
        if not self._gathered.acquire(timeout=min(_PATIENCE, 2 * self._took)):
            with self._mutex:
                if self._hoped:
                    self._hoped = 0
                else:
                    self._gathered.acquire()

    def _take(self, own: "_PendingAppend") -> "list[_PendingAppend]":
        size, group = 0, []
        with self._mutex:
            for call in self._waiting:
                if size >= _GROUP:
                    break
                group.append(call)
                size += call.lines
            own.group = group[:]
            for _ in group:
                self._waiting.popleft()
        return group

    def _hand_over(self, own: "_PendingAppend") -> None:
        """Ends the lead of one and gives it to the next that waits, if any."""
        with self._mutex:
            if self._leader is not own:
                return
            self._together = len(own.group) + len(self._waiting)
            for call in own.group:
                call.done = True
            own.after = self._waiting[0] if self._waiting else None
            self._leader = own.after  # at once: who is interrupted before does all of it again

    @staticmethod
    def _wake(own: "_PendingAppend") -> None:
        """Wakes those whom a leader owes an answer or the lead, however often it is interrupted."""
        while own.group:
            try:
                own.group[-1].turn.release()
            except RuntimeError:  # woken before the interruption
                pass
            own.group.pop()
        if own.after is not None:
            with contextlib.suppress(RuntimeError):
                own.after.turn.release()
            own.after = None

    def _group(self, first: int, batches: "list[_PendingBatch]") -> Group:
        """One group of those batches that are still wanted, asked in order."""
        received = b',"received":"%b"' % stamp(self._clock()).encode()
        frames: list[bytes] = []
        marks: dict[int, Mark] = {}
        runs: list[tuple[Run, int]] = []
        expected: dict[Run, int] = {}
        refused: list[Make] = []
        seen: set[Run] = set()
        seq = first
        for batch in batches:
            batch.error = None
            asked = batch.asked
            known = asked.expected or {}
            if seen and (moved := known.keys() & seen):
                batch.error = overtaken(dict.fromkeys(moved, seq - 1))
                continue
            if asked.guard is not None and not asked.guard(seq):
                batch.error = Overtaken("another writer was quicker", "judge the lines again")
                continue
            expected |= known
            runs += batch.runs
            if len(batches) > 1:
                seen.update(run for run, _ in batch.runs)
            if asked.mark is not None:
                marks[len(frames)] = asked.mark
            if asked.refused is not None:
                refused.append(asked.refused)
            lines = iter(batch.lines)
            for head, count in batch.heads:
                if count == 1:
                    frames.append(b'{"seq":%d%b%b%b}' % (seq, received, head, next(lines)))
                    seq += 1
                    continue
                numbers = [b'{"seq":%d' % each for each in range(seq, seq + count)]
                parts = zip(numbers, repeat(received + head), lines, repeat(b"}"))
                frames += map(b"".join, parts)
                seq += count
        if len(frames) > 1:
            frames[0] = frame.opening(frames[0], len(frames))
        return Group(frames, runs, marks, expected, refused)

    def _look_for_gaps(self, after: int, records: list[Record]) -> None:
        begin = max(after + 1, self.store.first)
        if records[-1].seq - begin + 1 == len(records):
            return
        for record in records:
            if record.seq != begin:
                last = record.seq - 1
                which = f"record {begin}" if last == begin else f"records {begin} to {last}"
                note = Finding("damaged", f"{which} cannot be read; `tracklog verify` says why")
                if note not in self.findings:
                    self.findings.append(note)
            begin = record.seq + 1


def _stretches(entries: Sequence[Appendable]) -> list[tuple[tuple[str, str, str], int]]:
    """The dialect, family and run of the entries in order, and how many in a row have the same."""
    if len(entries) == 1:
        return [(_NAMES(entries[0]), 1)]
    return [(names, len(list(alike))) for names, alike in groupby(map(_NAMES, entries))]


class _PendingBatch:
    """Lines that are kept together, ready to be numbered."""

    __slots__ = ("asked", "error", "first", "heads", "lines", "runs")

    def __init__(
        self,
        asked: Appending,
        heads: list[tuple[bytes, int]],
        lines: list[bytes],
        runs: list[tuple[Run, int]],
    ) -> None:
        self.asked, self.heads, self.lines, self.runs = asked, heads, lines, runs
        self.first = 0
        self.error: Exception | None = None


class _PendingAppend:
    """What one thread waits for: its batches, and those of others while it is their leader."""

    __slots__ = ("after", "batches", "done", "group", "lines", "turn")

    def __init__(self, batches: list[_PendingBatch]) -> None:
        self.batches = batches
        self.lines = sum([len(batch.lines) for batch in batches])
        self.done = False
        self.group: list[_PendingAppend] = []
        self.after: _PendingAppend | None = None
        self.turn = threading.Lock()
        self.turn.acquire()


def _batches(calls: list[_PendingAppend]) -> list[_PendingBatch]:
    if len(calls) == 1:
        return calls[0].batches
    return [batch for call in calls for batch in call.batches]


def _interrupted() -> NotAppended:
    return NotAppended(
        "the thread that wrote this group was interrupted",
        "it was not acknowledged; send it again",
    )
