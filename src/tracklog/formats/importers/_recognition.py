"""Recognise the format of a file by several fields of its first records.

A format is a set of fields that occur together in no other format. One field, or a word somewhere
in the text, is not enough: a log of one agent quotes the bodies of another.
"""

import re
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import orjson

from tracklog.formats.importers._records import DAMAGED, beginning_of, opening, repaired_value
from tracklog.formats.importers._sqlite import MAGIC, tables_of

MOST = 50
"""How many records at the beginning of a file are looked at."""
_SSE = (b"data:", b"event:", b": ", b":\n", b"id:", b"retry:")
_ZIP = b"PK\x03\x04"


@dataclass(frozen=True)
class Beginning:
    """The first bytes of a file, read as records, as the tables of a database, or as an archive."""

    path: Path
    head: bytes

    @cached_property
    def values(self) -> list[Any]:
        """The first values: of lines, of events, of the elements of one list, or one document."""
        text = self.head.lstrip()
        if text.startswith((MAGIC, _ZIP)):
            return []
        if text.startswith(_SSE):
            text = b"\n".join(each[5:] for each in text.split(b"\n") if each.startswith(b"data:"))
        records = opening(text, MOST)
        first = text.partition(b"\n")[0]
        if not records or _broken(first):
            document = _document(text)
            records = ([document] if document else records) + _glued(text)
        return [
            each for value in records for each in (value if isinstance(value, list) else [value])
        ]

    @cached_property
    def objects(self) -> list[dict[str, Any]]:
        """Those of the values that are objects."""
        return [each for each in self.values[:MOST] if isinstance(each, dict)]

    @cached_property
    def tables(self) -> Mapping[str, frozenset[str]]:
        """The columns of each table, where the file is an SQLite database."""
        return tables_of(self.path) if self.head.startswith(MAGIC) else {}

    @cached_property
    def members(self) -> frozenset[str]:
        """The names in the archive, where the file is a zip archive."""
        if not self.head.startswith(_ZIP):
            return frozenset()
        try:
            with zipfile.ZipFile(self.path) as archive:
                return frozenset(archive.namelist())
        except (OSError, zipfile.BadZipFile, ValueError):
            return frozenset()


def _glued(text: bytes) -> list[Any]:
    """The values of lines on which a complete record stands behind an incomplete one."""
    lines = text.split(b"\n")[:MOST]
    return opening(b"\n".join(line[line.find(b'{"', 1) :] for line in lines if b'{"' in line[1:]))


def _broken(line: bytes) -> bool:
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return True
    return False


def _document(text: bytes) -> Any:
    value = repaired_value(text)
    if value is DAMAGED and text and text[:1] in b"[{":
        value = beginning_of(text.rstrip(b"\0 \t\r\n"))
    return value if isinstance(value, dict | list) else None


@lru_cache(maxsize=8)
def beginning(path: Path, head: bytes) -> Beginning:
    """The beginning of a file, read once for all importers."""
    return Beginning(path, head)


ANY = object()
"""Any value, also null."""


@dataclass(frozen=True, slots=True)
class Signs:
    """The fields of a record that together occur in no other format.

    A field is a path of keys with dots between them. It must have the type that is given, or be one
    of the strings of a set, or match a pattern.
    """

    fields: Mapping[str, Any]
    without: tuple[str, ...] = ()
    """Fields that such a record never has."""
    sure: float = field(default=0.0)
    """The confidence; by default more fields are more of it."""

    def match(self, record: dict[str, Any]) -> bool:
        if any(_at(record, path) is not _MISSING for path in self.without):
            return False
        return all(_fits(_at(record, path), wanted) for path, wanted in self.fields.items())

    @property
    def strength(self) -> float:
        return self.sure or 1 - 0.5 ** (len(self.fields) + len(self.without) / 2)


_MISSING = object()


def _at(record: Any, path: str) -> Any:
    for key in path.split("."):
        if not isinstance(record, dict) or key not in record:
            return _MISSING
        record = record[key]
    return record


def _fits(value: Any, wanted: Any) -> bool:
    if value is _MISSING:
        return False
    if wanted is ANY:
        return True
    if isinstance(wanted, set | frozenset):
        return isinstance(value, str) and value in wanted
    if isinstance(wanted, re.Pattern):
        return isinstance(value, str) and wanted.match(value) is not None
    if wanted is int and isinstance(value, bool):
        return False
    return isinstance(value, wanted)


def score(path: Path, head: bytes, signs: Iterable[Signs]) -> float:
    """The confidence that a file has a format: that of the best signs that a first record has."""
    objects = beginning(path, head).objects
    strengths = (each.strength for each in signs if any(map(each.match, objects)))
    return max(strengths, default=0.0)


def has_tables(path: Path, head: bytes, tables: Mapping[str, Iterable[str]]) -> bool:
    """Whether a file is a database that has these columns in these tables."""
    known = beginning(path, head).tables
    return bool(known) and all(
        name in known and known[name].issuperset(columns) for name, columns in tables.items()
    )


def by_signs(
    signs: Iterable[Signs], tables: Mapping[str, Iterable[str]] | None = None
) -> Callable[[Path, bytes], float]:
    """The `recognise` of an importer: by the signs of a record, or by the tables of a database."""

    def recognise(path: Path, head: bytes) -> float:
        if tables and has_tables(path, head, tables):
            return 0.98
        return score(path, head, signs)

    return recognise
