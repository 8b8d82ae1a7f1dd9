"""How a journal lies on disk.

A folder holds segments, each named after its first record: `<20 digits>.jsonl` has the frames,
`.chain` beside it one line per commit group, `.runs` where each run's records are (derived).
The chain line is written last, so it is the mark of the commit: what it does not cover is never
read, and bytes that it covers never change, except where an operator erases.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import orjson

from tracklog import chain
from tracklog.chain import Link
from tracklog.errors import BadFormat
from tracklog.frame import seq_of

FORMAT = 1
"""Of frames and chains; a home says its own in the file `format`."""

_NAME = re.compile(r"[0-9]{20}\.jsonl")
_NUMBERED = re.compile(rb'\n\{"seq":([1-9][0-9]*),')
CHUNK = 1 << 20
"""Bytes that are read at once."""


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
