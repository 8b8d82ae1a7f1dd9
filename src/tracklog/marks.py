"""Where each transport got to: which batches were admitted, and how far each file was read.

The marks stand in the journal, with the records they belong to; the file beside it is a cache.
"""

import contextlib
import threading
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

import orjson

from tracklog.disk import Disk, write_file
from tracklog.journal import Journal

KEPT = 100_000
"""How many sources are remembered; a retry of a batch older than that is not recognised."""


class Place(NamedTuple):
    """How far a source got, and the record that said so."""

    through: int
    seq: int


class Marks:
    """The marks of a journal, caught up when asked."""

    def __init__(self, journal: Journal, path: Path | None = None) -> None:
        self._journal = journal
        self._path = path
        self._mutex = threading.Lock()
        self._cursor = 0
        self._asked = False
        self._places: OrderedDict[str, Place] = OrderedDict()
        if path is not None:
            self._load(path)

    def place(self, source: str) -> Place | None:
        """Where a source got to, by the last mark it left."""
        with self._mutex:
            self._asked = True
            self._catch_up()
            return self._places.get(source)

    def sources(self) -> list[str]:
        """Every source that left a mark, the latest last."""
        with self._mutex:
            self._asked = True
            self._catch_up()
            return list(self._places)

    def save(self) -> None:
        """Writes the cache, if there is a place for it and anybody asked for what is in it."""
        if self._path is None or not self._asked:
            return
        with self._mutex:
            self._catch_up()
            places = {source: list(place) for source, place in self._places.items()}
            said = {"cursor": self._cursor, "places": places}
        with contextlib.suppress(OSError):  # a cache: it is made again from the journal
            write_file(Disk(), self._path, orjson.dumps(said))

    def _catch_up(self) -> None:
        while records := self._journal.read(self._cursor, 10_000):
            for record in records:
                if record.mark is not None:
                    source, through = record.mark
                    self._places[source] = Place(through, record.seq)
                    self._places.move_to_end(source)
            self._cursor = records[-1].seq
        while len(self._places) > KEPT:
            self._places.popitem(last=False)

    def _load(self, path: Path) -> None:
        try:
            said = orjson.loads(path.read_bytes())
            if said["cursor"] <= self._journal.last:
                self._places.update((k, Place(*place)) for k, place in said["places"].items())
                self._cursor = said["cursor"]
        except (OSError, ValueError, KeyError, TypeError):
            self._cursor = 0  # a cache: it is made again from the journal
            self._places.clear()
