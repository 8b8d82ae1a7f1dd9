"""Read an archive: its records and its chain, as those of a store; and its large values."""

from bisect import bisect_left
from collections.abc import Iterator
from hashlib import sha256
from typing import NamedTuple

import zstandard

from tracklog.journal import merkle
from tracklog.journal.archive.objects import Objects
from tracklog.journal.frame import Run, run_of, seq_of
from tracklog.journal.merkle import NOTHING, Head, Link
from tracklog.model.errors import BadFormat, BlobDamaged, StoreBroken

FOLDER = "v1"
BLOBS = f"{FOLDER}/blobs"


def name_of(number: int, kind: str) -> str:
    """The name of an object of a shipment."""
    return f"{FOLDER}/{number:010}.{kind}"


class Shipment(NamedTuple):
    """A part of the journal that was archived at once."""

    number: int
    before: Head
    """What its first link is chained to."""
    after: Head
    erased: tuple[int, ...]
    """The records whose erasure it has."""


class ArchiveReader:
    """The records of an archive as they are when it is opened."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self.shipments: list[Shipment] = []
        self._tombstones: dict[int, bytes] = {}
        self._held: tuple[int, list[bytes]] = (-1, [])
        names = objects.list(FOLDER)
        for name in (each for each in names if each.endswith(".chain")):
            self._add(int(name.removesuffix(".chain")))

    @property
    def first(self) -> int:
        """The first record."""
        return self.origin().through + 1

    @property
    def last(self) -> int:
        """The last record."""
        return self.head().through

    def head(self) -> Head:
        """The end of the chain."""
        return self.shipments[-1].after if self.shipments else NOTHING

    def origin(self) -> Head:
        """What the first link is chained to."""
        return self.shipments[0].before if self.shipments else NOTHING

    def links(self, after: int = 0) -> Iterator[Link]:
        """The chain, from the group that holds `after + 1`."""
        for shipment in self.shipments:
            if shipment.after.through > after or shipment.erased:
                for link in self._chain(shipment.number):
                    if link.kind in ("group", "erased") and link.through > after:
                        yield link

    def read(self, after: int, limit: int, run: Run | None = None) -> list[bytes]:
        """The frames behind `after`, in order, at most `limit`, of one run if asked."""
        ends = [shipment.after.through for shipment in self.shipments]
        at = bisect_left(ends, max(after, self.first - 1) + 1)
        while at < len(self.shipments):
            found = [
                frame
                for frame in self._frames(self.shipments[at])
                if seq_of(frame) > after and (run is None or run_of(frame) == run)
            ]
            if found:
                return found[:limit]
            at += 1
        return []

    def blob(self, name: str) -> bytes:
        """A large value; damaged ones are an error."""
        try:
            content = zstandard.decompress(self.objects.get(f"{BLOBS}/{name}"))
        except zstandard.ZstdError:
            content = b""
        if sha256(content).hexdigest() != name:
            raise BlobDamaged(
                f"the blob {name} in {self.objects.url} is damaged", "archive it again"
            )
        return content

    def blobs(self) -> list[str]:
        """The SHA-256 of every large value."""
        return self.objects.list(BLOBS)

    def stored_frames(self, number: int) -> list[bytes]:
        """The frames of a shipment as they are in its object."""
        if not self.objects.has(name := name_of(number, "jsonl.zst")):
            return []  # it has only erasures
        data = self.objects.get(name)
        try:
            reader = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
            return reader.readall().splitlines()
        except zstandard.ZstdError as error:
            raise StoreBroken(
                f"{name} in {self.objects.url} is damaged: {error}",
                "remove the archive, and archive again; or bring the object back",
            ) from error

    def _frames(self, shipment: Shipment) -> list[bytes]:
        if self._held[0] != shipment.number:
            frames = self.stored_frames(shipment.number)
            if self._tombstones:
                frames = [self._tombstones.get(seq_of(frame), frame) for frame in frames]
            self._held = shipment.number, frames
        return self._held[1]

    def _add(self, number: int) -> None:
        before: Head | None = None
        after, erased = NOTHING, list[int]()
        for link in self._chain(number):
            after = Head(link.through, link.chain.hex())
            if link.kind == "opened":
                before = after
            elif link.kind == "erased":
                erased.append(link.seq)
        expected = self.shipments[-1] if self.shipments else None
        if before is None or (
            expected is not None and (expected.number + 1, expected.after) != (number, before)
        ):
            raise BadFormat(
                f"{name_of(number, 'chain')} in {self.objects.url} does not continue what is before it",
                "an object is missing or from another journal; archive to a new place",
            )
        if erased:
            lines = self.objects.get(name_of(number, "tombstones")).splitlines()
            self._tombstones |= {seq_of(line): line for line in lines}
        self.shipments.append(Shipment(number, before, after, tuple(erased)))

    def _chain(self, number: int) -> Iterator[Link]:
        name = name_of(number, "chain")
        for line in self.objects.get(name).splitlines():
            link = merkle.read(line)
            if link is None:
                raise BadFormat(
                    f"{name} in {self.objects.url} is damaged", "archive to a new place"
                )
            yield link
