"""A batch of records for the index, and what it changes there."""

from typing import Any

from tracklog.folds import Fold, Position, Sums, rows_of
from tracklog.folds._cells import NO_CELLS, Cells
from tracklog.index.codec import freeze
from tracklog.index.indexes import RecordFinding, Words
from tracklog.journal.frame import Record, Run
from tracklog.model.event import Finding
from tracklog.model.fact import Fact
from tracklog.reading.walk import Walker

PAST = "past:"
"""Prefix of a fold's name: its past states, by run and record."""
TOO_LARGE = b"null"
"""Stands for a past state that is too large to be stored."""
_LARGE = 1 << 16  # bytes


class ActiveRun:
    """A run in memory: its walker, and which keys its states have."""

    __slots__ = ("key", "rows", "run", "unsettled", "walker", "whole")

    def __init__(self, run: Run, walker: Walker, *, whole: bool) -> None:
        self.run, self.walker = run, walker
        self.key, self.rows = ":".join(run), rows_of(*run)
        self.whole = whole
        """Whether every state of it is in memory."""
        self.unsettled = -1
        """How many findings remain if no more records come, as stored; -1 where that is not known."""

    def owns(self, key: str) -> bool:
        """Whether a key is that of the run, or of one of its rows."""
        return key == self.key or key.startswith(self.rows)


class CachedState:
    """A state in memory."""

    __slots__ = ("batch", "fold", "key", "run", "seq", "size", "state")

    def __init__(self, fold: Fold[Any], key: str, run: ActiveRun) -> None:
        self.fold, self.key, self.run = fold, key, run
        self.state: Any = None
        """None where there is none yet."""
        self.seq = 0
        """The record that changed it last."""
        self.size = 0
        """In bytes of JSON, as stored."""
        self.batch = 0
        """The number of the batch that changed it last."""

    def sums(self) -> Sums:
        """What it adds to the sums of its fold."""
        sums = self.fold.sums
        return {} if sums is None or self.state is None else sums(self.key, self.state)

    def cells(self) -> Cells:
        """What it adds to the cells of its fold."""
        cells = self.fold.cells
        return NO_CELLS if cells is None or self.state is None else cells(self.state)


class Batch:
    """The changes that a batch of records makes in the index."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.steps: list[tuple[CachedState, Position, Fact | None]] = []
        """The facts to fold, each with the state it changes; without a fact the state is stored as it is
        at that record.
        """
        self.missing: list[CachedState] = []
        """The states to load before that."""
        self.past: dict[tuple[str, str], bytes] = {}
        self.changed: dict[str, list[CachedState]] = {}
        """By fold."""
        self.sums: list[tuple[CachedState, Sums]] = []
        """What the states of folds with sums added to the sums before this batch."""
        self.cells: list[tuple[CachedState, Cells]] = []
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

    def change(self, entry: CachedState) -> None:
        """Note that a state is about to change, and what it has added so far."""
        if entry.batch == self.number:
            return
        entry.batch = self.number
        changed = self.changed.get(entry.fold.name)
        if changed is None:
            changed = self.changed[entry.fold.name] = []
        changed.append(entry)
        if entry.fold.sums is not None:
            self.sums.append((entry, entry.sums()))
        if entry.fold.cells is not None:
            self.cells.append((entry, entry.cells()))

    def forget(self, active: ActiveRun) -> None:
        """Remove the changes of a run, because it is folded again from its start."""
        run, rows = active.run, active.rows
        self.steps = [each for each in self.steps if each[0].run.run != run]
        self.missing = [each for each in self.missing if each.run.run != run]
        self.past = {name: each for name, each in self.past.items() if name[1][:-15] != rows}
        self.findings = [each for each in self.findings if each[1:3] != run]
        self.ids = [each for each in self.ids if each[1][2:4] != run]
        self.names.pop(run, None)
        self.active.pop(run, None)

    def store_past(self, entry: CachedState, position: Position) -> None:
        if entry.state is not None:
            key = f"{entry.run.rows}{position.seq:015}"
            frozen = freeze(entry.key, entry.state)
            self.past[PAST + entry.fold.name, key] = frozen if len(frozen) <= _LARGE else TOO_LARGE

    def note_erasure(self, record: Record, noted: Any, through: int) -> None:
        """Note an erasure that was recorded after this index was begun."""
        seq = noted.data.get("seq") if isinstance(noted.data, dict) else None
        if isinstance(seq, int) and 0 < seq < record.seq and record.seq > through:
            self.erasures.append(seq)
