"""The index in one SQLite file, or in memory: many readers, one writer, full-text search.

`sqlite:/var/lib/tracklog/index.db`, `sqlite::memory:`.
Beside the file are SQLite's own `-wal` and `-shm`, and `.lock`, held by the one who fills it.
"""

import contextlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tracklog.folds._cells import MOST_AMOUNTS, Cell, Label
from tracklog.index.indexes import NO_FILTER, Change, QueryResult, RecordFinding, Total, Words
from tracklog.index.indexes.sqlite.connections import (
    BUSY,
    DAMAGED,
    HELD,
    code_of,
    connect,
    damaged_path,
    filled,
    lock_path,
    process_lock,
    translated,
)
from tracklog.index.indexes.sqlite.restricted import free, restrict
from tracklog.index.indexes.sqlite.schema import (
    DROP_CELL,
    LABELS,
    TABLES,
    add_cell,
    literal,
    match_term,
    quoted,
    totals,
    view,
)
from tracklog.model.errors import BadQuery, IndexDamaged, IndexOvertaken
from tracklog.model.event import Finding

_FORMAT = 7  # in user_version: 0 is an empty file
_AT_ONCE = 250  # keys that are asked for in one statement
_LAST = 2**63 - 1  # of all records
_IDLE = 4  # connections for readers that stay open


