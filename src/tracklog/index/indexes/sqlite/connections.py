"""Connections to the index's file, the lock beside it, and SQLite's errors as our own."""

import contextlib
import errno
import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from tracklog.model.errors import IndexDamaged, IndexUnusable, IndexUnwritable

BUSY = 30.0  # seconds; what others hold, they hold for milliseconds
HELD = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
DAMAGED = (11, 26)  # SQLITE_CORRUPT, SQLITE_NOTADB
_NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
_ROOM = (
    "free some space on its disk, for example with `tracklog prune --older-than 30d`, and ask "
    "again; nothing of the journal is lost"
)
_LOOK = "look at the disk's space and the file's mode with `tracklog doctor`; nothing of the journal is lost"


def connect(url: str) -> sqlite3.Connection:
    opened = sqlite3.connect(
        url, uri=True, timeout=BUSY, isolation_level=None, check_same_thread=False
    )
    opened.text_factory = bytes  # states are handed on as they are
    return opened


def filled(connection: sqlite3.Connection) -> sqlite3.Connection | None:
    """The connection; None while its index has no tables yet."""
    return connection if connection.execute("PRAGMA user_version").fetchone()[0] else None


def code_of(error: Exception) -> int:
    """SQLite's own word for what went wrong; 0 where it has none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def lock_path(path: Path) -> Path:
    """The file that the process which fills the index has locked."""
    return path.with_name(f"{path.name}.lock")


def damaged_path(path: Path) -> Path:
    """Where a damaged index is moved to."""
    return path.with_name(f"{path.name}.damaged")


@contextlib.contextmanager
def translated(path: Path | None) -> Iterator[None]:
    """Raise the errors of SQLite and of the system as our own."""
    where = f"the index {path}" if path else "the index in memory"
    try:
        yield
    except sqlite3.DatabaseError as error:
        if error.__class__ is sqlite3.ProgrammingError:
            raise IndexUnusable(f"{where} is closed", "open it again") from error
        if code_of(error) in DAMAGED:
            hint = "`tracklog rebuild` builds it again from the journal"
            raise IndexDamaged(f"{where} is damaged: {error}", hint) from error
        hint = _ROOM if code_of(error) in _NO_ROOM else _LOOK
        raise IndexUnusable(f"{where} cannot be used: {error}", hint) from error
    except OSError as error:
        hint = _ROOM if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else _LOOK
        readonly = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
        raise (IndexUnwritable if readonly else IndexUnusable)(
            f"{where} cannot be used: {error.strerror}", hint
        ) from error


@contextlib.contextmanager
def process_lock(path: Path | None, until: float) -> Iterator[bool]:
    """Whether no other process fills the index, as soon as that is so or when time is up."""
    if path is None:
        yield True
        return
    with translated(path):
        # A file of its own: closing any descriptor of the database would drop SQLite's locks.
        fd = os.open(lock_path(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield _locked(fd, until)
    finally:
        os.close(fd)


def _locked(fd: int, until: float) -> bool:
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(0.01)
        else:
            return True
