"""Packs: many small blobs in one file of `<home>/blobs/packs/`, so that a batch needs one sync.

A pack is a list of entries: the SHA-256, the size, a newline, the bytes, a newline.
It only ever grows: without what was collected it has another name, and no name is used twice.
"""

import contextlib
import os
import re
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from tracklog.journal.disk import Disk, make_folders, replacing, write_all

_LARGEST = 64 << 20  # bytes of a pack, from which on the next batch begins another
_HEAD = re.compile(rb"([0-9a-f]{64}) ([0-9]{1,15})\n")


class BlobLocation(NamedTuple):
    """Where the bytes of a blob are."""

    pack: Path
    start: int
    size: int


class Packs:
    """Appended to by one process each, read by any."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self.folder, self.disk = folder, disk
        self._places: dict[str, BlobLocation] = {}
        self._read: dict[Path, int] = {}
        """How far each pack was read."""
        self._lately: set[str] = set()
        """What is in the pack of this process, so that it is not put again."""
        self._own: tuple[int, Path] | None = None
        self._turn = threading.Lock()

    def put(self, contents: Mapping[str, bytes]) -> None:
        """Appends them to the pack of this process; on disk on return."""
        block = b"".join(_entry(name, content) for name, content in contents.items())
        with self._turn:
            while not self._append(block):
                pass  # somebody collected from it: another one is begun
            self._lately.update(contents)

    def news(self, contents: Mapping[str, bytes]) -> dict[str, bytes]:
        """Those that this process did not put lately, or that somebody took out since."""
        if self._own is None or not self._own[1].exists():
            self._lately.clear()
        return {name: each for name, each in contents.items() if name not in self._lately}

    def find(self, name: str) -> BlobLocation | None:
        """Where a blob is; None when it is in no pack."""
        if name not in self._places:
            self._look()
        return self._places.get(name)

    def read(self, name: str) -> bytes | None:
        """The bytes of a blob; None when it is in no pack."""
        for _ in range(2):
            place = self.find(name)
            if place is None:
                return None
            with contextlib.suppress(FileNotFoundError), place.pack.open("rb") as file:
                if _is_at(file, name, place):
                    return file.read(place.size)
            self._forget()  # its pack is gone, or is not what it was
        return None

    def names(self) -> Iterable[str]:
        self._look()
        return self._places.keys()

    def collect(self, wanted: Callable[[str], bool], older_than: float) -> int:
        """Takes out what is not wanted of every pack that nobody wrote to since; the bytes freed."""
        freed = 0
        for pack in self._packs():
            try:
                fd = self.disk.open(pack, os.O_RDWR)
            except FileNotFoundError:
                continue  # somebody else collects, too
            try:
                self.disk.lock(fd)
                state = os.fstat(fd)
                if state.st_nlink and (not older_than or state.st_mtime < older_than):
                    freed += self._clean(pack, wanted)
            finally:
                self.disk.close(fd)
        return freed

    def _append(self, block: bytes) -> bool:
        pid, path = self._own or (0, self.folder)
        is_new = pid != os.getpid()  # a child has a pack of its own
        if is_new:
            path = self._begin()
            self._lately.clear()
        try:
            fd = self.disk.open(path, os.O_WRONLY | os.O_APPEND | (os.O_CREAT if is_new else 0))
        except FileNotFoundError:
            if is_new:
                raise
            self._own = None
            return False
        try:
            self.disk.lock(fd)
            state = os.fstat(fd)
            if not state.st_nlink:
                self._own = None
                return False
            try:
                write_all(self.disk, fd, block)
                self.disk.sync(fd)
            except BaseException:
                self._own = None  # what is half written is the end of this one
                raise
        finally:
            self.disk.close(fd)
        if is_new:
            self.disk.sync_folder(self.folder)
        self._own = (os.getpid(), path) if state.st_size + len(block) < _LARGEST else None
        return True

    def _begin(self) -> Path:
        make_folders(self.disk, self.folder)
        return self.folder / f"{uuid.uuid4().hex}.pack"

    def _packs(self) -> list[Path]:
        return sorted(self.folder.glob("*.pack"))

    def _look(self) -> None:
        """Reads what was appended since."""
        packs = self._packs()
        if self._read.keys() - set(packs):
            self._forget()
        for pack in packs:
            with contextlib.suppress(FileNotFoundError), pack.open("rb") as file:
                through = self._read.get(pack, 0)
                for name, place in _entries(pack, file, through):
                    self._places[name] = place
                    through = place.start + place.size + 1
                self._read[pack] = through

    def _forget(self) -> None:
        """Of all packs: what was in the one that is gone may be in another, too."""
        self._read, self._places = {}, {}

    def _clean(self, pack: Path, wanted: Callable[[str], bool]) -> int:
        """Writes another pack without what is not wanted in this one, whose lock is held."""
        with pack.open("rb") as file:
            entries = list(_entries(pack, file, 0))
            remaining = [(name, place) for name, place in entries if wanted(name)]
            freed = sum(place.size for _, place in entries) - sum(
                place.size for _, place in remaining
            )
            if len(remaining) == len(entries):
                return 0
            if remaining:
                self._copy(file, remaining)
        self.disk.remove(pack)
        self.disk.sync_folder(self.folder)
        self._forget()
        return freed

    def _copy(self, file: BinaryIO, remaining: list[tuple[str, BlobLocation]]) -> None:
        with replacing(self.disk, self._begin()) as fd:
            for name, place in remaining:
                file.seek(place.start)
                write_all(self.disk, fd, _entry(name, file.read(place.size)))


def _entry(name: str, content: bytes) -> bytes:
    return b"%b %d\n%b\n" % (name.encode(), len(content), content)


def _entries(pack: Path, file: BinaryIO, start: int) -> Iterator[tuple[str, BlobLocation]]:
    """The blobs of a pack from a place on; a half written one is the end of it."""
    end = os.fstat(file.fileno()).st_size
    while True:
        file.seek(start)
        head = _HEAD.fullmatch(file.readline(100))
        if head is None:
            return
        place = BlobLocation(pack, start + len(head[0]), int(head[2]))
        start = place.start + place.size + 1
        if start > end:
            return
        yield head[1].decode(), place


def _is_at(file: BinaryIO, name: str, place: BlobLocation) -> bool:
    """Whether a blob is still where it was; the file is then at its first byte."""
    head = b"%b %d\n" % (name.encode(), place.size)
    file.seek(place.start - len(head))
    return file.read(len(head)) == head
