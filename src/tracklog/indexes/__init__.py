"""Where folds keep their states, one kind of place per file; a cache, deletable and rebuildable.

To write another: copy `sqlite.py`, keep its words and their promises, end the file with
`index = open_it`, a function from what follows the colon of the URL (and options by name) to an
`Index`, and pass `tracklog.testing.IndexSuite`.
An outside package offers its function under the entry point group `tracklog.indexes`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from tracklog.event import Finding

States = dict[tuple[str, str], Any]
"""States by fold and key; a state is a dataclass of JSON values."""


class Found(NamedTuple):
    """A finding and the record at which it showed."""

    seq: int
    family: str
    run: str
    finding: Finding


class Words(NamedTuple):
    """What was said in a record, for the word search."""

    seq: int
    text: str


class Index(Protocol):
    """States of folds, findings, and a word search, up to a cursor; safe to use from threads."""

    @property
    def cursor(self) -> int:
        """The last record that was applied; 0 when none was."""

    def load(self, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], bytes]:
        """The states of these folds and keys that are kept, as JSON."""

    def apply(
        self,
        cursor: int,
        states: Iterable[tuple[str, str, int, bytes]],
        findings: Sequence[Found],
        words: Sequence[Words],
    ) -> None:
        """Keeps changed states (fold, key, seq of the change, JSON), findings and words, and the
        new cursor: all or nothing.
        """

    def states(
        self, fold: str, *, prefix: str = "", newest: int | None = None
    ) -> Iterator[tuple[str, bytes]]:
        """The states of a fold by key, those whose key begins so; or the newest changed first."""

    def findings(self, run: tuple[str, str] | None = None, limit: int = 1000) -> list[Found]:
        """The newest findings first, of one run if asked."""

    def search(self, text: str, limit: int = 50) -> list[int]:
        """The records in which these words were said, the newest first."""

    def clear(self) -> None:
        """Forgets everything, to be built anew."""

    def close(self) -> None: ...
