"""The runs that the pass rate of the last 24 hours is computed from."""

from dataclasses import dataclass
from itertools import chain, islice

from tracklog.answers import Question, integer, limit, now_of
from tracklog.answers.duplicates import same_conversation
from tracklog.answers.outcomes import ended_runs
from tracklog.folds import epoch_ms
from tracklog.folds import outcomes as outcomes_fold
from tracklog.home.home import Home


@dataclass(frozen=True, slots=True)
class OutcomeRunRow:
    """One run; null where it has not ended, or has no score."""

    run_id: str
    outcome: str | None = None
    ended_at: str | None = None
    convergence_score: float | None = None


def outcome_runs(
    home: Home, hours: int | None = None, limit: int = 5000, *, now: str | None = None
) -> list[OutcomeRunRow]:
    """The runs that begin and end as runs, those that have not ended first; of those that ended, only
    those of the last hours, the last one first.
    """
    index, left = home.index, same_conversation(home.index)
    end = epoch_ms(now_of(home, now)) or 0
    running = (key for _, row in index.sums("outcomes", prefix=outcomes_fold.OPEN) for key in row)
    ended = ended_runs(index, 0 if hours is None else end - hours * 3_600_000)
    keys = [*islice((key for key in chain(running, ended) if key not in left), limit)]
    states = index.load("outcomes", keys)
    runs = (outcomes_fold.as_run(states[key]) for key in keys if key in states)
    return [OutcomeRunRow(**run) for run in runs]


question = Question(
    name="outcome-runs",
    about="List the runs that the pass rate of 24 hours is computed from.",
    ask=outcome_runs,
    params=(
        integer(
            "hours",
            "Leave out runs that ended more than this many hours ago.",
            least=1,
            most=24 * 31,
        ),
        limit(5000),
    ),
    paths=("/api/outcomes/runs",),
    examples=("outcome-runs --hours 24 --json",),
)
