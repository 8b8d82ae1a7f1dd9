"""Of the runs that ended in the last 24 hours, how many passed?"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tracklog.folds import MOST, Fold, Position, Sums, epoch_ms, number, run_key, short, text_of
from tracklog.model.fact import Began, Decided, Ended, Fact

PASSES = {
    "clean": True,
    "clean_with_flake": True,  # RALPH-27: a known retry
    "partial": False,
    "stuck": False,
    "catastrophic": False,
}
"""K28: five outcomes fold to pass or fail. K27: an outcome that is none of them folds to fail."""

FLAKE = "clean_with_flake"
DAY = 24 * 3_600_000


@dataclass(slots=True)
class State:
    family: str = ""
    run: str = ""
    begun: bool = False
    ended: bool = False
    ended_at: str | None = None
    outcome: str | None = None
    passed: bool | None = None
    scores: dict[str, float] = field(default_factory=dict)
    """The last score that each step carried; empty where none did."""
    last_seq: int = 0


def key(position: Position, fact: Fact) -> str | None:
    if fact.copied is True:
        return None
    match fact:
        case Began(what="run") | Ended(what="run"):
            return run_key(position)
        case Decided(verdict=None) if fact.step is not None and number(fact.score) is not None:
            return run_key(position)
    return None


def step(state: State, position: Position, fact: Fact) -> State:
    state.family, state.run, state.last_seq = position.family, position.run, position.seq
    match fact:
        case Began():
            state.begun, state.ended, state.ended_at = True, False, None
            state.outcome = state.passed = None
        case Ended():
            state.ended = True
            state.ended_at = position.received if epoch_ms(position.at) is None else position.at
            state.outcome = short(fact.outcome)
            state.passed = fact.passed if isinstance(fact.passed, bool) else None
        case Decided():
            score = number(fact.score)
            if score is not None:
                state.scores[text_of(fact.step)] = score
    return state


def aggregate_24h(runs: Iterable[Mapping[str, Any]], now: str) -> dict[str, Any]:
    """The pass rate of the runs that ended within (now - 24 h, now], with flakes and mean convergence.

    A run is a mapping: `outcome` and `ended_at` where it ended, `convergence_score` where it has one.
    """
    end = epoch_ms(now) or 0
    counts = {"passed": 0, "failed": 0, "in_flight": 0, "flakes": 0}
    scores = []
    for run in runs:
        if run.get("ended_at") is None:
            counts["in_flight"] += 1
            continue
        at, outcome = epoch_ms(text_of(run["ended_at"])), run.get("outcome")
        if at is None or not end - DAY < at <= end:
            continue
        passed = isinstance(outcome, str) and PASSES.get(outcome, False)
        counts["passed" if passed else "failed"] += 1
        counts["flakes"] += outcome == FLAKE
        if (score := number(run.get("convergence_score"))) is not None:
            scores.append(score)
    decided = counts["passed"] + counts["failed"]
    return {
        **counts,
        "pass_rate": counts["passed"] / decided if decided else None,
        "convergence_mean": sum(scores) / len(scores) if scores else None,
    }


def sums(key: str, state: State) -> Sums:
    """The runs that ended, the last one first; those that have not, and how many these are."""
    if not state.ended:
        return {f"{OPEN}{MOST - state.last_seq:016}": {key: 1}, IN_FLIGHT: {"runs": 1}}
    at = epoch_ms(state.ended_at)
    return {} if at is None else {ended_key(at): {key: 1}}


OPEN = "+"
"""The prefix of the rows of runs that have not ended."""
IN_FLIGHT = "-"
"""The row with the number of these; the rows of those that ended follow."""


def ended_key(at_ms: int) -> str:
    """The row of the runs that ended in this millisecond."""
    return f"{MOST - min(max(0, at_ms), MOST):016}"


def as_run(state: State) -> dict[str, Any]:
    """A run as the aggregate takes it: absent slots stay absent."""
    run: dict[str, Any] = {"run_id": state.run}
    if state.ended:
        # A dialect with other words for its outcomes says itself whether it passed.
        foreign = state.outcome not in PASSES and state.passed is True
        run |= {"outcome": "clean" if foreign else state.outcome, "ended_at": state.ended_at}
    if state.scores:
        run["convergence_score"] = sum(state.scores.values()) / len(state.scores)
    return run


fold = Fold(
    name="outcomes",
    about="Of the runs that ended in the last 24 hours, how many passed?",
    State=State,
    facts=(Began, Ended, Decided),
    key=key,
    step=step,
    sums=sums,
)
