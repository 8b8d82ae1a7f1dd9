"""A connection for questions of a user in SQL: it can change nothing, and has a time limit."""

import sqlite3
import time

_ALLOWED = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
_FORBIDDEN = {"load_extension", "fts3_tokenizer", "fts5"}
_LONGEST = 64 << 20  # bytes of one value in an answer


def restrict(connection: sqlite3.Connection, until: float) -> None:
    """Let the connection only read, and give up when its time is over."""
    connection.execute("PRAGMA query_only = 1")
    connection.text_factory = str
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
    connection.set_authorizer(_authorize)
    connection.set_progress_handler(lambda: time.monotonic() > until, 10_000)


def free(connection: sqlite3.Connection) -> None:
    """Undo `restrict`, for a connection that is used again."""
    connection.set_authorizer(None)
    connection.set_progress_handler(None, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1_000_000_000)
    connection.execute("PRAGMA query_only = 0")
    connection.text_factory = bytes


def _authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    named = first if action == sqlite3.SQLITE_PRAGMA else second
    fine = action in _ALLOWED and not (action == sqlite3.SQLITE_FUNCTION and named in _FORBIDDEN)
    if action == sqlite3.SQLITE_PRAGMA:
        fine = named == "data_version" and second is None  # the word search asks it by itself
    return sqlite3.SQLITE_OK if fine else sqlite3.SQLITE_DENY
