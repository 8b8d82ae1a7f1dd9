"""Batch keys and file offsets: how a retry is recognised.

They are marks in the journal, on the records that they belong to; the file beside it is a cache.
"""

import contextlib
import re
import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple

import orjson

from tracklog.journal.disk import Disk, read_file, write_file
from tracklog.journal.frame import Mark
from tracklog.journal.journal import Journal

MOST_SOURCES = 100_000
"""How many sources are remembered; a retry of a batch older than that is not recognised."""

LineOutcome = Literal["accepted", "duplicate", "inside", "refused"]
"""What became of a line; `inside` is a duplicate of a line of the same batch."""

Outcome = tuple[LineOutcome, int]
"""A duplicate's number is that of the record it repeats, or, inside, the place of that record
among those that the batch added."""

_RUN = re.compile(r"([adir])(\d+)(?:\+(\d+))?")
_LETTERS: dict[str, LineOutcome] = {
    "a": "accepted",
    "d": "duplicate",
    "i": "inside",
    "r": "refused",
}


def pack(outcomes: Iterable[Outcome]) -> str:
    """Outcomes in a short text: `a3` three accepted, `r2` two refused, `d7+2` duplicates of records
    7 and 8, `i0+1` a duplicate of the batch's own first.
    """
    parts: list[str] = []
    for outcome, alike in groupby(outcomes, key=lambda each: each[0]):
        numbers = [number for _, number in alike]
        if outcome in ("accepted", "refused"):
            parts.append(f"{outcome[0]}{len(numbers)}")
            continue
        for _, row in groupby(enumerate(numbers), key=lambda each: each[1] - each[0]):
            span = [number for _, number in row]
            parts.append(f"{outcome[0]}{span[0]}+{len(span)}")
    return " ".join(parts)


def unpack(text: str) -> Iterator[Outcome]:
    """The outcomes in such a text; those that are accepted or refused have the number 0."""
    for letter, number, count in _RUN.findall(text):
        outcome = _LETTERS[letter]
        if count:
            yield from ((outcome, int(number) + each) for each in range(int(count)))
        else:
            yield from ((outcome, 0) for _ in range(int(number)))


class SourceOffset(NamedTuple):
    """The offset that a source reached, and the record with its mark."""

    through: int
    seq: int
    sha256: str = ""
    verdicts: str = ""


class JournalOffsets:
    """The batch keys and file offsets of a journal, read from its marks when asked for."""

    def __init__(self, journal: Journal, path: Path | None = None) -> None:
        self._journal = journal
        self._path = path
        self._mutex = threading.Lock()
        self._cursor = 0
        self._asked = False
        self._own: dict[int, tuple[int, Mark | None]] = {}
        """What this process appended and need not read: last record and mark, by first record."""
        self._places: OrderedDict[str, SourceOffset] = OrderedDict()
        if path is not None:
            self._load(path)

    def place(self, source: str) -> SourceOffset | None:
        """The offset of a source, by its last mark in the stored records."""
        with self._mutex:
            self._asked = True
            self._catch_up()
            return self._place_of(source)

    def is_at(self, source: str, place: SourceOffset | None, before: int) -> bool:
        """Whether a source is still where it was, by the records before that number."""
        with self._mutex:
            if self._cursor < before - 1:
                self._catch_up()
            return self._place_of(source) == place

    def sources(self) -> list[str]:
        """Every source that left a mark, the latest last."""
        with self._mutex:
            self._asked = True
            self._catch_up()
            return list(self._places)

    def note(self, seqs: Sequence[int], mark: Mark | None) -> None:
        """Takes over what this process appended, so that it need not be read."""
        if seqs and self._asked:
            with self._mutex:
                self._own[seqs[0]] = seqs[-1], mark
                self._skip_own()

    def save(self) -> None:
        """Writes the cache, if there is a place for it and anybody asked for what is in it."""
        if self._path is None or not self._asked:
            return
        with self._mutex:
            self._catch_up()
            places = {source: list(place) for source, place in self._places.items()}
            link = self._journal.link(self._cursor)
            cache = {"cursor": self._cursor, "link": link, "places": places}
            cache["crc"] = _crc(cache)
        with contextlib.suppress(OSError):  # a cache: it is made again from the journal
            write_file(Disk(), self._path, orjson.dumps(cache))

    def _place_of(self, source: str) -> SourceOffset | None:
        place = self._places.get(source)
        return place if place is not None and place.seq >= self._journal.first else None

    def _catch_up(self) -> None:
        self._skip_own()
        while records := self._journal.read(self._cursor, 10_000):
            for record in records:
                if record.mark is not None:
                    self._add(record.mark, record.seq)
            self._cursor = records[-1].seq
            self._skip_own()
        while len(self._places) > MOST_SOURCES:
            self._places.popitem(last=False)

    def _skip_own(self) -> None:
        while (own := self._own.pop(self._cursor + 1, None)) is not None:
            last, mark = own
            if mark is not None:
                self._add(mark, self._cursor + 1)
            self._cursor = last
        if len(self._own) > MOST_SOURCES:
            self._own.clear()  # they are read from the journal instead

    def _add(self, mark: Mark, seq: int) -> None:
        self._places[mark.source] = SourceOffset(mark.through, seq, mark.sha256, mark.verdicts)
        self._places.move_to_end(mark.source)

    def _load(self, path: Path) -> None:
        """Takes the cache over, if it is of this journal and of no other history of it."""
        try:
            cache = orjson.loads(read_file(path))
            if cache.pop("crc") != _crc(cache):
                return
            places = {source: _place(*parts) for source, parts in cache["places"].items()}
            self._cursor = int(cache["cursor"])
            known = self._journal.link(self._cursor)
            if not 0 <= self._cursor <= self._journal.last or cache["link"] != known:
                self._cursor = 0
                return
            self._places.update(places)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            self._cursor = 0  # a cache: it is made again from the journal


def _crc(cache: dict[str, Any]) -> int:
    return zlib.crc32(orjson.dumps(cache))


def _place(through: int, seq: int, sha256: str, verdicts: str) -> SourceOffset:
    place = SourceOffset(through, seq, sha256, verdicts)
    if [type(part) for part in place] != [int, int, str, str]:
        raise TypeError(place)
    return place
