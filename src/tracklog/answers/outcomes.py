"""Outcomes: how the runs of the last 24 hours went."""

from dataclasses import dataclass

from tracklog.answers import Question, now_of
from tracklog.answers.duplicates import counted_states
from tracklog.folds import outcomes as outcomes_fold
from tracklog.home.home import Home


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
    states = counted_states(home.index, "outcomes")
    return OutcomesAnswer(**outcomes_fold.answer(states, now_of(home, now)))


question = Question(
    name="outcomes",
    about="Show the pass rate of the runs of the last 24 hours, with flakes and mean convergence.",
    ask=outcomes,
    examples=("outcomes", "outcomes --json"),
)
