"""Refused lines, stored apart from the journal with the reasons; the oldest are dropped."""

import base64
import threading
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any

import orjson

from tracklog.journal.journal import Journal, JournalEntry
from tracklog.journal.stores import REFUSED_BYTES, Make, Store
from tracklog.model.event import Refusal

SEGMENT_SIZE = 4 << 20
APPENDED = 1 << 18
"""Bytes that are appended at a time, so that no segment is much longer than the others."""

SEGMENTS = 8
"""The oldest refusals are given up when there are more than this many segments."""


class RefusedLines:
    """A journal of refusals, in the folder `refused` of a home."""

    def __init__(self, store: Store, *, together: bool = False) -> None:
        self.journal = Journal(store)
        self.together = together
        """Whether refused lines are committed with the records of their batch."""
        self._mutex = threading.Lock()

    def keep(self, refusals: Iterable[tuple[bytes, Refusal]]) -> None:
        """Appends refused lines with their verdicts; the oldest go when there are too many."""
        self._append([_entry(line, refusal, *_whole(line)) for line, refusal in refusals])

    def make(self, refusals: Iterable[tuple[bytes, Refusal]]) -> Make:
        """What makes the group of these refusals, for a store that commits it with its own."""
        return self.journal.make(
            [_entry(line, refusal, *_whole(line)) for line, refusal in refusals]
        )

    def add_beginning(self, line: bytes, refusal: Refusal, size: int, name: str) -> None:
        """Appends the beginning of a line that was too long to be held; its size and its SHA-256."""
        self._append([_entry(line, refusal, size, name)])

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Every stored refusal, oldest first, with its number and its time of receipt."""
        for record in self.journal.records():
            if record.line:
                yield {
                    "seq": record.seq,
                    "received": record.received,
                    "dialect": record.dialect or None,
                    "run": record.run or None,
                    **orjson.loads(record.line),
                }

    def close(self) -> None:
        self.journal.close()

    def _append(self, entries: list[JournalEntry]) -> None:
        with self._mutex:
            for part in _parts(entries):
                self.journal.append(part)


def _parts(entries: list[JournalEntry]) -> Iterator[list[JournalEntry]]:
    """The entries in lists of about `APPENDED` bytes."""
    part: list[JournalEntry] = []
    size = 0
    for entry in entries:
        part.append(entry)
        size += len(entry.line)
        if size >= APPENDED:
            yield part
            part, size = [], 0
    if part:
        yield part


def line_of(refusal: dict[str, Any]) -> bytes:
    """The bytes of a refused line, as far as they were stored."""
    return base64.b64decode(refusal["line"])


def _whole(line: bytes) -> tuple[int, str]:
    return len(line), sha256(line).hexdigest()


def _entry(line: bytes, refusal: Refusal, size: int, name: str) -> JournalEntry:
    entry = {
        "problems": [problem._asdict() for problem in refusal.problems],
        "size": size,
        "sha256": name,
        "line": base64.b64encode(line[:REFUSED_BYTES]).decode(),
    }
    return JournalEntry(refusal.dialect or "", "refused", refusal.run or "", orjson.dumps(entry))
