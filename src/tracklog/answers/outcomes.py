"""Outcomes: how the runs of the last 24 hours went."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from tracklog.answers import Question, now_of
from tracklog.answers.duplicates import same_conversation
from tracklog.folds import epoch_ms
from tracklog.folds import outcomes as outcomes_fold
from tracklog.home.home import Home
from tracklog.index.indexer import Indexer


@dataclass(frozen=True, slots=True)
class OutcomesAnswer:
    """How many runs of the last 24 hours passed."""

    passed: int
    failed: int
    in_flight: int
    """Runs that have not ended."""
    flakes: int
    pass_rate: float | None
    convergence_mean: float | None


def outcomes(home: Home, *, now: str | None = None) -> OutcomesAnswer:
    """The pass rate of the last 24 hours, over all runs that begin and end as runs."""
    return outcomes_until(home.index, now_of(home, now))


def outcomes_until(index: Indexer, now: str) -> OutcomesAnswer:
    """The same from the sums that an index has."""
    left = same_conversation(index)
    end = epoch_ms(now) or 0
    ended = [key for key in ended_runs(index, end - outcomes_fold.DAY, end) if key not in left]
    runs = map(outcomes_fold.as_run, index.load("outcomes", ended).values())
    answer = outcomes_fold.aggregate_24h(runs, now)
    for row in index.summed("outcomes", [outcomes_fold.IN_FLIGHT]).values():
        still = sum(not state.ended for state in index.load("outcomes", left).values())
        answer["in_flight"] = row["runs"] - still
    return OutcomesAnswer(**answer)


def ended_runs(index: Indexer, begin: int, end: int | None = None) -> Iterator[str]:
    """The keys of the runs that ended between two milliseconds, the last one first."""
    first = outcomes_fold.IN_FLIGHT if end is None else outcomes_fold.ended_key(end + 1)
    last = outcomes_fold.ended_key(begin)
    rows = takewhile(lambda row: row[0] <= last, index.sums("outcomes", first))
    return (key for _, row in rows for key in row)


question = Question(
    name="outcomes",
    about="Show the pass rate of the runs of the last 24 hours, with flakes and mean convergence.",
    ask=outcomes,
    examples=("outcomes", "outcomes --json"),
)
