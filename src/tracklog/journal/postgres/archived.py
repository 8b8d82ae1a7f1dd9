"""Records and large values that are in an archive and no longer in the database.

The row of such a group stays, with its place in the chain; instead of the frames it has the
shipment of the archive in which they are.
"""

import threading
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

import orjson

from tracklog.journal import merkle
from tracklog.journal.archive.objects import Objects, open_objects
from tracklog.journal.archive.reader import RECORDS, blob_of, frames_of, name_of
from tracklog.journal.postgres.groups import ARCHIVED, unpacked
from tracklog.model.errors import ArchiveDamaged

BLOBS = """
CREATE TABLE IF NOT EXISTS {schema}.cold_blobs (   -- large values that are in an archive
  sha256 bytea PRIMARY KEY, place text NOT NULL);
ALTER TABLE {schema}.blobs ALTER bytes DROP NOT NULL;
"""
_SHIPMENTS = 2  # unpacked shipments that are held for the next group
_ERASED = b',"erased":{'


class Pointer(NamedTuple):
    """Where the frames of a group are."""

    place: str
    shipment: int
    first: int
    """The first record of the shipment."""
    moved: str
    """When the group was moved there: after an erasure it may be moved again, with other bytes."""

    def packed(self) -> bytes:
        """What stands in the row of the group."""
        return orjson.dumps(self._asdict())


def place_of(objects: Objects) -> str:
    """The address of an archive; a folder with its complete path, because any process may read it."""
    return objects.url if "://" in objects.url else str(Path(objects.url).resolve())


class ArchivedGroups:
    """Reads the frames of groups out of archives; safe to use from many threads."""

    def __init__(self) -> None:
        self._objects: dict[str, Objects] = {}
        self._held: OrderedDict[Pointer, list[bytes]] = OrderedDict()
        self._mutex = threading.Lock()

    def frames(
        self, codec: str, data: bytes, size: int, ends: tuple[int, int], leaves: bytes
    ) -> list[bytes]:
        """The frames of a group, from its row: in the database, or in an archive."""
        if codec != ARCHIVED:
            return unpacked(codec, data, size)
        first, through = ends
        pointer = Pointer(**orjson.loads(data))
        frames = self._shipment(pointer)[first - pointer.first :][: through - first + 1]
        if not _is_intact(frames, leaves):
            name = f"{name_of(pointer.shipment, RECORDS)} in {pointer.place}"
            raise ArchiveDamaged(
                f"{name} does not have the records {first} to {through} as they were stored",
                f"`tracklog verify {pointer.place}` says more; bring the object back from a copy",
            )
        return frames

    def blob(self, place: str, name: str) -> bytes:
        """A large value."""
        return blob_of(self._archive(place), name)

    def _shipment(self, pointer: Pointer) -> list[bytes]:
        with self._mutex:
            held = self._held.get(pointer)
        if held is None:
            held, why = frames_of(self._archive(pointer.place), pointer.shipment)
            if why:
                raise ArchiveDamaged(
                    f"{name_of(pointer.shipment, RECORDS)} in {pointer.place} {why}",
                    "it has records that are no longer in the database; bring it back from a copy",
                )
            with self._mutex:
                self._held[pointer] = held
                while len(self._held) > _SHIPMENTS:
                    self._held.popitem(last=False)
        return held

    def _archive(self, place: str) -> Objects:
        return self._objects.setdefault(place, open_objects(place))


def _is_intact(frames: list[bytes], leaves: bytes) -> bool:
    """Whether these are the frames that were hashed; of an erased one the hash is another."""
    if len(frames) * merkle.SHORT != len(leaves):
        return False
    return all(
        merkle.leaf(frame).startswith(leaves[at * merkle.SHORT : (at + 1) * merkle.SHORT])
        or _ERASED in frame
        for at, frame in enumerate(frames)
    )
