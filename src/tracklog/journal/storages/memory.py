"""`memory:`, for tests, and for what need not outlive its process."""

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from tracklog.journal.comparing import Report, verify_store
from tracklog.journal.journal import Journal
from tracklog.journal.leases import FileLeases
from tracklog.journal.merkle import Head
from tracklog.journal.offsets import JournalOffsets
from tracklog.journal.stores import Durability
from tracklog.journal.stores.memory import MemoryStore
from tracklog.model.errors import NoSuchBlob

REFUSED = 32 << 20
"""Bytes of refused lines that are stored; then the oldest are dropped."""


class MemoryStorage:
    """A journal that ends with its object; its folder is a temporary one."""

    index_url = "sqlite::memory:"
    refused_together = False

    def __init__(
        self,
        place: str = "",
        *,
        durability: Durability = "os",
        readonly: bool = False,
        segment_size: int = 0,
    ) -> None:
        del place, durability, segment_size  # nothing here outlives the process, nothing is cut
        self.refused = MemoryStore(most=REFUSED)
        self.store = MemoryStore(refused=self.refused)
        self.blobs = MemoryBlobs()
        if readonly:
            self.store.close()

    @cached_property
    def _folder(self) -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(prefix="tracklog-", ignore_cleanup_errors=True)

    @property
    def folder(self) -> Path:
        return Path(self._folder.name)

    def offsets(self, journal: Journal) -> JournalOffsets:
        return JournalOffsets(journal)

    def verify(self, anchor: Head | None = None) -> Report:
        return verify_store(self.store, anchor)

    def leases(self) -> FileLeases:
        return FileLeases(self.folder)

    def close(self) -> None:
        self.store.close()
        self.refused.close()
        if "_folder" in self.__dict__:
            self._folder.cleanup()


class MemoryBlobs:
    """Blobs in a dictionary."""

    def __init__(self) -> None:
        self._contents: dict[str, tuple[bytes, float]] = {}

    def put_all(self, contents: Iterable[bytes]) -> None:
        for content in contents:
            self.put(content)

    def put(self, content: bytes) -> str:
        name = sha256(content).hexdigest()
        self._contents[name] = content, time.time()
        return name

    def get(self, name: str) -> bytes:
        if name not in self._contents:
            raise NoSuchBlob(f"there is no blob {name}", "it was removed, or never stored here")
        return self._contents[name][0]

    def size(self, name: str) -> int | None:
        content = self._contents.get(name)
        return len(content[0]) if content else None

    def list(self) -> Iterator[str]:
        return iter(sorted(self._contents))

    def collect(self, wanted: Callable[[str], bool], older_than: float = 0) -> int:
        gone = [
            name
            for name, (_, at) in self._contents.items()
            if not wanted(name) and (not older_than or at < older_than)
        ]
        return sum(len(self._contents.pop(name)[0]) for name in gone)


storage = MemoryStorage
