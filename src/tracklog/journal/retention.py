"""Erase the bytes of one record, or prune the oldest segments."""

import contextlib
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import orjson

from tracklog.journal import merkle
from tracklog.journal.disk import replacing, write_all, write_file
from tracklog.journal.frame import Run, record, seq_of, tombstone
from tracklog.journal.segments import (
    blocks,
    chain_path,
    firsts,
    last_line,
    last_link,
    lines,
    place,
    runs_path,
    segment_path,
)
from tracklog.journal.segments.reader import SegmentReader
from tracklog.journal.segments.writer import SegmentWriter
from tracklog.journal.stores import Erasure, Pruning, refused_needle
from tracklog.model.errors import NoSuchRecord


class Tombstone(NamedTuple):
    """Why a record is erased, who does it, and when."""

    reason: str
    by: str
    at: str
    id: str | None = None
    """The identity of its event, which stays known."""


def erase(writer: SegmentWriter, seq: int, stone: Tombstone) -> Erasure:
    """Puts a tombstone in the place of a record, and takes its bytes from everywhere else.

    The erasure is chained before the bytes go: if it is cut short, `verify` says so, and doing
    it again finishes it.
    """
    with writer.exclusive():
        if seq >= writer.first and seq <= writer.through:
            writer.roll()  # only sealed segments are ever rewritten
        path, offset, frame = _find(writer.folder, seq)
        entry = record(frame)
        if entry is None:
            raise NoSuchRecord(f"record {seq} is damaged", "run `tracklog verify` on this home")
        if entry.erased is None:
            leaf = merkle.leaf(frame)
            put = tombstone(frame, leaf, *stone)
            writer.announce(seq, leaf, merkle.leaf(put))
            # The record is replaced last: until then an interrupted erasure can be repeated.
            also = tuple(_scrub(writer, entry.line, stone))
            _replace(writer, path, offset, len(frame), put)
        else:
            leaf, also = bytes.fromhex(entry.erased.leaf), ()
    return Erasure(seq, (entry.family, entry.run), leaf.hex(), also)


def prune(
    writer: SegmentWriter,
    reader: SegmentReader,
    before: str,
    at: str,
    is_open: Callable[[Run], bool] | None = None,
    *,
    dry: bool = False,
) -> Pruning:
    """Drops the oldest segments, and notes it in `pruned`, so that the rest still verifies."""
    with writer.exclusive():
        old = writer.through >= writer.first and _received(writer, writer.first) < before
        if old and not dry:
            writer.roll()
        drop: list[int] = []
        gone: set[Run] = set()
        known = firsts(writer.folder)
        ends = [*known, writer.through + 1] if old and dry else known  # as if it were rolled
        for first, _ in pairwise(ends):
            runs = reader.runs(first)
            if _received(writer, first) >= before or (is_open and any(map(is_open, runs))):
                break
            drop.append(first)
            gone |= runs
        if not drop:
            return Pruning(0, 0, 0, (), ())
        left: set[Run] = set()
        for first in known[len(drop) :]:
            left |= gone & reader.runs(first)
        through = ends[len(drop)] - 1
        size = sum(_size(writer.folder, first) for first in drop)
        if not dry:
            _drop(writer, drop, through, at)
    complete, part = tuple(sorted(gone - left)), tuple(sorted(left))
    return Pruning(through, through - drop[0] + 1, size, complete, part)


def seal_old(writer: SegmentWriter, before: str) -> None:
    """Begin a new segment if all records of the last one were received before that time."""
    with writer.exclusive():
        if writer.through >= writer.first and _received(writer, writer.first) < before:
            writer.roll()


def trim(writer: SegmentWriter, segments: int) -> None:
    """Drops the oldest segments, so that at most so many are left; call it inside `exclusive`."""
    known = firsts(writer.folder)
    drop = known[:-segments]
    if drop:
        _drop(writer, drop, known[len(drop)] - 1, _received(writer, drop[-1]))


