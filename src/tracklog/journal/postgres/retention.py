"""Erasing and pruning of a journal on PostgreSQL."""
# ruff: noqa: S608  # the names of schemas are made here

from collections.abc import Callable
from typing import TYPE_CHECKING

from tracklog.journal import merkle
from tracklog.journal.frame import Run, record, seq_of, tombstone
from tracklog.journal.postgres import schema as tables
from tracklog.journal.postgres.connections import Connection
from tracklog.journal.postgres.groups import columns, name, packed
from tracklog.journal.stores import Erasure, Pruning, refused_needle
from tracklog.model.errors import NoSuchRecord

if TYPE_CHECKING:
    from tracklog.journal.postgres.store import PostgresStore


class Retention:
    """What takes records out of a store."""

    def __init__(self, store: "PostgresStore", refused: "PostgresStore | None") -> None:
        self._store, self._refused = store, refused

    def erase(self, seq: int, *, reason: str, by: str, at: str, id: str | None) -> Erasure:
        """Replace one record with a tombstone, chain that, and take it out of refused lines."""
        store = self._store
        with store.writing() as (connection, (_, last, chain, *_)):
            frame = self._find(connection, seq)[1]
            old = record(frame)
            if old is None:
                raise NoSuchRecord(f"record {seq} is damaged", "`tracklog verify` shows how")
            run = (old.family, old.run)
            if old.erased is not None:
                return Erasure(seq, run, old.erased.leaf, ())
            leaf = merkle.leaf(frame)
            put = tombstone(frame, leaf, reason, by, at, id)
            # The refused lines go first: while the record is there, doing it again finds them.
            also = self._scrub(old.line, reason, by, at)
            after = merkle.erasure_link(chain, seq, leaf, merkle.leaf(put))
            connection.execute(
                f"INSERT INTO {store.schema}.erasures(through, seq, leaf, tombstone, chain)"
                " VALUES(%s, %s, %b, %b, %b)".encode(),
                (last, seq, leaf, merkle.leaf(put), after),
            )
            self.replace(connection, seq, put)
            connection.execute(f"UPDATE {store.schema}.head SET chain = %b".encode(), (after,))
        return Erasure(seq, run, leaf.hex(), also)

    def replace(self, connection: Connection, seq: int, put: bytes) -> None:
        """Put another frame in the place of a record; the caller has the lock, and commits."""
        (through, first, frames), _ = self._find(connection, seq)
        frames[seq - first] = put
        size, codec, data = packed(frames)
        connection.execute(
            f'UPDATE {self._store.schema}.groups SET frames = %b, codec = %s::"char", size = %s'
            " WHERE through = %s".encode(),
            (data, codec, size, through),
        )

    def _find(self, connection: Connection, seq: int) -> tuple[tuple[int, int, list[bytes]], bytes]:
        """The group of a record (its last and first record, its frames), and the record's frame."""
        row = connection.execute(
            "SELECT through, first, codec::text, frames, size, leaves FROM"
            f" {self._store.schema}.groups WHERE through >= %s ORDER BY through LIMIT 1".encode(),
            (seq,),
            binary=True,
        ).fetchone()
        if seq < 1 or row is None or row[1] > seq:
            raise NoSuchRecord(
                f"there is no record {seq}", "`tracklog tail` shows the numbers that there are"
            )
        through, first, codec, data, size, leaves = row
        frames = self._store.archived.frames(codec, data, size, (first, through), leaves)
        return (through, first, frames), frames[seq - first]

    def _scrub(self, line: bytes, reason: str, by: str, at: str) -> tuple[str, ...]:
        needle = refused_needle(line)
        if self._refused is None or not needle:
            return ()
        also: list[str] = []
        after = 0
        while frames := self._refused.read(after, 1000):
            after = seq_of(frames[-1])
            for frame in frames:
                if needle in frame:
                    self._refused.erase(seq_of(frame), reason=reason, by=by, at=at)
                    also.append(f"refused/{seq_of(frame)}")
        return tuple(also)

    def prune(self, before: str, is_open: Callable[[Run], bool] | None, *, dry: bool) -> Pruning:
        """Drop the oldest groups that were received before that time, up to the first open run."""
        store, schema = self._store, self._store.schema
        with store.writing() as (connection, (first, *_)):
            runs = self._runs(connection, before)
            through, gone, size = 0, set[Run](), 0
            rows = connection.execute(
                f"SELECT through, size, received < %s::timestamptz FROM {schema}.groups"
                " ORDER BY through".encode(),
                (before,),
                binary=True,
            )
            for end, bytes_, is_old in rows:
                if not is_old or (is_open and any(map(is_open, runs[end]))):
                    break
                through, gone, size = end, gone | runs[end], size + bytes_
            if not through:
                return Pruning(0, 0, 0, (), ())
            left = gone & self._runs_behind(connection, gone, through)
            if not dry:
                self.drop(connection, through, size)
            whole, part = tuple(sorted(gone - left)), tuple(sorted(left))
            return Pruning(through, through - first + 1, size, whole, part)

    def trim(self, connection: Connection, most: int) -> None:
        """Drop the oldest groups while there are more bytes than that."""
        schema = self._store.schema
        old = connection.execute(
            "SELECT through, total FROM (SELECT through, sum(size) OVER (ORDER BY through) AS total"
            f" FROM {schema}.groups) AS summed WHERE total <= (SELECT bytes FROM {schema}.head) - %s"
            " ORDER BY through DESC LIMIT 1".encode(),
            (most,),
        ).fetchone()
        if old is not None:
            self.drop(connection, old[0], int(old[1]))

    def drop(self, connection: Connection, through: int, size: int) -> None:
        """Drop everything up to the end of a group; the caller has the lock, and commits."""
        schema = self._store.schema
        last = f"SELECT chain FROM {schema}.groups WHERE through = %s"
        erased = f"SELECT chain FROM {schema}.erasures WHERE through = %s ORDER BY n DESC LIMIT 1"
        connection.execute(
            f"UPDATE {schema}.head SET first = %s, bytes = bytes - %s,"
            f" origin = coalesce(({erased}), ({last}))".encode(),
            (through + 1, size, through, through),
        )
        for table in ("groups", "places", "erasures"):
            connection.execute(
                f"DELETE FROM {schema}.{table} WHERE through <= %s".encode(), (through,)
            )
        connection.execute(f"DELETE FROM {schema}.runs WHERE last <= %s".encode(), (through,))
        connection.execute(f"DELETE FROM {schema}.marks WHERE seq <= %s".encode(), (through,))
        tables.drop_partitions(connection, schema, through)

    def _runs(self, connection: Connection, before: str) -> dict[int, set[Run]]:
        """The runs of each group that was received before that time."""
        schema = self._store.schema
        rows = connection.execute(
            f"SELECT through, family, run FROM {schema}.places JOIN {schema}.groups USING (through)"
            " WHERE received < %s::timestamptz".encode(),
            (before,),
            binary=True,
        )
        by_group: dict[int, set[Run]] = {}
        for through, family, run in rows:
            by_group.setdefault(through, set()).add((name(family), name(run)))
        return by_group

    def _runs_behind(self, connection: Connection, runs: set[Run], through: int) -> set[Run]:
        """Those of the runs that have a record behind that number."""
        rows = connection.execute(
            f"SELECT family, run FROM {self._store.schema}.runs JOIN"
            " unnest(%b::bytea[], %b::bytea[]) AS asked(family, run) USING (family, run)"
            " WHERE last > %s".encode(),
            (*columns(dict.fromkeys(runs, 0))[:2], through),
            binary=True,
        )
        return {(name(family), name(run)) for family, run in rows}
