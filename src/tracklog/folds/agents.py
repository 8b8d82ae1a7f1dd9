"""What did each agent do, in each run and over all of them?"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import floor
from typing import Any

from tracklog.folds import (
    MARK,
    MOST,
    Fold,
    Position,
    Sums,
    epoch_ms,
    integer,
    last_sign,
    mask,
    name_text,
    number,
    row_key,
    short,
    text_of,
    when,
)
from tracklog.folds._durations import bucket as duration_bucket
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
    micros = _micros(state)
    return None if micros is None else micros / 1_000_000


def _micros(state: State) -> int | None:
    if state.micros is not None:
        return state.micros
    if state.began_ms is None or state.ended_ms is None:
        return None
    return max(0, state.ended_ms - state.began_ms) * 1000


def sums(key: str, state: State) -> Sums:
    """What a life adds: to the counts of its agent, to its lives in their order, to its durations."""
    agent, micros = mask(state.agent), _micros(state)
    ended = state.ended
    counts = {"runs": 1, bucket(state): 1}
    if ended and state.passed is False and state.outcome != "partial":
        counts["failed"] = 1
    if not ended and state.phase is not None:
        counts["in_flight"] = 1
    if state.score is not None:
        # Whole numbers and billionths: sums are integers.
        whole = floor(state.score)
        counts |= {"scores": 1, "whole": max(-_GREAT, min(whole, _GREAT))}
        counts["billionths"] = round((state.score - whole) * BILLION)
    rows: dict[str, dict[str, int]] = {total_key(agent): counts}
    alive, seq = latest(state)
    rows[f"{lives_key(agent, ended=ended)}{MOST - alive:016}{MOST - seq:016}"] = {key: 1}
    if micros is not None:
        number = duration_bucket(micros)
        counts[f"{LASTED}{number}"] = 1
        rows[f"{durations_key(agent, number)}{micros:019}"] = {"lives": 1}
    return rows


LASTED = "lasted "
"""Before the number of a log bucket: how many lives lasted so long."""
BILLION = 10**9
_GREAT = 2**40  # the sum over a million scores is still an integer of JSON


def total_key(agent: str) -> str:
    """The row with the counts of an agent, whose name is masked."""
    return f"={agent}"


def lives_key(agent: str, *, ended: bool) -> str:
    """The prefix of the rows of its lives, the latest first: each has the key of a state."""
    return f"{'-' if ended else '+'}{agent}{MARK}"


def durations_key(agent: str, number: int) -> str:
    """The prefix of the rows of its durations in a log bucket, the shortest first, in microseconds."""
    return f"~{agent}{MARK}{number:03}{MARK}"


def latest(state: State) -> tuple[int, int]:
    """What orders the lives of an agent: the last sign of life, 0 where none is known, and the record."""
    return min(max(0, epoch_ms(state.alive) or 0), MOST), state.last_seq


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
    sums=sums,
    ranked="runs",
)
