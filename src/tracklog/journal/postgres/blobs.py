"""Large values in a table of PostgreSQL, by the SHA-256 of their bytes."""
# ruff: noqa: S608  # the names of schemas are made here

import re
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256

from tracklog.journal.postgres.archived import ArchivedGroups
from tracklog.journal.postgres.connections import Database
from tracklog.model.errors import BlobDamaged, NoSuchBlob

_HASH = re.compile(r"[0-9a-f]{64}")
_PAGE = 10_000
_TOGETHER = 8 << 20  # bytes that are sent in one transaction, but for the last value


class PostgresBlobs:
    """Put once, and stored until they are collected."""

    def __init__(self, database: Database, schema: str) -> None:
        self._database, self._table = database, f"{schema}.blobs"
        self._places = f"{schema}.cold_blobs"
        self._cold = ArchivedGroups()

    def put_all(self, contents: Iterable[bytes]) -> None:
        """Store them all; on return they are durable."""
        part: dict[bytes, bytes] = {}
        size = 0
        for content in contents:
            part[sha256(content).digest()] = content
            size += len(content)
            if size > _TOGETHER:
                self._put(part)
                part, size = {}, 0
        if part:
            self._put(part)

    def put(self, content: bytes) -> str:
        """Store a value, and return its SHA-256; on return it is durable."""
        self.put_all([content])
        return sha256(content).hexdigest()

    def get(self, name: str) -> bytes:
        """The value with this SHA-256; else `NoSuchBlob`, or `BlobDamaged`."""
        ask = f"SELECT bytes FROM {self._table} WHERE sha256 = %b"
        rows = self._database.ask(ask, (_digest(name),))
        if not rows:
            raise NoSuchBlob(f"there is no blob {name}", "it was removed, or never stored here")
        if rows[0][0] is None:
            return self._cold.blob(self._place(name), name)
        content = bytes(rows[0][0])
        if sha256(content).hexdigest() != name:
            raise BlobDamaged(
                f"the blob {name} does not have the bytes that were put",
                "bring it back from a backup, or remove it and import its source again",
            )
        return content

    def _place(self, name: str) -> str:
        """The archive that has a value which is no longer in the database."""
        ask = f"SELECT place FROM {self._places} WHERE sha256 = %b"
        return str(self._database.ask(ask, (_digest(name),))[0][0])

    def size(self, name: str) -> int | None:
        """In bytes; None if there is no such value."""
        if not _HASH.fullmatch(name):
            return None
        rows = self._database.ask(
            f"SELECT size FROM {self._table} WHERE sha256 = %b", (_digest(name),)
        )
        return int(rows[0][0]) if rows else None

    def list(self) -> Iterator[str]:
        """The SHA-256 of every value, in order."""
        after = b""
        ask = f"SELECT sha256 FROM {self._table} WHERE sha256 > %b ORDER BY sha256 LIMIT {_PAGE}"
        while rows := self._database.ask(ask, (after,)):
            yield from (bytes(name).hex() for (name,) in rows)
            after = bytes(rows[-1][0])

    def collect(self, wanted: Callable[[str], bool], older_than: float = 0) -> int:
        """Remove every value that is not wanted, and return how many bytes that freed."""
        freed = 0
        gone = [bytes.fromhex(name) for name in self.list() if not wanted(name)]
        for at in range(0, len(gone), _PAGE):
            rows = self._database.ask(
                f"WITH gone AS (DELETE FROM {self._table} WHERE sha256 = ANY(%b::bytea[])"
                " AND (%s = 0 OR at < to_timestamp(%s)) RETURNING size)"
                " SELECT coalesce(sum(size), 0)::bigint FROM gone",
                (gone[at : at + _PAGE], float(older_than), float(older_than)),
            )
            freed += int(rows[0][0])
        return freed

    def _put(self, part: dict[bytes, bytes]) -> None:
        # A value that is put again is young again: a line that speaks of it is on its way.
        self._database.ask(
            f"INSERT INTO {self._table}(sha256, size, bytes)"
            " SELECT name, length(content), content"
            " FROM unnest(%b::bytea[], %b::bytea[]) AS new(name, content)"
            f" ON CONFLICT (sha256) DO UPDATE SET at = now() WHERE {self._table.split('.')[1]}.at"
            " < now() - interval '10 minutes' RETURNING 1",
            (list(part), list(part.values())),
        )


def _digest(name: str) -> bytes:
    if not _HASH.fullmatch(name):
        raise NoSuchBlob(f"{name!r} is not a SHA-256", "a blob's name is 64 digits, 0-9 and a-f")
    return bytes.fromhex(name)
