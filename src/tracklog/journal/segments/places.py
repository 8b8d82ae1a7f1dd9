"""The places of each run's records in a segment: found by reading it once, and cached beside it."""

import os
import sys
import threading
import zlib
from array import array
from pathlib import Path
from typing import BinaryIO, NamedTuple

import orjson

from tracklog.journal.frame import EVENT, Run, run_of
from tracklog.journal.segments import blocks


class Places(NamedTuple):
    """Where one run's records are in one segment."""

    marks: "array[int]"
    """The number from the segment's first, shifted left by 32, and the length of the line."""
    offsets: "array[int]"


class SegmentRuns:
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

    def save(self, path: Path, chain: str) -> None:
        """Beside the segment; a home that cannot be written to does without."""
        body, rows, at = bytearray(), [], 0
        for (family, run), places in self.places.items():
            rows.append([family, run, at, len(places.marks)])
            for numbers in places:
                body += _little(numbers).tobytes()
            at = len(body)
        fields = {"first": self.first, "through": self.through, "size": self.size, "chain": chain}
        head = orjson.dumps({**fields, "crc": zlib.crc32(body), "runs": rows})
        temporary = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
        try:
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(b"%d %d\n" % (len(head), zlib.crc32(head)) + head + b"\n" + body)
            temporary.rename(path)
        except OSError:
            temporary.unlink(missing_ok=True)


class StaleRuns(Exception):
    """The `.runs` file is not there any more, or is another one."""


class SavedRuns(NamedTuple):
    """The directory of a `.runs` file: where in it each run's places are."""

    path: Path
    version: tuple[int, int]
    """Its inode and the time of its last change."""
    first: int
    start: int
    rows: dict[Run, tuple[int, int]]

    def places(self, run: Run) -> Places | None:
        """Of one run; None when it has none here."""
        row = self.rows.get(run)
        if row is None:
            return None
        at, count = row
        both = array("Q")
        try:
            with self.path.open("rb") as file:
                if _version(file) != self.version:
                    raise StaleRuns
                file.seek(self.start + at)
                both.frombytes(file.read(count * 16))
        except (OSError, ValueError) as error:
            raise StaleRuns from error
        both = _little(both)
        return Places(both[:count], both[count:])


def load_runs(path: Path, first: int, size: int, chain: str) -> SavedRuns | None:
    """What is saved beside a segment of that size and chain; None when missing, torn or stale."""
    try:
        with path.open("rb") as file:
            version = _version(file)
            length, check = map(int, file.readline(64).split())
            head = file.read(length)
            start = file.tell() + 1
            fields = orjson.loads(head)
            body = file.read()[1:]
        if zlib.crc32(head) != check or zlib.crc32(body) != fields["crc"]:
            return None
        if fields["first"] != first or fields["size"] != size or fields["chain"] != chain:
            return None
        rows = {(family, run): (at, count) for family, run, at, count in fields["runs"]}
        return SavedRuns(path, version, first, start, rows)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _version(file: BinaryIO) -> tuple[int, int]:
    state = os.fstat(file.fileno())
    return state.st_ino, state.st_mtime_ns


def _little(numbers: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers
