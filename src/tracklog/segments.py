"""How a journal lies on disk, and how it is read there without a lock.

A folder holds segments, each named after its first record: `<20 digits>.jsonl` has the frames,
`.chain` beside it one line per commit group, `.runs` where each run's records are (derived).
The chain line is written last, so it is the mark of the commit: what it does not cover is never
read, and bytes that it covers never change, except where an operator erases.
"""

import os
import re
import sys
import threading
import time
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import orjson

from tracklog import chain
from tracklog.chain import Link
from tracklog.errors import BadFormat, StoreBroken
from tracklog.frame import EVENT, Run, run_of, seq_of

FORMAT = 1
"""Of frames and chains; a home says its own in the file `format`."""

_NAME = re.compile(r"[0-9]{20}\.jsonl")
_NUMBERED = re.compile(rb'\n\{"seq":([1-9][0-9]*),')
_CHUNK = 1 << 20
_MOST = 1 << 23  # bytes that one reading returns, unless a single record is longer
_POLL = 0.02


def segment_path(folder: Path, first: int) -> Path:
    """The frames of the segment that begins with that record."""
    return folder / f"{first:020d}.jsonl"


def chain_path(folder: Path, first: int) -> Path:
    return folder / f"{first:020d}.chain"


def runs_path(folder: Path, first: int) -> Path:
    return folder / f"{first:020d}.runs"


def check_format(home: Path) -> bool:
    """Whether a home says its format; one that this version cannot read is refused."""
    path = home / "format"
    try:
        said = path.read_bytes()
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        raise BadFormat(
            f"{home} cannot be a folder: a file is in its place",
            "name another place with --home or TRACKLOG_HOME",
        ) from None
    if said.strip() != b"%d" % FORMAT:
        shown = said[:20].decode(errors="replace").strip()
        raise BadFormat(
            f"{path} says {shown!r}, and this version knows format {FORMAT}",
            "use the version of tracklog that wrote this home, or a newer one",
        )
    return True


def firsts(folder: Path) -> list[int]:
    """The first record's number of each segment, in order."""
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
    return sorted(int(name[:20]) for name in names if _NAME.fullmatch(name))


class Pruned(NamedTuple):
    """How far the journal was cut off at its beginning, and what the rest is chained to."""

    through: int
    chain: bytes
    at: str


def pruned(folder: Path) -> Pruned | None:
    """The last pruning that is on record."""
    try:
        lines = (folder / "pruned").read_bytes().split(b"\n")
    except FileNotFoundError:
        return None
    for line in reversed(lines):
        try:
            said = orjson.loads(line)
            return Pruned(said["through"], bytes.fromhex(said["chain"]), said["at"])
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            continue
    return None


def last_line(fd: int, size: int, skip: int = 0) -> tuple[int, bytes] | None:
    """Offset and bytes of the last whole line before `size - skip`, found from the end."""
    size -= skip
    span = 1 << 10
    while True:
        start = max(0, size - span)
        block = os.pread(fd, size - start, start)
        end = block.rfind(b"\n")
        begin = block.rfind(b"\n", 0, end) if end > 0 else -1
        if end >= 0 and (begin >= 0 or start == 0):
            return start + begin + 1, block[begin + 1 : end]
        if start == 0:
            return None
        span *= 4


def last_link(fd: int, size: int) -> Link | None:
    """The last whole line of a chain file."""
    found = last_line(fd, size)
    return found and chain.read(found[1])


def place(fd: int, size: int, seq: int) -> int:
    """The offset of the first frame numbered `seq` or more; the size when there is none."""
    low, high, best = 0, size, size
    while high - low > 1 << 16:
        middle = (low + high) // 2
        found = _numbered(fd, middle, high)
        if found is None:
            high = middle
        elif found[1] < seq:
            low = found[0]
        else:
            high, best = middle, found[0]
    for offset, line in lines(fd, low, best):
        if seq_of(line) >= seq:
            return offset
    return best


def _numbered(fd: int, start: int, stop: int) -> tuple[int, int] | None:
    """The first frame that begins behind `start` and before `stop`: its offset and number."""
    span = 1 << 12
    while True:
        block = os.pread(fd, min(span, stop - start + 32), start)
        found = _NUMBERED.search(block)
        if found:
            offset = start + found.start() + 1
            return (offset, int(found[1])) if offset < stop else None
        if span >= stop - start + 32:
            return None
        span *= 4


