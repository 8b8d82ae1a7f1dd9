"""Storages: where a journal and everything that belongs to it is stored, one kind of place per file.

To add one: write a file whose name is the scheme of its URLs (`storages/memory.py` is `memory:`).
It ends with `storage = open_it`, a function from what follows the colon of the URL (and options by
name) to a `Storage`. Pass the suites of `tracklog.testing`: `StorageSuite`, `StoreSuite`,
`BlobSuite`, `OffsetsSuite` and `RefusedSuite`; `ProcessSuite` and `CrashSuite` if many processes share it.
An outside package offers its function under the entry point group `tracklog.storages`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from tracklog.journal.comparing import Report
from tracklog.journal.frame import Mark
from tracklog.journal.journal import Journal
from tracklog.journal.leases import Leases
from tracklog.journal.merkle import Head
from tracklog.journal.offsets import SourceOffset
from tracklog.journal.stores import Store

if TYPE_CHECKING:
    from tracklog.journal.archive.reader import ArchiveReader


class Blobs(Protocol):
    """Values that are found by the SHA-256 of their bytes; safe to use from many threads."""

    def put_all(self, contents: Iterable[bytes]) -> None:
        """Store them all; on return they are durable."""

    def put(self, content: bytes) -> str:
        """Store a value, and return its SHA-256; on return it is durable."""

    def get(self, name: str) -> bytes:
        """The value with this SHA-256; else `NoSuchBlob`, or `BlobDamaged`."""

    def size(self, name: str) -> int | None:
        """In bytes; None if there is no such value."""

    def list(self) -> Iterator[str]:
        """The SHA-256 of every value, in order."""

    def collect(self, wanted: Callable[[str], bool], older_than: float = 0) -> int:
        """Remove every value that is not wanted, and return how many bytes that freed.

        Values that were put after `older_than` (seconds since 1970) stay, if it is not 0.
        """


class Offsets(Protocol):
    """Which batches were recorded, and how far each source was read."""

    def place(self, source: str) -> SourceOffset | None:
        """How far a source was recorded, by the last mark that the journal still holds."""

    def is_at(self, source: str, place: SourceOffset | None, before: int) -> bool:
        """Whether a source is still at its place, by the records before that number."""

    def sources(self) -> list[str]:
        """Every source that left a mark, the latest last."""

    def note(self, seqs: Sequence[int], mark: Mark | None) -> None:
        """Take over what this process appended, so that it need not be read."""

    def save(self) -> None:
        """Save what is known, if the storage caches it."""


class Storage(Protocol):
    """One journal with everything that belongs to it; safe to use from many threads."""

    store: Store
    """The records."""
    index_url: str
    """Where its index is, unless another place is given."""
    refused_together: bool
    """Whether the store commits the refused lines of a group with it; else they are stored before."""
    folder: Path
    """A folder of this machine: for caches, and for what belongs to the machine and not to the
    record, such as the offsets of imported files and the state of hosts."""

    @property
    def refused(self) -> Store:
        """The refused lines: a journal of their own, which drops the oldest by itself."""

    @property
    def blobs(self) -> Blobs:
        """Large values that were lifted out of lines."""

    def offsets(self, journal: Journal) -> Offsets:
        """The batch keys and offsets that stand in the journal on this storage."""

    def verify(self, anchor: Head | None = None) -> Report:
        """Compare every record with its chain of hashes, up to an anchor if one is given."""

    def leases(self) -> Leases:
        """A new holder of leases: named locks over all processes that use this storage."""

    def close(self) -> None:
        """Release everything; may be called twice."""


class MovedToArchive(NamedTuple):
    """What was moved out of a storage into an archive."""

    records: int
    bytes: int
    """Of the records, decompressed."""
    blobs: int


@runtime_checkable
class Tiered(Protocol):
    """A storage that can read records and large values from an archive instead of storing them."""

    def move_old(self, reader: "ArchiveReader", before: str) -> MovedToArchive:
        """Move what was received before that time, if the archive has the same bytes."""


@runtime_checkable
class SharesSettings(Protocol):
    """A storage that many machines use, with settings that are the same for all of them."""

    def setting(self, name: str) -> bytes | None:
        """The setting with this name, as it is now; None where it was never set."""

    def set_setting(self, name: str, value: bytes) -> None:
        """Store a setting; durable on return."""
