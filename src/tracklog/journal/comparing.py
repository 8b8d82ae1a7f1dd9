"""Compare records with the chain of hashes, over any store; what a file home adds is in `verify`."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tracklog.journal import merkle
from tracklog.journal.frame import EVENT, record, seq_of
from tracklog.journal.merkle import NOTHING, Head, Link
from tracklog.journal.stores import Readable
from tracklog.model.errors import BadFormat

_MOST = 100


RESTORE_FIRST = (
    "restore the journal from a backup or an archive before you write to it: new records would get "
    "the numbers of those that are gone"
)


class RecordFault(NamedTuple):
    """A record that is not as it was recorded, and why."""

    seq: int
    """0 when it is the home itself."""
    why: str

    def __str__(self) -> str:
        return f"record {self.seq}: {self.why}" if self.seq else self.why


@dataclass
class Report:
    """What `verify` found."""

    records: int = 0
    groups: int = 0
    first: int = 1
    """The first record that is still stored."""
    head: Head = NOTHING
    erased: list[int] = field(default_factory=list)
    """Records that an operator erased; each tombstone is chained."""
    faults: list[RecordFault] = field(default_factory=list)
    """By record; the first is the first bad record. At most 100."""
    notes: list[str] = field(default_factory=list)
    """What is worth knowing and no fault."""
    unproven: list[int] = field(default_factory=list)
    """The first record of each stretch that nothing contradicts, and no chain proves."""

    @property
    def ok(self) -> bool:
        return not self.faults

    @property
    def verdict(self) -> str:
        """In a word or two."""
        if self.faults:
            return "NOT intact"
        return "intact, but not all proven" if self.unproven else "proven"


def anchor_of(text: str) -> Head:
    """An anchor as it was noted: `through:chain`."""
    through, _, root = text.strip().partition(":")
    if not through.isdigit() or len(root) != 64 or not set(root) <= set("0123456789abcdef"):
        raise BadFormat(
            f"{text!r} is not an anchor", "an anchor is what `tracklog verify` calls head"
        )
    return Head(int(through), root)


def verify_store(store: Readable, anchor: Head | None = None) -> Report:
    """Compare every record of a store with its chain; the first fault is the first bad record."""
    for _ in range(3):
        head = store.head()
        report = _Walk(store, head, anchor).report
        if report.ok or store.head() == head:
            break
    return report


class Frames(Protocol):
    """The frames of a journal, handed out in order by their numbers."""

    def take(self, through: int) -> list[bytes]:
        """The next frames, up to that number."""

    def skip(self, through: int) -> None:
        """Leave out the frames up to that number."""


class Comparing:
    """Compares links with frames, one after the other."""

    def __init__(self, anchor: Head | None) -> None:
        self.report = Report()
        self.through: int = 0
        self.before: bytes | None = merkle.ORIGIN
        """The chain so far; None where it is not known."""
        self.anchor, self.met = anchor, anchor is None or anchor == self.report.head
        self.stones: dict[int, tuple[bytes, bytes]] = {}
        self.links: dict[int, list[tuple[bytes, bytes]]] = {}

    def finish(self) -> None:
        """Compares erasures and the anchor, when every link was compared."""
        self._erasures()
        self.report.head = Head(self.through, (self.before or merkle.ORIGIN).hex())
        self._anchor()
        self.report.faults.sort()

    def begin(self, origin: Head) -> None:
        """Begins behind what was pruned."""
        self.through, self.report.first = origin.through, origin.through + 1
        self.before = bytes.fromhex(origin.chain)
        self._meet(origin.through, self.before)

    def fault(self, seq: int, why: str) -> None:
        if len(self.report.faults) < _MOST:
            self.report.faults.append(RecordFault(seq, why))

    def group(self, link: Link, frames: Frames) -> None:
        """Compares the next group."""
        count = len(link.leaves) // merkle.SHORT
        start = link.through - count + 1
        if start != self.through + 1:
            self.fault(min(start, self.through + 1), "chain lines were removed, added or changed")
            frames.skip(start - 1)
        group = frames.take(link.through)
        leaves = [self._leaf(frame) for frame in group]
        self.report.records += len(group)
        self.report.groups += 1
        numbers = list(range(start, link.through + 1))
        fits = len(leaves) == count and [seq_of(frame) for frame in group] == numbers
        if not fits or not merkle.is_link(link, self.before, leaves):
            self._blame(group, leaves, link, start)
        self.through, self.before = link.through, link.chain
        self._meet(self.through, self.before)

    def erased(self, link: Link) -> None:
        """Compares an erasure; that its tombstone is there is compared in the end."""
        self.links.setdefault(link.seq, []).append((link.leaf, link.tombstone))
        if self.before is not None:
            after = merkle.erasure_link(self.before, link.seq, link.leaf, link.tombstone)
            if (link.through, link.chain) != (self.through, after):
                self.changed(link)
        self.before = link.chain
        self._meet(link.through, self.before)

    def changed(self, link: Link) -> None:
        self.fault(self.through + 1, f"the {link.kind} line of a chain was changed")

    def _blame(self, group: list[bytes], leaves: list[bytes], link: Link, start: int) -> None:
        """Names the first record of a group that is not as it was."""
        short = merkle.SHORT
        for at in range(start, link.through + 1):
            place = at - start
            expected = link.leaves[place * short : (place + 1) * short]
            if place >= len(group):
                self.fault(at, "is gone")
                return
            if leaves[place][:short] != expected:
                seq = seq_of(group[place])
                why = "was changed"
                if seq not in (0, at):
                    why = f"was removed or moved: record {seq} stands in its place"
                elif self.before and merkle.is_proven(link, self.before, leaves):
                    why = "its entry in the chain was changed"  # what proves it was not
                self.fault(at, why)
                return
        if len(group) > link.through - start + 1:
            self.fault(link.through, "is followed by a line that was never recorded")
        else:
            self.fault(start, f"the chain line of records {start} to {link.through} was changed")

    def _leaf(self, frame: bytes) -> bytes:
        if b',"erased":{' in frame[: frame.find(EVENT)]:
            entry = record(frame)
            if entry is not None and entry.erased is not None:
                leaf = bytes.fromhex(entry.erased.leaf)
                self.stones[entry.seq] = leaf, merkle.leaf(frame)
                return leaf
        return merkle.leaf(frame)

    def _erasures(self) -> None:
        for seq, stone in self.stones.items():
            if stone in self.links.get(seq, ()):
                self.report.erased.append(seq)
            else:
                self.fault(seq, "was replaced by a tombstone that is not chained")
        for seq in self.links:
            if seq not in self.stones and seq >= self.report.first:
                self.fault(seq, "its erasure was begun and not finished; erase it again")
        self.report.erased.sort()

    def _meet(self, through: int, chained: bytes | None) -> None:
        anchor = self.anchor
        if anchor and chained and anchor.through == through and anchor.chain == chained.hex():
            self.met = True

    def _anchor(self) -> None:
        if self.met or self.anchor is None:
            return
        at, end = self.anchor.through, self.through
        if at > end:
            self.fault(
                end + 1, f"the tail was cut: the anchor knows record {at}, {end} is the last"
            )
            self.report.notes.append(RESTORE_FIRST)
        elif at < self.report.first - 1:
            self.fault(at, "the anchor is older than the first record still kept")
        else:
            self.fault(at, "the chain is not the one that the anchor was taken from")


class _Walk(Comparing):
    """One walk over a store, up to a head."""

    def __init__(self, store: Readable, head: Head, anchor: Head | None) -> None:
        super().__init__(anchor)
        origin = store.origin()
        if origin.through:
            self.begin(origin)
            self.report.notes.append(f"records up to {origin.through} were pruned")
        frames = _StoreFrames(store, origin.through)
        for link in store.links():
            if link.through > head.through:
                break
            if link.kind == "group":
                self.group(link, frames)
            else:
                self.erased(link)
            if (link.through, link.chain.hex()) == head:
                break
        if self.through < head.through:
            self.fault(self.through + 1, "is not chained")
        self.finish()


class _StoreFrames:
    """The frames of a store, read a batch at a time."""

    def __init__(self, store: Readable, after: int) -> None:
        self._frames = self._read(store, after)
        self._next = next(self._frames, None)

    def take(self, through: int) -> list[bytes]:
        frames: list[bytes] = []
        while self._next is not None and seq_of(self._next) <= through:
            frames.append(self._next)
            self._next = next(self._frames, None)
        return frames

    def skip(self, through: int) -> None:
        self.take(through)

    @staticmethod
    def _read(store: Readable, after: int) -> Iterator[bytes]:
        while frames := store.read(after, 1000):
            yield from frames
            after = seq_of(frames[-1])
