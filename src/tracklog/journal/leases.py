"""Leases: named locks over all processes that use one journal."""

import errno
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Protocol, Self

from tracklog.journal.frame import Run

_RETRY = 0.01  # seconds between two attempts to take a lease that another process holds


class _Table:
    """The file of leases as this process has it open: the kernel's locks belong to the process."""

    def __init__(self, path: Path, *, readonly: bool) -> None:
        self.fd, self.how = _opened(path, readonly=readonly)
        self.users = 0
        self.held: set[int] = set()
        self.mutex = threading.Lock()

    def lock(self, place: int) -> bool:
        """Lock the byte of a name against other processes, unless one of them has it."""
        try:
            if self.fd is not None:
                fcntl.lockf(self.fd, self.how | fcntl.LOCK_NB, 1, place)
        except (BlockingIOError, PermissionError):  # POSIX allows both
            return False
        return True

    def unlock(self, place: int) -> None:
        if self.fd is not None:
            fcntl.lockf(self.fd, fcntl.LOCK_UN, 1, place)


def _opened(path: Path, *, readonly: bool) -> tuple[int | None, int]:
    """The file of leases, and how it is locked.

    Where a folder that is only read cannot be written, a lock for reading still keeps out everyone
    who can write; and where there is no file, nobody who can write has ever taken a lease.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), fcntl.LOCK_EX
    except OSError as error:
        if not readonly or error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC), fcntl.LOCK_SH
    except FileNotFoundError:
        return None, 0


_TABLES: dict[Path, _Table] = {}
_OPENING = threading.Lock()


class Leases(Protocol):
    """The leases that one holder has: named locks over all threads and processes of a journal.

    A lease has a name of any kind, or is that of a run. It needs no heartbeat and no timeout: it is
    released when the process ends, however it ends.
    """

    def take(self, name: str | Run, wait: float | None = 0.0) -> bool:
        """Take a lease unless somebody holds it, and say whether that succeeded.

        Wait at most so many seconds for the other holder, or with None as long as it takes.
        """

    def release(self, name: str | Run) -> None:
        """Release a lease, if this holder has it."""

    def close(self) -> None:
        """Release every lease of this holder; a second call does nothing."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...


class FileLeases:
    """Leases in a folder: each name stands for one byte of a file, and a lease is a lock on it."""

    def __init__(self, place: str | Path, *, readonly: bool = False) -> None:
        self._path = (Path(place).expanduser() / "hosts").resolve() / "leases"
        with _OPENING:
            # Opened once in a process: closing any descriptor of a file releases all its locks.
            if self._path not in _TABLES:
                _TABLES[self._path] = _Table(self._path, readonly=readonly)
            self._table = _TABLES[self._path]
            self._table.users += 1
        self._mine: set[int] = set()
        self._closed = False

    def take(self, name: str | Run, wait: float | None = 0.0) -> bool:
        """Take a lease unless somebody holds it, and say whether that succeeded.

        Wait at most so many seconds for the other holder, or with None as long as it takes.
        """
        until = None if wait is None else time.monotonic() + wait
        place = _place(name)
        while not self._take(place):
            if self._closed or (until is not None and time.monotonic() >= until):
                return False
            time.sleep(_RETRY)
        return True

    def release(self, name: str | Run) -> None:
        """Release a lease, if this holder has it."""
        place, table = _place(name), self._table
        with table.mutex:
            if place in self._mine:
                table.unlock(place)
                table.held.discard(place)
                self._mine.discard(place)

    def close(self) -> None:
        """Release every lease of this holder; a second call does nothing."""
        table = self._table
        with _OPENING, table.mutex:
            if self._closed:
                return
            self._closed = True
            for place in self._mine:
                table.unlock(place)
            table.held -= self._mine
            self._mine.clear()
            table.users -= 1
            if not table.users:
                del _TABLES[self._path]
                if table.fd is not None:
                    os.close(table.fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _take(self, place: int) -> bool:
        table = self._table
        with table.mutex:
            if self._closed or place in table.held:
                return False
            if not table.lock(place):
                return False
            table.held.add(place)
            self._mine.add(place)
            return True


@contextmanager
def lease(leases: Leases, name: str | Run, wait: float | None = 0.0) -> Iterator[bool]:
    """Hold one lease while a block runs, then close its holder; the value says if it was taken."""
    with leases:
        yield leases.take(name, wait)


def _place(name: str | Run) -> int:
    """The byte that stands for a name; two names practically never share one."""
    text = name if isinstance(name, str) else "\0".join(name)
    return int.from_bytes(sha256(text.encode()).digest()[:8]) >> 2
