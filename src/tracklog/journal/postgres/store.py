"""The records of a journal in PostgreSQL: a row for each commit group, with its link of the chain.

Whoever appends locks the only row of the table `head`, so that groups are numbered and chained one
after the other, and writes the group, the runs in it, its marks and the new head in one transaction.
"""
# ruff: noqa: S608  # the names of schemas are made here

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping

import psycopg

from tracklog.journal import merkle
from tracklog.journal.frame import Run
from tracklog.journal.merkle import Head
from tracklog.journal.offsets import MOST_SOURCES
from tracklog.journal.postgres import schema as tables
from tracklog.journal.postgres import tenants
from tracklog.journal.postgres.connections import PATIENCE, Connection, Database, Row, is_lost
from tracklog.journal.postgres.groups import (
    GroupRow,
    columns,
    firsts,
    marked,
    name,
    row_of,
)
from tracklog.journal.postgres.reader import PostgresReader
from tracklog.journal.postgres.retention import Retention
from tracklog.journal.stores import Durability, Erasure, Group, Make, Pruning, overtaken
from tracklog.model.errors import NotAppended, NotDurable, StoreBroken, TracklogError
from tracklog.model.event import Finding

OWN_RUNS = 100_000
"""Runs of which this process remembers its own last record."""

STUCK = "10s"
"""How long a writer may hold the lock without a word, before the server lets the others go on."""
_TRIM_MARKS = 1000  # marks of this process after which old ones are dropped
_LIMIT_KNOWN = 1.0  # seconds after which a limit in another database is asked for again
_LIMIT_AWAY = 10.0  # and if that database is away
_RESOLVING = 30.0  # seconds that the outcome of a commit is looked for
_GROUPS = 256  # rows that are read at once
_BYTES = 8 << 20  # and no more than this of them, but for the last
_LINKS = 1000
_HELD = 4  # decompressed groups that are held for the next read
_WAIT = "canceling wait for synchronous replication"


