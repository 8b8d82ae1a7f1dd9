"""What is read of a journal in PostgreSQL; readers take no lock."""
# ruff: noqa: S608  # the names of schemas are made here

import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Iterator
from typing import Any

from tracklog.journal.frame import Run, run_of, seq_of
from tracklog.journal.merkle import Head, Link
from tracklog.journal.postgres.archived import ArchivedGroups
from tracklog.journal.postgres.connections import PATIENCE, Database, Row
from tracklog.journal.postgres.groups import ARCHIVED, columns, link_of, name, text
from tracklog.journal.postgres.listening import NotificationListener
from tracklog.model.errors import StoreBroken

_GROUPS = 256  # rows that are read at once
_BYTES = 8 << 20  # and no more than this of them, but for the last
_LINKS = 1000
_HELD = 4  # decompressed groups that are held for the next read


class PostgresReader:
    """Frames and the chain, as they are in the tables of one schema."""

    def __init__(self, database: Database, schema: str) -> None:
        self.database, self.schema = database, schema
        self.archived = ArchivedGroups()
        self._closed = False
        self._known: Row | None = None
        """The head as it was asked for last."""
        self._caching = threading.Lock()
        self._held: OrderedDict[int, tuple[str, list[bytes]]] = OrderedDict()
        self._listener: NotificationListener | None = None

    @property
    def first(self) -> int:
        return int(self._head()[0])

    @property
    def last(self) -> int:
        return int(self._head()[1])

    def read(self, after: int, limit: int, run: Run | None = None) -> list[bytes]:
        after = max(0, after)
        if limit <= 0:
            return []
        found: list[bytes] = []
        for through, frames in self._read(after, limit, run):
            start = max(0, len(frames) - (through - after)) if run is None else 0
            part = (
                frames[start : start + limit - len(found)]
                if run is None
                else [frame for frame in frames if seq_of(frame) > after and run_of(frame) == run]
            )
            found += part[: limit - len(found)]
            if len(found) >= limit:
                break
        return found

    def _read(self, after: int, limit: int, run: Run | None) -> Iterator[tuple[int, list[bytes]]]:
        """The next groups: the last record and the frames of each."""
        with self._caching:
            ends = ((end, end - len(frames)) for end, (_, frames) in self._held.items())
            held = next((end for end, before in ends if before <= after < end), 0)
        if held and run is None:
            version = self._ask("SELECT xmin::text FROM {s}.groups WHERE through = %s", (held,))
            known = self._held.get(held)
            if version and known and version[0][0] == known[0]:
                yield held, known[1]
                return
        of, values = "{s}.groups g", tuple[Any, ...]((after,))
        if run is not None:
            of = "{s}.places p JOIN {s}.groups g USING (through)"
            values = (text(run[0]), text(run[1]), after)
        where = "through > %s" if run is None else "p.family = %b AND p.run = %b AND through > %s"
        # Rows are read until they are large enough; the bytes of the others are not touched.
        rows = self._ask(
            "SELECT through, first, size, codec, frames, leaves, version FROM (SELECT *,"
            " sum(size) OVER (ORDER BY through) AS total FROM (SELECT through, g.first, size, leaves,"
            f" codec::text AS codec, frames, g.xmin::text AS version FROM {of} WHERE {where} ORDER BY through"
            f" LIMIT {min(limit, _GROUPS)}) AS part) AS summed WHERE total - size < {_BYTES}"
            " ORDER BY through",
            values,
        )
        for through, first, size, codec, data, leaves, version in rows:
            frames = self.archived.frames(codec, data, size, (first, through), leaves)
            if len(frames) > limit:
                self._hold(through, version, frames)
            yield through, frames

    def _hold(self, through: int, version: str, frames: list[bytes]) -> None:
        with self._caching:
            self._held[through] = version, frames
            while len(self._held) > _HELD:
                self._held.popitem(last=False)

    def origin(self) -> Head:
        first, _, _, origin, _ = self._head()
        return Head(first - 1, bytes(origin).hex())

    def archived_through(self) -> int:
        """The last record that is in an archive and no longer in the database; 0 for none."""
        rows = self._ask(
            f"SELECT through FROM {{s}}.groups WHERE codec = '{ARCHIVED}'"
            " ORDER BY through DESC LIMIT 1"
        )
        return int(rows[0][0]) if rows else 0

    def links(self, after: int = 0) -> Iterator[Link]:
        n = 1 << 62
        group = (
            "through, 0::bigint AS n, chain, root, leaves, synced, 0::bigint, ''::bytea, ''::bytea"
        )
        erasure = "through, n, chain, ''::bytea, ''::bytea, true, seq, leaf, tombstone"
        while rows := self._ask(
            f"(SELECT {group} FROM {{s}}.groups WHERE through > %s ORDER BY through LIMIT {_LINKS})"
            f" UNION ALL (SELECT {erasure} FROM {{s}}.erasures WHERE (through, n) > (%s, %s)"
            f" ORDER BY through, n LIMIT {_LINKS}) ORDER BY 1, 2 LIMIT {_LINKS}",
            (after, after, n),
        ):
            yield from map(link_of, rows)
            after, n = rows[-1][:2]

    def last_of(self, runs: Collection[Run]) -> dict[Run, int]:
        rows = self._ask(
            "SELECT family, run, last FROM {s}.runs JOIN unnest(%b::bytea[], %b::bytea[])"
            " AS asked(family, run) USING (family, run)",
            columns(dict.fromkeys(runs, 0))[:2],
        )
        return {(name(family), name(run)): last for family, run, last in rows}

    def runs(self) -> set[Run]:
        rows = self._ask("SELECT family, run FROM {s}.runs")
        return {(name(family), name(run)) for family, run in rows}

    def wait(self, after: int, timeout: float | None = None) -> bool:
        until = None if timeout is None else time.monotonic() + timeout
        if timeout is not None and timeout <= 0:
            return self.last > after
        listener = self._listening()
        while not self._closed:
            if listener.last > after or self.last > after:
                return True
            left = 1.0 if until is None else until - time.monotonic()
            if left <= 0:
                return False
            listener.wait(after, left)
        return False

    def _listening(self) -> NotificationListener:
        with self._caching:
            if self._listener is None:
                if self._closed:
                    raise StoreBroken("the store is closed", "open it again")
                self._listener = NotificationListener(self.database, self.schema)
            return self._listener

    def forget(self) -> None:
        """Forget the groups that are held in memory."""
        with self._caching:
            self._held.clear()

    def stop_listening(self) -> None:
        """End what waits for new records."""
        self._closed = True
        with self._caching:
            listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()

    def _head(self, patience: float = PATIENCE) -> Row:
        if self._closed and self._known is not None:
            return self._known  # whoever stops may still say how far it came
        ask = f"SELECT first, last, chain, origin, bytes FROM {self.schema}.head"
        self._known = self.database.ask(ask, patience=patience)[0]
        return self._known

    def _ask(self, sql: str, values: Any = ()) -> list[Row]:
        return self.database.ask(sql.replace("{s}", self.schema), values)
