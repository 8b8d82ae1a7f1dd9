"""`file:/var/lib/tracklog`: a home, which is a folder with the journal and all that belongs to it."""

from functools import cached_property
from pathlib import Path

from tracklog.journal.blobs import FileBlobs
from tracklog.journal.comparing import Report
from tracklog.journal.journal import Journal
from tracklog.journal.leases import FileLeases
from tracklog.journal.merkle import Head
from tracklog.journal.offsets import JournalOffsets
from tracklog.journal.refused import SEGMENT_SIZE, SEGMENTS
from tracklog.journal.stores import Durability
from tracklog.journal.stores.file import SEGMENT_SIZE as LARGE
from tracklog.journal.stores.file import FileStore
from tracklog.journal.verify import verify


class FileStorage:
    """A home; read-only, nothing in it is changed but caches."""

    refused_together = False

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
    def blobs(self) -> FileBlobs:
        return FileBlobs(self.folder)

    def offsets(self, journal: Journal) -> JournalOffsets:
        return JournalOffsets(journal, self.folder / "marks.json")

    def verify(self, anchor: Head | None = None) -> Report:
        return verify(self.folder, anchor)

    def leases(self) -> FileLeases:
        return FileLeases(self.folder, readonly=self._readonly)

    def close(self) -> None:
        if "refused" in self.__dict__:
            self.refused.close()
        self.store.close()


storage = FileStorage
