"""Agents: how each did over all its runs."""

from dataclasses import dataclass

from tracklog.answers import Question
from tracklog.answers.duplicates import counted_states
from tracklog.folds import agents as agents_fold
from tracklog.home.home import Home


@dataclass(frozen=True, slots=True)
class AgentRow:
    """One agent over all its runs."""

    agent: str
    run_count: int
    outcomes: dict[str, int]
    p50_seconds: float | None
    p95_seconds: float | None
    mean_score: float | None
    scores: list[float]
    severity: int
    """How much it needs attention: a regression counts most."""
    last_seen: str | None
    last_seq: int


def agents(home: Home) -> list[AgentRow]:
    """The agents over all their runs, the busiest first."""
    return [AgentRow(**row) for row in agents_fold.answer(counted_states(home.index, "agents"))]


question = Question(
    name="agents",
    about="List the agents, the busiest first: runs, outcomes, durations, convergence.",
    ask=agents,
    examples=("agents", "agents --json"),
)
