"""Verify an archive: compare every record with the chain, and name every object that is damaged."""

from collections.abc import Mapping

from tracklog.journal import merkle
from tracklog.journal.archive.objects import Objects
from tracklog.journal.archive.reader import (
    CHAIN,
    CUT,
    FOLDER,
    RECORDS,
    TOMBSTONES,
    blob_of,
    blobs_of,
    frames_of,
    head_of,
    links_of,
    name_of,
    numbers_of,
    pruned_of,
    tombstones_of,
    wrong_size,
)
from tracklog.journal.comparing import Comparing, Report
from tracklog.journal.frame import seq_of
from tracklog.journal.merkle import Head, Link
from tracklog.model.errors import ArchiveDamaged, BlobDamaged


def verify_archive(objects: Objects, anchor: Head | None = None) -> Report | None:
    """Read every object, and name what is not as it was archived; None where there is no archive."""
    for _ in range(3):
        sizes = objects.sizes(FOLDER)
        # A shipment begins when the one before it has its chain, so that chain was there.
        begun = (number - 1 for number in numbers_of(sizes, RECORDS))
        last = max([*numbers_of(sizes, CHAIN), *begun], default=0)
        if not last:
            return None
        report = _VerifyingArchive(objects, anchor, last, sizes).report
        if report.ok or objects.sizes(FOLDER) == sizes:
            break  # what is erased meanwhile looks like a fault
    return report


class _VerifyingArchive(Comparing):
    """One walk over the shipments of an archive."""

    def __init__(
        self, objects: Objects, anchor: Head | None, last: int, sizes: Mapping[str, int]
    ) -> None:
        super().__init__(anchor)
        self._objects, self._sizes = objects, sizes
        self._shipment = 0
        self._unknown = ""
        """Why the shipments before this one could not be verified."""
        self._tombstones: dict[int, bytes] = {}
        for number in numbers_of(sizes, TOMBSTONES):
            if number <= last:  # a later one is of a shipment that does not count yet
                self._tombstones |= tombstones_of(objects, number)
        self._pruned = pruned_of(objects)
        for number in range(self._pruned + 1, last + 1):
            self._shipment = number
            try:
                size, links = links_of(objects, self._shipment)
            except ArchiveDamaged as error:
                self._unknown = self._unknown or error.message
                continue
            self._continue(links[0])
            self._compare(links, size)
        self._shipment = 0
        if self._unknown:
            first = self.through + 1
            self.fault(first, f"the records from {first} on cannot be verified: {self._unknown}")
        for name in blobs_of(objects):
            try:
                blob_of(objects, name)
            except BlobDamaged as error:
                self.fault(0, error.message)
        self.finish()

    def fault(self, seq: int, why: str) -> None:
        named = not self._shipment or f"{FOLDER}/" in why
        super().fault(seq, why if named else f"{why} ({name_of(self._shipment, '*')})")

    def _continue(self, opened: Link) -> None:
        """Compares the beginning of a shipment with the end of the one before it."""
        first = self.through + 1
        if self._unknown:
            missed = f"records {first} to {opened.through} cannot be verified: {self._unknown}"
            self.fault(first, missed)
            self._unknown = ""
        elif self._shipment == self._pruned + 1:
            self.begin(head_of(opened))
            if opened.through:
                self.report.notes.append(f"records up to {opened.through} were pruned")
        elif (opened.through, opened.chain) != (self.through, self.before):
            self.fault(first, "its chain does not continue the shipment before it")
        self._end(opened)

    def _compare(self, links: list[Link], size: int | None) -> None:
        frames = self._frames(links[0].through, links[-1].through, size)
        self._check_tombstones([link for link in links if link.kind == "erased"])
        for link in links[1:]:
            if link.kind != "group":
                self.erased(link)
            elif link.through <= frames.through:
                self.group(link, frames)
            else:
                if merkle.chain_after(self.before or b"", link.through, link.root) != link.chain:
                    self.changed(link)
                self._end(link)

    def _check_tombstones(self, erased: list[Link]) -> None:
        name = name_of(self._shipment, TOMBSTONES)
        here: dict[int, bytes] = {}
        if erased and name.removeprefix(f"{FOLDER}/") in self._sizes:
            here = tombstones_of(self._objects, self._shipment)
        expected = {(link.seq, link.tombstone) for link in erased}
        for seq in dict.fromkeys(link.seq for link in erased):
            if seq not in here or (seq, merkle.leaf(here[seq])) not in expected:
                self.fault(seq, f"was erased, and {name} does not have its tombstone")

    def _frames(self, before: int, after: int, size: int | None) -> "_ShipmentFrames":
        """The records of a shipment as far as they can be read; what is missing is a fault."""
        if before == after:
            return _ShipmentFrames([], before)
        frames, why = frames_of(self._objects, self._shipment)
        read = before + len(frames)
        if why or read < after:
            first = min(read, after) + 1
            name = name_of(self._shipment, RECORDS)
            self.fault(first, f"records {first} to {after} cannot be read: {name} {why or CUT}")
        elif read > after:
            self.fault(after, "is followed by a line that was never recorded")
        elif self._tombstones.keys().isdisjoint(range(before + 1, after + 1)) and (
            odd := wrong_size(self._sizes, self._shipment, size)
        ):
            self.fault(before + 1, f"{name_of(self._shipment, RECORDS)} {odd}")
        return _ShipmentFrames(
            [self._tombstones.get(seq_of(each), each) for each in frames], before
        )

    def _end(self, link: Link) -> None:
        self.through, self.before = link.through, link.chain
        self._meet(link.through, link.chain)


class _ShipmentFrames:
    """The frames of a shipment, handed out by their place."""

    def __init__(self, frames: list[bytes], before: int) -> None:
        self._frames, self._before, self._at = frames, before, 0
        self.through = before + len(frames)

    def take(self, through: int) -> list[bytes]:
        start, self._at = self._at, max(self._at, through - self._before)
        return self._frames[start : self._at]

    def skip(self, through: int) -> None:
        self.take(through)