class PostgresStore(PostgresReader):
    """Many threads, processes and machines may append; readers take no lock."""

    def __init__(
        self,
        database: Database,
        schema: str,
        *,
        durability: Durability = "sync",
        readonly: bool = False,
        most: int = 0,
        refused: "PostgresStore | None" = None,
        shards: int = 1,
        shard: int = 0,
        apart: Database | None = None,
    ) -> None:
        super().__init__(database, schema)
        self.durability: Durability = durability
        self.findings: list[Finding] = []
        self.durable = 0
        self._most = most
        """Bytes that are stored at most, then the oldest groups are dropped; 0 for any number."""
        self.retention = Retention(self, refused)
        self._refused = refused
        self._quota = schema if shards == 1 else f"{schema.rpartition('_')[0]}_0"
        """The schema with the limits of the tenant: the first shard has those of all."""
        self._apart = apart
        """The database of the first shard, if each shard has a database of its own."""
        self._limited, self._ask_again = False, 0.0
        self._readonly = readonly
        self._mutex = threading.RLock()
        self._writer: Connection | None = None
        self._own: dict[int, int] = {}
        """The last record that was appended here to each run, by the run's hash."""
        self._through = self._foreign = 0
        """The last record that was appended here; one behind which nobody else appended."""
        self._marks = 0
        self._room = 0
        """The last record for which there is a partition."""
        self._doubted = False
        if readonly:
            tables.check(database, schema, shards)
        else:
            tables.make(database, schema, shards, shard, apart=apart is not None)
        self._head()  # known from now on: a server that stops names its last record

    def append(self, make: Make, *, lifecycle: bool = False) -> int:
        with self._mutex:
            until = time.monotonic() + PATIENCE
            for tries in itertools.count(1):
                self.check_open()
                try:
                    return self._append(make, lifecycle=lifecycle)
                except psycopg.Error as error:
                    self.drop_writer()
                    is_late = time.monotonic() > until and (tries > 1 or PATIENCE <= 0)
                    if is_late or not is_lost(error):
                        raise self._refusal(error) from error
                    time.sleep(0.05)
        raise AssertionError("it returns or raises")

    def _append(self, make: Make, *, lifecycle: bool) -> int:
        limited_elsewhere = self._is_limited_elsewhere()  # before anybody waits for the lock
        connection = self.writer()
        sync = self.durability == "sync" or (lifecycle and self.durability == "lifecycle")
        try:
            _, last, chain, *_, limited = self.lock(connection, sync=sync)
            first = int(last) + 1
            if self._through != last:
                self._foreign = last
            group = make(first)
            if moved := self._moved(connection, group.expected):
                raise overtaken(moved)  # noqa: TRY301  # rolled back below
            if not group.frames:
                connection.execute("ROLLBACK")
                return first
            leaves = merkle.leaves(group.frames)
            row = row_of(group.frames, first, leaves)
            if limited or limited_elsewhere:
                self._take_quota(connection, len(group.frames), row.size)
            after = merkle.chain_after(chain, row.through, row.root)
            self._make_room(connection, row.through)
            for refused in group.refused:
                assert self._refused is not None, "refused lines have no refused lines"
                self._refused.append_in(connection, refused)
        except psycopg.Error:
            raise
        except BaseException:
            self._roll_back(connection)
            raise
        self._doubted = False
        try:
            self._commit(connection, row, group, after, sync=sync)
        except psycopg.Error as error:
            if not is_lost(error):
                raise
            self.drop_writer()
            if not self._is_committed(row):
                raise
        except BaseException:
            self.drop_writer()
            raise
        if self._doubted:  # the wait for the standby was called off by somebody
            self._is_committed(row)
        self._note(group, first, row.through, sync=sync)
        return first

    def _take_quota(self, connection: Connection, records: int, size: int) -> None:
        """Count a group in the transaction that stores it; with several shards in one of its own,
        so that they do not wait for each other.
        """
        if self._quota == self.schema:
            tenants.take(connection, self.schema, records, size)
        else:
            database = self._apart or self.database
            with database.connection() as other, other.transaction():
                tenants.take(other, self._quota, records, size)

    def _is_limited_elsewhere(self) -> bool:
        """Whether the database of the first shard has a limit; it is asked once a second.

        While it is away, the answer is the last one: the other shards go on.
        """
        if self._apart is None or self._apart is self.database:
            return False
        if time.monotonic() >= self._ask_again:
            pause = _LIMIT_KNOWN
            try:
                quota = tenants.quota_of(self._apart, self._quota, patience=0.01)
                self._limited = quota is not None
            except StoreBroken:
                pause = _LIMIT_AWAY
            self._ask_again = time.monotonic() + pause
        return self._limited

    def append_in(self, connection: Connection, make: Make) -> None:
        """Send a group in a transaction of the caller, who commits; others wait for its end."""
        head = connection.execute(
            f"SELECT last, chain FROM {self.schema}.head FOR UPDATE".encode(), binary=True
        ).fetchone()
        assert head is not None, "it has one row"
        first = int(head[0]) + 1
        group = make(first)
        row = row_of(group.frames, first, merkle.leaves(group.frames))
        tables.make_partition(connection, self.schema, row.through)
        after = merkle.chain_after(head[1], row.through, row.root)
        self.insert(connection, row, group, after, synced=True)
        self._finish(connection, row.through)

    def insert(
        self, connection: Connection, row: GroupRow, group: Group, after: bytes, *, synced: bool
    ) -> None:
        """Send the rows of a group; the caller holds the lock, and commits."""
        schema, to = self.schema, connection.execute
        to(
            f"INSERT INTO {schema}.groups(through, first, received, leaves, root, size, codec,"
            ' frames, chain, synced) VALUES(%s, %s, %s::timestamptz, %b, %b, %s, %s::"char",'
            " %b, %b, %s)".encode(),
            (*row, after, synced),
        )
        to(
            f"INSERT INTO {schema}.places SELECT family, run, %s, first FROM"
            " unnest(%b::bytea[], %b::bytea[], %s::bigint[]) AS new(family, run, first)".encode(),
            (row.through, *columns(firsts(group.runs, row.first))),
        )
        to(
            f"INSERT INTO {schema}.runs SELECT * FROM"
            " unnest(%b::bytea[], %b::bytea[], %s::bigint[]) ON CONFLICT (family, run)"
            " DO UPDATE SET last = excluded.last".encode(),
            columns(group.lasts(row.first)),
        )
        if marks := marked(group.marks, row.first):
            self._mark(connection, marks)
        to(
            f"UPDATE {schema}.head SET last = %s, chain = %b, bytes = bytes + %s".encode(),
            (row.through, after, row.size),
        )

    def _commit(
        self, connection: Connection, row: GroupRow, group: Group, after: bytes, *, sync: bool
    ) -> None:
        with connection.pipeline():
            self.insert(connection, row, group, after, synced=sync)
            self._finish(connection, row.through)
            done = connection.execute("COMMIT")
        if done.statusmessage != "COMMIT":
            raise psycopg.OperationalError(f"the commit was answered {done.statusmessage}")

    def _finish(self, connection: Connection, through: int) -> None:
        """Drop what is too much, and wake the readers when the transaction is committed."""
        if self._most:
            self.retention.trim(connection, self._most)
        connection.execute("SELECT pg_notify(%s, %s)", (self.schema, str(through)))

    def _mark(
        self, connection: Connection, marks: Mapping[bytes, tuple[int, int, str, str]]
    ) -> None:
        """Send the marks of a group; now and then the oldest are dropped."""
        table, rows = f"{self.schema}.marks", list(marks.values())
        connection.execute(
            f"INSERT INTO {table}(source, through, seq, sha256, verdicts) SELECT * FROM"
            " unnest(%b::bytea[], %s::bigint[], %s::bigint[], %s::text[], %s::text[])"
            " ON CONFLICT (source) DO UPDATE SET through = excluded.through, seq = excluded.seq,"
            " sha256 = excluded.sha256, verdicts = excluded.verdicts, at = now()".encode(),
            (list(marks), *([row[n] for row in rows] for n in range(4))),
        )
        self._marks += len(rows)
        if self._marks >= _TRIM_MARKS:
            self._marks = 0
            oldest = f"SELECT seq FROM {table} ORDER BY seq DESC OFFSET {MOST_SOURCES} LIMIT 1"
            connection.execute(f"DELETE FROM {table} WHERE seq <= ({oldest})".encode())

    def _is_committed(self, row: GroupRow) -> bool:
        """Whether a group is there whose commit was not answered.

        Whoever has the lock of the head waits until the transaction in doubt is over. Then a commit
        of its own makes what is found as durable as any other.
        """
        until = time.monotonic() + _RESOLVING
        while True:
            try:
                connection = self.writer()
                self.lock(connection, sync=self.durability != "os")
                ask = (
                    f"SELECT root = %b FROM {self.schema}.groups WHERE through = %s AND first = %s"
                )
                answer = connection.execute(
                    ask.encode(), (row.root, row.through, row.first)
                ).fetchone()
                if not (answer and answer[0]):
                    connection.execute("ROLLBACK")
                    return False
                self._doubted = False
                connection.execute(f"UPDATE {self.schema}.head SET last = last".encode())
                connection.execute("COMMIT")
                if not self._doubted:
                    return True
            except psycopg.Error as error:
                self.drop_writer()
                if time.monotonic() > until:
                    raise NotDurable(
                        "the connection was lost during the commit, and the database cannot be"
                        " asked whether the lines were stored",
                        "send them again: those with a key or an identity are recognised",
                    ) from error
                time.sleep(0.1)

    def lock(self, connection: Connection, *, sync: bool) -> Row:
        """Begin a transaction, and lock the head: first, last, chain, origin, bytes, and whether
        there is a quota.
        """
        # As one text, not as a pipeline: behind a pipeline the server does not watch for `STUCK`.
        local = "SET LOCAL synchronous_commit = on;" if sync and self.durability != "sync" else ""
        asked = connection.execute(
            f"BEGIN; {local} SELECT first, last, chain, origin, bytes,"
            f" to_regclass('{self._quota}.quota') IS NOT NULL FROM {self.schema}.head"
            " FOR UPDATE".encode(),
            prepare=False,
        )
        while asked.nextset():
            pass
        row = asked.fetchone()
        if row is None:
            raise StoreBroken(f"the table {self.schema}.head is empty", "restore it from a backup")
        return row

    def _moved(self, connection: Connection, expected: Mapping[Run, int]) -> dict[Run, int]:
        """The runs with records behind what is expected; the table is asked only where somebody
        else appended since.
        """
        moved: dict[Run, int] = {}
        foreign: dict[Run, int] = {}
        for run, known in expected.items():
            if (last := self._own.get(hash(run), 0)) > known:
                moved[run] = last
            if known < self._foreign:
                foreign[run] = known
        if foreign:
            rows = connection.execute(
                f"SELECT r.family, r.run, r.last FROM {self.schema}.runs r JOIN"
                " unnest(%b::bytea[], %b::bytea[], %s::bigint[]) AS known(family, run, last)"
                " ON r.family = known.family AND r.run = known.run AND r.last > known.last".encode(),
                columns(foreign),
                binary=True,
            )
            moved |= {(name(family), name(run)): last for family, run, last in rows}
        return moved

    def _make_room(self, connection: Connection, through: int) -> None:
        if through > self._room:
            tables.make_partition(connection, self.schema, through)
            self._room = (through // tables.PARTITION + 1) * tables.PARTITION - 1

    def _note(self, group: Group, first: int, through: int, *, sync: bool) -> None:
        for run, last in group.lasts(first).items():
            self._own[hash(run)] = last
        if len(self._own) > OWN_RUNS:  # from here on the table is asked
            self._own, self._foreign = {}, through
        self._through = through
        if sync:
            self.durable = through
        if self._listener is not None:
            self._listener.note(through)

    def head(self) -> Head:
        _, last, chain, *_ = self._head()
        if not self._readonly and not self._closed and self.durable < last:
            self.sync()
        return Head(last, bytes(chain).hex())

    def sync(self) -> None:
        with self._mutex, self.writing() as (connection, head):
            connection.execute(f"UPDATE {self.schema}.head SET last = last".encode())
            last = head[1]
        self.durable = max(self.durable, last)

    def erase(self, seq: int, *, reason: str, by: str, at: str, id: str | None = None) -> Erasure:
        with self._mutex:
            done = self.retention.erase(seq, reason=reason, by=by, at=at, id=id)
            self.forget()
            return done

    def prune(
        self,
        before: str,
        *,
        at: str,
        is_open: Callable[[Run], bool] | None = None,
        dry: bool = False,
    ) -> Pruning:
        del at  # the record of it is the caller's
        with self._mutex:
            return self.retention.prune(before, is_open, dry=dry)

    def close(self) -> None:
        with self._mutex:
            if not self._closed:
                with contextlib.suppress(TracklogError):
                    self._head(patience=0)
            if self._known is not None:  # of a server that is gone, as far as it is known here
                first, last, *rest = self._known
                self._known = (first, max(last, self._through), *rest)
            self._closed = True
            self.drop_writer()
        self.stop_listening()

    @contextlib.contextmanager
    def writing(self) -> Iterator[tuple[Connection, Row]]:
        """A durable transaction that has the lock of the head, while a block runs."""
        self.check_open()
        try:
            connection = self.writer()
            head = self.lock(connection, sync=True)
            try:
                yield connection, head
            except psycopg.Error:
                raise
            except BaseException:
                self._roll_back(connection)
                raise
            connection.execute("COMMIT")
        except psycopg.Error as error:
            self.drop_writer()
            raise self._refusal(error) from error

    def writer(self) -> Connection:
        """The connection that appends."""
        if self._writer is None or self._writer.closed:
            made = self.database.connect()
            made.add_notice_handler(self._notice)
            wanted = "on" if self.durability == "sync" else "off"
            made.execute(
                "SELECT set_config('lock_timeout', '5s', false),"
                " set_config('idle_in_transaction_session_timeout', %s, false),"
                " set_config('synchronous_commit', CASE WHEN %s = 'on' AND"
                " current_setting('synchronous_commit') = 'remote_apply' THEN 'remote_apply'"
                " ELSE %s END, false)",
                (STUCK, wanted, wanted),
            )
            self._writer = made
        return self._writer

    def drop_writer(self) -> None:
        """Close the connection that appends; what it did not commit is undone."""
        writer, self._writer = self._writer, None
        self._room = 0  # a partition that was made and not committed is not there
        if writer is not None:
            writer.close()

    def check_open(self) -> None:
        """Raise an error if nothing can be appended."""
        if self._closed or self._readonly:
            raise StoreBroken("the store is closed or read-only", "open it again to append")

    def _notice(self, notice: psycopg.errors.Diagnostic) -> None:
        if _WAIT in (notice.message_primary or ""):
            self._doubted = True

    def _roll_back(self, connection: Connection) -> None:
        self._room = 0
        try:
            connection.execute("ROLLBACK")
        except BaseException:  # noqa: BLE001  # closing does the same
            self.drop_writer()

    def _refusal(self, error: psycopg.Error) -> Exception:
        if error.sqlstate == "55P03":
            return NotAppended(
                "other writers of the database take too long",
                "nothing was stored; send it again. If a standby must confirm, see if it is there",
            )
        return self.database.trouble(error)
