"""Read an archive: its records and its chain, as those of a store; and its large values."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import NamedTuple

import zstandard

from tracklog.journal import merkle
from tracklog.journal.archive.objects import Objects
from tracklog.journal.copying import check_link
from tracklog.journal.frame import Run, run_of, seq_of
from tracklog.journal.merkle import NOTHING, Head, Link
from tracklog.model.errors import ArchiveDamaged, BadBackup, BlobDamaged, NoSuchObject

FOLDER = "v1"
BLOBS = f"{FOLDER}/blobs"
RECORDS, TOMBSTONES, CHAIN = "jsonl.zst", "tombstones", "chain"
PRUNED = f"{FOLDER}/pruned"
"""The object that names the last shipment whose records were deleted; their chains stay."""
_HINT = "bring the object back, or archive to a new place while the journal has these records"
_STEP = 1 << 12  # bytes
_HASH = re.compile("[0-9a-f]{64}")
_BYTES = re.compile(rb'\{"bytes":([0-9]{1,18})\}')


def name_of(number: int, kind: str) -> str:
    """The name of an object of a shipment."""
    return f"{FOLDER}/{number:010}.{kind}"


def numbers_of(names: Iterable[str], kind: str) -> list[int]:
    """The numbers of the shipments that have an object of a kind."""
    wanted = re.compile(rf"([0-9]{{10}})\.{re.escape(kind)}")
    return [int(match[1]) for match in map(wanted.fullmatch, names) if match]


def size_line(size: int) -> bytes:
    """The first line of a chain: the size of the object with the records, when it was written."""
    return b'{"bytes":%d}\n' % size


class Shipment(NamedTuple):
    """A part of the journal that was archived at once."""

    number: int
    before: Head
    """What its first link is chained to."""
    after: Head
    erased: tuple[int, ...]
    """The records whose erasure it has."""
    size: int | None
    """Bytes of its records; None where the archive does not say so."""

    @property
    def has_records(self) -> bool:
        return self.before.through < self.after.through


class ArchiveReader:
    """The records of an archive as they are when it is opened."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self.shipments: list[Shipment] = []
        self._tombstones: dict[int, bytes] = {}
        self._held: tuple[int, list[bytes]] = (-1, [])
        self.pruned = pruned_of(objects)
        """The last shipment whose records were deleted; 0 for none."""
        for number in numbers_of(objects.sizes(FOLDER), CHAIN):
            self.add(number)

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
        left = self.shipments[self.pruned :]
        return left[0].before if left else self.head()

    def links(self, after: int = 0) -> Iterator[Link]:
        """The chain, from the group that holds `after + 1`."""
        for shipment in self.shipments[self.pruned :]:
            if shipment.after.through > after or shipment.erased:
                for link in links_of(self.objects, shipment.number)[1]:
                    if link.kind in ("group", "erased") and link.through > after:
                        yield link

    def read(self, after: int, limit: int, run: Run | None = None) -> list[bytes]:
        """The frames behind `after`, in order, at most `limit`, of one run if asked."""
        ends = [shipment.after.through for shipment in self.shipments]
        at = bisect_left(ends, max(after, self.first - 1) + 1)
        while at < len(self.shipments):
            frames = [
                frame
                for frame in self._frames(self.shipments[at])
                if seq_of(frame) > after and (run is None or run_of(frame) == run)
            ]
            if frames:
                return frames[:limit]
            at += 1
        return []

    def blob(self, name: str) -> bytes:
        """A large value; damaged ones are an error."""
        return blob_of(self.objects, name)

    def blobs(self) -> list[str]:
        """The SHA-256 of every large value."""
        return blobs_of(self.objects)

    def stored_frames(self, number: int) -> list[bytes]:
        """The frames of a shipment as they are in its object."""
        shipment = self.shipments[number - 1]
        if not shipment.has_records:
            return []
        frames, why = frames_of(self.objects, number)
        if why or len(frames) != shipment.after.through - shipment.before.through:
            raise ArchiveDamaged(
                f"{name_of(number, RECORDS)} in {self.objects.url} {why or CUT}", _HINT
            )
        return frames

    def _frames(self, shipment: Shipment) -> list[bytes]:
        if self._held[0] != shipment.number:
            frames = self.stored_frames(shipment.number)
            if self._tombstones:
                frames = [self._tombstones.get(seq_of(frame), frame) for frame in frames]
            self._held = shipment.number, frames
        return self._held[1]

    def add(self, number: int) -> None:
        """Read the chain of the next shipment."""
        size, links = links_of(self.objects, number)
        last = self.shipments[-1] if self.shipments else None
        expected = (last.number + 1, last.after) if last else (1, head_of(links[0]))
        if expected != (number, head_of(links[0])):
            raise ArchiveDamaged(
                f"{name_of(number, CHAIN)} in {self.objects.url} does not continue what is before "
                "it: an object is missing, or from another journal",
                _HINT,
            )
        chain = links[0].chain
        for link in links[1:]:
            try:
                check_link(chain, link)
            except BadBackup as error:
                where = f"{name_of(number, CHAIN)} in {self.objects.url}"
                raise ArchiveDamaged(f"{where} is damaged: {error.message}", _HINT) from error
            chain = link.chain
        erased = tuple(link.seq for link in links if link.kind == "erased")
        if erased:
            self._tombstones |= tombstones_of(self.objects, number)
            self._held = -1, []
        self.shipments.append(Shipment(number, head_of(links[0]), head_of(links[-1]), erased, size))

    def lost(self) -> list[str]:
        """The objects that are missing or do not have the size that they were written with."""
        sizes, erased = self.objects.sizes(FOLDER), sorted(self._tombstones)
        messages = []
        for each in self.shipments[self.pruned :]:
            first, last = each.before.through + 1, each.after.through
            rewritten = bisect_left(erased, first) < bisect_left(erased, last + 1)
            why = wrong_size(sizes, each.number, None if rewritten else each.size)
            if each.has_records and why:
                name = name_of(each.number, RECORDS)
                messages.append(f"{name} {why}: it has the records {first} to {last}")
        return messages