def _drop(writer: SegmentWriter, drop: list[int], through: int, at: str) -> None:
    with chain_path(writer.folder, drop[-1]).open("rb") as file:
        link = last_link(file.fileno(), os.fstat(file.fileno()).st_size)
    if link is None or link.through != through:
        raise NoSuchRecord(
            f"the chain of the segment that ends with record {through} is damaged",
            "run `tracklog verify`, and bring the .chain file back before anything is dropped",
        )
    path = writer.folder / "pruned"
    note = {"through": through, "chain": link.chain.hex(), "at": at}
    earlier = path.read_bytes() if path.exists() else b""
    write_file(writer.disk, path, earlier + orjson.dumps(note) + b"\n")
    for first in drop:
        writer.remove(first)
    writer.disk.sync_folder(writer.folder)


def _received(writer: SegmentWriter, first: int) -> str:
    """When the last record of a segment was received; late when it cannot be read."""
    with segment_path(writer.folder, first).open("rb") as file:
        tail = last_line(file.fileno(), os.fstat(file.fileno()).st_size)
    entry = record(tail[1]) if tail else None
    return entry.received if entry else "~"


def _size(folder: Path, first: int) -> int:
    paths = (path(folder, first) for path in (segment_path, chain_path, runs_path))
    return sum(path.stat().st_size for path in paths if path.exists())


def _find(folder: Path, seq: int) -> tuple[Path, int, bytes]:
    """The segment of a record, and where it is there."""
    known = firsts(folder)
    at = bisect_right(known, seq) - 1
    if at >= 0:
        path = segment_path(folder, known[at])
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = place(file.fileno(), size, seq)
            for offset, line in lines(file.fileno(), start, size):
                if seq_of(line) == seq:
                    return path, offset, line
                break
    raise NoSuchRecord(
        f"there is no record {seq}", "`tracklog tail` shows the numbers that there are"
    )


def _replace(writer: SegmentWriter, path: Path, offset: int, length: int, put: bytes) -> None:
    """Replace the segment by one with a changed line; readers of the old file can go on."""
    disk = writer.disk
    source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with replacing(disk, path) as target:
            _copy(writer, source, target, 0, offset)
            write_all(disk, target, put)
            _copy(writer, source, target, offset + length, os.fstat(source).st_size)
            with contextlib.suppress(FileNotFoundError):
                disk.remove(path.with_suffix(".runs"))
    finally:
        os.close(source)


def _copy(writer: SegmentWriter, source: int, target: int, start: int, stop: int) -> None:
    while start < stop:
        block = os.pread(source, min(1 << 20, stop - start), start)
        write_all(writer.disk, target, block)
        start += len(block)


def _scrub(writer: SegmentWriter, line: bytes, stone: Tombstone) -> Iterator[str]:
    """Remove the bytes of a line from the quarantine, the refused lines and the transcripts."""
    aside = [
        *(writer.home / "quarantine").iterdir(),
        *(writer.home / "transcripts").glob("*.jsonl"),
    ]
    for path in sorted(aside):
        held = path.read_bytes()
        if line in held:
            write_file(writer.disk, path, held.replace(line, b'{"erased":true}'))
            yield str(path.relative_to(writer.home))
    needle = refused_needle(line)
    if writer.folder.name != "refused" and needle and firsts(writer.home / "refused"):
        refused = SegmentWriter(writer.home, "refused", writer.segment_size, writer.disk)
        try:
            for seq in list(_holding(refused.folder, needle)):
                erase(refused, seq, stone)
                yield f"refused/{seq}"
        finally:
            refused.close()


def _holding(folder: Path, needle: bytes) -> Iterator[int]:
    """The records in which these bytes stand."""
    for first in firsts(folder):
        with segment_path(folder, first).open("rb") as file:
            for block in blocks(file.fileno(), 0, os.fstat(file.fileno()).st_size):
                if needle in block:
                    yield from (seq_of(line) for line in block.split(b"\n") if needle in line)
