"""The agents of the runs that are under way."""

from dataclasses import dataclass

from tracklog.answers import LOST, LOST_AFTER, Question, limit
from tracklog.answers.run_params import listed
from tracklog.folds import agents as agents_fold
from tracklog.folds import rows_of
from tracklog.home.home import Home


@dataclass(frozen=True, slots=True)
class AgentNowRow:
    """One agent in a run that is under way."""

    family: str
    run: str
    agent: str
    task: str | None
    model: str | None
    status: str | None
    """Its status in its own words."""
    phase: str | None
    """Its status in the words of tracklog: working, waiting, failed or done."""
    reason: str | None
    waits: bool
    """It waits for a person."""
    ended: bool
    outcome: str | None
    passed: bool | None
    score: float | None
    reads: str | None
    """The score in words."""
    seconds: float | None
    first_seq: int
    last_seq: int
    last_received: str
    last_activity: str | None


def agents_now(
    home: Home, limit: int = 200, lost_after: float = LOST_AFTER, *, now: str | None = None
) -> list[AgentNowRow]:
    """The agents that have not ended, of so many runs that wait or work, by last activity."""
    runs = listed(
        home, status=("waiting", "working"), limit=limit, lost_after=lost_after, now=now
    ).runs
    states = (
        state
        for row in runs
        for _, state in home.index.states("agents", rows_of(row.family, row.run))
    )
    rows = agents_fold.in_runs(state for state in states if not state.ended)
    return [AgentNowRow(**row) for row in rows]


question = Question(
    name="agents-now",
    about="List the agents of the runs that are in progress, each with the status that it reported.",
    ask=agents_now,
    params=(limit(200), LOST),
    paths=("/api/agents/now",),
    examples=("agents-now --json",),
)
