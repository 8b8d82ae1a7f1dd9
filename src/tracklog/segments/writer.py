"""Writes a folder of segments: numbered, chained, synced, and mended after a crash.

One commit group is: lock, catch up with other writers, write the frames, sync them, write the
chain line, unlock. A group without its chain line was never acknowledged and is never read.
"""

import contextlib
import errno
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import orjson

from tracklog import chain
from tracklog.disk import Disk, make_folders, write_all, write_file
from tracklog.errors import JournalFull, NotAppended, NotDurable, StoreBroken
from tracklog.event import Finding
from tracklog.frame import record, seq_of
from tracklog.lines import mended
from tracklog.segments import (
    FORMAT,
    blocks,
    chain_path,
    check_format,
    firsts,
    last_line,
    last_link,
    lines,
    place,
    pruned,
    runs_path,
    segment_path,
)

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REGROUP = 1024  # records per group when a lost chain is made anew


class Writer:
    """The one place from which a folder of segments is changed."""

    def __init__(self, home: Path, folder: str, segment_size: int, disk: Disk) -> None:
        self.home, self.folder = home, home / folder
        self.disk = disk
        self.segment_size = segment_size
        self.findings: list[Finding] = []
        self.durable = 0
        """The last record that is known to be on disk."""
        self.first = 1
        """Of the segment that is open."""
        self.through = 0
        self.chain = chain.ORIGIN
        self._end = 0
        self._chain_end = 0
        self._segment = self._links = self._lock = -1
        self._synced = 0
        """Bytes of the open segment that are known to be on disk."""
        self._doubtful = False
        self._unclean = False
        self._pid = 0
        self._mutex = threading.Lock()
        self._exclusive = _Exclusive(self)
        try:
            check_format(home)  # before anything is made in what may be no home
            make_folders(disk, self.folder)
            make_folders(disk, home / "quarantine")
            self._begin()
            self._exclude()
            try:
                if not check_format(home):
                    write_file(disk, home / "format", b"%d\n" % FORMAT)
                self._sweep()
                disk.sync_folder(home)
                self._recover()
            finally:
                self._admit()
        except OSError as error:
            raise _translated(error, self) from error

    def close(self) -> None:
        with self._mutex:
            self._close()

    def _close(self) -> None:
        for fd in (self._segment, self._links, self._lock):
            if fd >= 0:
                self.disk.close(fd)
        self._segment = self._links = self._lock = -1

    def exclusive(self) -> "_Exclusive":
        """Nobody else writes meanwhile, and what others wrote before is known."""
        return self._exclusive

    def append(self, frames: Sequence[bytes], sync: bool) -> None:
        """Keeps a group behind `through`, all or none; call it inside `exclusive`."""
        leaves = chain.leaves(frames)
        through = self.through + len(frames)
        line, after = chain.group(self.chain, through, leaves)
        block = b"\n".join([*frames, b""])
        try:
            write_all(self.disk, self._segment, block)
            if sync:
                self._sync_segment(self._end + len(block))
            write_all(self.disk, self._links, line)
        except BaseException:
            self._take_back()
            raise
        self._end += len(block)
        self._chain_end += len(line)
        self.through, self.chain = through, after
        if sync:
            self.durable = through

    def sync(self) -> None:
        """On return, every group appended before is on disk; call it inside `exclusive`."""
        self._sync_segment(self._end)
        self.durable = self.through

    def sync_chain(self) -> None:
        """A head may be told only after this: else power loss could regroup it."""
        self.disk.sync(self._links)

    def announce(self, seq: int, leaf: bytes, tombstone: bytes) -> None:
        """Chains an erasure, on disk on return; call it inside `exclusive`."""
        line, after = chain.erased(self.chain, self.through, seq, leaf, tombstone)
        self.sync()
        try:
            write_all(self.disk, self._links, line)
            self.disk.sync(self._links)
        except BaseException:
            self._take_back()
            raise
        self._chain_end += len(line)
        self.chain = after

    @property
    def full(self) -> bool:
        """Whether the open segment has reached the size at which the next one begins."""
        return self._end >= self.segment_size and self.through >= self.first

    def roll(self) -> None:
        """Seals the open segment, on disk, and begins the next; call it inside `exclusive`."""
        self._sync_segment(self._end)
        self.durable = self.through
        line = chain.sealed(self.through, self.chain)
        try:
            write_all(self.disk, self._links, line)
            self.disk.sync(self._links)
        except BaseException:
            self._take_back()
            raise
        self._chain_end += len(line)
        try:
            self._create(self.through + 1, self.chain)
        except BaseException:
            self._let_go()  # the seal stands: the next to come begins the next segment
            raise

    def quarantine(self, name: str, content: bytes) -> Path:
        """Puts bytes aside, on disk on return."""
        folder = self.home / "quarantine"
        number = 0
        while (path := folder / f"{name}{f'-{number}' if number else ''}").exists():
            number += 1
        write_file(self.disk, path, content)
        return path

    def _begin(self) -> None:
        """Opens the lock anew: one opening is one owner, so a forked child needs its own."""
        if self._pid != os.getpid():
            self._segment = self._links = -1
        self._pid = os.getpid()
        flags = os.O_RDWR | os.O_CREAT
        self._lock = self.disk.open(self.folder / "lock", flags)

    def _exclude(self) -> None:
        self.disk.lock(self._lock)

    def _admit(self) -> None:
        if self._lock >= 0:
            self.disk.unlock(self._lock)

    def _sweep(self) -> None:
        """Removes what a crash left half-made."""
        for path in self.folder.glob("*.tmp"):
            with contextlib.suppress(FileNotFoundError):
                self.disk.remove(path)

    def _catch_up(self) -> None:
        """Whatever others wrote since; what a crashed one left behind is mended."""
        if self._segment < 0:
            self._recover()
            return
        segment, chain_size = os.fstat(self._segment), os.lseek(self._links, 0, os.SEEK_END)
        if segment.st_nlink == 0:
            self._close()
            if not self.folder.is_dir():
                raise StoreBroken(
                    f"{self.folder} was removed while it was written to",
                    "open the journal again to begin a new one; nothing more is kept until then",
                )
            self._begin()
            self._exclude()
            self._recover()
            return
        if chain_size != self._chain_end:
            if not self._follow(segment.st_size, chain_size):
                self._recover()
        elif segment.st_size != self._end:
            if self._unclean:
                self._take_back()
            else:
                self._recover()
        if self._doubtful:
            self._rewrite()

    def _follow(self, size: int, chain_size: int) -> bool:
        """Steps over whole groups of other writers; False when there is more to it than that."""
        link, tail = last_link(self._links, chain_size), last_line(self._segment, size)
        if link is None or link.kind == "sealed" or tail is None or self._unclean:
            return False
        if tail[0] + len(tail[1]) + 1 != size or seq_of(tail[1]) != link.through:
            return False
        self._end, self._chain_end = size, chain_size
        self.through, self.chain = link.through, link.chain
        return True

    def _take_back(self) -> None:
        """Cuts off what was not acknowledged; if even that fails, it is tried again later."""
        self._unclean = True
        with contextlib.suppress(OSError):
            self.disk.truncate(self._segment, self._end)
            self.disk.truncate(self._links, self._chain_end)
            self._unclean = False

    def _sync_segment(self, end: int) -> None:
        try:
            self.disk.sync(self._segment)
        except OSError:
            # A later success proves nothing about the pages of this failure: they are written
            # again before anything else is.
            self._doubtful = True
            raise
        self._synced = end

    def _rewrite(self) -> None:
        """Writes the bytes that a failed sync left in doubt once more, so that a sync counts."""
        fd = self.disk.open(segment_path(self.folder, self.first), os.O_RDWR)
        try:
            start = self._synced
            os.lseek(fd, start, os.SEEK_SET)
            for block in blocks(fd, start, self._end):
                write_all(self.disk, fd, block)
                start += len(block)
            tail = last_line(fd, self._end)
            if start != self._end or (tail and seq_of(tail[1]) != self.through):
                raise StoreBroken(
                    f"records of {self.folder} that were not on disk yet were lost by it",
                    "run `tracklog verify`, and look at the disk's health",
                )
            self.disk.sync(fd)
            self._doubtful = False
            self._synced = self._end
        finally:
            self.disk.close(fd)

    def _let_go(self) -> None:
        for fd in (self._segment, self._links):
            if fd >= 0:
                self.disk.close(fd)
        self._segment = self._links = -1

    def _create(self, first: int, before: bytes) -> None:
        """A new segment, on disk with its name before anything is written to it."""
        header = chain.opened(first - 1, before)
        links = chain_path(self.folder, first)
        self._keep_orphan(first, links)
        fd = self.disk.open(links, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            write_all(self.disk, fd, header)
            self.disk.sync(fd)
        finally:
            self.disk.close(fd)
        path = segment_path(self.folder, first)
        self.disk.close(self.disk.open(path, os.O_WRONLY | os.O_CREAT))
        self.disk.sync_folder(self.folder)
        self._open(first)
        self._end, self._chain_end = 0, len(header)
        self.through, self.chain = first - 1, before

    def _keep_orphan(self, first: int, links: Path) -> None:
        """Puts a chain aside that speaks of records whose segment is gone: it is all that is left."""
        said = links.read_bytes() if links.exists() else b""
        told = max((link.through for link in map(chain.read, said.splitlines()) if link), default=0)
        if told >= first:
            path = self.quarantine(f"{first:020d}-0.links", said)
            self._find(
                "segment-lost",
                f"the segment of records {first} to {told} is gone, and these numbers are given "
                f"anew; what its chain said of them is in {path}",
            )

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

    def _recover(self) -> None:
        """From whatever is on disk to a state in which the next group can be appended."""
        self._let_go()
        cut = pruned(self.folder)
        known = self._finish_pruning(firsts(self.folder), cut.through if cut else 0)
        if not known:
            self._create(cut.through + 1 if cut else 1, cut.chain if cut else chain.ORIGIN)
            return
        try:
            self._open(known[-1])
            self.disk.sync_folder(self.folder)
            last = self._mend_frames()
            sealed = self._mend_chain(last)
            self.durable = max(self.durable, self.first - 1)
            if sealed:
                self._create(self.through + 1, self.chain)
        except BaseException:
            self._let_go()
            raise

    def _finish_pruning(self, known: list[int], through: int) -> list[int]:
        """Removes what a pruning that is on record did not get to."""
        while len(known) > 1 and known[1] <= through + 1:
            self.remove(known.pop(0))
        return known

    def remove(self, first: int) -> None:
        """Takes a segment off the disk, its chain last."""
        for path in (runs_path, segment_path, chain_path):
            with contextlib.suppress(FileNotFoundError):
                self.disk.remove(path(self.folder, first))

    def _mend_frames(self) -> int:
        """Moves what is torn at the end of the open segment aside; the number of its last frame."""
        size = os.fstat(self._segment).st_size
        end, last, skip = 0, self.first - 1, 0
        while (found := last_line(self._segment, size, skip)) is not None:
            offset, line = found
            if _whole(line) >= self.first:
                end, last = offset + len(line) + 1, seq_of(line)
                break
            if offset == 0:
                break
            skip = size - offset
        if end < size:
            torn = os.pread(self._segment, size - end, end)
            path = self.quarantine(f"{self.first:020d}-{end}.torn", torn)
            self.disk.truncate(self._segment, end)
            self.disk.sync(self._segment)
            self._find(
                "torn-tail",
                f"{size - end} bytes behind record {last} were torn; they are in {path}",
            )
        self._end = end
        return last

    def _mend_chain(self, last: int) -> bool:
        """Brings the chain of the open segment to its last frame; whether it was sealed there."""
        size = os.fstat(self._links).st_size
        link = last_link(self._links, size)
        tail = last_line(self._links, size)
        clean = tail is not None and tail[0] + len(tail[1]) + 1 == size
        if link is None or not clean or link.through != last:
            size, link = self._cut_chain(size, last)
        self._chain_end = size
        self.through, self.chain = link.through, link.chain
        if self.through < last:
            self._chain_again(last)
        return link.kind == "sealed"

    def _cut_chain(self, size: int, last: int) -> tuple[int, chain.Link]:
        """Keeps the chain's lines up to the last frame, and puts the rest aside."""
        keep, kept = 0, None
        for offset, line in lines(self._links, 0, size):
            link = chain.read(line)
            if link is not None and link.through <= last:
                ends_here = link.kind == "sealed" and link.through < last
                if not ends_here:
                    keep, kept = offset + len(line) + 1, link
        if kept is None:
            keep, before = 0, self._before()
            kept = chain.Link("opened", self.first - 1, before)
        if keep < size:
            path = self.quarantine(
                f"{self.first:020d}-{keep}.links", os.pread(self._links, size - keep, keep)
            )
            self.disk.truncate(self._links, keep)
            self._find(
                "chain-cut",
                f"the chain of segment {self.first} said more than its {last - self.first + 1} "
                f"records, or was torn; what it said behind record {kept.through} is in {path}",
            )
        if keep == 0:
            header = chain.opened(kept.through, kept.chain)
            write_all(self.disk, self._links, header)
            keep = len(header)
        return keep, kept

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
            return chain.ORIGIN
        raise StoreBroken(
            f"the chain of segment {self.first} is lost, and so is the one before it",
            "bring both .chain files back from a backup; the frames themselves are untouched",
        )

    def _chain_again(self, last: int) -> None:
        """Chains the frames that have no chain line: their writer died before it."""
        begun, before = self.through + 1, self.through
        start = place(self._segment, self._end, begun)
        leaves: list[bytes] = []
        made: list[bytes] = []
        for _, line in lines(self._segment, start, self._end):
            leaves.append(chain.leaf(line))
            before = max(before, seq_of(line))
            if len(leaves) >= _REGROUP or before == last:
                text, self.chain = chain.group(self.chain, before, leaves)
                made.append(text)
                leaves = []
        self.disk.sync(self._segment)
        block = b"".join(made)
        try:
            write_all(self.disk, self._links, block)
        except BaseException:
            self._take_back()
            raise
        self._chain_end += len(block)
        self.through = last
        self._find("chained-late", f"records {begun} to {last} had no chain line, and got one")

    def _find(self, name: str, message: str) -> None:
        self.findings.append(Finding(name, message))


def _whole(line: bytes) -> int:
    """The number of a frame that is whole to its last byte; 0 when it is not."""
    found = record(line)
    if found is None:
        return 0
    try:
        orjson.loads(mended(line))
    except orjson.JSONDecodeError:
        return 0
    return found.seq


class _Exclusive:
    """The lock of a folder, held; the operating system's errors leave it in our words."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer

    def __enter__(self) -> None:
        writer = self.writer
        writer._mutex.acquire()
        try:
            if writer._lock < 0 or writer._pid != os.getpid():
                writer._begin()
            writer._exclude()
            writer._catch_up()
        except BaseException as error:
            self._leave()
            if isinstance(error, OSError):
                raise _translated(error, writer) from error
            raise

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._leave()
        if isinstance(error, OSError):
            raise _translated(error, self.writer) from error

    def _leave(self) -> None:
        try:
            self.writer._admit()
        finally:
            self.writer._mutex.release()


def _translated(error: OSError, writer: Writer) -> NotAppended:
    said = error.strerror or str(error)
    if error.errno in _FULL:
        return JournalFull(
            f"{writer.folder} cannot grow: {said}; nothing of this group was kept",
            "free some space, or drop old segments with `tracklog prune`, and send it again",
        )
    if writer._doubtful:
        return NotDurable(
            f"the disk under {writer.folder} did not confirm a write: {said}",
            "this group was not kept; send it again, and look at the disk's health",
        )
    return StoreBroken(
        f"{error.filename or writer.folder} cannot be written: {said}",
        "check the folder's owner and mode, and that its disk is mounted and healthy",
    )
