"""Every call that changes a disk, in one place, so that a test can make each one fail."""

import contextlib
import errno
import fcntl
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

_FULL = getattr(fcntl, "F_FULLFSYNC", None)


class Disk:
    """The operating system's own calls; a subclass may count, refuse or record them."""

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        return os.open(path, flags | os.O_CLOEXEC, mode)

    def close(self, fd: int) -> None:
        os.close(fd)

    def write(self, fd: int, block: bytes | memoryview) -> int:
        return os.write(fd, block)

    def write_at(self, fd: int, block: bytes, offset: int) -> None:
        """Overwrites every byte from an offset on; it is not for files that are appended to."""
        if os.pwrite(fd, block, offset) != len(block):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        """On return, the file's bytes and its size have reached the disk."""
        if _FULL is not None:  # macOS: fsync alone stops at the drive's own memory
            fcntl.fcntl(fd, _FULL)
        else:
            os.fdatasync(fd)

    def sync_folder(self, path: Path) -> None:
        """On return, the names in the folder have reached the disk."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, old: Path, new: Path) -> None:
        old.rename(new)

    def remove(self, path: Path) -> None:
        path.unlink()

    def make_folder(self, path: Path) -> None:
        path.mkdir(mode=0o700)

    def lock(self, fd: int) -> None:
        """Waits until no other process, and no other opening of the file, holds the lock."""
        fcntl.flock(fd, fcntl.LOCK_EX)

    def unlock(self, fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)


def write_all(disk: Disk, fd: int, block: bytes) -> None:
    """Writes every byte, however short the single writes are."""
    written = disk.write(fd, block)
    if written == len(block):
        return
    rest = memoryview(block)
    while written < len(rest):
        rest = rest[written:]
        written = disk.write(fd, rest)


def make_folders(disk: Disk, path: Path) -> None:
    """The folder and those above it, for the owner alone, each with its name on disk."""
    if path.is_dir():
        return
    make_folders(disk, path.parent)
    try:
        disk.make_folder(path)
    except FileExistsError:
        if not path.is_dir():
            raise
    disk.sync_folder(path.parent)


@contextlib.contextmanager
def replacing(disk: Disk, path: Path) -> Iterator[int]:
    """A file whose content replaces `path` at the end: complete and on disk, or not at all."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    fd = disk.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        try:
            yield fd
            disk.sync(fd)
        finally:
            disk.close(fd)
        disk.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            disk.remove(temporary)
        raise
    disk.sync_folder(path.parent)


def read_file(path: Path) -> bytes:
    """The bytes of a regular file; a pipe in its place is an error, not a wait for its writer."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        return file.read()


def write_file(disk: Disk, path: Path, content: bytes) -> None:
    """Write a file completely or not at all; it is on disk on return."""
    with replacing(disk, path) as fd:
        write_all(disk, fd, content)


def write_private(path: Path, content: bytes) -> None:
    """Writes a file that the owner alone may read, whatever the umask; it is not synced."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
