"""Batch keys and offsets of sources in a table of PostgreSQL, written with the records they mark."""
# ruff: noqa: S608  # the names of schemas are made here

import threading
from collections import OrderedDict
from collections.abc import Sequence

from tracklog.journal.frame import Mark
from tracklog.journal.offsets import MOST_SOURCES, SourceOffset
from tracklog.journal.postgres.connections import Database

_COLUMNS = "source, through, seq, sha256, verdicts"


class PostgresOffsets:
    """The places of sources, as of a record; places that others changed are read behind it."""

    def __init__(self, database: Database, schema: str) -> None:
        self._database, self._schema = database, schema
        self._mutex = threading.Lock()
        self._cursor: int | None = None
        """The record up to which `_places` is current; None before the first question."""
        self._places: OrderedDict[str, SourceOffset | None] = OrderedDict()

    def place(self, source: str) -> SourceOffset | None:
        """How far a source was recorded, by the last mark that the journal still holds."""
        with self._mutex:
            if self._cursor is None:
                ask = f"SELECT last FROM {self._schema}.head"
                self._cursor = int(self._database.ask(ask)[0][0])
            return self._ask(source)

    def is_at(self, source: str, place: SourceOffset | None, before: int) -> bool:
        """Whether a source is still at its place, by the records before that number."""
        with self._mutex:
            if self._cursor is not None and self._cursor < before - 1:
                self._catch_up()
            self._cursor = max(self._cursor or 0, before - 1)
            known = self._places[source] if source in self._places else self._ask(source)
            return known == place

    def sources(self) -> list[str]:
        """Every source that left a mark, the latest last."""
        ask = f"SELECT source FROM {self._schema}.marks m WHERE {self._stored} ORDER BY seq"
        return [_text(source) for (source,) in self._database.ask(ask)]

    def note(self, seqs: Sequence[int], mark: Mark | None) -> None:
        """Take over what this process appended, so that it need not be read."""
        if seqs and mark is not None:
            with self._mutex:
                place = SourceOffset(mark.through, seqs[0], mark.sha256, mark.verdicts)
                known = self._places.get(mark.source)
                if known is None or known.seq < place.seq:
                    self._put(mark.source, place)

    def save(self) -> None:
        """Nothing to do: the table is written with the records."""

    @property
    def _stored(self) -> str:
        return f"m.seq >= (SELECT first FROM {self._schema}.head)"

    def _ask(self, source: str) -> SourceOffset | None:
        ask = f"SELECT {_COLUMNS} FROM {self._schema}.marks m WHERE source = %b AND {self._stored}"
        rows = self._database.ask(ask, (source.encode("utf-8", "surrogatepass"),))
        place = SourceOffset(*rows[0][1:]) if rows else None
        self._put(source, place)
        return place

    def _catch_up(self) -> None:
        ask = f"SELECT {_COLUMNS} FROM {self._schema}.marks WHERE seq > %s ORDER BY seq"
        for source, *parts in self._database.ask(ask, (self._cursor,)):
            self._put(_text(source), SourceOffset(*parts))

    def _put(self, source: str, place: SourceOffset | None) -> None:
        self._places[source] = place
        self._places.move_to_end(source)
        if len(self._places) > MOST_SOURCES:
            self._places.popitem(last=False)


def _text(source: bytes) -> str:
    return bytes(source).decode("utf-8", "surrogatepass")
