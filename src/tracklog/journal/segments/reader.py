"""Read a folder of segments without a lock, while others write to it."""

import contextlib
import os
import threading
import time
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

from tracklog.journal.frame import Run, seq_of
from tracklog.journal.segments import (
    CHUNK,
    chain_path,
    complete_groups,
    firsts,
    last_line,
    last_link,
    place,
    runs_path,
    segment_path,
    still,
)
from tracklog.journal.segments.places import Places, SavedRuns, SegmentRuns, StaleRuns, load_runs
from tracklog.model.errors import StoreBroken

_MOST = 1 << 23  # bytes that one reading returns, unless a single record is longer
_POLL = 0.02


class SegmentReader:
    """Reads a folder of segments while others write it: no lock, any number of threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._firsts: list[int] = []
        self._chain = -1
        self._seen = -1
        self._through = 0
        self._completed = 0
        self._sealed = False
        self._cursors: OrderedDict[tuple[int, int, int], int] = OrderedDict()
        self._saved: OrderedDict[int, SavedRuns] = OrderedDict()
        self._rows = 0
        self._open: SegmentRuns | None = None
        self._grew = threading.Condition()
        self._waiting = 0

    def close(self) -> None:
        with self._lock:
            self._forget()

    @property
    def first(self) -> int:
        """The first record that is still stored; one more than `last` where there is none."""
        with self._lock:
            self._look()
            if self._firsts and not segment_path(self.folder, self._firsts[0]).exists():
                self._firsts = firsts(self.folder)
            return self._firsts[0] if self._firsts else 1

    @property
    def last(self) -> int:
        """The last record that was committed; 0 when there never was one."""
        with self._lock:
            return self._look()

    def read(self, after: int, limit: int, run: Run | None = None) -> list[bytes]:
        """The frames behind `after`, in order, at most `limit`; none only at the end.

        Fewer than `limit` may come while there are more: memory is bounded in bytes as well.
        """
        with self._lock:
            last, known = self._look(), self._firsts
        frames: list[bytes] = []
        room = _MOST
        for at in range(max(0, bisect_right(known, after + 1) - 1), len(known)):
            first = known[at]
            bound = known[at + 1] - 1 if at + 1 < len(known) else last
            try:
                part = _SegmentPart(first, max(after, first - 1), bound, limit - len(frames), room)
                room = self._frames(part, run, frames)
            except FileNotFoundError:  # pruned while we read
                with self._lock:
                    self._firsts = firsts(self.folder)
                    if first in self._firsts:
                        raise
                return frames or self.read(after, limit, run)
            if len(frames) >= limit or room <= 0:
                break
        return frames

    def wait(self, after: int, timeout: float | None = None) -> bool:
        """Whether there is a record behind `after`, as soon as there is or when time is up."""
        until = None if timeout is None else time.monotonic() + timeout
        nap = 0.001
        while self.last <= after:
            left = nap if until is None else min(nap, until - time.monotonic())
            if left <= 0:
                return False
            with self._grew:
                self._waiting += 1
                self._grew.wait(left)
                self._waiting -= 1
            nap = min(_POLL, nap * 1.5)
        return True

    def wake(self) -> None:
        """Tells those who wait in this process to look at once."""
        if self._waiting:
            with self._grew:
                self._grew.notify_all()

    def runs(self, first: int) -> set[Run]:
        """The runs that have a record in a sealed segment."""
        fd = os.open(segment_path(self.folder, first), os.O_RDONLY | os.O_CLOEXEC)
        try:
            with self._lock:
                known = self._directory(fd, first)
        finally:
            os.close(fd)
        return set(known.rows if isinstance(known, SavedRuns) else known.places)

    def complete(self) -> None:
        """Counts the groups whose chain lines a crash took, for as long as nobody chains them.

        For a reader while nobody writes: then every group is complete.
        """
        with self._lock:
            last = self._look()
            if not self._firsts or self._sealed:
                return
            path = segment_path(self.folder, self._firsts[-1])
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                tail = last_line(fd, os.fstat(fd).st_size)
                if tail is None or seq_of(tail[1]) == last:
                    return
                with still(self.folder):
                    last, size = self._look(), os.fstat(fd).st_size
                    start = place(fd, size, last + 1)
                    for group in complete_groups(fd, start, size, last):
                        self._completed = group.through
            finally:
                os.close(fd)

    def _look(self) -> int:
        """The last committed record."""
        return max(self._chained(), self._completed)

    def _chained(self) -> int:
        """The last committed record, from the end of the newest chain file."""
        while True:
            if self._chain < 0 and not self._find():
                return self._through
            state = os.fstat(self._chain)
            if state.st_nlink == 0:  # replaced or removed under us
                self._forget()
                continue
            if state.st_size != self._seen:
                link = last_link(self._chain, state.st_size)
                if link is not None:
                    self._through, self._sealed = link.through, link.kind == "sealed"
                self._seen = state.st_size
            if not self._sealed:
                return self._through
            if not segment_path(self.folder, self._through + 1).exists():
                return self._through
            self._forget()

    def _find(self) -> bool:
        """Opens the newest chain; False when there is no journal yet."""
        self._firsts = firsts(self.folder)
        if not self._firsts:
            self._through = 0
            return False
        first = self._firsts[-1]
        self._through = first - 1
        try:
            path = chain_path(self.folder, first)
            self._chain = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # the writer makes it again when it opens
            return False
        return True

    def _forget(self) -> None:
        if self._chain >= 0:
            os.close(self._chain)
        self._chain, self._seen, self._sealed = -1, -1, False

    def _frames(self, part: "_SegmentPart", run: Run | None, frames: list[bytes]) -> int:
        """Adds the frames of one segment; the bytes that there is still room for."""
        if part.after >= part.bound:
            return part.room
        fd = os.open(segment_path(self.folder, part.first), os.O_RDONLY | os.O_CLOEXEC)
        try:
            if run is None:
                return self._sequel(fd, part, frames)
            return self._of_run(fd, part, run, frames)
        finally:
            os.close(fd)

    def _sequel(self, fd: int, part: "_SegmentPart", frame_list: list[bytes]) -> int:
        first, after, bound, limit, room = part
        state = os.fstat(fd)
        offset = self._cursors.get((first, state.st_ino, after), -1)
        if offset < 0 or seq_of(os.pread(fd, 32, offset)) != after + 1:
            offset = 0 if after < first else place(fd, state.st_size, after + 1)
        span, clean = min(CHUNK, max(1 << 13, min(limit, bound - after) << 10)), True
        while limit > 0 and room > 0 and after < bound:
            block = os.pread(fd, span, offset)
            frames = block.split(b"\n", min(limit, bound - after))
            length = len(block) - len(frames.pop())
            if not frames:
                if len(block) < span:
                    break
                span *= 4
                continue
            offset, room = offset + length, room - length
            if seq_of(frames[0]) != after + 1 or seq_of(frames[-1]) != after + len(frames):
                clean = False  # a bad line: check each one, skip what is not committed
                frames = [frame for frame in frames if after < seq_of(frame) <= bound]
                if not frames:
                    continue
            after, limit = seq_of(frames[-1]), limit - len(frames)
            frame_list += frames
        if clean:
            self._remember((first, state.st_ino, after), offset)
        return room

    def _remember(self, key: tuple[int, int, int], offset: int) -> None:
        with self._lock:
            self._cursors[key] = offset
            if len(self._cursors) > 1024:
                self._cursors.popitem(last=False)

    def _of_run(self, fd: int, part: "_SegmentPart", run: Run, frame_list: list[bytes]) -> int:
        """A sidecar that is stale is noticed at the first frame that is elsewhere.

        One that an erasure has removed or another process has replaced is loaded again; one that
        is still wrong is made again from the segment.
        """
        for learn in (False, False, True):
            with contextlib.suppress(StaleRuns):
                places = self._places(fd, part.first, run, learn=learn)
                if places is None:
                    return part.room
                frames = _fetch(fd, places, part)
                if frames is not None:
                    frame_list += frames[0]
                    return frames[1]
            with self._lock:
                self._drop(part.first)
        raise StoreBroken(
            f"the places of runs in segment {part.first} do not hold",
            "run `tracklog verify` on this home",
        )

    def _places(self, fd: int, first: int, run: Run, *, learn: bool) -> Places | None:
        """The places of a run's records, from the saved table or from the segment itself."""
        with self._lock:
            known = self._learnt(fd, first) if learn else self._directory(fd, first)
            if isinstance(known, SavedRuns):
                return known.places(run)
            places = known.places.get(run)
            return places and Places(places.marks[:], places.offsets[:])

    def _directory(self, fd: int, first: int) -> SavedRuns | SegmentRuns:
        """Of the segment that is open: in memory, read on; of a sealed one: saved beside it."""
        if first in self._saved:
            self._saved.move_to_end(first)
            return self._saved[first]
        self._look()
        sealed = bool(self._firsts) and first < self._firsts[-1]
        if sealed and (saved := self._load(fd, first)) is not None:
            return saved
        runs = self._learnt(fd, first)
        return (sealed and self._load(fd, first)) or runs

    def _load(self, fd: int, first: int) -> SavedRuns | None:
        """What is saved beside a sealed segment, if it fits."""
        path, size = runs_path(self.folder, first), os.fstat(fd).st_size
        saved = load_runs(path, first, size, self._seal(first))
        return saved and self._keep(saved)

    def _learnt(self, fd: int, first: int) -> SegmentRuns:
        """The table of a segment, made by reading it; that of a sealed segment is saved."""
        last, size = self._look(), os.fstat(fd).st_size
        at = bisect_right(self._firsts, first)
        runs = self._open if self._open and self._open.first == first else SegmentRuns(first)
        if at == len(self._firsts):
            runs.learn(fd, size, last)
            self._open = runs
            return runs
        runs.learn(fd, size, self._firsts[at] - 1)
        runs.size = size
        runs.save(runs_path(self.folder, first), self._seal(first))
        return runs

    def _seal(self, first: int) -> str:
        """The chain at the end of a sealed segment; empty when it cannot be read."""
        try:
            with chain_path(self.folder, first).open("rb") as file:
                link = last_link(file.fileno(), os.fstat(file.fileno()).st_size)
        except FileNotFoundError:
            return ""
        return link.chain.hex() if link else ""

    def _keep(self, saved: SavedRuns) -> SavedRuns:
        self._saved[saved.first] = saved
        self._rows += len(saved.rows)
        while self._rows > 500_000 and len(self._saved) > 1:
            self._drop(next(iter(self._saved)))
        return saved

    def _drop(self, first: int) -> None:
        gone = self._saved.pop(first, None)
        self._rows -= len(gone.rows) if gone else 0
        if self._open and self._open.first == first:
            self._open = None  # sealed and rewritten since it was learned


class _SegmentPart(NamedTuple):
    """What is wanted of one segment."""

    first: int
    after: int
    bound: int
    limit: int
    room: int


def _fetch(fd: int, places: Places, part: _SegmentPart) -> tuple[list[bytes], int] | None:
    """The frames at these places, and the room left; None when one is not where it should be."""
    marks, offsets = places
    at = bisect_left(marks, (part.after + 1 - part.first) << 32)
    end = min(len(marks), at + part.limit)  # all places are of committed records
    frames: list[bytes] = []
    room = part.room
    while at < end and room > 0:
        start, stop, upto = offsets[at], offsets[at], at
        while upto < end and offsets[upto] - stop < 1 << 12 and stop - start < CHUNK:
            stop = offsets[upto] + (marks[upto] & 0xFFFFFFFF)
            upto += 1
        block = os.pread(fd, stop - start, start)
        for offset, mark in zip(offsets[at:upto], marks[at:upto], strict=True):
            close = offset - start + (mark & 0xFFFFFFFF) - 1
            frame = block[offset - start : close]
            if seq_of(frame) != part.first + (mark >> 32) or block[close : close + 1] != b"\n":
                return None
            frames.append(frame)
        room -= stop - start
        at = upto
    return frames, room
