"""Read SQLite databases that another program writes: read-only, without a lock that it would notice.

A database is opened with its write-ahead log, so the newest rows are seen. Only the named tables
and columns are read.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    import sqlite3

MAGIC = b"SQLite format 3\0"
BUSY = 5.0
"""Seconds to wait for a program that holds the database."""
WAL = "-wal"
"""The end of the name of the write-ahead log beside a database."""


class UnreadableDatabase(OSError):
    """A database that cannot be read now: it is damaged, or another program holds it."""

    @property
    def is_busy(self) -> bool:
        """Whether another program holds it, so that it can be read later."""
        return "locked" in str(self) or "busy" in str(self)


@contextmanager
def connected(path: Path) -> Iterator["sqlite3.Connection"]:
    """A database, opened read-only; every failure of SQLite is `UnreadableDatabase`.

    There is no transaction around several queries: a program that writes the database never waits
    longer than one query takes. What changes in between is found by the next import.
    """
    import sqlite3  # noqa: PLC0415  # a collector that imports nothing starts sooner

    connection = None
    try:
        connection = _open(path)
        yield connection
    except (sqlite3.Error, UnicodeDecodeError) as error:  # its message quotes what is damaged
        raise UnreadableDatabase(0, f"SQLite says: {error}") from error
    finally:
        if connection is not None:
            connection.close()


def _open(path: Path) -> "sqlite3.Connection":
    import sqlite3  # noqa: PLC0415  # as above

    with path.open("rb") as file:
        header = file.read(20)
        size = file.seek(0, os.SEEK_END)
    page = int.from_bytes(header[16:18], "big")
    if header.startswith(MAGIC) and size % (65536 if page == 1 else page or 512):
        raise UnreadableDatabase(0, "its end is missing")  # SQLite would read zeros instead
    # A database in the mode of a log without the log is at rest. To open it the ordinary way would
    # create files beside it.
    rests = header[18:20] == b"\x02\x02" and not path.with_name(path.name + WAL).exists()
    options = "mode=ro&immutable=1" if rests else "mode=ro"
    uri = f"file:{quote(str(path.absolute()))}?{options}"
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY, isolation_level=None)
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    connection.row_factory = sqlite3.Row
    return connection


def columns(connection: "sqlite3.Connection") -> dict[str, frozenset[str]]:
    """The columns of each table."""
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    columns_of = {}
    for (name,) in names:
        quoted = name.replace('"', '""')
        rows = connection.execute(f'PRAGMA table_info("{quoted}")').fetchall()
        columns_of[name] = frozenset(row[1] for row in rows)
    return columns_of


def ordered(table: str, names: frozenset[str], *wanted: str) -> str:
    """The query for all rows of a table in the order of those columns that it has."""
    order = ", ".join(each for each in wanted if each in names or each == "rowid")
    return f"SELECT * FROM {table} ORDER BY {order}"  # noqa: S608  # our own names


def tables_of(path: Path) -> Mapping[str, frozenset[str]]:
    """The columns of each table of a file; none where it is damaged. Raises where it is held."""
    try:
        with connected(path) as connection:
            return columns(connection)
    except UnreadableDatabase as error:
        if error.is_busy:
            raise
        return {}
    except OSError:
        return {}
