"""Commit groups as rows: compressed frames, and what is found of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import zstandard

from tracklog.journal import merkle
from tracklog.journal.frame import Mark, Run, record
from tracklog.journal.merkle import Link
from tracklog.model.errors import StoreBroken

ARCHIVED = "a"
"""The codec of a group whose frames are in an archive."""
_LEVEL = 1
_SMALL = 200  # bytes that are not worth compressing


class GroupRow(NamedTuple):
    """A row of the table `groups`, without its chain."""

    through: int
    first: int
    received: str
    leaves: bytes
    root: bytes
    size: int
    codec: str
    frames: bytes


def packed(frames: Sequence[bytes]) -> tuple[int, str, bytes]:
    """Frames in a row: their size, the codec, and the bytes."""
    data = b"\n".join(frames)
    if len(data) < _SMALL:
        return len(data), "r", data
    return len(data), "z", zstandard.ZstdCompressor(level=_LEVEL).compress(data)


def unpacked(codec: str, data: bytes, size: int) -> list[bytes]:
    """The frames of a row."""
    if codec == "z":
        try:
            data = zstandard.ZstdDecompressor().decompress(data, max_output_size=size)
        except zstandard.ZstdError as error:
            raise StoreBroken(
                f"a group of the journal is damaged: {error}", "bring it back from a backup"
            ) from error
    return data.split(b"\n")


def row_of(frames: Sequence[bytes], first: int, leaves: Sequence[bytes]) -> GroupRow:
    """The row of a group whose first frame has this number."""
    newest = record(frames[-1])
    received = newest.received if newest else "1970-01-01T00:00:00.000Z"
    short = b"".join(leaf[: merkle.SHORT] for leaf in leaves)
    size, codec, data = packed(frames)
    through = first + len(frames) - 1
    return GroupRow(through, first, received, short, merkle.root(leaves), size, codec, data)


def firsts(runs: Iterable[tuple[Run, int]], first: int) -> dict[Run, int]:
    """The first record of each run in a group."""
    by_run: dict[Run, int] = {}
    for run, count in runs:
        by_run.setdefault(run, first)
        first += count
    return by_run


def columns(runs: Mapping[Run, int]) -> tuple[list[bytes], list[bytes], list[int]]:
    """Runs with a number each, as three columns."""
    names = [(text(family), text(run)) for family, run in runs]
    return [one for one, _ in names], [other for _, other in names], list(runs.values())


def link_of(row: Sequence[Any]) -> Link:
    """A link of the chain, from a row of groups or erasures."""
    through, n, chain, root, leaves, synced, seq, leaf, tombstone = row
    if n == 0:
        return Link("group", through, chain, root=root, leaves=leaves, synced=synced)
    return Link("erased", through, chain, seq=seq, leaf=leaf, tombstone=tombstone)


def marked(marks: Mapping[int, Mark], first: int) -> dict[bytes, tuple[int, int, str, str]]:
    """The marks of a group by source: how far, the record, the hash and the verdicts."""
    return {
        text(mark.source): (mark.through, first + at, mark.sha256, mark.verdicts)
        for at, mark in marks.items()
    }


def text(name: str) -> bytes:
    """A name as bytes: PostgreSQL's text cannot hold every character."""
    return name.encode("utf-8", "surrogatepass")


def name(data: bytes) -> str:
    """The name in these bytes."""
    return bytes(data).decode("utf-8", "surrogatepass")
