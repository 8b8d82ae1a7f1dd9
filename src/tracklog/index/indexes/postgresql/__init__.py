"""The index in PostgreSQL, shared by all collectors on one database: `postgresql://host/database`.

One process at a time fills it; the others ask it. It needs the extra `tracklog[postgres]`.
"""
# ruff: noqa: S608  # the names of schemas are made here

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeVar

import psycopg

from tracklog.folds._cells import MOST_AMOUNTS, Cell
from tracklog.index.indexes import (
    NO_FILTER,
    Change,
    Index,
    QueryResult,
    RecordFinding,
    Total,
    Words,
)
from tracklog.index.indexes.postgresql import restricted
from tracklog.index.indexes.postgresql.arrays import packed
from tracklog.index.indexes.postgresql.schema import (
    AMOUNTS,
    CELL,
    CELL_TYPES,
    literal,
    quoted,
    statements,
    tables_of,
    totals,
    views_of,
)
from tracklog.index.indexes.postgresql.words import asked, vector
from tracklog.journal.postgres.connections import Address, Connection, Database, Row
from tracklog.journal.postgres.schema import index_prefix
from tracklog.model.errors import BadFormat, BadQuery, IndexOvertaken, IndexUnusable, TracklogError
from tracklog.model.event import Finding

T = TypeVar("T")

_OURS = ("cursor", "epoch")
_LAST = 2**63 - 1  # of all records
_RETRY = 0.01  # seconds between two attempts to take the turn
_MOST = 20_000  # rows that are sent in one statement


