"""What did each agent do, in each run and over all of them?"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tracklog.folds import (
    Fold,
    Position,
    epoch_ms,
    integer,
    last_sign,
    name_text,
    number,
    quantile,
    row_key,
    short,
    text_of,
    when,
)
from tracklog.model.fact import FACTS, Began, Ended, Fact, Moved

BUCKETS = ("converged", "partial", "escaped", "aborted", "unknown")
"""K8: `unknown` is a reader's bucket: no end was recorded, or an outcome that is none of the four."""


@dataclass(slots=True)
class State:
    family: str = ""
    run: str = ""
    agent: str = ""
    task: str | None = None
    model: str | None = None
    status: str | None = None
    """Its last status, verbatim."""
    phase: str | None = None
    reason: str | None = None
    began_ms: int | None = None
    ended: bool = False
    ended_ms: int | None = None
    outcome: str | None = None
    passed: bool | None = None
    score: float | None = None
    """As its producer gave it: never computed, never a default."""
    micros: int | None = None
    first_seq: int = 0
    last_seq: int = 0
    last_received: str = ""
    alive: str = ""
    """When it last gave a sign of life; empty as long as that is not known."""


def key(position: Position, fact: Fact) -> str | None:
    return None if fact.agent is None else row_key(position, text_of(fact.agent))


def step(state: State, position: Position, fact: Fact) -> State:
    if not state.first_seq:
        state.family, state.run, state.agent = (
            position.family,
            position.run,
            name_text(fact.agent) or "",
        )
        state.first_seq = position.seq
    state.last_seq, state.last_received = position.seq, position.received
    state.alive = last_sign(state.alive, position, fact)
    if fact.copied is True:
        return state
    match fact:
        case Began(what="agent"):
            # A start after an end is a new life.
            state.ended, state.ended_ms, state.micros = False, None, None
            state.outcome = state.passed = state.score = None
            state.began_ms, state.phase = when(position), "working"
            state.task = short(fact.task) or state.task
            state.model = name_text(fact.model) or state.model
        case Moved():
            state.status, state.phase = name_text(fact.to), text_of(fact.phase)
            state.reason = short(fact.reason)
        case Ended(what="agent"):
            state.ended, state.ended_ms = True, when(position)
            state.outcome, state.score = short(fact.outcome), number(fact.score)
            state.passed = fact.passed if isinstance(fact.passed, bool) else None
            state.micros = integer(fact.seconds, 1_000_000)
            state.phase = "failed" if fact.passed is False or fact.error is not None else "done"
    return state


def in_runs(states: Iterable[State]) -> list[dict[str, Any]]:
    """One row per agent and run, by last activity, the newest first; `waits` when it paused for a person."""
    rows = sorted(states, key=lambda state: -state.last_seq)
    return [
        {
            "family": state.family,
            "run": state.run,
            "agent": state.agent,
            "task": state.task,
            "model": state.model,
            "status": state.status,
            "phase": state.phase,
            "reason": state.reason,
            "waits": state.phase == "waiting" and not state.ended,
            "ended": state.ended,
            "outcome": state.outcome,
            "passed": state.passed,
            "score": state.score,
            "reads": reads(state.score),
            "seconds": agent_seconds(state),
            "first_seq": state.first_seq,
            "last_seq": state.last_seq,
            "last_received": state.last_received,
            "last_activity": state.alive or None,
        }
        for state in rows
    ]


def reads(score: float | None) -> str | None:
    """How a score reads; the outcome is another matter, and never altered by it."""
    # KAHN-44: 1.0 is fully converged, anything below is partial.
    return None if score is None else "fully converged" if score == 1 else "partial"


def agent_seconds(state: State) -> float | None:
    """Its duration: as reported, else from its start to its end."""
    if state.micros is not None:
        return state.micros / 1_000_000
    if state.began_ms is None or state.ended_ms is None:
        return None
    return max(0, state.ended_ms - state.began_ms) / 1000


def answer(states: Iterable[State]) -> list[dict[str, Any]]:
    """One row per agent over all its runs, the busiest first."""
    lives: dict[str, list[State]] = defaultdict(list)
    for state in states:
        lives[state.agent].append(state)
    rows = [_over_all(agent, each) for agent, each in lives.items()]
    return sorted(rows, key=lambda each: (-each["run_count"], each["agent"]))


def _over_all(agent: str, states: list[State]) -> dict[str, Any]:
    states.sort(key=lambda state: state.last_seq)
    outcomes = dict.fromkeys(BUCKETS, 0)
    for state in states:
        outcomes[bucket(state)] += 1
    lasted = sorted(each for state in states if (each := agent_seconds(state)) is not None)
    scores = [state.score for state in states if state.score is not None]
    ends = [state for state in states if state.ended]
    return {
        "agent": agent,
        "run_count": len(states),
        "outcomes": outcomes,
        "p50_seconds": quantile(lasted, 0.5),
        "p95_seconds": quantile(lasted, 0.95),
        "mean_score": sum(scores) / len(scores) if scores else None,
        "scores": scores,
        "severity": severity(
            regression=[state.passed for state in ends[-2:]] == [True, False],
            failed=sum(state.passed is False and state.outcome != "partial" for state in ends),
            partial=outcomes["partial"],
            in_flight=any(not state.ended and state.phase is not None for state in states),
        ),
        "last_seen": max(
            (state.alive for state in states if state.alive), key=_epoch_ms, default=None
        ),
        "last_seq": states[-1].last_seq,
    }


def _epoch_ms(spelled: str) -> int:
    return epoch_ms(spelled) or 0


def bucket(state: State) -> str:
    """The bucket of a run's outcome; `escaped` and `aborted` are two."""
    outcome = state.outcome if state.ended else None
    return outcome if outcome in BUCKETS and outcome is not None else "unknown"


def severity(*, regression: bool, failed: int, partial: int, in_flight: bool) -> int:
    """How much an agent needs to be looked at: a regression sorts before anything else.

    A regression is an agent whose last run failed after one that passed.
    """
    return 1000 * regression + min(10 * failed, 200) + min(partial, 200) + 5 * in_flight


fold = Fold(
    name="agents",
    about="What did each agent do, in each run and over all of them?",
    State=State,
    facts=FACTS,
    key=key,
    step=step,
)
