"""The runs that the pass rate of the last 24 hours is computed from."""

from dataclasses import dataclass

from tracklog.answers import Question, integer, now_of
from tracklog.answers.duplicates import counted_states
from tracklog.folds import epoch_ms
from tracklog.folds import outcomes as outcomes_fold
from tracklog.home.home import Home
from tracklog.journal.frame import stamp


@dataclass(frozen=True, slots=True)
class OutcomeRunRow:
    """One run; null where it has not ended, or has no score."""

    run_id: str
    outcome: str | None = None
    ended_at: str | None = None
    convergence_score: float | None = None


def outcome_runs(
    home: Home, hours: int | None = None, *, now: str | None = None
) -> list[OutcomeRunRow]:
    """The runs that begin and end as runs; of those that ended, only those of the last hours."""
    end = (epoch_ms(now_of(home, now)) or 0) / 1000
    begin = "" if hours is None else stamp(end - hours * 3600)
    rows = map(outcomes_fold.as_run, counted_states(home.index, "outcomes"))
    return [OutcomeRunRow(**row) for row in rows if str(row.get("ended_at") or begin) >= begin]


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
    ),
    paths=("/api/outcomes/runs",),
    examples=("outcome-runs --hours 24 --json",),
)