class SqliteIndex:
    """Readers see the last whole batch; the one who has the turn writes the next."""

    shared = False

    def __init__(self, place: str | Path) -> None:
        self.path = None if str(place) == ":memory:" else Path(place)
        self._mutex = threading.RLock()
        self._turn = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._closed = False
        self._inode = 0
        self._replaced = False
        with translated(self.path):
            self._writer = self._open()

    @property
    def cursor(self) -> int:
        with self._reading() as ready:
            if ready is None:
                return 0
            return int(ready.execute("SELECT value FROM meta WHERE name = 'cursor'").fetchone()[0])

    @property
    def notes(self) -> dict[str, str]:
        with self._reading() as ready:
            if ready is None:
                return {}
            rows = ready.execute("SELECT name, value FROM meta WHERE name <> 'cursor'")
            return {_str(name): _str(value) for name, value in rows}

    @contextlib.contextmanager
    def turn(self, seconds: float) -> Iterator[bool]:
        until = time.monotonic() + seconds
        if not self._turn.acquire(timeout=seconds):
            yield False
            return
        try:
            with process_lock(self.path, until) as locked:
                if locked:
                    with contextlib.suppress(IndexDamaged):  # shows again when it is asked
                        self._prepare()
                yield locked
        finally:
            self._turn.release()

    def clear(
        self,
        fields: Mapping[str, Mapping[str, Any]],
        notes: Mapping[str, str],
        listed: Iterable[str] = (),
    ) -> None:
        with self._writing() as writer:
            for kind, name in writer.execute(
                "SELECT type, name FROM sqlite_schema WHERE type = 'view' OR name IN"
                " ('meta', 'states', 'findings', 'names', 'silent', 'words', 'labels', 'cells')"
            ).fetchall():
                writer.execute(f"DROP {_str(kind)} {quoted(_str(name))}")
            for table in TABLES:
                writer.execute(table)
            for fold, names in fields.items():
                writer.execute(view(fold, names))
            for fold in listed:
                name = quoted(f"newest {fold}")
                # The fold stands in it once more, or the primary key would be taken instead.
                of = f"states(fold, seq, key) WHERE fold = {literal(fold)}"
                writer.execute(f"CREATE INDEX {name} ON {of}")
            writer.executemany("INSERT INTO meta VALUES(?, ?)", notes.items())
            writer.execute(f"PRAGMA user_version = {_FORMAT}")
        with self._mutex, translated(self.path):
            # What was forgotten, perhaps because it had to be, is not left in free pages.
            self._writer.execute("VACUUM")
            if self.path is not None:
                self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                if not self._replaced:
                    damaged_path(self.path).unlink(missing_ok=True)
            self._replaced = False

    def replace(self) -> str:
        with self._mutex, translated(self.path):
            self._let_go()
            if self.path is not None:
                with contextlib.suppress(FileNotFoundError):
                    self.path.rename(damaged_path(self.path))
                    self._replaced = True
                for beside in ("-wal", "-shm"):
                    Path(f"{self.path}{beside}").unlink(missing_ok=True)
            self._writer = self._open()
            self._prepare()
        return str(damaged_path(self.path)) if self.path else ""

    def load(self, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], bytes]:
        with self._reading() as ready:
            if ready is None:
                return {}
            states = {}
            by_fold: dict[str, list[str]] = {}
            for fold, key in keys:
                by_fold.setdefault(fold, []).append(key)
            for fold, of in by_fold.items():
                of.sort()  # so that neighbours are read from one page
                for at in range(0, len(of), _AT_ONCE):
                    part = of[at : at + _AT_ONCE]
                    these = ", ".join("?" * len(part))
                    ask = f"SELECT key, state FROM states WHERE fold = ? AND key IN ({these})"  # noqa: S608  # marks only
                    for key, state in ready.execute(ask, (fold, *part)):
                        states[fold, _str(key)] = state
            return states

    def records_named(self, names: Iterable[int]) -> dict[int, list[int]]:
        with self._reading() as ready:
            if ready is None:
                return {}
            ask = "SELECT seq FROM names WHERE name = ? ORDER BY seq"
            answers = ((name, ready.execute(ask, (name,)).fetchall()) for name in names)
            return {name: [seq for (seq,) in rows] for name, rows in answers if rows}

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
        gone: list[tuple[str, str]] = []

        def stored() -> Iterator[Change]:
            for fold, key, seq, state in states:
                if state:
                    yield fold, key, seq, state
                else:
                    gone.append((fold, key))

        with self._writing() as writer:
            if after is not None:
                (known,) = writer.execute("SELECT value FROM meta WHERE name = 'cursor'").fetchone()
                if known != after:
                    raise IndexOvertaken(
                        "another process has changed the index", "it is read again"
                    )
            writer.executemany(
                "INSERT INTO states VALUES(?, ?, ?, CAST(? AS TEXT)) ON CONFLICT DO UPDATE"
                " SET seq = excluded.seq, state = excluded.state",
                stored(),
            )
            writer.executemany("DELETE FROM states WHERE fold = ? AND key = ?", gone)
            writer.executemany("DELETE FROM findings WHERE family = ? AND run = ?", refolded)
            writer.executemany("INSERT OR IGNORE INTO silent VALUES(?)", ((seq,) for seq in silent))
            writer.executemany(
                "INSERT INTO findings VALUES(?, ?, ?, ?, ?, ?)",
                (
                    (seq, family, run, finding.name, finding.level, finding.message)
                    for seq, family, run, finding in findings
                ),
            )
            writer.executemany("INSERT INTO words(rowid, text) VALUES(?, ?)", words)
            # In order, so that one page after the other is written.
            writer.executemany("INSERT OR IGNORE INTO names VALUES(?, ?)", sorted(names))
            for amounts, rows in _cell_rows(writer, cells).items():
                writer.executemany(add_cell(amounts), rows)
                writer.executemany(DROP_CELL, [row[:4] for row in rows if row[4] < 0])
            writer.execute("UPDATE meta SET value = ? WHERE name = 'cursor'", (cursor,))
            writer.execute("INSERT OR REPLACE INTO meta VALUES('link', ?)", (link,))

    def states(
        self, fold: str, *, prefix: str = "", after: str = "", limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        # One bound on each side: of two on one side only one is used to find the first row.
        more = ">" if after and after >= prefix else ">="
        ask = f"SELECT key, state FROM states WHERE fold = ? AND key {more} ? AND key < ?"  # noqa: S608  # ours
        bounds = (fold, max(after, prefix), prefix + "\U0010ffff", limit)
        return self._pairs(f"{ask} ORDER BY key LIMIT ?", bounds)

    def totals(
        self,
        kind: str,
        spans: Sequence[tuple[int, int]],
        *,
        by: str = "",
        where: Mapping[str, Collection[str]] = NO_FILTER,
        amounts: int = MOST_AMOUNTS,
    ) -> list[Total]:
        values = [value for each in where.values() for value in each]
        with self._reading() as ready:
            if ready is None:
                return []
            rows = ready.execute(totals(by, where, amounts), (json.dumps(spans), kind, *values))
            return [Total(span, _str(name), part, tuple(sums)) for span, name, part, *sums in rows]

    def newest(self, fold: str, limit: int = 50) -> list[tuple[str, bytes]]:
        ask = f"SELECT key, state FROM states WHERE fold = {literal(fold)}"  # noqa: S608  # so that its index is taken
        return self._pairs(f"{ask} ORDER BY seq DESC, key DESC LIMIT ?", (limit,))

    def findings(
        self, run: tuple[str, str] | None = None, limit: int = 1000
    ) -> list[RecordFinding]:
        where = "" if run is None else "WHERE family = ? AND run = ?"
        ask = f"SELECT seq, family, run, name, level, message FROM findings {where}"  # noqa: S608  # ours
        with self._reading() as ready:
            if ready is None:
                return []
            rows = ready.execute(
                f"{ask} ORDER BY seq DESC, rowid DESC LIMIT ?", (*(run or ()), limit)
            )
            return [
                RecordFinding(
                    seq,
                    _str(family),
                    _str(of),
                    Finding(_str(name), _str(why), _str(level)),  # type: ignore[arg-type]  # a Level went in
                )
                for seq, family, of, name, level, why in rows
            ]

    def search(
        self, terms: Sequence[str], limit: int = 50, between: tuple[int, int] | None = None
    ) -> list[int]:
        expression = " AND ".join(filter(None, map(match_term, terms)))
        with self._reading() as ready:
            if ready is None or not expression:
                return []
            ask = (
                "SELECT rowid FROM words WHERE words MATCH ? AND rowid BETWEEN ? AND ?"
                " AND rowid NOT IN silent ORDER BY rowid DESC LIMIT ?"
            )
            given = (expression, *(between or (0, _LAST)), limit)
            return [seq for (seq,) in ready.execute(ask, given)]

    def silent(self, seqs: Iterable[int]) -> set[int]:
        with self._reading() as ready:
            if ready is None:
                return set()
            ask = "SELECT seq FROM silent WHERE seq IN (SELECT value FROM json_each(?))"
            return {seq for (seq,) in ready.execute(ask, (json.dumps(list(seqs)),))}

    def query(self, sql: str, *, limit: int = 1000, seconds: float = 10) -> QueryResult:
        until = time.monotonic() + seconds
        try:
            with self._asking(until) as connection:
                rows = connection.execute(sql)
                if rows.description is None:
                    raise BadQuery("there is no question in it", "write SELECT … FROM …")
                answer = rows.fetchmany(limit + 1)
                columns = [column[0] for column in rows.description]
        except (sqlite3.Error, sqlite3.Warning) as error:
            if code_of(error) == sqlite3.SQLITE_INTERRUPT and time.monotonic() < until:
                raise KeyboardInterrupt from None  # its time was not over: a person's was
            raise self._refusal(error, seconds) from error
        return QueryResult(columns, answer[:limit], len(answer) > limit)

    def close(self) -> None:
        with self._mutex:
            self._closed = True
            self._let_go()

    def _let_go(self) -> None:
        idle, self._idle = self._idle, []
        for each in (*idle, self._writer):
            each.close()

    def _open(self) -> sqlite3.Connection:
        if self.path is None:
            return connect(":memory:")
        for each in (self.path, lock_path(self.path)):
            os.close(os.open(each, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        opened = connect(f"file:{quote(str(self.path))}?mode=rw")
        try:
            self._inode = self.path.stat().st_ino
        except OSError:
            opened.close()
            raise
        return opened

    def _prepare(self) -> None:
        """Makes sure that it is the file that others see, and that they can read meanwhile."""
        if self.path is None:
            return
        with self._mutex, translated(self.path):
            if not self.path.exists() or self.path.stat().st_ino != self._inode:
                self._let_go()
                self._writer = self._open()
            self._writer.execute("PRAGMA synchronous = NORMAL")
            self._writer.execute("PRAGMA wal_autocheckpoint = 4000")
            self._writer.execute("PRAGMA journal_size_limit = 67108864")
            until = time.monotonic() + BUSY
            while self._writer.execute("PRAGMA journal_mode").fetchone()[0] != b"wal":
                # A reader that is just looking makes this fail at once, whatever the timeout.
                try:
                    self._writer.execute("PRAGMA journal_mode = WAL")
                except sqlite3.OperationalError as error:
                    if code_of(error) not in HELD or time.monotonic() > until:
                        raise
                    time.sleep(0.01)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._mutex, translated(self.path):
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        """A connection for one reader; None while there is nothing to be read."""
        if self.path is None:
            with self._mutex, translated(None):
                yield filled(self._writer)
            return
        with translated(self.path):
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = connect(f"file:{quote(str(self.path))}?mode=rw")
            try:
                connection.execute("BEGIN")
                yield filled(connection)
                connection.execute("COMMIT")
            except BaseException:
                connection.close()
                raise
            with self._mutex:
                if len(self._idle) < _IDLE and not self._closed:
                    self._idle.append(connection)
                    return
            connection.close()

    def _pairs(self, ask: str, bounds: Sequence[Any]) -> list[tuple[str, bytes]]:
        with self._reading() as ready:
            if ready is None:
                return []
            return [(_str(key), state) for key, state in ready.execute(ask, bounds)]

    @contextlib.contextmanager
    def _asking(self, until: float) -> Iterator[sqlite3.Connection]:
        """A connection that can change nothing, and gives up when its time is over."""
        with contextlib.ExitStack() as stack:
            if self.path is None:
                stack.enter_context(self._mutex)
                connection = self._writer
                stack.callback(free, connection)
            else:
                with translated(self.path):
                    connection = connect(f"file:{quote(str(self.path))}?mode=ro")
                stack.callback(connection.close)
            with translated(self.path):
                # A virtual table declares itself when first asked, which nobody may do later on.
                connection.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')")
                if filled(connection):
                    connection.execute("SELECT rowid FROM words LIMIT 0")
            restrict(connection, until)
            yield connection

    def _refusal(self, error: Exception, seconds: float) -> Exception:
        code, message = code_of(error), str(error)
        if code in DAMAGED:
            return IndexDamaged(
                f"the index is damaged: {message}", "`tracklog rebuild` builds it again"
            )
        if code == sqlite3.SQLITE_INTERRUPT:
            return BadQuery(f"no answer within {seconds:g} seconds", "ask for less, or by key")
        refused = (
            "authoriz",
            "prohibited",
            "one statement",
            "cannot modify",
            "may not be modified",
        )
        if any(each in message for each in refused):
            return BadQuery(
                f"only one SELECT is answered: {message}",
                "the index is a cache; nothing is changed",
            )
        if "no such table" in message:
            names = ", ".join(self._names()) or "none yet; record something first"
            return BadQuery(message, f"the tables are: {names}")
        return BadQuery(message, "the index speaks SQLite's SQL")

    def _names(self) -> list[str]:
        with self._reading() as ready:
            if ready is None:
                return []
            rows = ready.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'view' OR name IN"
                " ('states', 'findings', 'words') ORDER BY type DESC, name"
            )
            return [_str(name) for (name,) in rows]


def _cell_rows(
    writer: sqlite3.Connection, cells: Iterable[tuple[Cell, Sequence[int]]]
) -> dict[int, list[tuple[Any, ...]]]:
    """Cells as rows, by the number of their amounts; sorted, so that one page after the other is
    written.
    """
    known: dict[Label, int] = {}
    by_kind: dict[str, list[tuple[Any, ...]]] = {}
    last, number = None, 0
    for (kind, minute, part, label), amounts in cells:
        if label is not last:  # most have that of the one before
            last, number = label, known.get(label) or 0
            if not number:
                number = known[label] = _label(writer, label)
        of_kind = by_kind.get(kind)
        if of_kind is None:
            of_kind = by_kind[kind] = []
        of_kind.append((kind, minute, number, part, *amounts))
    rows: dict[int, list[tuple[Any, ...]]] = {}
    for kind in sorted(by_kind):
        # By one integer, because whole tuples take three times as long to compare.
        for row in sorted(by_kind[kind], key=lambda row: row[1] << 32 | row[2]):
            rows.setdefault(len(row) - 4, []).append(row)
    return rows


def _label(writer: sqlite3.Connection, label: Label) -> int:
    """The number of a set of names."""
    same = " AND ".join(f"{name} = ?" for name in LABELS)
    row = writer.execute(f"SELECT id FROM labels WHERE {same}", label).fetchone()  # noqa: S608  # ours
    if row is None:
        row = writer.execute(
            f"INSERT INTO labels VALUES(NULL, {', '.join('?' * len(LABELS))}) RETURNING id", label
        ).fetchone()
    return int(row[0])


def _str(text: Any) -> str:
    return text.decode() if isinstance(text, bytes) else str(text)


index = SqliteIndex
