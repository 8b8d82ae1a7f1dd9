"""Leases as advisory locks of PostgreSQL: a lease ends with the connection of its holder."""

import contextlib
import threading
import time
from hashlib import sha256
from typing import Self

import psycopg

from tracklog.journal.frame import Run
from tracklog.journal.postgres.connections import Connection, Database, is_lost

_RETRY = 0.02  # seconds between two attempts to take a lease that somebody else holds


class PostgresLeases:
    """The leases of one holder, over all machines that use the database.

    They need no heartbeat: the server releases them when the connection ends. A holder whose
    connection was lost finds out when it takes or asks for a lease.
    """

    def __init__(self, database: Database, schema: str) -> None:
        self._database, self._schema = database, schema
        self._connection: Connection | None = None
        self._mine: set[int] = set()
        self._mutex = threading.Lock()
        self._closed = False

    def take(self, name: str | Run, wait: float | None = 0.0) -> bool:
        """Take a lease unless somebody holds it, and say whether that succeeded.

        Wait at most so many seconds for the other holder, or with None as long as it takes.
        """
        until = None if wait is None else time.monotonic() + wait
        number = self._number(name)
        while not self._take(number):
            if self._closed or (until is not None and time.monotonic() >= until):
                return False
            time.sleep(_RETRY)
        return True

    def holds(self, name: str | Run) -> bool:
        """Whether this holder has the lease, and its connection is alive."""
        with self._mutex:
            return self._number(name) in self._mine and self._is_alive()

    def release(self, name: str | Run) -> None:
        """Release a lease, if this holder has it."""
        number = self._number(name)
        with self._mutex:
            if number in self._mine and self._connection is not None:
                self._mine.discard(number)
                try:
                    self._connection.execute("SELECT pg_advisory_unlock(%s)", (number,))
                except psycopg.Error:
                    self._let_go()

    def close(self) -> None:
        """Release every lease of this holder; a second call does nothing."""
        with self._mutex:
            self._closed = True
            self._let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _take(self, number: int) -> bool:
        with self._mutex:
            if self._closed:
                return False
            if number in self._mine and self._is_alive():
                return False
            try:
                if self._connection is None:
                    self._connection = self._database.connect()
                ask = "SELECT pg_try_advisory_lock(%s)"
                row = self._connection.execute(ask, (number,)).fetchone()
            except psycopg.Error as error:
                self._let_go()
                if is_lost(error):
                    return False
                raise self._database.trouble(error) from error
            taken = bool(row and row[0])
            if taken:
                self._mine.add(number)
            return taken

    def _is_alive(self) -> bool:
        try:
            if self._connection is not None:
                self._connection.execute("SELECT 1")
                return True
        except psycopg.Error:
            self._let_go()
        return False

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        self._mine.clear()
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                connection.close()

    def _number(self, name: str | Run) -> int:
        text = name if isinstance(name, str) else "\0".join(name)
        digest = sha256(f"{self._schema}\0{text}".encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:8], signed=True)
