"""Decide which importer reads a file: exactly one, or none, with the candidates named."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tracklog.formats.importers import Importer, head_of, uncompressed_name, unpacked
from tracklog.formats.importers._sqlite import MAGIC

BINARY = (MAGIC, b"PK\x03\x04")
"""How databases and archives begin."""
MARGIN = 0.02
"""Two importers that are sure to within this are both candidates, and none of them is chosen."""


class Recognition(NamedTuple):
    """What a file is."""

    importer: Importer | None = None
    companion: bool = False
    """Whether it only belongs to a conversation that the importer reads from another file."""
    candidates: tuple[str, ...] = ()
    """The importers that would all read it, if there are several."""


def is_database(path: Path) -> bool:
    """Whether a file is an SQLite database."""
    return head_of(path).startswith(MAGIC)


def recognised_file(importers: Iterable[Importer], path: Path) -> Recognition:
    """What a file is, which may be compressed."""
    head = head_of(path)
    if not head.startswith(BINARY):
        return recognition(importers, uncompressed_name(path), head)
    with unpacked(path) as readable:  # the file itself is looked into, not only its beginning
        return recognition(importers, readable, head)


def recognition(importers: Iterable[Importer], path: Path, head: bytes) -> Recognition:
    """The importer of a file, by its name and its beginning."""
    every = list(importers)
    for each in every:
        if each.companion(path, head):
            return Recognition(each, companion=True)
    sure = [(each.recognise(path, head), each) for each in every]
    best = max((score for score, _ in sure), default=0.0)
    if best <= 0:
        return Recognition()
    surest = [each for score, each in sure if score >= best - MARGIN]
    if len(surest) > 1:
        return Recognition(candidates=tuple(sorted(each.name for each in surest)))
    return Recognition(surest[0])
