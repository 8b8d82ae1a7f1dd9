"""Replays: the states of folds as they were at an earlier record."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from tracklog.folds import Fold, Position
from tracklog.journal.frame import Record, Run
from tracklog.journal.journal import Journal
from tracklog.model.fact import Fact
from tracklog.reading.record import Dialects
from tracklog.reading.walk import Reading, accumulate

S = TypeVar("S")

FEW = 64
"""Records that are looked up one by one; more are found by reading their run."""


def replay(
    fold: Fold[S], records: Iterable[Record], dialects: Dialects, until: int | None = None
) -> dict[str, S]:
    """The fold's states by key, as they were after record `until`, or at the end."""
    return replay_all([fold], records, dialects, until)[fold.name]


def replay_all(
    folds: Collection[Fold[Any]],
    records: Iterable[Record],
    dialects: Dialects,
    until: int | None = None,
    begin: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> dict[str, dict[str, Any]]:
    """The same for several folds at once, by the name of each.

    The records may go on from the states in `begin`, of runs whose source was read once only.
    """
    past = [record for record in records if until is None or record.seq <= until]
    first = [{fold.name: dict(begin.get(fold.name, ())) for fold in folds}]

    def start() -> dict[str, dict[str, Any]]:
        return first.pop() if first else {fold.name: {} for fold in folds}

    def step(states: dict[str, dict[str, Any]], reading: Reading) -> None:
        position = reading.position
        if position is None or reading.superseded:
            return
        for fact in (*reading.facts, *reading.marks):
            for fold in folds:
                if isinstance(fact, fold.facts):
                    _step(fold, states[fold.name], position, fact)

    return accumulate(past, dialects, start, step)


def _step(fold: Fold[S], states: dict[str, S], position: Position, fact: Fact) -> None:
    try:
        key = fold.key(position, fact)
        if key is not None:
            states[key] = fold.step(states.get(key) or fold.State(), position, fact)
    except Exception:  # noqa: BLE001, S110  # the index has it as a finding
        pass


def picked(journal: Journal, run: Run, seqs: Collection[int]) -> Iterator[Record]:
    """Some records of a run, in order."""
    records: Iterator[Record]
    if len(seqs) <= FEW:
        records = (each for seq in sorted(seqs) for each in journal.read(seq - 1, 1))
    else:
        records = journal.records(min(seqs) - 1, run, through=max(seqs))
    return (each for each in records if each.seq in seqs)
