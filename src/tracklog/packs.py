"""Many small blobs in one file, so that a batch of them costs one sync: `<home>/blobs/packs/`.

A pack is a list of entries: the SHA-256, the size, a newline, the bytes, a newline.
"""

import contextlib
import os
import re
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from tracklog.disk import Disk, make_folders, replacing, write_all

_LARGEST = 64 << 20  # bytes of a pack, from which on the next batch begins another
_HEAD = re.compile(rb"([0-9a-f]{64}) ([0-9]{1,15})\n")


class Place(NamedTuple):
    """Where the bytes of a blob are."""

    pack: Path
    start: int
    size: int


class Packs:
    """Appended to by one process each, read by any."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self.folder, self.disk = folder, disk
        self._places: dict[str, Place] = {}
        self._read: dict[Path, tuple[int, int]] = {}
        """Of each pack its inode, and how far it was read."""
        self._lately: set[str] = set()
        """What is in the pack of this process, so that it is not put again."""
        self._own: tuple[int, Path] | None = None
        self._inode = 0
        self._turn = threading.Lock()

    def put(self, contents: Mapping[str, bytes]) -> None:
        """Appends them to the pack of this process; on disk on return."""
        block = b"".join(_entry(name, content) for name, content in contents.items())
        with self._turn:
            while not self._append(block):
                pass  # somebody put another file in its place
            self._lately.update(contents)

    def news(self, contents: Mapping[str, bytes]) -> dict[str, bytes]:
        """Those that this process did not put lately, or that somebody took out since."""
        if self._own is None or _inode(self._own[1]) != self._inode:
            self._lately.clear()
        return {name: each for name, each in contents.items() if name not in self._lately}

    def find(self, name: str) -> Place | None:
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
            self._forget(place.pack)  # it was written anew meanwhile
        return None

    def names(self) -> Iterable[str]:
        self._look()
        return self._places.keys()

    def collect(self, wanted: Callable[[str], bool], older_than: float) -> int:
        """Takes out what is not wanted of every pack that nobody wrote to since; the bytes freed."""
        freed = 0
        for pack in self._packs():
            fd = self.disk.open(pack, os.O_RDWR)
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
            path = self.folder / f"{uuid.uuid4().hex}.pack"
            make_folders(self.disk, self.folder)
        fd = self.disk.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            self.disk.lock(fd)
            state = os.fstat(fd)
            if not state.st_nlink:
                return False
            try:
                write_all(self.disk, fd, block)
                self.disk.sync(fd)
            except BaseException:
                self._own = None  # what is half written is the end of this one
                raise
        finally:
            self.disk.close(fd)
        if is_new or not state.st_size:
            self.disk.sync_folder(self.folder)
        self._own = (os.getpid(), path) if state.st_size + len(block) < _LARGEST else None
        if state.st_ino != self._inode:
            self._lately.clear()
            self._inode = state.st_ino
        return True

    def _packs(self) -> list[Path]:
        return sorted(self.folder.glob("*.pack"))

    def _look(self) -> None:
        """Reads what was appended since."""
        packs = self._packs()
        for gone in self._read.keys() - set(packs):
            self._forget(gone)
        for pack in packs:
            with contextlib.suppress(FileNotFoundError), pack.open("rb") as file:
                inode = os.fstat(file.fileno()).st_ino
                if pack in self._read and self._read[pack][0] != inode:
                    self._forget(pack)
                through = self._read.get(pack, (inode, 0))[1]
                for name, place in _entries(pack, file, through):
                    self._places[name] = place
                    through = place.start + place.size + 1
                self._read[pack] = (inode, through)

    def _forget(self, pack: Path) -> None:
        self._read.pop(pack, None)
        self._places = {name: place for name, place in self._places.items() if place.pack != pack}

    def _clean(self, pack: Path, wanted: Callable[[str], bool]) -> int:
        """Writes a pack anew without what is not wanted; its lock is held."""
        with pack.open("rb") as file:
            entries = list(_entries(pack, file, 0))
            kept = [(name, place) for name, place in entries if wanted(name)]
            freed = sum(place.size for _, place in entries) - sum(place.size for _, place in kept)
            if len(kept) == len(entries):
                return 0
            if kept:
                self._rewrite(pack, file, kept)
        if not kept:
            self.disk.remove(pack)
            self.disk.sync_folder(self.folder)
        self._forget(pack)
        return freed

    def _rewrite(self, pack: Path, file: BinaryIO, kept: list[tuple[str, Place]]) -> None:
        with replacing(self.disk, pack) as fd:
            for name, place in kept:
                file.seek(place.start)
                write_all(self.disk, fd, _entry(name, file.read(place.size)))


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def _entry(name: str, content: bytes) -> bytes:
    return b"%b %d\n%b\n" % (name.encode(), len(content), content)


def _entries(pack: Path, file: BinaryIO, start: int) -> Iterator[tuple[str, Place]]:
    """The blobs of a pack from a place on; a half written one is the end of it."""
    end = os.fstat(file.fileno()).st_size
    while True:
        file.seek(start)
        head = _HEAD.fullmatch(file.readline(100))
        if head is None:
            return
        place = Place(pack, start + len(head[0]), int(head[2]))
        start = place.start + place.size + 1
        if start > end:
            return
        yield head[1].decode(), place


def _is_at(file: BinaryIO, name: str, place: Place) -> bool:
    """Whether a blob is still where it was; the file is then at its first byte."""
    head = b"%b %d\n" % (name.encode(), place.size)
    file.seek(place.start - len(head))
    return file.read(len(head)) == head