def pruned_of(objects: Objects) -> int:
    """The last shipment whose records were deleted; 0 for none."""
    try:
        text = objects.get(PRUNED)
    except NoSuchObject:
        return 0
    if not text.isdigit():
        raise ArchiveDamaged(f"{PRUNED} in {objects.url} is damaged", _HINT)
    return int(text)


CUT = "is cut short"
_MISSING = "is missing"


def wrong_size(sizes: Mapping[str, int], number: int, expected: int | None) -> str:
    """What is wrong with the size of the records of a shipment.

    After an erasure they are written again, and then no size is expected.
    """
    size = sizes.get(name_of(number, RECORDS).removeprefix(f"{FOLDER}/"))
    if size is None:
        return _MISSING
    if expected is None:
        return "" if size else CUT
    return "" if size == expected else f"has {size:,} bytes and not {expected:,}"


def head_of(link: Link) -> Head:
    """The end of the chain after a link."""
    return Head(link.through, link.chain.hex())


def links_of(objects: Objects, number: int) -> tuple[int | None, list[Link]]:
    """The links of a shipment, and the size of its records where it is noted."""
    name, size = name_of(number, CHAIN), None
    try:
        lines = objects.get(name).splitlines()
    except NoSuchObject:
        raise ArchiveDamaged(f"{name} in {objects.url} {_MISSING}", _HINT) from None
    if lines and (noted := _BYTES.fullmatch(lines[0])):
        size = int(noted[1])
        del lines[0]
    links = list(map(merkle.read, lines))
    first = links[0] if links else None
    good = [link for link in links if link is not None]
    opened = [at for at, link in enumerate(links) if link and link.kind == "opened"]
    if first is None or len(good) != len(links) or opened != [0]:
        bad = next((at for at, link in enumerate(links, 1) if link is None), 1)
        where = f"line {bad + (size is not None)} of {name} in {objects.url}"
        raise ArchiveDamaged(f"{where} is damaged", _HINT)
    return size, good


def tombstones_of(objects: Objects, number: int) -> dict[int, bytes]:
    """What stands in the place of the records whose erasure a shipment has."""
    try:
        lines = objects.get(name_of(number, TOMBSTONES)).splitlines()
    except NoSuchObject:
        raise ArchiveDamaged(
            f"{name_of(number, TOMBSTONES)} in {objects.url} {_MISSING}", _HINT
        ) from None
    return {seq_of(line): line for line in lines}


def frames_of(objects: Objects, number: int) -> tuple[list[bytes], str]:
    """The records of a shipment as far as they can be read, and why no further."""
    try:
        data = objects.get(name_of(number, RECORDS))
    except NoSuchObject:
        return [], _MISSING
    why = ""
    try:
        text = _unpacking(data).readall()
    except zstandard.ZstdError as error:
        text, why = _beginning(data), f"is damaged: {error}"
    *frames, rest = text.split(b"\n")
    return frames, why or (CUT if rest else "")


def _unpacking(data: bytes) -> zstandard.ZstdDecompressionReader:
    return zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)


def _beginning(data: bytes) -> bytes:
    """What can be unpacked of damaged bytes, step by step, because a step that fails gives nothing."""
    reader, text = _unpacking(data), bytearray()
    with suppress(zstandard.ZstdError):
        while block := reader.read1(_STEP):  # at most one group
            text += block
    return bytes(text)


def blob_of(objects: Objects, name: str) -> bytes:
    """A large value of an archive; damaged ones are an error."""
    try:
        content = zstandard.decompress(objects.get(f"{BLOBS}/{name}"))
    except zstandard.ZstdError:
        content = b""
    if sha256(content).hexdigest() != name:
        raise BlobDamaged(f"the blob {name} in {objects.url} is damaged", "archive it again")
    return content


def blobs_of(objects: Objects) -> list[str]:
    """The SHA-256 of every large value of an archive."""
    return [name for name in objects.sizes(BLOBS) if _HASH.fullmatch(name)]
