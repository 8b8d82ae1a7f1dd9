"""The files of a journal: segments, chains, and their names.

A folder holds segments, each named after its first record: `<20 digits>.jsonl` has the frames,
`.chain` beside it one line per commit group, `.runs` where each run's records are (derived).
The chain line is written last: what it does not cover is not read yet, and bytes that it covers
never change, except where an operator erases. It may be lost in a crash, because only the segment
is synced: which groups are complete is decided by the segment alone, by `complete_groups`.
"""

import contextlib
import errno
import fcntl
import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import orjson

from tracklog.journal import merkle
from tracklog.journal.disk import read_file
from tracklog.journal.frame import record, seq_of
from tracklog.journal.merkle import NOTHING, Head, Link
from tracklog.model.errors import BadFormat

FORMAT = 2
"""The format of frames and chains; a home has its own in the file `format`."""
FORMATS = (1, FORMAT)
"""Formats that can be read. In format 1 a group does not hold the number of its records."""

_NAME = re.compile(r"[0-9]{20}\.jsonl")
_FRAME = re.compile(rb'\n\{"seq":([1-9][0-9]*),')
_LINK = re.compile(rb'\n\{"through":(0|[1-9][0-9]*),')
_REGROUP = 1024  # records per group when a tail of format 1 is adopted
CHUNK = 1 << 20
"""Bytes that are read at once."""


@contextlib.contextmanager
def still(folder: Path) -> Iterator[None]:
    """Nobody writes meanwhile; a copy without a lock has no writers."""
    try:
        lock = os.open(folder / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield
    finally:
        os.close(lock)


def segment_path(folder: Path, first: int) -> Path:
    """The frames of the segment that begins with that record."""
    return folder / f"{first:020d}.jsonl"


def chain_path(folder: Path, first: int) -> Path:
    return folder / f"{first:020d}.chain"


def next_path(folder: Path, first: int) -> Path:
    """An empty file that is there from before a seal until the segment behind it is made.

    It tells a crash or a full disk between the two from a segment that somebody removed.
    """
    return folder / f"{first:020d}.next"


def runs_path(folder: Path, first: int) -> Path:
    return folder / f"{first:020d}.runs"


def check_format(home: Path) -> int:
    """The format of a home, 0 when it has none yet; one that this version cannot read is refused."""
    path = home / "format"
    try:
        content = read_file(path)
    except FileNotFoundError:
        return 0
    except NotADirectoryError:
        raise BadFormat(
            f"{home} cannot be a folder: a file is in its place",
            "name another place with --home or TRACKLOG_HOME",
        ) from None
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EISDIR, errno.ENXIO):
            raise
        raise BadFormat(
            f"{path} is no regular file",
            f"move it away and write {FORMAT} into a file of that name; then `tracklog verify`",
        ) from None
    for format in FORMATS:
        if content.strip() == b"%d" % format:
            return format
    text = content[:20].decode(errors="replace").strip()
    raise BadFormat(
        f"{path} says {text!r}, and this version knows the formats up to {FORMAT}",
        "use the version of tracklog that wrote this home, or a newer one",
    )


def firsts(folder: Path) -> list[int]:
    """The first record's number of each segment, in order."""
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
    return sorted(int(name[:20]) for name in names if _NAME.fullmatch(name))


def orphans(folder: Path) -> list[tuple[int, int]]:
    """The first and the last record of each segment that is gone though its chain is there."""
    known, files = set(firsts(folder)), []
    for path in sorted(folder.glob("*.chain")):
        if not path.stem.isdigit() or int(path.stem) in known:
            continue
        first = int(path.stem)
        with path.open("rb") as file:
            link = last_link(file.fileno(), os.fstat(file.fileno()).st_size)
        if link is not None and link.through >= first:
            files.append((first, link.through))
    return files


class Pruned(NamedTuple):
    """How far the journal was cut off at its beginning, and what the rest is chained to."""

    through: int
    chain: bytes
    at: str


def pruned(folder: Path) -> Pruned | None:
    """The last pruning that was recorded."""
    try:
        lines = (folder / "pruned").read_bytes().split(b"\n")
    except FileNotFoundError:
        return None
    for line in reversed(lines):
        try:
            note = orjson.loads(line)
            return Pruned(note["through"], bytes.fromhex(note["chain"]), note["at"])
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            continue
    return None


def origin(folder: Path) -> Head:
    """What the first segment that is there is chained to."""
    cut = pruned(folder)
    return Head(cut.through, cut.chain.hex()) if cut else NOTHING


