"""An append-only file: opened safely, locked, one write per line, truncated when a write fails."""

import errno
import fcntl
import logging
import os
import stat
import time
from pathlib import Path
from typing import Literal

from tracklog.journal.disk import Disk, write_all
from tracklog.model.errors import TranscriptLocked, UnsafeTranscript

log = logging.getLogger("tracklog")

FLAGS = os.O_APPEND | os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
LOCK_TRIES = 5
LOCK_PAUSE = 0.005
NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


DISK = Disk()


class AppendFile:
    """A file that only this object appends to, until it is closed."""

    __slots__ = ("_write", "cut_to", "disk", "fd", "inode", "locked", "path", "size", "unsettled")

    def __init__(self, path: Path, fd: int, disk: Disk, *, locked: bool) -> None:
        status = os.fstat(fd)
        self.path, self.fd, self.locked = path, fd, locked
        self.inode, self.size = status.st_ino, status.st_size
        self.disk = disk
        self._write = os.write if type(disk) is Disk else disk.write  # saves one call per line
        self.cut_to: int | None = None
        """The size to which the file must still be truncated, when truncating failed."""
        self.unsettled = False
        """Whether a failed write may have left part of a line at the end."""

    @classmethod
    def open(
        cls,
        path: Path,
        lock: Literal["exclusive", "off"] = "exclusive",
        *,
        strict_perms: bool = False,
        disk: Disk = DISK,
    ) -> "AppendFile":
        """Open the file at `path` and lock it; created if needed, 0600 in a 0700 folder."""
        _prepare_folder(path.parent, disk, strict_perms=strict_perms)
        for _ in range(LOCK_TRIES):
            fd, created = _open(path, disk)
            try:
                if lock == "exclusive":
                    _lock(fd, path)
                if not _is_at(fd, path):
                    os.close(fd)
                    continue
                if created:
                    disk.sync_folder(path.parent)
                return cls(path, fd, disk, locked=lock == "exclusive")
            except BaseException:
                os.close(fd)
                raise
        raise UnsafeTranscript(
            f"{path} is being replaced while it is opened",
            "stop whatever moves files in this folder, then open it again",
        )

    @property
    def broken(self) -> bool:
        """Whether part of a line may stand at the end and could not be removed."""
        return self.cut_to is not None

    def append(self, line: bytes) -> None:
        """Write the line in one call; OSError if the disk took less than all of it."""
        if self.unsettled:
            line = self._settle(line)
        if self._write(self.fd, line) != len(line):
            # AWF-60: a line is one write; the rest of a short write is never sent after it.
            raise OSError(errno.EIO, f"short write of {len(line)} bytes")
        self.size += len(line)

    def _settle(self, line: bytes) -> bytes:
        """Undo what a failed write left, or move past it."""
        if self.cut_to is not None:
            self.cut(self.cut_to)
        else:
            line = b"\n" + line
        self.unsettled = False
        return line

    def cut(self, size: int) -> None:
        """Truncate to `size` bytes after a failed write; where that fails too, it stays pending."""
        if not self.locked:
            # Lines of another writer may follow: nothing is truncated, and the next line goes
            # behind them.
            self.unsettled = True
            return
        self.cut_to, self.unsettled = size, True
        self.disk.truncate(self.fd, size)
        self.size, self.cut_to, self.unsettled = size, None, False

    def sync(self) -> None:
        """Flush to disk; everything written so far is durable when this returns."""
        self.disk.sync(self.fd)

    def close(self) -> None:
        """Close the file and release its lock; a second call does nothing."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            if self.locked:
                # A forked process may still hold the descriptor; the lock is released here all the
                # same.
                fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)

    def disown(self) -> None:
        """In a forked process: close the descriptor and leave the lock to the parent."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


def create(path: Path, content: bytes, disk: Disk = DISK) -> None:
    """Create a file, 0600, with its content and its name on disk; FileExistsError if it exists."""
    fd = disk.open(path, FLAGS | os.O_EXCL)
    try:
        os.fchmod(fd, 0o600)
        write_all(disk, fd, content)
        disk.sync(fd)
    finally:
        disk.close(fd)
    disk.sync_folder(path.parent)


def _prepare_folder(folder: Path, disk: Disk, *, strict_perms: bool) -> None:
    missing = [folder, *folder.parents]
    missing = missing[: next(i for i, each in enumerate(missing) if each.is_dir())]
    for each in reversed(missing):
        try:
            disk.make_folder(each)
        except FileExistsError:
            continue  # another writer created it first
        each.chmod(0o700)  # whatever the umask
        disk.sync_folder(each.parent)
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & 0o077:
        message = f"{folder} has mode {mode:04o}: others can look into it"
        hint = f"chmod 700 {folder}"
        if strict_perms:
            raise UnsafeTranscript(message, hint)
        log.warning("%s; %s", message, hint)


def _open(path: Path, disk: Disk) -> tuple[int, bool]:
    """A descriptor of a regular file of ours, mode 0600, and whether it is new."""
    try:
        before: os.stat_result | None = path.lstat()
    except FileNotFoundError:
        before = None
    if before is not None and not stat.S_ISREG(before.st_mode):
        # opening a pipe would block, a link would lead elsewhere
        raise _unsafe(path, "is not a regular file")
    try:
        fd = disk.open(path, FLAGS)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _unsafe(path, "is a symbolic link") from error
        raise
    try:
        _secure(fd, path)
    except BaseException:
        os.close(fd)
        raise
    return fd, before is None


def _secure(fd: int, path: Path) -> None:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise _unsafe(path, "is not a regular file")
    if status.st_uid != os.geteuid():
        raise _unsafe(path, "belongs to somebody else")
    if stat.S_IMODE(status.st_mode) != 0o600:
        os.fchmod(fd, 0o600)  # AWF-58, AWF-73: whatever the umask, whoever changed the mode


def _unsafe(path: Path, fault: str) -> UnsafeTranscript:
    return UnsafeTranscript(f"{path} {fault}", "move it away, or choose another storage folder")


def _lock(fd: int, path: Path) -> None:
    for attempt in range(LOCK_TRIES):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if attempt == LOCK_TRIES - 1:
                raise TranscriptLocked(
                    f"another writer has {path}",
                    "close that recorder first; one transcript has one writer",
                ) from error
            time.sleep(LOCK_PAUSE)  # a reader that tests the lock holds it for an instant
        except OSError as error:
            if error.errno in NO_LOCKS:
                raise UnsafeTranscript(
                    f"the file system of {path} has no locks",
                    'use another storage folder, or lock="off" if no second writer can exist',
                ) from error
            raise
        else:
            return


def _is_at(fd: int, path: Path) -> bool:
    ours = os.fstat(fd)
    try:
        there = path.lstat()
    except FileNotFoundError:
        return False
    return (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)
