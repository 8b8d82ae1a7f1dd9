"""Indexes: where the states of the folds are stored, one kind of database per file or folder.

To write another: copy the folder `sqlite`, keep its methods and their promises, end its
`__init__.py` with `index = open_it`, a function from what follows the colon of the URL to an
`Index`, and pass `tracklog.testing.IndexSuite`.
The name of the folder (or of one file) is the URL's scheme: `indexes/sqlite/` is `sqlite:`.
An outside package offers its function under the entry point group `tracklog.indexes`.

An index knows no fold and no dialect: what it keeps is made by `tracklog.index`.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

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
    """What was said in a record, for the word search."""

    seq: int
    text: str


class Answer(NamedTuple):
    """What a question in SQL was answered with."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    cut: bool
    """Whether there are more rows than were asked for."""


class Index(Protocol):
    """States of folds, findings, and a word search, up to a cursor; safe to use from threads.

    Before `clear` was called for the first time it is empty, and can be asked all the same.
    What is damaged raises `IndexDamaged`; nobody is ever told that it is locked.
    """

    @property
    def cursor(self) -> int:
        """The last record that was applied; 0 when none was."""

    @property
    def notes(self) -> dict[str, str]:
        """What the one that filled it noted about itself; empty when nobody did."""

    def turn(self, seconds: float) -> AbstractContextManager[bool]:
        """The right to apply and to clear, for one thread of one process at a time; whether it
        was got within that time. It ends with its process.
        """

    def clear(
        self,
        fields: Mapping[str, Mapping[str, Any]],
        notes: Mapping[str, str],
        listed: Iterable[str] = (),
    ) -> None:
        """Forgets everything, at once and for good, to be built anew by the folds of these
        names, whose states have these fields, each with its usual value.

        Of the folds that are `listed` the newest are asked for.

        A state leaves out what is usual; and `family` and `run`, where its key begins with
        `family:run`, and then ends or goes on behind a unit separator.
        """

    def replace(self) -> str:
        """Puts what is damaged aside and begins an empty one; where it was put."""

    def load(self, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], bytes]:
        """The states of these folds and keys that are kept, as JSON."""

    def records_named(self, names: Iterable[int]) -> dict[int, list[int]]:
        """The records that go by each of these names and were applied before, in order."""

    def apply(
        self,
        cursor: int,
        states: Iterable[Change],
        findings: Sequence[RecordFinding] = (),
        words: Iterable[Words] = (),
        names: Iterable[tuple[int, int]] = (),
        silent: Iterable[int] = (),
        anew: Iterable[tuple[str, str]] = (),
        link: str = "",
    ) -> None:
        """Keeps changed states, findings, words and names (a number below 2^63, and a record that
        goes by it), and the new cursor: all or nothing. Findings come in the order of their records.

        `link` is kept beside the cursor, under that name in the notes.
        The words of `silent` records are not found any more. Of the runs that were folded `anew`
        the findings that were kept before are forgotten first.
        """

    def states(
        self, fold: str, *, prefix: str = "", after: str = "", limit: int = 1000
    ) -> list[tuple[str, bytes]]:
        """The states of a fold whose key begins so and stands behind `after`, by key."""

    def newest(self, fold: str, limit: int = 50) -> list[tuple[str, bytes]]:
        """The states of a listed fold that changed last, the newest first."""

    def findings(
        self, run: tuple[str, str] | None = None, limit: int = 1000
    ) -> list[RecordFinding]:
        """The newest findings first, of one run if asked."""

    def search(self, terms: Sequence[str], limit: int = 50) -> list[int]:
        """The records in which all of these were said, the newest first.

        A term is a word or a phrase; one that ends with `*` is the beginning of a word.
        """

    def silent(self, seqs: Iterable[int]) -> set[int]:
        """Those of the records that were said to be silent."""

    def query(self, sql: str, *, limit: int = 1000, seconds: float = 10) -> Answer:
        """The answer to one question in SQL, which can change nothing; else `BadQuery`."""

    def close(self) -> None:
        """Lets go of everything; may be called twice."""