def lines(fd: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
    """The whole lines from an offset to another, each with its own."""
    offset = start
    for block in blocks(fd, start, stop):
        for line in block.split(b"\n")[:-1]:
            yield offset, line
            offset += len(line) + 1


def blocks(fd: int, start: int, stop: int) -> Iterator[bytes]:
    """The bytes from an offset to another in blocks of whole lines; a torn rest is left out."""
    span = _CHUNK
    while start < stop:
        block = os.pread(fd, min(span, stop - start), start)
        end = block.rfind(b"\n") + 1
        if end:
            yield block[:end]
            start, span = start + end, _CHUNK
        elif len(block) < min(span, stop - start) or span >= stop - start:
            return
        else:
            span *= 4


class Places(NamedTuple):
    """Where one run's records are in one segment."""

    marks: "array[int]"
    """The number from the segment's first, shifted left by 32, and the length of the line."""
    offsets: "array[int]"


class Runs:
    """Where each run's records are in one segment, learnt by reading it once."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.size = 0
        """How far the segment was read, in bytes."""
        self.through = first - 1
        self.places: dict[Run, Places] = {}
        self._heads: dict[bytes, Places] = {}

    def learn(self, fd: int, stop: int, through: int) -> None:
        """Reads on from where it stopped, to the record `through`."""
        heads, first = self._heads, self.first
        for block in blocks(fd, self.size, stop):
            offset = self.size
            for line in block.split(b"\n")[:-1]:
                length = len(line) + 1
                comma = line.find(b",", 7, 28)
                places = heads.get(line[comma + 38 : line.find(EVENT, comma)])
                try:
                    seq = int(line[7:comma])
                except ValueError:
                    seq = 0
                if seq > through:
                    return
                if places is None:
                    places = self._meet(line)
                if seq > self.through and places is not None:
                    places.marks.append(((seq - first) << 32) | length)
                    places.offsets.append(offset)
                    self.through = seq
                offset += length
                self.size = offset

    def _meet(self, line: bytes) -> Places | None:
        run = run_of(line)
        if run is None:
            return None
        comma = line.find(b",", 7, 28)
        places = self.places.setdefault(run, Places(array("Q"), array("Q")))
        self._heads[line[comma + 38 : line.find(EVENT, comma)]] = places
        return places

    def save(self, path: Path) -> None:
        """Beside the segment; a home that cannot be written to does without."""
        body, rows, at = bytearray(), [], 0
        for (family, run), places in self.places.items():
            rows.append([family, run, at, len(places.marks)])
            for numbers in places:
                body += _little(numbers).tobytes()
            at = len(body)
        said = {"first": self.first, "through": self.through, "size": self.size}
        head = orjson.dumps({**said, "crc": zlib.crc32(body), "runs": rows})
        temporary = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
        try:
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(b"%d %d\n" % (len(head), zlib.crc32(head)) + head + b"\n" + body)
            temporary.rename(path)
        except OSError:
            temporary.unlink(missing_ok=True)


class SavedRuns(NamedTuple):
    """The directory of a `.runs` file: where in it each run's places are."""

    path: Path
    first: int
    start: int
    rows: dict[Run, tuple[int, int]]

    def places(self, run: Run) -> Places | None:
        """Of one run; None when it has none here."""
        row = self.rows.get(run)
        if row is None:
            return None
        at, count = row
        with self.path.open("rb") as file:
            file.seek(self.start + at)
            both = array("Q")
            both.frombytes(file.read(count * 16))
        both = _little(both)
        return Places(both[:count], both[count:])


def load_runs(path: Path, first: int, size: int) -> SavedRuns | None:
    """What is saved beside a segment of that size; None when missing, torn or stale."""
    try:
        with path.open("rb") as file:
            length, check = map(int, file.readline(64).split())
            head = file.read(length)
            start = file.tell() + 1
            said = orjson.loads(head)
            body = file.read()[1:]
        if zlib.crc32(head) != check or zlib.crc32(body) != said["crc"]:
            return None
        if said["first"] != first or said["size"] != size:
            return None
        rows = {(family, run): (at, count) for family, run, at, count in said["runs"]}
        return SavedRuns(path, first, start, rows)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _little(numbers: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers


class Reader:
    """Reads a folder of segments while others write it: no lock, any number of threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._firsts: list[int] = []
        self._chain = -1
        self._seen = -1
        self._through = 0
        self._sealed = False
        self._cursors: OrderedDict[tuple[int, int, int], int] = OrderedDict()
        self._saved: OrderedDict[int, SavedRuns] = OrderedDict()
        self._rows = 0
        self._open: Runs | None = None
        self._grew = threading.Condition()
        self._waiting = 0

    def close(self) -> None:
        with self._lock:
            self._forget()

    @property
    def first(self) -> int:
        """The first record still kept; one more than `last` when there is none."""
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
        found: list[bytes] = []
        room = _MOST
        for at in range(max(0, bisect_right(known, after + 1) - 1), len(known)):
            first = known[at]
            bound = known[at + 1] - 1 if at + 1 < len(known) else last
            try:
                part = _Part(first, max(after, first - 1), bound, limit - len(found), room)
                room = self._frames(part, run, found)
            except FileNotFoundError:  # pruned while we read
                with self._lock:
                    self._firsts = firsts(self.folder)
                return found or self.read(after, limit, run)
            if len(found) >= limit or room <= 0:
                break
        return found

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

    def _look(self) -> int:
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
        self._through, self._sealed, self._seen = first - 1, False, -1
        try:
            path = chain_path(self.folder, first)
            self._chain = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # the writer makes it anew when it opens
            return False
        return True

    def _forget(self) -> None:
        if self._chain >= 0:
            os.close(self._chain)
        self._chain, self._seen, self._sealed = -1, -1, False

    def _frames(self, part: "_Part", run: Run | None, found: list[bytes]) -> int:
        """Adds the frames of one segment; the bytes that there is still room for."""
        if part.after >= part.bound:
            return part.room
        fd = os.open(segment_path(self.folder, part.first), os.O_RDONLY | os.O_CLOEXEC)
        try:
            if run is None:
                return self._sequel(fd, part, found)
            return self._of_run(fd, part, run, found)
        finally:
            os.close(fd)

    def _sequel(self, fd: int, part: "_Part", found: list[bytes]) -> int:
        first, after, bound, limit, room = part
        state = os.fstat(fd)
        offset = self._cursors.get((first, state.st_ino, after), -1)
        if offset < 0 or seq_of(os.pread(fd, 32, offset)) != after + 1:
            offset = 0 if after < first else place(fd, state.st_size, after + 1)
        span, clean = min(_CHUNK, max(1 << 13, min(limit, bound - after) << 10)), True
        while limit > 0 and room > 0 and after < bound:
            block = os.pread(fd, span, offset)
            frames = block.split(b"\n", min(limit, bound - after))
            taken = len(block) - len(frames.pop())
            if not frames:
                if len(block) < span:
                    break
                span *= 4
                continue
            offset, room = offset + taken, room - taken
            if seq_of(frames[0]) != after + 1 or seq_of(frames[-1]) != after + len(frames):
                clean = False  # a bad line: each is looked at, and what is not committed is left
                frames = [frame for frame in frames if after < seq_of(frame) <= bound]
                if not frames:
                    continue
            after, limit = seq_of(frames[-1]), limit - len(frames)
            found += frames
        if clean:
            self._remember((first, state.st_ino, after), offset)
        return room

    def _remember(self, key: tuple[int, int, int], offset: int) -> None:
        with self._lock:
            self._cursors[key] = offset
            if len(self._cursors) > 1024:
                self._cursors.popitem(last=False)

    def _of_run(self, fd: int, part: "_Part", run: Run, found: list[bytes]) -> int:
        """A sidecar that is stale is noticed at the first frame that is elsewhere."""
        for _ in range(2):
            places = self._places(fd, part.first, run)
            if places is None:
                return part.room
            frames = _fetch(fd, places, part)
            if frames is not None:
                found += frames[0]
                return frames[1]
            with self._lock:
                self._drop(part.first)
            runs_path(self.folder, part.first).unlink(missing_ok=True)
        raise StoreBroken(
            f"the places of runs in segment {part.first} do not hold, twice",
            "run `tracklog verify` on this home",
        )

    def _places(self, fd: int, first: int, run: Run) -> Places | None:
        with self._lock:
            known = self._directory(fd, first)
            if isinstance(known, SavedRuns):
                return known.places(run)
            places = known.places.get(run)
            return places and Places(places.marks[:], places.offsets[:])

    def _directory(self, fd: int, first: int) -> SavedRuns | Runs:
        """Of the segment that is open: in memory, read on; of a sealed one: saved beside it."""
        if first in self._saved:
            self._saved.move_to_end(first)
            return self._saved[first]
        last, size = self._look(), os.fstat(fd).st_size
        at = bisect_right(self._firsts, first)
        sealed = at < len(self._firsts)
        path = runs_path(self.folder, first)
        saved = load_runs(path, first, size) if sealed else None
        if saved is not None:
            return self._keep(saved)
        runs = self._open if self._open and self._open.first == first else Runs(first)
        runs.learn(fd, size, self._firsts[at] - 1 if sealed else last)
        if not sealed:
            self._open = runs
            return runs
        runs.size = size
        runs.save(path)
        saved = load_runs(path, first, size)
        return runs if saved is None else self._keep(saved)

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


class _Part(NamedTuple):
    """What is wanted of one segment."""

    first: int
    after: int
    bound: int
    limit: int
    room: int


def _fetch(fd: int, places: Places, part: _Part) -> tuple[list[bytes], int] | None:
    """The frames at these places, and the room left; None when one is not where it should be."""
    marks, offsets = places
    at = bisect_left(marks, (part.after + 1 - part.first) << 32)
    end = min(bisect_left(marks, (part.bound + 1 - part.first) << 32), at + part.limit)
    found: list[bytes] = []
    room = part.room
    while at < end and room > 0:
        start, stop, upto = offsets[at], offsets[at], at
        while upto < end and offsets[upto] - stop < 1 << 12 and stop - start < _CHUNK:
            stop = offsets[upto] + (marks[upto] & 0xFFFFFFFF)
            upto += 1
        block = os.pread(fd, stop - start, start)
        for offset, mark in zip(offsets[at:upto], marks[at:upto], strict=True):
            line = block[offset - start : offset - start + (mark & 0xFFFFFFFF)]
            if seq_of(line) != part.first + (mark >> 32) or not line.endswith(b"\n"):
                return None
            found.append(line[:-1])
        room -= stop - start
        at = upto
    return found, room
