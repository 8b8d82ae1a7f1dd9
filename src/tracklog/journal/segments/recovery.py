"""The open segment of a folder: open it, recover it after a crash, and repair it after a failed write.

Only the segment is synced at each group, so after a crash the segment alone decides which groups
there are, and the chain is completed from it.
"""

import contextlib
import os
from pathlib import Path
from typing import NamedTuple

from tracklog.journal import merkle
from tracklog.journal.disk import Disk, write_all, write_file
from tracklog.journal.frame import record, seq_of
from tracklog.journal.segments import (
    CHUNK,
    blocks,
    chain_path,
    complete_groups,
    firsts,
    last_line,
    last_link,
    lines,
    next_path,
    orphans,
    place,
    pruned,
    runs_path,
    segment_path,
)
from tracklog.model.errors import StoreBroken
from tracklog.model.event import Finding

_PAGE = 4096


class OpenSegment:
    """The segment to which records are appended, and its chain; its caller holds the lock."""

    def __init__(self, home: Path, folder: str, disk: Disk, format: int) -> None:
        self.home, self.folder = home, home / folder
        self.disk = disk
        self.format = format
        """By which the tail of the open segment is judged; not 2 only while a home is upgraded."""
        self.findings: list[Finding] = []
        self.durable = 0
        """The last record that is known to be on disk."""
        self.first = 1
        """Of the segment that is open."""
        self.through = 0
        self.chain = merkle.ORIGIN
        self._end = 0
        self._chain_end = 0
        self._segment = self._links = -1
        self._synced = 0
        """Bytes of the open segment that are known to be on disk."""
        self._doubtful = False
        self._unclean = False

    def _recover_or_wait(self) -> None:
        """Recovers; where there is no room for it, the journal can be read, and each append tries
        again.
        """
        try:
            self._recover()
        except OSError as error:
            if not firsts(self.folder):
                raise
            self._find(
                "not-recovered",
                f"what a crash left in {self.folder} could not be put aside: "
                f"{error.strerror or error}; it can be read, and the next append tries again",
            )

    @property
    def recovered(self) -> bool:
        """Whether it is ready to append."""
        return self._segment >= 0

    def _recover(self) -> None:
        """From whatever is on disk to a state in which the next group can be appended."""
        self._let_go()
        cut = pruned(self.folder)
        known = self._finish_pruning(firsts(self.folder), cut.through if cut else 0)
        lost = [first for first, _ in orphans(self.folder) if first > (known or [0])[-1]]
        if lost:
            self._go_on_behind(lost[-1])
            return
        if not known:
            self._create(cut.through + 1 if cut else 1, cut.chain if cut else merkle.ORIGIN)
            return
        try:
            self._open(known[-1])
            self.disk.sync_folder(self.folder)
            sealed = self._repair()
            self.durable = max(self.durable, self.first - 1)
            if sealed:
                self._create(self.through + 1, self.chain)
            for path in self.folder.glob("*.next"):  # of a segment that was not sealed after all
                self.disk.remove(path)
        except BaseException:
            self._let_go()
            raise

    def _finish_pruning(self, known: list[int], through: int) -> list[int]:
        """Removes what a recorded pruning did not get to."""
        while len(known) > 1 and known[1] <= through + 1:
            self.remove(known.pop(0))
        return known

    def remove(self, first: int) -> None:
        """Takes a segment off the disk, its chain last."""
        for path in (runs_path, segment_path, chain_path):
            with contextlib.suppress(FileNotFoundError):
                self.disk.remove(path(self.folder, first))

    def _go_on_behind(self, first: int) -> None:
        """Begins the next segment behind one that is gone: its numbers are not given out again."""
        with chain_path(self.folder, first).open("rb") as file:
            link = last_link(file.fileno(), os.fstat(file.fileno()).st_size)
        assert link is not None, "orphans have one"
        self._find(
            "segment-lost",
            f"the segment of records {first} to {link.through} is gone; the numbers go on behind "
            "it; run `tracklog doctor`",
        )
        self._create(link.through + 1, link.chain)

    def _create(self, first: int, before: bytes) -> None:
        """A new segment, on disk with its name before anything is written to it."""
        header = merkle.opened(first - 1, before)
        links = chain_path(self.folder, first)
        fd = self.disk.open(links, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            write_all(self.disk, fd, header)
            self.disk.sync(fd)
        finally:
            self.disk.close(fd)
        path = segment_path(self.folder, first)
        self.disk.close(self.disk.open(path, os.O_WRONLY | os.O_CREAT))
        self.disk.sync_folder(self.folder)
        with contextlib.suppress(FileNotFoundError):
            self.disk.remove(next_path(self.folder, first))
        self._open(first)
        self._end, self._chain_end = 0, len(header)
        self.through, self.chain = first - 1, before

    def _open(self, first: int) -> None:
        self._let_go()
        flags = os.O_RDWR | os.O_APPEND
        segment = self.disk.open(segment_path(self.folder, first), flags)
        try:
            links = self.disk.open(chain_path(self.folder, first), flags | os.O_CREAT)
        except BaseException:
            self.disk.close(segment)
            raise
        self._segment, self._links = segment, links
        self._doubtful = self._doubtful and first == self.first
        self.first = first
        self._synced = 0
        self._unclean = False

    def _let_go(self) -> None:
        for fd in (self._segment, self._links):
            if fd >= 0:
                self.disk.close(fd)
        self._segment = self._links = -1

    def _repair(self) -> bool:
        """Completes what a crash left of the open segment; whether it was sealed before.

        Groups that are whole in the segment get their chain lines; what is left of one that is
        not goes to quarantine, and its numbers are given out again. Records that are known to
        have been on disk are never moved, whatever they look like now: `verify` names them.
        """
        size = os.fstat(self._segment).st_size
        known = self._known_links()
        start = self._behind(known.last.through, size)
        if start is None or (not known.last.synced and self._has_nul(known.synced.through, size)):
            known, start = self._without_lost(known, start, size)
        self._end, self._chain_end = size, known.end
        self.through, self.chain = known.last.through, known.last.chain
        if known.last.kind == "sealed":
            return True
        self._adopt(start, known.rest, damaged=known.damaged)
        return False

    def _known_links(self) -> "_ReadableChain":
        """The chain of the open segment, as far as a crash left it readable.

        NUL bytes, and a line without its end, were never written whole: from there on the chain
        is made again from the segment. Any other line that cannot be read is damage, and stays.
        A chain without its first line was lost, and what it proved is not proven any more.
        """
        content = os.pread(self._links, os.fstat(self._links).st_size, 0)
        if merkle.lost_its_end(content):
            write_all(self.disk, self._links, b"\n")  # it stays a line of its own
            content += b"\n"
        nul = content.find(0)
        lines = content[: content.rfind(b"\n", 0, nul if nul >= 0 else len(content)) + 1]
        links: list[tuple[merkle.Link, int]] = []
        end = len(lines)
        for line in reversed(lines.split(b"\n")[:-1]):
            link = None if links and b'"synced":false' in line else merkle.read(line)
            if link is not None:
                links.append((link, end))
                if link.synced:
                    break
            end -= len(line) + 1
        if not links:
            if not lines and os.fstat(self._segment).st_size:
                self._note_lost_chain(content)
            before = merkle.Link("opened", self.first - 1, self._before())
            links = [(before, 0)]
            if not lines:
                content = lines = merkle.opened(before.through, before.chain)
                self.disk.truncate(self._links, 0)
                write_all(self.disk, self._links, lines)
                links = [(before, len(lines))]
        (last, end), (synced, synced_end) = links[0], links[-1]
        damaged = end < len(lines)
        if damaged:
            self._find(
                "chain-damaged",
                f"the chain of segment {self.first} cannot be read behind record {last.through}: "
                "it stays as it is, and new records go behind it; run `tracklog doctor`",
            )
        return _ReadableChain(last, len(lines), synced, synced_end, content[len(lines) :], damaged)

    def _note_lost_chain(self, rest: bytes) -> None:
        """The first line of a chain is on disk before its segment is made: no crash takes it."""
        message = (
            f"the chain of segment {self.first} was gone and was made again from its records: that "
            "they are as they were recorded cannot be proven any more"
        )
        if rest:
            self.quarantine(f"{self.first:020d}-0.links", rest)
        self.quarantine(f"{self.first:020d}-0.chain-lost", message.encode() + b"\n")
        self._find("chain-lost", message)

    def _behind(self, through: int, size: int) -> int | None:
        """The offset behind a record of the open segment; None when it is not there."""
        if through < self.first:
            return 0
        start = place(self._segment, size, through)
        offset, line = next(lines(self._segment, start, size), (0, b""))
        return offset + len(line) + 1 if seq_of(line) == through else None

    def _lacks_its_end(self, through: int, size: int) -> bool:
        """Whether a record is the last of the open segment, complete except for its line end."""
        line = last_line(self._segment, size)
        start = line[0] + len(line[1]) + 1 if line else 0
        last = record(os.pread(self._segment, size - start, start))
        return last is not None and last.seq == through

    def _has_nul(self, through: int, size: int) -> bool:
        start = place(self._segment, size, through + 1)
        while block := os.pread(self._segment, min(CHUNK, size - start), start):
            if 0 in block:
                return True
            start += len(block)
        return False

    def _without_lost(
        self, known: "_ReadableChain", start: int | None, size: int
    ) -> "tuple[_ReadableChain, int]":
        """The chain before the first record that a loss of power took, and where it ends.

        Only records that were never synced can be lost so. When one that was on disk is not
        there, that is damage, and the numbers go on behind it.
        """
        base = self._behind(known.synced.through, size)
        if base is None or known.synced == known.last:
            if not self._lacks_its_end(known.last.through, size):
                self._find(
                    "records-lost",
                    f"record {known.last.through} is not in segment {self.first} any more, and "
                    "maybe others: their numbers are not given out again; run `tracklog doctor`",
                )
            return known, place(self._segment, size, known.last.through + 1)
        through = known.synced.through
        for group in complete_groups(self._segment, base, size, through, self.format):
            through = group.through
        if through >= known.last.through and start is not None:
            return known, start
        rest = os.pread(self._links, known.end - known.synced_end, known.synced_end) + known.rest
        again = _ReadableChain(
            known.synced, known.synced_end, known.synced, known.synced_end, rest, False
        )
        return again, base

    def _before(self) -> bytes:
        """What the chain of the open segment continues."""
        earlier = [first for first in firsts(self.folder) if first < self.first]
        if earlier and chain_path(self.folder, earlier[-1]).exists():
            with chain_path(self.folder, earlier[-1]).open("rb") as file:
                link = last_link(file.fileno(), os.fstat(file.fileno()).st_size)
                if link is not None and link.through == self.first - 1:
                    return link.chain
        cut = pruned(self.folder)
        if cut is not None and cut.through == self.first - 1:
            return cut.chain
        if self.first == 1:
            return merkle.ORIGIN
        raise StoreBroken(
            f"the chain of segment {self.first} is lost, and so is the one before it",
            "bring both .chain files back from a backup; the frames themselves are untouched",
        )

    def _adopt(self, start: int, rest: bytes, *, damaged: bool) -> None:
        """Chains the whole groups from an offset on in place of the chain's unusable `rest`.

        What follows them in the segment, and links of records that are not there any more, go
        to quarantine. Where the chain is `damaged`, what follows may have been acknowledged: it
        stays, and each line of it counts as a record.
        """
        begun, end, links = self.through + 1, start, bytearray()
        through, chained = self.through, self.chain
        for group in complete_groups(self._segment, start, self._end, through, self.format):
            line, chained = merkle.group(chained, group.through, group.leaves)
            links += line
            through, end = group.through, group.end
        if rest:
            self._cut_chain(rest, through)
        if end < self._end and damaged:
            through += sum(block.count(b"\n") for block in blocks(self._segment, end, self._end))
            end = self._end
        if end < self._end:
            torn = os.pread(self._segment, self._end - end, end)
            path = self.quarantine(f"{self.first:020d}-{end}.torn", torn)
            self.disk.truncate(self._segment, end)
            self._find(
                "torn-tail",
                f"{len(torn)} bytes behind record {through} are not a whole group, as a crash "
                f"inside a write leaves them; they are in {path}; `tracklog doctor --accept` ends "
                "the notice about it",
            )
        elif end and os.pread(self._segment, 1, end - 1) != b"\n":
            write_all(self.disk, self._segment, b"\n")  # a damaged end stays a line of its own
            end += 1
            through += damaged
        self.disk.sync(self._segment)
        self._end = end
        if not links:
            self.through = through
            return
        try:
            write_all(self.disk, self._links, bytes(links))
        except BaseException:
            self._take_back()
            raise
        self._chain_end += len(links)
        self.through, self.chain = through, chained
        # Their writer may have died of a failed sync, which this process cannot know.
        self._synced, self._doubtful = start, True
        if not damaged:
            self._find(
                "chained-late",
                f"records {begun} to {through} had no chain line, as a crash leaves it, and got "
                "one; if nothing was killed here, look at them with `tracklog tail --raw`",
            )

    def _cut_chain(self, rest: bytes, through: int) -> None:
        """Cut the end of the chain, to be made again; what cannot be made again is quarantined."""
        links = [link for link in map(merkle.read, rest.split(b"\n")) if link is not None]
        last = max((link.through for link in links), default=0)
        if last > through or any(link.kind == "erased" for link in links) or _has_damage(rest):
            path = self.quarantine(f"{self.first:020d}-{self._chain_end}.links", rest)
            self._find(
                "chain-cut",
                f"the chain of segment {self.first} knows records up to {last}, and only those up "
                f"to {through} are there: the others were not on disk yet, as when the power "
                f"fails; what it said of them is in {path}; `tracklog doctor --accept` ends the "
                "notice about it",
            )
        self.disk.truncate(self._links, self._chain_end)

    def _sync_segment(self, end: int) -> None:
        try:
            self.disk.sync(self._segment)
        except OSError:
            # A later success proves nothing about the pages of this failure: they are written
            # again before anything else is.
            self._doubtful = True
            raise
        if not self._doubtful:
            self._synced = end

    def _take_back(self) -> None:
        """Cuts off a group that was not acknowledged, or does so before the next one."""
        self._unclean = True
        with contextlib.suppress(OSError):
            self._cut_off()

    def _cut_off(self) -> None:
        """Removes what a failed group left, on disk on return: it must not show under the next."""
        self.disk.truncate(self._segment, self._end)
        self.disk.truncate(self._links, self._chain_end)
        self._sync_segment(self._end)
        self._unclean = False

    def _rewrite(self) -> None:
        """Writes what a failed sync left in doubt once more, so that the next sync counts.

        What the disk has lost of it meanwhile is handled as after a crash.
        """
        start = self._synced - self._synced % _PAGE
        fd = self.disk.open(segment_path(self.folder, self.first), os.O_RDWR)
        try:
            complete = True
            os.lseek(fd, start, os.SEEK_SET)
            while start < self._end:
                block = os.pread(fd, min(CHUNK, self._end - start), start)
                complete = complete and bool(block) and b"\0" not in block
                if not block:
                    break
                write_all(self.disk, fd, block)
                start += len(block)
            self.disk.sync(fd)
        finally:
            self.disk.close(fd)
        self._doubtful = False
        if complete:
            self._synced = self._end
        else:
            self._recover()

    def quarantine(self, name: str, content: bytes) -> Path:
        """Move bytes to the quarantine; they are on disk on return."""
        folder = self.home / "quarantine"
        number = 0
        while (path := folder / f"{name}{f'-{number}' if number else ''}").exists():
            number += 1
        write_file(self.disk, path, content)
        return path

    def _find(self, name: str, message: str) -> None:
        finding = Finding(name, message)
        if finding not in self.findings:
            self.findings.append(finding)


class _ReadableChain(NamedTuple):
    """How far a chain file can be read."""

    last: merkle.Link
    end: int
    """The offset behind it."""
    synced: merkle.Link
    """The last link of which it is known that its records were on disk."""
    synced_end: int
    rest: bytes
    """What cannot be used behind `end`."""
    damaged: bool
    """Whether complete lines that cannot be read are between `last` and `end`."""


def _has_damage(rest: bytes) -> bool:
    """Whether there is a complete line that no power loss left, and that is no link."""
    lines = rest.split(b"\n")[:-1]
    return any(0 not in line and merkle.read(line) is None for line in lines)
