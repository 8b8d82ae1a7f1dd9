"""`file:/var/lib/tracklog`: a home, which is a folder with the journal and all that belongs to it."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from tracklog.journal.blobs import Blobs
from tracklog.journal.journal import Journal
from tracklog.journal.offsets import Marks
from tracklog.journal.refused import SEGMENT_SIZE, SEGMENTS
from tracklog.journal.stores import Durability
from tracklog.journal.stores.file import SEGMENT_SIZE as LARGE
from tracklog.journal.stores.file import FileStore


class FileStorage:
    """A home; read-only, nothing in it is changed but caches."""

    def __init__(
        self,
        place: str,
        *,
        durability: Durability = "sync",
        readonly: bool = False,
        segment_size: int = LARGE,
    ) -> None:
        self.folder = Path(place).expanduser()
        self.index_url = f"sqlite:{self.folder / 'index.db'}"
        self._readonly = readonly
        self.store = FileStore(
            self.folder, durability=durability, readonly=readonly, segment_size=segment_size
        )

    @cached_property
    def refused(self) -> FileStore:
        return FileStore(
            self.folder,
            folder="refused",
            durability="os",
            segment_size=SEGMENT_SIZE,
            segments=SEGMENTS,
            readonly=self._readonly,
        )

    @cached_property
    def blobs(self) -> Blobs:
        return Blobs(self.folder)

    def offsets(self, journal: Journal) -> Marks:
        return Marks(journal, self.folder / "marks.json")

    @contextlib.contextmanager
    def lease(self, name: str, seconds: float = 0) -> Iterator[bool]:
        folder, until = self.folder / "leases", time.monotonic() + seconds
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            yield _locked(fd, until)
        finally:
            os.close(fd)

    def close(self) -> None:
        if "refused" in self.__dict__:
            self.refused.close()
        self.store.close()


def _locked(fd: int, until: float) -> bool:
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(0.01)
        else:
            return True


storage = FileStorage
