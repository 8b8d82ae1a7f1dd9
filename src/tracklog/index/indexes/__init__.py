"""Indexes: where the states of the folds are stored, one kind of database per file or folder.

To write another: copy the folder `sqlite`, implement the same methods, end its
`__init__.py` with `index = open_it`, a function from what follows the colon of the URL to an
`Index`, and pass `tracklog.testing.IndexSuite`.
The name of the folder (or of one file) is the URL's scheme: `indexes/sqlite/` is `sqlite:`.
An outside package offers its function under the entry point group `tracklog.indexes`.

An index knows no fold and no dialect: `tracklog.index` makes what it stores.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, runtime_checkable

from tracklog.folds._cells import MOST_AMOUNTS, Cell
from tracklog.model.event import Finding

Change = tuple[str, str, int, bytes]
"""A state that changed: fold, key, the record that changed it last, and the state as JSON;
empty when there is none any more."""


class RecordFinding(NamedTuple):
    """A finding and the record at which it showed."""

    seq: int
    family: str
    run: str
    finding: Finding


class Words(NamedTuple):
    """The searchable text of a record."""

    seq: int
    text: str


class QueryResult(NamedTuple):
    """The answer to an SQL query."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    cut: bool
    """Whether there are more rows than were asked for."""


NO_FILTER: Mapping[str, Collection[str]] = MappingProxyType({})


class Total(NamedTuple):
    """What the cells of a span of time come to, under one name."""

    span: int
    """The number of the span."""
    name: str
    part: int
    amounts: tuple[int, ...]


class Index(Protocol):
    """States of folds, findings, and a word search, up to a cursor; safe to use from threads.

    Before the first call of `clear` it is empty, and every question works.
    A damaged index raises `IndexDamaged`; a locked one raises nothing: the call waits.
    """

    shared: bool
    """Whether other machines use it, too: then a collector keeps it up to date for all of them."""

    @property
    def cursor(self) -> int:
        """The last record that was applied; 0 when none was."""

    @property
    def notes(self) -> dict[str, str]:
        """The notes of the program that filled it; empty before the first `clear`."""

    def turn(self, seconds: float) -> AbstractContextManager[bool]:
        """A lock for `apply` and `clear`, held by one thread of one process at a time.

        The value is whether it was taken within that time. It ends with its process.
        """

    def clear(
        self,
        fields: Mapping[str, Mapping[str, Any]],
        notes: Mapping[str, str],
        listed: Iterable[str] = (),
    ) -> None:
        """Delete everything, before the index is built again.

        `fields` has the folds by name, and the fields of their states with their defaults. Folds
        in `listed` are those that `newest` is asked for.

        A state leaves out fields that have their default. It leaves out `family` and `run`, too,
        where its key is `family:run`, or begins with that and a unit separator.
        """

    def replace(self) -> str:
        """Move the damaged index away and begin an empty one; returns where the old one is."""

    def load(self, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], bytes]:
        """The stored states of these folds and keys, as JSON."""

    def records_named(self, names: Iterable[int]) -> dict[int, list[int]]:
        """The applied records that have each of these names, in order."""

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
        """Store changed states, findings, words, names and the new cursor: all or nothing.

        The amounts of `cells` are added to those that are stored.

        A name is a number below 2^63 and the record that has it. Findings come in the order of
        their records. `link` is stored beside the cursor, as the note `link`. A search does not
        find the words of `silent` records any more. The stored findings of the runs in
        `refolded` are deleted first. `after` is the cursor that the states were made from: if
        another process has moved or emptied the index since, `IndexOvertaken` is raised.
        """

    def states(
        self, fold: str, *, prefix: str = "", after: str = "", limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        """The states of a fold by key, those with this prefix and after the key `after`."""

    def newest(self, fold: str, limit: int = 50) -> list[tuple[str, bytes]]:
        """The states of a listed fold that changed last, the newest first."""

    def totals(
        self,
        kind: str,
        spans: Sequence[tuple[int, int]],
        *,
        by: str = "",
        where: Mapping[str, Collection[str]] = NO_FILTER,
        amounts: int = MOST_AMOUNTS,
    ) -> list[Total]:
        """The sums of the cells of a kind, for each span of minutes, name and part.

        A span ends before its second minute. `by` is the field of a cell that is the name, or
        several with commas between them: then a unit separator is between their values. `where` has, by field, the values of which a cell must have one. Of the amounts, the first
        `amounts` are added up.
        """

    def findings(
        self, run: tuple[str, str] | None = None, limit: int = 1000
    ) -> list[RecordFinding]:
        """The newest findings first, of one run if asked."""

    def search(
        self, terms: Sequence[str], limit: int = 50, between: tuple[int, int] | None = None
    ) -> list[int]:
        """The records that contain all of these, the newest first; `between`: only from which to which.

        A term is a word or a phrase; one that ends with `*` is the beginning of a word.
        """

    def silent(self, seqs: Iterable[int]) -> set[int]:
        """Those of the records that were applied as silent."""

    def query(self, sql: str, *, limit: int = 1000, seconds: float = 10) -> QueryResult:
        """The answer to one SQL query; a query that could change something is a `BadQuery`."""

    def close(self) -> None:
        """Release everything; may be called twice."""


@runtime_checkable
class QueriesShards(Protocol):
    """An index that can answer a query over itself and those of other shards, in one database."""

    def query_all(
        self, shards: Sequence[Index], sql: str, *, limit: int, seconds: float
    ) -> QueryResult:
        """The answer over the rows of all shards; each view has those of every shard."""
