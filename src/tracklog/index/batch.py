"""A batch of records for the index, and what it changes there."""

from typing import Any

from tracklog.folds import Fold, Position, Sums, rows_of
from tracklog.folds._cells import Cells
from tracklog.index.codec import freeze
from tracklog.index.indexes import RecordFinding, Words
from tracklog.journal.frame import Record, Run
from tracklog.model.event import Finding
from tracklog.model.fact import Fact

PAST = "past:"
"""Prefix of a fold's name: its past states, by run and record."""
TOO_LARGE = b"null"
"""Stands for a past state that is too large to be stored."""
_LARGE = 1 << 16  # bytes


class Batch:
    """The changes that a batch of records makes in the index."""

    def __init__(self) -> None:
        self.steps: list[tuple[tuple[str, str], Fold[Any] | None, Position, Fact | None]] = []
        """The facts to fold, each with the state it changes; without a fact the state is stored as it is
        at that record.
        """
        self.past: dict[tuple[str, str], bytes] = {}
        self.changed: dict[tuple[str, str], int] = {}
        self.before: dict[tuple[str, str], Sums] = {}
        """What the states of folds with sums added to the sums before this batch."""
        self.cells: dict[tuple[str, str], Cells] = {}
        """What the states of folds with cells added to the cells before this batch."""
        self.findings: list[RecordFinding] = []
        self.words: list[Words] = []
        self.erasures: list[int] = []
        self.ids: list[tuple[int, Position]] = []
        """Identities that should stand in one run only."""
        self.names: dict[Run, dict[int, int]] = {}
        """By run, the names of its records and the names of their causes."""
        self.active: dict[Run, int] = {}
        """The runs with a record that counts, and the last one."""
        self.superseded: list[int] = []
        """The records that do not count any more."""
        self.mixed: set[Run] = set()
        """The runs with a source record that has several revisions."""
        self.refolded: dict[Run, None] = {}
        """The runs of which an earlier record counts differently now."""

    def find(self, record: Record, finding: Finding) -> None:
        self.findings.append(RecordFinding(record.seq, record.family, record.run, finding))

    def forget(self, run: Run) -> None:
        """Remove the changes of a run, because it is folded again from its start."""
        self.steps = [each for each in self.steps if each[2][2:4] != run]
        rows = rows_of(*run)
        self.past = {name: each for name, each in self.past.items() if name[1][:-15] != rows}
        self.findings = [each for each in self.findings if each[1:3] != run]
        self.ids = [each for each in self.ids if each[1][2:4] != run]
        self.names.pop(run, None)
        self.active.pop(run, None)

    def store_past(self, name: tuple[str, str], position: Position, state: Any) -> None:
        if state is not None:
            key = f"{rows_of(position.family, position.run)}{position.seq:015}"
            frozen = freeze(name[1], state)
            self.past[PAST + name[0], key] = frozen if len(frozen) <= _LARGE else TOO_LARGE

    def note_erasure(self, record: Record, noted: Any, through: int) -> None:
        """Note an erasure that was recorded after this index was begun."""
        seq = noted.data.get("seq") if isinstance(noted.data, dict) else None
        if isinstance(seq, int) and 0 < seq < record.seq and record.seq > through:
            self.erasures.append(seq)
