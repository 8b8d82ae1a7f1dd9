"""Verify a journal: compare every record with its chain of hashes."""

import os
from pathlib import Path

from tracklog.journal import merkle, segments
from tracklog.journal.comparing import Comparing, Report, anchor_of
from tracklog.journal.disk import read_file
from tracklog.journal.frame import record, seq_of
from tracklog.journal.merkle import Head, Link
from tracklog.journal.segments import (
    FORMAT,
    FORMATS,
    chain_path,
    complete_groups,
    firsts,
    lines,
    next_path,
    orphans,
    pruned,
    quarantine,
    segment_path,
    still,
)

__all__ = ["Head", "Report", "anchor_of", "head", "snapshot", "verify"]


def head(home: Path | str, folder: str = "journal") -> Head:
    """The end of the chain of a home, on disk before it is returned."""
    return segments.head(Path(home) / folder)


def verify(home: Path | str, anchor: Head | None = None, folder: str = "journal") -> Report:
    """Reads every record and every chain line; what does not fit is named, the first first."""
    place = Path(home) / folder
    for _ in range(2):
        sizes = snapshot(place)
        try:
            report = _VerifyingJournal(Path(home), folder, anchor, sizes).report
        except FileNotFoundError:  # pruned while it was read
            continue
        if report.ok or snapshot(place) == sizes:
            return report
    with still(place):  # what is erased meanwhile looks like a fault: the writers have to wait
        return _VerifyingJournal(Path(home), folder, anchor, _sizes(place)).report


class _VerifyingJournal(Comparing):
    """One walk over a journal as it is when the walk begins."""

    def __init__(
        self, home: Path, folder: str, anchor: Head | None, sizes: dict[int, tuple[int, int]]
    ) -> None:
        super().__init__(anchor)
        self.folder = home / folder
        self._format(home / "format")
        self._beginning(list(sizes))
        for first, (size, chain_size) in sizes.items():
            if first != self.through + 1:
                missing = min(first, self.through + 1)
                self.fault(missing, f"no segment holds records {self.through + 1} to {first - 1}")
                self.through, self.before = first - 1, None
            self._segment(first, size, chain_size, last=first == max(sizes))
        for first, through in orphans(self.folder):
            self.fault(first, f"the segment of records {first} to {through} is missing")
        self._aside(home)
        self.finish()

    def _format(self, path: Path) -> None:
        try:
            content = read_file(path)
        except FileNotFoundError:
            self.fault(0, "the file `format` is missing")
            return
        except OSError as error:
            self.fault(0, f"the file `format` cannot be read: {error.strerror or error}")
            return
        if content not in [b"%d\n" % format for format in FORMATS]:
            self.fault(0, f"the file `format` does not say {FORMAT}")

    def _beginning(self, known: list[int]) -> None:
        """What the first segment must be chained to."""
        cut = pruned(self.folder)
        if cut is not None and known and known[0] == cut.through + 1:
            self.begin(Head(cut.through, cut.chain.hex()))
            at = f" at {cut.at}" if cut.at else ""  # a copy does not know when
            self.report.notes.append(f"records up to {cut.through} were pruned{at}")

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
            frames = _SegmentFrames(segment, size)
            sealed = self._chain(first, links, chain_size, frames, last=last)
            self._end(frames, sealed, last=last)
        finally:
            os.close(segment)
            os.close(links)

    def _chain(
        self, first: int, fd: int, size: int, frames: "_SegmentFrames", *, last: bool
    ) -> bool:
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
                self.group(link, frames)
            elif link.kind == "erased":
                self.erased(link)
            else:
                self._bound(link, first)
                sealed = link.kind == "sealed"
        if end < size and last and not sealed and not merkle.lost_its_end(_bytes(fd, end, size)):
            self.report.notes.append(
                f"the last line of the chain is torn behind record {self.through}, as a crash "
                "leaves it: the next command that writes to the home repairs it"
            )
        elif end < size:
            self.fault(self.through + 1, f"the chain of segment {first} is torn")
        return sealed

    def _bound(self, link: Link, first: int) -> None:
        """Compares the first or the last line of a chain file."""
        through = first - 1 if link.kind == "opened" else self.through
        if (link.through, link.chain) != (through, self.before or link.chain):
            self.changed(link)
        self.before = link.chain
        self._meet(link.through, self.before)

    def _end(self, frames: "_SegmentFrames", sealed: bool, *, last: bool) -> None:
        if last and not sealed:
            self._tail(frames)
        elif frames.take(None) or frames.torn:
            self.fault(self.through, "is followed by bytes that were never recorded")
        if last and sealed and next_path(self.folder, self.through + 1).exists():
            self.report.notes.append(
                f"no segment begins behind record {self.through} yet, as a crash or a full disk "
                "leaves it: the next command that writes to the home begins one"
            )
        elif last and sealed:
            self.fault(self.through + 1, "the segment that begins with it is missing")
        if not last and not sealed:
            self.fault(self.through, "ends a segment that was not sealed")

    def _tail(self, frames: "_SegmentFrames") -> None:
        """Data after the end of the chain: a crash leaves it, and opening the journal repairs it."""
        start, end, through = frames.offset, frames.offset, self.through
        for group in complete_groups(frames.fd, start, frames.size, through):
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
            entry = record(line)
            if (entry is None or entry.seq != seq) and b"\0" not in line:
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


class _SegmentFrames:
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
        frames: list[bytes] = []
        while (line := self._next()) is not None:
            seq = seq_of(line)
            if through is not None and seq > through:
                self.held = line
                break
            frames.append(line)
            if seq == through:
                break
        return frames

    def skip(self, through: int) -> None:
        self.take(through)

    def _next(self) -> bytes | None:
        if self.held is not None:
            line, self.held = self.held, None
            return line
        item = next(self.lines, None)
        if item is None:
            return None
        self.read = item[0] + len(item[1]) + 1
        return item[1]


def _bytes(fd: int, start: int, stop: int) -> bytes:
    return os.pread(fd, stop - start, start)


def snapshot(folder: Path) -> dict[int, tuple[int, int]]:
    """The sizes of every segment and chain while nobody writes."""
    with still(folder):
        return _sizes(folder)


def _sizes(folder: Path) -> dict[int, tuple[int, int]]:
    sizes = {}
    for first in firsts(folder):
        links = chain_path(folder, first)
        size = links.stat().st_size if links.exists() else 0
        sizes[first] = segment_path(folder, first).stat().st_size, size
    return sizes
