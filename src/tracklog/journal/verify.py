"""Verify a journal: compare every record with its chain of hashes."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tracklog.journal import merkle, segments
from tracklog.journal.frame import EVENT, record, seq_of
from tracklog.journal.merkle import NOTHING, Head, Link
from tracklog.journal.segments import (
    FORMAT,
    FORMATS,
    chain_path,
    firsts,
    lines,
    orphans,
    pruned,
    quarantine,
    segment_path,
    still,
    whole_groups,
)
from tracklog.model.errors import BadFormat

_MOST = 100


class Fault(NamedTuple):
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
    """The first record still kept."""
    head: Head = NOTHING
    erased: list[int] = field(default_factory=list)
    """Records that an operator erased; each tombstone is chained."""
    faults: list[Fault] = field(default_factory=list)
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
            return "NOT whole"
        return "whole, but not all proven" if self.unproven else "proven"


def anchor_of(text: str) -> Head:
    """An anchor as it was noted: `through:chain`."""
    through, _, told = text.strip().partition(":")
    if not through.isdigit() or len(told) != 64 or not set(told) <= set("0123456789abcdef"):
        raise BadFormat(f"{text!r} is no anchor", "an anchor is what `tracklog verify` calls head")
    return Head(int(through), told)


def head(home: Path | str, folder: str = "journal") -> Head:
    """The end of the chain of a home, on disk before it is returned."""
    return segments.head(Path(home) / folder)


def verify(home: Path | str, anchor: Head | None = None, folder: str = "journal") -> Report:
    """Reads every record and every chain line; what does not fit is named, the first first."""
    place = Path(home) / folder
    for _ in range(2):
        sizes = snapshot(place)
        try:
            report = _Verifying(Path(home), folder, anchor, sizes).report
        except FileNotFoundError:  # pruned while it was read
            continue
        if report.ok or snapshot(place) == sizes:
            return report
    with still(place):  # what is erased meanwhile looks like a fault: the writers have to wait
        return _Verifying(Path(home), folder, anchor, _sizes(place)).report


class _Verifying:
    """One walk over a journal as it is when the walk begins."""

    def __init__(
        self, home: Path, folder: str, anchor: Head | None, sizes: dict[int, tuple[int, int]]
    ) -> None:
        self.folder = home / folder
        self.report = Report()
        self.through: int = 0
        self.anchor, self.met = anchor, anchor is None or anchor == self.report.head
        self.stones: dict[int, tuple[bytes, bytes]] = {}
        self.links: dict[int, list[tuple[bytes, bytes]]] = {}
        self._format(home / "format")
        self.before: bytes | None = self._beginning(list(sizes))
        for first, (size, chain_size) in sizes.items():
            if first != self.through + 1:
                missing = min(first, self.through + 1)
                self.fault(missing, f"no segment holds records {self.through + 1} to {first - 1}")
                self.through, self.before = first - 1, None
            self._segment(first, size, chain_size, last=first == max(sizes))
        for first, through in orphans(self.folder):
            self.fault(first, f"the segment of records {first} to {through} is missing")
        self._erasures()
        self._aside(home)
        chained = (self.before or merkle.ORIGIN).hex()
        self.report.head = Head(self.through, chained)
        self._anchor()
        self.report.faults.sort()

    def fault(self, seq: int, why: str) -> None:
        if len(self.report.faults) < _MOST:
            self.report.faults.append(Fault(seq, why))

    def _format(self, path: Path) -> None:
        try:
            said = path.read_bytes()
        except FileNotFoundError:
            self.fault(0, "the file `format` is missing")
            return
        if said not in [b"%d\n" % format for format in FORMATS]:
            self.fault(0, f"the file `format` does not say {FORMAT}")

    def _beginning(self, known: list[int]) -> bytes | None:
        """What the first kept segment must be chained to."""
        cut = pruned(self.folder)
        if cut is not None and known and known[0] == cut.through + 1:
            self.through, self.report.first = cut.through, known[0]
            self.report.notes.append(f"records up to {cut.through} were pruned at {cut.at}")
            self._meet(cut.through, cut.chain)
            return cut.chain
        return merkle.ORIGIN

    def _segment(self, first: int, size: int, chain_size: int, *, last: bool) -> None:
        segment = os.open(segment_path(self.folder, first), os.O_RDONLY | os.O_CLOEXEC)
        try:
            links = os.open(chain_path(self.folder, first), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            os.close(segment)
            self.fault(first, f"the chain of segment {first} is missing")
            self.through, self.before = first - 1, None
            return
        try:
            frames = _Frames(segment, size)
            sealed = self._chain(first, links, chain_size, frames, last=last)
            self._end(frames, sealed, last=last)
        finally:
            os.close(segment)
            os.close(links)

    def _chain(self, first: int, fd: int, size: int, frames: "_Frames", *, last: bool) -> bool:
        """Walks one chain file beside its frames; whether it is sealed."""
        sealed, end = False, 0
        for offset, line in lines(fd, 0, size):
            end = offset + len(line) + 1
            link = merkle.read(line)
            if sealed:
                self.fault(self.through, "the chain goes on behind its seal")
            elif link is None or (offset == 0) != (link.kind == "opened"):
                self.fault(self.through + 1, f"a chain line of segment {first} was changed")
                self.before = None
            elif link.kind == "group":
                self._group(line, link, frames)
            else:
                self._other(line, link, first)
                sealed = link.kind == "sealed"
        if end < size and last and not sealed and not merkle.lost_its_end(_bytes(fd, end, size)):
            self.report.notes.append(
                f"the last line of the chain is torn behind record {self.through}, as a crash "
                "leaves it: the next command that writes to the home mends it"
            )
        elif end < size:
            self.fault(self.through + 1, f"the chain of segment {first} is torn")
        return sealed

    def _other(self, line: bytes, link: Link, first: int) -> None:
        before = link.chain if self.before is None else self.before
        if link.kind == "opened":
            expected = merkle.opened(first - 1, before)
        elif link.kind == "sealed":
            expected = merkle.sealed(self.through, before)
        else:
            expected, before = merkle.erased(
                before, self.through, link.seq, link.leaf, link.tombstone
            )
            self.links.setdefault(link.seq, []).append((link.leaf, link.tombstone))
            if self.before is None:
                expected, before = line + b"\n", link.chain
        if expected != line + b"\n":
            self.fault(self.through + 1, f"the {link.kind} line of a chain was changed")
            before = link.chain
        self.before = before
        self._meet(link.through, before)

    def _group(self, line: bytes, link: Link, frames: "_Frames") -> None:
        count = len(link.leaves) // merkle.SHORT
        start = link.through - count + 1
        if start != self.through + 1:
            self.fault(min(start, self.through + 1), "chain lines were removed, added or changed")
            frames.skip(start - 1)
        found = frames.take(link.through)
        leaves = [self._leaf(frame) for frame in found]
        self.report.records += len(found)
        self.report.groups += 1
        before = self.before
        if len(leaves) == count and [seq_of(frame) for frame in found] == list(
            range(start, link.through + 1)
        ):
            text, after = merkle.group(
                before or bytes(32), link.through, leaves, synced=link.synced
            )
            if text == line + b"\n" or (before is None and merkle.root(leaves) == link.root):
                self.through, self.before = link.through, link.chain if before is None else after
                self._meet(self.through, self.before)
                return
        self._blame(found, leaves, link, start)
        self.through, self.before = link.through, link.chain
        self._meet(self.through, self.before)

    def _blame(self, found: list[bytes], leaves: list[bytes], link: Link, start: int) -> None:
        """Names the first record of a group that is not as it was."""
        short = merkle.SHORT
        for at in range(start, link.through + 1):
            place = at - start
            told = link.leaves[place * short : (place + 1) * short]
            if place >= len(found):
                self.fault(at, "is gone")
                return
            if leaves[place][:short] != told:
                seq = seq_of(found[place])
                moved = f"was removed or moved: record {seq} stands in its place"
                self.fault(at, "was changed" if seq in (0, at) else moved)
                return
        if len(found) > link.through - start + 1:
            self.fault(link.through, "is followed by a line that was never recorded")
        else:
            self.fault(start, f"the chain line of records {start} to {link.through} was changed")

    def _leaf(self, frame: bytes) -> bytes:
        if b',"erased":{' in frame[: frame.find(EVENT)]:
            found = record(frame)
            if found is not None and found.erased is not None:
                leaf = bytes.fromhex(found.erased.leaf)
                self.stones[found.seq] = leaf, merkle.leaf(frame)
                return leaf
        return merkle.leaf(frame)

    def _end(self, frames: "_Frames", sealed: bool, *, last: bool) -> None:
        if last and not sealed:
            self._tail(frames)
        elif frames.take(None) or frames.torn:
            self.fault(self.through, "is followed by bytes that were never recorded")
        if last and sealed:
            self.fault(self.through + 1, "the segment that begins with it is missing")
        if not last and not sealed:
            self.fault(self.through, "ends a segment that was not sealed")

    def _tail(self, frames: "_Frames") -> None:
        """What stands behind the chain: a crash leaves this, and opening the journal mends it."""
        start, end, through = frames.offset, frames.offset, self.through
        for group in whole_groups(frames.fd, start, frames.size, through):
            end, through = group.end, group.through
        if through > self.through:
            self.report.notes.append(
                f"{through - self.through} records behind record {self.through} are not chained "
                "yet, as a crash leaves them: the next command that writes to the home chains them"
            )
            self.report.unproven.append(self.through + 1)
        seq = through
        for _, line in lines(frames.fd, end, frames.size):
            seq += 1
            found = record(line)
            if (found is None or found.seq != seq) and b"\0" not in line:
                self.fault(through + 1, "a line that was never recorded stands in its place")
                return
        if end < frames.size and not self.report.faults:
            self.report.notes.append(
                f"{frames.size - end} bytes behind record {through} are no whole group, as a crash "
                "leaves them: the next command that writes to the home moves them to quarantine"
            )

    def _aside(self, home: Path) -> None:
        for path in quarantine.pieces(home):
            what = f"{path.stat().st_size:,} bytes were set aside in quarantine/{path.name}"
            if path.suffix == ".chain-lost":
                what = path.read_text(errors="replace").strip()
                first = path.name.partition("-")[0]
                self.report.unproven.append(int(first) if first.isdecimal() else 1)
            self.report.notes.append(f"{what}; `tracklog doctor --accept` ends this notice")

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
        elif at < self.report.first - 1:
            self.fault(at, "the anchor is older than the first record still kept")
        else:
            self.fault(at, "the chain is not the one that the anchor was taken from")


class _Frames:
    """The lines of a segment, handed out by the numbers that they open with."""

    def __init__(self, fd: int, size: int) -> None:
        self.fd, self.size, self.read = fd, size, 0
        self.lines = lines(fd, 0, size)
        self.held: bytes | None = None

    @property
    def torn(self) -> int:
        return self.size - self.read

    @property
    def offset(self) -> int:
        """Behind the last line that was handed out."""
        return self.read - (len(self.held) + 1 if self.held is not None else 0)

    def take(self, through: int | None) -> list[bytes]:
        """The lines up to that number, those without a number among them."""
        found: list[bytes] = []
        while (line := self._next()) is not None:
            seq = seq_of(line)
            if through is not None and seq > through:
                self.held = line
                break
            found.append(line)
            if seq == through:
                break
        return found

    def skip(self, through: int) -> None:
        self.take(through)

    def _next(self) -> bytes | None:
        if self.held is not None:
            line, self.held = self.held, None
            return line
        found = next(self.lines, None)
        if found is None:
            return None
        self.read = found[0] + len(found[1]) + 1
        return found[1]


def _bytes(fd: int, start: int, stop: int) -> bytes:
    return os.pread(fd, stop - start, start)


def snapshot(folder: Path) -> dict[int, tuple[int, int]]:
    """The sizes of every segment and chain at a moment when nobody writes."""
    with still(folder):
        return _sizes(folder)


def _sizes(folder: Path) -> dict[int, tuple[int, int]]:
    found = {}
    for first in firsts(folder):
        links = chain_path(folder, first)
        size = links.stat().st_size if links.exists() else 0
        found[first] = segment_path(folder, first).stat().st_size, size
    return found