class PostgresIndex:
    """Readers see the last complete batch; the one who has the turn writes the next."""

    shared = True

    def __init__(self, place: str) -> None:
        self.address = Address(place)
        self.database = Database(self.address, writing=True)
        self._schema = tables_of(self.address)
        self._turn = threading.Lock()
        self._holder: Connection | None = None
        """The connection that holds the turn: what it loses, it can write no more."""
        self._epoch: str | None = None
        self._closed = False

    @property
    def cursor(self) -> int:
        rows = self._ask("SELECT value FROM {s}.meta WHERE name = 'cursor'")
        return int(rows[0][0]) if rows else 0

    @property
    def notes(self) -> dict[str, str]:
        rows = self._ask("SELECT name, value FROM {s}.meta")
        return {name: value for name, value in rows if name not in _OURS}

    @contextlib.contextmanager
    def turn(self, seconds: float) -> Iterator[bool]:
        until = time.monotonic() + seconds
        if not self._turn.acquire(timeout=seconds):
            yield False
            return
        try:
            self._holder = self._hold(until)
            self._epoch = self._epoch_of() if self._holder is not None else None
            yield self._holder is not None
        finally:
            holder, self._holder, self._epoch = self._holder, None, None
            if holder is not None:
                holder.close()
            self._turn.release()

    def clear(
        self,
        fields: Mapping[str, Mapping[str, Any]],
        notes: Mapping[str, str],
        listed: Iterable[str] = (),
    ) -> None:
        with self._writing() as connection:
            self._drop_unused(connection)
            for sql in statements(self.address, fields, listed):
                connection.execute(sql.encode(), prepare=False)
            self._unnest(connection, "meta", "text[], text[]", notes.items())
        if self._holder is not None:
            self._epoch = self._epoch_of()

    def _drop_unused(self, connection: Connection) -> None:
        """Drop the indexes of other versions that nobody fills: they may hold what was erased."""
        names = connection.execute(
            "SELECT nspname::text FROM pg_namespace WHERE starts_with(nspname, %s)"
            " AND NOT starts_with(nspname, %s)",
            (index_prefix(self.address), self._schema),
        ).fetchall()
        for name in sorted({str(name).removesuffix("_views") for (name,) in names}):
            free = connection.execute(
                "SELECT pg_try_advisory_xact_lock(%s)", (_number(name),)
            ).fetchone()
            if free and free[0]:
                for each in (f"{name}_views", name):
                    connection.execute(f"DROP SCHEMA IF EXISTS {quoted(each)} CASCADE".encode())

    def replace(self) -> str:
        with self._writing() as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {self._schema} CASCADE".encode())
        return self._schema

    def load(self, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], bytes]:
        states: dict[tuple[str, str], bytes] = {}
        by_fold: dict[str, list[bytes]] = {}
        for fold, key in keys:
            by_fold.setdefault(fold, []).append(_bytes(key))
        for fold, of in by_fold.items():
            rows = self._ask(
                "SELECT key, state FROM {s}.states WHERE fold = %s AND key = ANY(%b::bytea[])",
                (fold, of),
            )
            states |= {(fold, _str(key)): state for key, state in rows}
        return states

    def records_named(self, names: Iterable[int]) -> dict[int, list[int]]:
        records: dict[int, list[int]] = {}
        rows = self._ask(
            "SELECT name, seq FROM {s}.names WHERE name = ANY(%s::bigint[]) ORDER BY name, seq",
            (list(names),),
        )
        for name, seq in rows:
            records.setdefault(name, []).append(seq)
        return records

    def apply(
        self,
        cursor: int,
        states: Iterable[Change],
        findings: Sequence[RecordFinding] = (),
        words: Iterable[Words] = (),
        names: Iterable[tuple[int, int]] = (),
        silent: Iterable[int] = (),
        refolded: Iterable[tuple[str, str]] = (),
        link: str = "",
        after: int | None = None,
        cells: Iterable[tuple[Cell, Sequence[int]]] = (),
    ) -> None:
        changed = {(fold, _bytes(key)): (seq, state) for fold, key, seq, state in states}
        stored = ((*name, *row) for name, row in changed.items() if row[1])
        gone = [name for name, (_, state) in changed.items() if not state]
        finding_rows = (
            (seq, _bytes(family), _bytes(run), _bytes(each.name), each.level, _bytes(each.message))
            for seq, family, run, each in findings
        )
        vectors = ((seq, vector(text)) for seq, text in words)
        with self._writing() as connection:
            self._check(connection, after)
            send = self._unnest
            with connection.pipeline():  # the next rows are packed while these are stored
                send(
                    connection, "states", "text[], bytea[], bigint[], bytea[]", stored,
                    " ON CONFLICT (fold, key) DO UPDATE SET seq = excluded.seq, state = excluded.state",
                )  # fmt: skip
                self._delete(connection, "states", ("fold", "key"), "text[], bytea[]", gone)
                again = [(_bytes(family), _bytes(run)) for family, run in refolded]
                self._delete(connection, "findings", ("family", "run"), "bytea[], bytea[]", again)
                send(
                    connection, "findings(seq, family, run, name, level, message)",
                    "bigint[], bytea[], bytea[], bytea[], text[], bytea[]", finding_rows,
                )  # fmt: skip
                nothing = " ON CONFLICT DO NOTHING"
                send(connection, "silent", "bigint[]", ((seq,) for seq in silent), nothing)
                send(
                    connection, "words", "bigint[], text[]", vectors,
                    " ON CONFLICT (seq) DO UPDATE SET said = excluded.said",
                    columns="a, b::tsvector",
                )  # fmt: skip
                send(connection, "names", "bigint[], bigint[]", sorted(names), nothing)
                self._add_cells(connection, cells)
                notes = [("cursor", str(cursor)), ("link", link)]
                update = " ON CONFLICT (name) DO UPDATE SET value = excluded.value"
                send(connection, "meta", "text[], text[]", notes, update)

    def states(
        self, fold: str, *, prefix: str = "", after: str = "", limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        more = ">" if after and after >= prefix else ">="
        return self._pairs(
            f"WHERE fold = %s AND key {more} %b AND key < %b ORDER BY key LIMIT %s",
            (fold, _bytes(max(after, prefix)), _bytes(prefix) + b"\xff", limit),
        )

    def totals(
        self,
        kind: str,
        spans: Sequence[tuple[int, int]],
        *,
        by: str = "",
        where: Mapping[str, Collection[str]] = NO_FILTER,
        amounts: int = MOST_AMOUNTS,
    ) -> list[Total]:
        values = [[_bytes(value) for value in each] for each in where.values()]
        bounds = [list(each) for each in zip(*spans, strict=True)] or [[], []]
        rows = self._ask(totals(by, where, amounts), (*bounds, kind, *values))
        return [Total(span, _str(name), part, tuple(sums)) for span, name, part, *sums in rows]

    def _add_cells(
        self, connection: Connection, cells: Iterable[tuple[Cell, Sequence[int]]]
    ) -> None:
        rows: list[tuple[Any, ...]] = []
        for (kind, minute, part, label), amounts in cells:
            names = map(_bytes, label)
            padding = (0,) * (MOST_AMOUNTS - len(amounts))
            rows.append((kind, minute, part, *names, *map(int, amounts), *padding))
        rows.sort()
        self._unnest(
            connection,
            "cells",
            f"{CELL_TYPES}{', bigint[]' * MOST_AMOUNTS}",
            rows,
            f" ON CONFLICT ({', '.join(CELL)}) DO UPDATE SET "
            + ", ".join(f"{each} = cells.{each} + excluded.{each}" for each in AMOUNTS),
        )
        less = [row[: len(CELL)] for row in rows if row[len(CELL)] < 0]
        self._delete(connection, "cells", CELL, CELL_TYPES, less, " AND t.a0 = 0")

    def newest(self, fold: str, limit: int = 50) -> list[tuple[str, bytes]]:
        # The fold stands in the text, so that its index is taken.
        of = literal(fold).replace("%", "%%")
        return self._pairs(f"WHERE fold = {of} ORDER BY seq DESC, key DESC LIMIT %s", (limit,))

    def findings(
        self, run: tuple[str, str] | None = None, limit: int = 1000
    ) -> list[RecordFinding]:
        where = "" if run is None else "WHERE family = %b AND run = %b"
        rows = self._ask(
            f"SELECT seq, family, run, name, level, message FROM {{s}}.findings {where}"
            " ORDER BY seq DESC, id DESC LIMIT %s",
            (*map(_bytes, run or ()), limit),
        )
        return [
            RecordFinding(seq, _str(family), _str(of), Finding(_str(name), _str(why), level))
            for seq, family, of, name, level, why in rows
        ]

    def search(
        self, terms: Sequence[str], limit: int = 50, between: tuple[int, int] | None = None
    ) -> list[int]:
        if not (wanted := asked(list(terms))):
            return []
        rows = self._ask(
            "SELECT seq FROM {s}.words w WHERE said @@ %s::tsquery AND seq BETWEEN %s AND %s"
            " AND NOT EXISTS (SELECT FROM {s}.silent WHERE seq = w.seq)"
            " ORDER BY seq DESC LIMIT %s",
            (wanted, *(between or (0, _LAST)), limit),
        )
        return [seq for (seq,) in rows]

    def silent(self, seqs: Iterable[int]) -> set[int]:
        ask = "SELECT seq FROM {s}.silent WHERE seq = ANY(%s::bigint[])"
        return {seq for (seq,) in self._ask(ask, (list(seqs),))}

    def query(self, sql: str, *, limit: int = 1000, seconds: float = 10) -> QueryResult:
        views = [views_of(self.address)]
        return restricted.query(self.database, views, sql, limit=limit, seconds=seconds)

    def query_all(
        self, shards: Sequence[Index], sql: str, *, limit: int, seconds: float
    ) -> QueryResult:
        mine = [each for each in shards if isinstance(each, PostgresIndex)]
        if any(each.address.known != self.address.known for each in mine):
            raise BadQuery(
                "the shards are in several databases, and SQL is answered by one",
                "ask each shard by itself: its own URL, with `shard=0` and so on",
            )
        views = [views_of(each.address) for each in mine]
        return restricted.query(self.database, views, sql, limit=limit, seconds=seconds)

    def close(self) -> None:
        self._closed = True
        self.database.close()

    def _hold(self, until: float) -> Connection | None:
        """A connection that holds the lock of the index; None when time is up, or where this user
        may not write.
        """
        number = _number(self._schema)
        with self._translated():
            connection = self.database.connect()
            try:
                may = connection.execute(
                    "SELECT NOT pg_is_in_recovery() AND (coalesce(has_schema_privilege("
                    "to_regnamespace(%s)::oid, 'CREATE'), true))",
                    (self._schema,),
                ).fetchone()
                ask = "SELECT pg_try_advisory_lock(%s)"
                while may and may[0]:
                    taken = connection.execute(ask, (number,)).fetchone()
                    if taken and taken[0]:
                        connection.execute("SET synchronous_commit = off")  # it is a cache
                        return connection
                    if time.monotonic() >= until:
                        break
                    time.sleep(_RETRY)
            except BaseException:
                connection.close()
                raise
            connection.close()
            return None

    def _epoch_of(self) -> str | None:
        rows = self._ask("SELECT value FROM {s}.meta WHERE name = 'epoch'")
        return rows[0][0] if rows else None

    def _check(self, connection: Connection, after: int | None) -> None:
        """Refuse a batch that was made from states which somebody else has changed since."""
        rows = connection.execute(
            f"SELECT name, value FROM {self._schema}.meta WHERE name IN ('cursor', 'epoch')"
            " ORDER BY name FOR UPDATE".encode()
        ).fetchall()
        known: dict[str, str] = {str(name): str(value) for name, value in rows}
        if (after is not None and known.get("cursor") != str(after)) or (
            self._epoch is not None and known.get("epoch") != self._epoch
        ):
            raise IndexOvertaken(
                "another process has changed the index meanwhile", "it is read again"
            )

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Connection]:
        """A transaction, on the connection that holds the turn if there is one."""
        with self._translated(), contextlib.ExitStack() as stack:
            if self._closed:
                raise IndexUnusable("the index is closed", "open it again")
            connection = self._holder or stack.enter_context(self.database.connection())
            with connection.transaction():
                yield connection

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            trouble = self.database.trouble(error)
            raise IndexUnusable(trouble.message, trouble.hint) from error

    def _unnest(
        self,
        connection: Connection,
        table: str,
        types: str,
        rows: Iterable[Sequence[Any]],
        conflict: str = "",
        columns: str = "*",
    ) -> None:
        """Insert rows, many in a statement."""
        every = list(rows)
        marks = ", ".join(f"%b::{each}" for each in types.split(", "))
        letters = ", ".join("abcdefghijklmnopqrstuvwxyz"[: marks.count("%b")])
        sql = (
            f"INSERT INTO {self._schema}.{table} SELECT {columns} FROM"
            f" unnest({marks}) AS new({letters}){conflict}"
        )
        for at in range(0, len(every), _MOST):
            columns_of = zip(*every[at : at + _MOST], strict=True)
            values = list(map(packed, types.split(", "), columns_of))
            connection.execute(sql.encode(), values)

    def _delete(
        self,
        connection: Connection,
        table: str,
        names: Sequence[str],
        types: str,
        rows: Sequence[tuple[Any, ...]],
        only: str = "",
    ) -> None:
        """Delete the rows that have these values, many in a statement."""
        marks = ", ".join(f"%b::{each}" for each in types.split(", "))
        letters = "abcdefghijklmnopqrstuvwxyz"[: len(names)]
        same = " AND ".join(
            f"t.{name} = gone.{letter}" for name, letter in zip(names, letters, strict=True)
        )
        sql = (
            f"DELETE FROM {self._schema}.{table} t USING unnest({marks})"
            f" AS gone({', '.join(letters)}) WHERE {same}{only}"
        )
        for at in range(0, len(rows), _MOST):
            values = list(map(packed, types.split(", "), zip(*rows[at : at + _MOST], strict=True)))
            connection.execute(sql.encode(), values)

    def _pairs(self, where: str, values: Sequence[Any]) -> list[tuple[str, bytes]]:
        rows = self._ask(f"SELECT key, state FROM {{s}}.states {where}", values)
        return [(_str(key), bytes(state)) for key, state in rows]

    def _ask(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """The rows of a question; none where the index was never made."""
        try:
            return self.database.ask(sql.replace("{s}", self._schema), values)
        except BadFormat:
            return []
        except IndexUnusable:
            raise
        except TracklogError as error:
            raise IndexUnusable(error.message, error.hint) from error


def _number(schema: str) -> int:
    """The advisory lock of whoever fills the index in a schema."""
    return int.from_bytes(sha256(schema.encode()).digest()[:8], signed=True)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _str(data: bytes) -> str:
    return bytes(data).decode("utf-8", "surrogatepass")


index: Callable[[str], PostgresIndex] = PostgresIndex
