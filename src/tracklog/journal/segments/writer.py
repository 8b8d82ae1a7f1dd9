"""Write a folder of segments: lock it, and number, chain and sync records.

One commit group is: lock, catch up with other writers, write the frames, sync them, write the
chain line, unlock. `recovery` repairs what a crash or a failed write leaves.
"""

import contextlib
import errno
import os
import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from tracklog.journal import merkle
from tracklog.journal.disk import Disk, make_folders, write_all, write_file
from tracklog.journal.frame import Run, seq_of
from tracklog.journal.segments import (
    FORMAT,
    check_format,
    last_line,
    last_link,
    last_records,
    next_path,
)
from tracklog.journal.segments.recovery import OpenSegment
from tracklog.model.errors import JournalFull, NotAppended, NotDurable, StoreBroken

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class SegmentWriter(OpenSegment):
    """The one place from which a folder of segments is changed."""

    def __init__(
        self, home: Path, folder: str, segment_size: int, disk: Disk, format: int = FORMAT
    ) -> None:
        super().__init__(home, folder, disk, format)
        self.segment_size = segment_size
        self._lock = -1
        self._pid = os.getpid()
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
                self._recover_or_wait()
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

    def moved(self, expected: Mapping[Run, int]) -> dict[Run, int]:
        """Those runs that may have records behind what is expected, and a number behind which they
        have none; call it inside `exclusive`.
        """
        if not expected:
            return {}
        lasts, end = last_records.read(self._lock, expected), self.through
        moved = {run: min(end, last) for run, last in lasts.items() if last > expected[run]}
        return {run: last for run, last in moved.items() if last > expected[run]}

    def lasts(self, runs: Collection[Run]) -> dict[Run, int]:
        """For each run a number behind which it has no record, since this process began."""
        if self._lock < 0:
            return dict.fromkeys(runs, self.through)
        return last_records.read(self._lock, runs)

    def append(self, frames: Sequence[bytes], lasts: Mapping[Run, int], sync: bool) -> None:
        """Keeps a group behind `through`, all or none; call it inside `exclusive`.

        `lasts` has the last record of each run in it.
        """
        last_records.write(self.disk, self._lock, lasts)
        leaves = merkle.leaves(frames)
        through = self.through + len(frames)
        line, after = merkle.group(self.chain, through, leaves, synced=sync)
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
        """A head may be published only after this: else a loss of power could regroup it."""
        self.disk.sync(self._links)

    def announce(self, seq: int, leaf: bytes, tombstone: bytes) -> None:
        """Chains an erasure, on disk on return; call it inside `exclusive`."""
        line, after = merkle.erased(self.chain, self.through, seq, leaf, tombstone)
        self.sync()
        self._append_link(line)
        self.chain = after

    def _append_link(self, line: bytes) -> None:
        """Writes a line of the chain, on disk on return."""
        try:
            write_all(self.disk, self._links, line)
            self.disk.sync(self._links)
        except BaseException:
            self._take_back()
            raise
        self._chain_end += len(line)

    @property
    def full(self) -> bool:
        """Whether the open segment has reached the size at which the next one begins."""
        return self._end >= self.segment_size and self.through >= self.first

    def roll(self) -> None:
        """Seals the open segment, on disk, and begins the next; call it inside `exclusive`."""
        self._sync_segment(self._end)
        self.durable = self.through
        coming = next_path(self.folder, self.through + 1)
        self.disk.close(self.disk.open(coming, os.O_WRONLY | os.O_CREAT))
        self.disk.sync_folder(self.folder)
        self._append_link(merkle.sealed(self.through, self.chain))
        try:
            self._create(self.through + 1, self.chain)
        except BaseException:
            self._let_go()  # the seal stands: the next to come begins the next segment
            raise

    def _begin(self) -> None:
        """Open the lock again: one open file is one owner, so a forked child needs its own."""
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
        """Read what others wrote since; what a crashed writer left is repaired."""
        if self._segment < 0:
            self._recover()
            return
        segment, chain_size = os.fstat(self._segment), os.lseek(self._links, 0, os.SEEK_END)
        if segment.st_nlink == 0:
            self._close()
            if not self.folder.is_dir():
                raise StoreBroken(
                    f"{self.folder} was removed while it was written to",
                    "open the journal again to begin a new one; nothing more is recorded until then",
                )
            self._begin()
            self._exclude()
            self._recover()
            return
        if self._unclean and self._is_last(last_link(self._links, chain_size)):
            self._cut_off()
        elif chain_size != self._chain_end:
            if not self._follow(segment.st_size, chain_size):
                self._recover()
        elif segment.st_size != self._end:
            self._recover()
        if self._doubtful:
            self._rewrite()

    def _follow(self, size: int, chain_size: int) -> bool:
        """Skip complete groups of other writers; False where there is anything else."""
        link, tail = last_link(self._links, chain_size), last_line(self._segment, size)
        if link is None or link.kind == "sealed" or tail is None or self._unclean:
            return False
        if tail[0] + len(tail[1]) + 1 != size or seq_of(tail[1]) != link.through:
            return False
        self._end, self._chain_end = size, chain_size
        self.through, self.chain = link.through, link.chain
        return True

    def _is_last(self, link: merkle.Link | None) -> bool:
        """Whether nobody has committed anything behind our own last group."""
        return link is not None and (link.through, link.chain) == (self.through, self.chain)


class _Exclusive:
    """The lock of a folder, held; the operating system's errors leave it in our words."""

    def __init__(self, writer: SegmentWriter) -> None:
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


def _translated(error: OSError, writer: SegmentWriter) -> NotAppended:
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return JournalFull(
            f"{writer.folder} cannot grow: {reason}; nothing of this group was recorded",
            "free some space, for example with `tracklog prune --older-than 30d`, and send it again",
        )
    if writer._doubtful:
        return NotDurable(
            f"the disk under {writer.folder} did not confirm a write: {reason}",
            "this group was not recorded; send it again, and look at the disk's health",
        )
    return StoreBroken(
        f"{error.filename or writer.folder} cannot be written: {reason}",
        "check the folder's owner and mode, and that its disk is mounted and healthy",
    )
