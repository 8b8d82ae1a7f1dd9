"""The marks of each run, as the list of runs shows them and filters by them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tracklog.folds import marks as marks_fold
from tracklog.folds import rows_of, run_of
from tracklog.folds.marks import State as Mark
from tracklog.folds.runs import State
from tracklog.home.home import Home

MOST = 100_000
"""The marks that are looked at: those that were made last."""


@dataclass(frozen=True, slots=True)
class RunMarks:
    """What people noted about a run."""

    tags: tuple[str, ...] = ()
    """Of the run and of its records, each once."""
    score: float | None = None
    """The last score of the run itself."""
    notes: int = 0
    """Of the run and of its records."""
    seen: bool = False
    """A person has seen it; of a run that has failed or was lost again since, this is false."""
    seen_by: str | None = None
    """The name of the account or token."""
    seen_at: str | None = None


NO_MARKS = RunMarks()


def marks_of(marks: Iterable[Mark], state: State, status: str, at: int | None = None) -> RunMarks:
    """The marks of a run in short, as they are now or were at a record."""
    held = sorted((each for each in marks if marks_fold.holds(each, at)), key=lambda each: each.seq)
    of_run = [each for each in held if each.record is None]
    seen = next((each for each in reversed(of_run) if each.seen is not None), None)
    if seen is not None and not (seen.seen and _still(seen, state, status)):
        seen = None
    return RunMarks(
        tags=tuple(sorted({each.tag for each in held if each.tag is not None})),
        score=next((each.score for each in reversed(of_run) if each.score is not None), None),
        notes=sum(each.note is not None for each in held),
        seen=seen is not None,
        seen_by=seen.by if seen else None,
        seen_at=seen.at if seen else None,
    )


def _still(seen: Mark, state: State, status: str) -> bool:
    """Whether what was seen is still the news: a later failure, or a later silence, was not seen."""
    match status:
        case "failed":
            return state.failed_seq < seen.seq
        case "lost":
            return state.last_seq < seen.seq
    return True


class MarkList:
    """The marks of all runs; get it by `home.cache(MarkList)`, so that it is cached."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._rows: Sequence[tuple[str, bytes]] = ()
        self._by_run: dict[tuple[str, str], list[Mark]] = {}

    def by_run(self) -> Mapping[tuple[str, str], Sequence[Mark]]:
        """The marks by family and run."""
        index = self._home.index
        rows = index.newest_stored("marks", MOST)
        if rows != self._rows:
            by_run: dict[tuple[str, str], list[Mark]] = {}
            for key, row in rows:
                mark: Mark = index.thawed("marks", key, row)
                by_run.setdefault((mark.family, mark.run), []).append(mark)
            self._by_run, self._rows = by_run, rows
        return self._by_run


def marks_in(home: Home, key: str) -> list[Mark]:
    """Every mark of one run, the withdrawn ones too, in order."""
    states = (state for _, state in home.index.states("marks", rows_of(*run_of(key))))
    return sorted(states, key=lambda mark: mark.seq)