def head(folder: Path) -> Head:
    """The end of the chain, on disk with its records before it is returned."""
    known = firsts(folder)
    if not known:
        return origin(folder)
    with chain_path(folder, known[-1]).open("rb") as file:
        fd = file.fileno()
        os.fsync(fd)  # else power loss could make it another
        link = last_link(fd, os.fstat(fd).st_size)
    if link is None:
        raise BadFormat(
            f"the chain of segment {known[-1]} is torn",
            "open the journal for writing once: what a crash left is mended then",
        )
    with segment_path(folder, known[-1]).open("rb") as file:
        os.fsync(file.fileno())  # what is signed must not be lost; older segments are synced
    return Head(link.through, link.chain.hex())


def last_line(fd: int, size: int, skip: int = 0) -> tuple[int, bytes] | None:
    """Offset and bytes of the last complete line before `size - skip`, found from the end."""
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
    """The last complete line of a chain file."""
    line = last_line(fd, size)
    return line and merkle.read(line[1])


def place(fd: int, size: int, seq: int) -> int:
    """The offset of the first frame numbered `seq` or more; the size when there is none."""
    return _place(fd, size, seq, _FRAME, seq_of)


def links(folder: Path, after: int = 0) -> Iterator[Link]:
    """The chain of a journal from the group on that holds the record behind `after`."""
    known = firsts(folder)
    for first in known[max(0, bisect_right(known, after + 1) - 1) :]:
        with chain_path(folder, first).open("rb") as file:
            fd, size = file.fileno(), os.fstat(file.fileno()).st_size
            for _, line in lines(fd, _place(fd, size, after + 1, _LINK, _through), size):
                link = merkle.read(line)
                if link is None:
                    raise BadFormat(
                        f"the chain of segment {first} is damaged", "run `tracklog verify`"
                    )
                if link.through > after and link.kind in ("group", "erased"):
                    yield link


def _through(line: bytes) -> int:
    link = merkle.read(line)
    return link.through if link else 0


def _place(
    fd: int, size: int, seq: int, pattern: re.Pattern[bytes], number: Callable[[bytes], int]
) -> int:
    """The offset of the first line whose number is `seq` or more, in a file of rising numbers."""
    low, high, best = 0, size, size
    while high - low > 1 << 16:
        middle = (low + high) // 2
        place = _numbered(fd, middle, high, pattern)
        if place is None:
            high = middle
        elif place[1] < seq:
            low = place[0]
        else:
            high, best = middle, place[0]
    for offset, line in lines(fd, low, best):
        if number(line) >= seq:
            return offset
    return best


def _numbered(fd: int, start: int, stop: int, pattern: re.Pattern[bytes]) -> tuple[int, int] | None:
    """The first line that begins behind `start` and before `stop`: its offset and number."""
    span = 1 << 12
    while True:
        block = os.pread(fd, min(span, stop - start + 32), start)
        match = pattern.search(block)
        if match:
            offset = start + match.start() + 1
            return (offset, int(match[1])) if offset < stop else None
        if span >= stop - start + 32:
            return None
        span *= 4


def lines(fd: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
    """The complete lines from one offset to another, each with its offset."""
    offset = start
    for block in blocks(fd, start, stop):
        for line in block.split(b"\n")[:-1]:
            yield offset, line
            offset += len(line) + 1


def blocks(fd: int, start: int, stop: int) -> Iterator[bytes]:
    """The bytes from an offset to another in blocks of complete lines; a torn rest is left out."""
    span = CHUNK
    while start < stop:
        block = os.pread(fd, min(span, stop - start), start)
        end = block.rfind(b"\n") + 1
        if end:
            yield block[:end]
            start, span = start + end, CHUNK
        elif len(block) < min(span, stop - start) or span >= stop - start:
            return
        else:
            span *= 4


class CompleteGroup(NamedTuple):
    """A commit group that stands in a segment from its first to its last byte."""

    end: int
    """The offset behind it."""
    through: int
    """Its last record."""
    leaves: list[bytes]


def complete_groups(
    fd: int, start: int, stop: int, through: int, format: int = FORMAT
) -> Iterator[CompleteGroup]:
    """The complete groups after record `through`, from an offset on.

    The first frame of a group of several says how many they are. What a crash leaves of a group
    is its beginning, or pages of it with NUL bytes in place of the others, and no JSON text can
    hold a NUL. So a group whose frames are all there, without a NUL, is as it was written.
    In format 1 no frame has that number: there, all complete frames are one group.
    """
    count, end, leaves = 0, start, list[bytes]()
    for offset, line in lines(fd, start, stop):
        entry = record(line)
        wanted = through + len(leaves) + 1
        if entry is None or entry.seq != wanted or (leaves and entry.group) or b"\0" in line:
            break
        if not leaves:
            count = _REGROUP if format == 1 else entry.group or 1
        leaves.append(bytes.fromhex(entry.erased.leaf) if entry.erased else merkle.leaf(line))
        end = offset + len(line) + 1
        if len(leaves) == count:
            through += count
            yield CompleteGroup(end, through, leaves)
            leaves = []
    if leaves and format == 1:
        yield CompleteGroup(end, through + len(leaves), leaves)
