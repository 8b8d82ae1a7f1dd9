"""Ship the records of a journal to an archive, in parts that are proven before they count."""

import re
from collections.abc import Iterable, Iterator, Sequence

import zstandard

from tracklog.journal import merkle
from tracklog.journal.archive import notes
from tracklog.journal.archive.objects import Objects, open_objects
from tracklog.journal.archive.reader import (
    BLOBS,
    CHAIN,
    PRUNED,
    RECORDS,
    TOMBSTONES,
    ArchiveReader,
    name_of,
    size_line,
)
from tracklog.journal.copying import ChainPart, check_link
from tracklog.journal.frame import record, seq_of
from tracklog.journal.leases import lease
from tracklog.journal.merkle import Head
from tracklog.journal.storages import MovedToArchive, Storage, Tiered
from tracklog.journal.stores import Store
from tracklog.model.errors import BadBackup, NoSuchBlob, Overtaken, TracklogError

NAME = "archive"
"""The lease of whoever archives a journal."""
LARGE = 64 << 20
"""Bytes of records from which on the next group begins a new shipment."""
_LEVEL = 3
_WAIT = 10.0  # seconds for another process that archives to end
_BLOB = re.compile(rb'"(?:sha256|raw)": ?"([0-9a-f]{64})"')


class Archiver:
    """Ships what is new; one at a time, which the caller ensures with a lease.

    Killed at any moment, it leaves an archive that verifies: a shipment counts when its chain is
    there, which is written last. What the next one finds begun, it does again.
    """

    def __init__(self, storage: Storage, objects: Objects) -> None:
        self._storage, self._store, self._blobs = storage, storage.store, storage.blobs
        self._objects = objects
        self._reader = ArchiveReader(objects)
        self._noted = -1
        if self._reader.shipments:
            self._scrub(self._reader.shipments[-1].erased)

    @property
    def head(self) -> Head:
        """The end of what is archived."""
        return self._reader.head()

    def behind(self) -> int:
        """How many records are not archived yet."""
        return max(0, self._store.last - self.head.through)

    def lost(self) -> list[str]:
        """The objects of the archive that are missing or do not have their size."""
        return self._reader.lost()

    def ship(self) -> int:
        """Archive what is new, and return how many records that were."""
        before = known = self._known()
        head = self._store.head()
        if head == known:
            self._note(known)
            return 0
        parts: list[ChainPart] = []
        size = 0
        for part in _behind(self._store, known, head):
            parts.append(part)
            size += sum(map(len, part.frames))
            if size > LARGE:
                known, parts, size = self._put(known, parts), [], 0
        if parts:
            known = self._put(known, parts)
        self._note(known)
        return known.through - before.through

    def _note(self, known: Head) -> None:
        if known.through != self._noted:
            notes.note(self._storage, self._objects.url, known.through)
            self._noted = known.through

    def move_old(self, before: str) -> MovedToArchive:
        """Move what was stored before that time out of the storage, which then reads it from here."""
        if not isinstance(self._storage, Tiered):
            raise TracklogError(
                "only a journal in PostgreSQL can be read from an archive",
                "`tracklog prune --archive` deletes old records of a folder that the archive has",
            )
        return self._storage.move_old(self._reader, before)

    def _known(self) -> Head:
        return self._reader.head() if self._reader.shipments else self._store.origin()

    def _put(self, before: Head, parts: Sequence[ChainPart]) -> Head:
        """Write the objects of a shipment, the chain last, and prove what was written."""
        number = len(self._reader.shipments) + 1
        chain = bytes.fromhex(before.chain)
        lines = [merkle.opened(before.through, chain)]
        groups: list[list[bytes]] = []
        tombstones: list[bytes] = []
        for part in parts:
            check_link(chain, part.link)
            chain = part.link.chain
            lines.append(merkle.line(part.link))
            if part.link.kind == "group":
                groups.append(part.frames)
            else:
                tombstones += part.frames
        self._check(groups, parts[-1].link.through)
        self._put_blobs(frame for frames in groups for frame in frames)
        if groups:
            name, data = name_of(number, RECORDS), packed(groups)
            lines.insert(0, size_line(len(data)))
            self._objects.put(name, data)
            if self._objects.get(name) != data:
                raise BadBackup(
                    f"{name} in {self._objects.url} is not what was written",
                    "check the storage: something else may have changed it",
                )
        if tombstones:
            data = b"".join(frame + b"\n" for frame in tombstones)
            self._objects.put(name_of(number, TOMBSTONES), data)
        if not self._objects.create(name_of(number, CHAIN), b"".join(lines)):
            raise Overtaken("another process archives to the same place", "one is enough")
        self._reader.add(number)
        self._scrub(self._reader.shipments[-1].erased)
        return self._reader.head()

    def _check(self, groups: Iterable[list[bytes]], through: int) -> None:
        """Refuse records that were erased while they were read: their links are not read yet."""
        frames = (frame for group in groups for frame in group if b',"erased":{' in frame)
        entries = (record(frame) for frame in frames)
        stones = {entry.seq for entry in entries if entry is not None and entry.erased}
        if stones:
            links = self._store.links(min(stones) - 1)
            before = (link for link in links if link.through <= through)
            stones -= {link.seq for link in before if link.kind == "erased"}
        if stones:
            raise Overtaken(f"record {min(stones)} was erased meanwhile", "archive again")

    def _put_blobs(self, frames: Iterable[bytes]) -> None:
        for name in blobs_in(frames):
            if not self._objects.has(f"{BLOBS}/{name}"):
                try:
                    content = self._blobs.get(name)
                except NoSuchBlob:
                    continue  # it was removed, or the hash is that of something else
                packed_blob = zstandard.ZstdCompressor(level=_LEVEL).compress(content)
                self._objects.put(f"{BLOBS}/{name}", packed_blob)

    def _scrub(self, erased: Iterable[int]) -> None:
        """Take the bytes of erased records out of the objects that have them."""
        for seq in erased:
            shipment = next(
                (each for each in self._reader.shipments if each.after.through >= seq), None
            )
            if shipment is None or shipment.before.through >= seq:
                continue  # it was pruned before
            if shipment.number <= self._reader.pruned:
                continue  # from the archive, too
            frames = self._reader.stored_frames(shipment.number)
            (stone,) = self._reader.read(seq - 1, 1)
            if stone in frames:
                continue
            put = [stone if seq_of(frame) == seq else frame for frame in frames]
            self._objects.put(name_of(shipment.number, RECORDS), packed([put]))


def prune_archive(store: Store, objects: Objects, before: str) -> int:
    """Delete the records from an archive that the journal does not have any more, if they were
    received before that time; returns how many. Their chain stays.

    Killed at any moment, it leaves an archive that verifies: what is deleted is named before.
    """
    reader = ArchiveReader(objects)
    pruned, first = reader.pruned, store.origin().through
    for shipment in reader.shipments[pruned:]:
        if shipment.after.through > first:
            break
        frames = reader.stored_frames(shipment.number)
        newest = record(frames[-1]) if frames else None
        if newest is not None and newest.received >= before:
            break
        pruned = shipment.number
    through = reader.shipments[pruned - 1].after.through if pruned else 0
    count = max(0, through - reader.origin().through)
    if not pruned:
        return 0
    objects.put(PRUNED, b"%d" % pruned)
    named = blobs_in(
        frame
        for shipment in reader.shipments[pruned:]
        for frame in reader.stored_frames(shipment.number)
    )
    for shipment in reader.shipments[:pruned]:  # also those that a killed process left
        objects.delete(name_of(shipment.number, RECORDS))
    for name in reader.blobs():
        if name not in named:
            objects.delete(f"{BLOBS}/{name}")
    return count


def archive(storage: Storage, place: str) -> tuple[Archiver, int]:
    """Archive what is new, unless another process does; returns how many records that were."""
    with lease(storage.leases(), NAME, _WAIT) as mine:
        if not mine:
            raise Overtaken(
                "another process archives this journal all the time",
                "look how far it is with `tracklog archive PLACE --behind`",
            )
        archiver = Archiver(storage, open_objects(place))
        return archiver, archiver.ship()


def packed(groups: Iterable[Sequence[bytes]]) -> bytes:
    """Frames as lines, with a frame of zstd for each group."""
    compress = zstandard.ZstdCompressor(level=_LEVEL).compress
    return b"".join(compress(b"".join(frame + b"\n" for frame in group)) for group in groups)


def blobs_in(frames: Iterable[bytes]) -> set[str]:
    """The large values that frames refer to."""
    return {
        name.decode()
        for frame in frames
        if b'"$blob"' in frame or b'"raw"' in frame
        for name in _BLOB.findall(frame)
    }


def _behind(store: Store, known: Head, head: Head) -> Iterator[ChainPart]:
    """The links of a journal behind one of its heads, each with its frames."""
    origin = store.origin()
    if known.through < origin.through:
        raise BadBackup(
            f"records {known.through + 1} to {origin.through} were pruned before they were archived",
            "archive to a new place",
        )
    met, at = known == origin, known.through
    for link in store.links(max(0, known.through - 1)):
        if not met:
            met = (link.through, link.chain.hex()) == known
            if not met and link.through > known.through:
                break
            continue
        if link.through > head.through:
            break
        if link.kind == "group":
            yield ChainPart(link, _frames(store, at, link.through))
            at = link.through
        else:
            yield ChainPart(link, [f for f in store.read(link.seq - 1, 1) if seq_of(f) == link.seq])
        if (link.through, link.chain.hex()) == head:
            break
    if not met:
        raise BadBackup(
            f"the archive ends with {known}, which is not in this journal",
            "it is the archive of another journal: archive to a new place",
        )


def _frames(store: Store, after: int, through: int) -> list[bytes]:
    frames: list[bytes] = []
    while after < through and (page := store.read(after, through - after)):
        frames += page
        after = seq_of(page[-1])
    return frames
