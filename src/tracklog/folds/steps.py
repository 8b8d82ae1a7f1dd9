"""How often was each step tried, and how did it end?"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tracklog.folds import (
    Fold,
    Position,
    add,
    integer,
    name_text,
    number,
    run_key,
    short,
    text_of,
    when,
)
from tracklog.model.fact import Began, Ended, Fact, Moved

BLOCKED = "blocked"
"""The word for a step that was never tried because another one failed."""
STATED = ("total_nodes", "done", "failed", "blocked", "total_attempts", "flake_retries")
"""Counts that a source may report itself; then the reported counts are shown."""
MOST_TIMES = 20
"""The begins of one step whose times are stored: the last ones."""


class StepTime(NamedTuple):
    """When a step began and ended, in milliseconds since 1970."""

    seq: int
    begin: int
    agent: str | None
    end_seq: int | None = None
    """None while it goes on."""
    end: int | None = None
    failed: bool = False


@dataclass(slots=True)
class State:
    family: str = ""
    run: str = ""
    started: str | None = None
    started_ms: int = 0
    ended: str | None = None
    """The time, by the emitter's clock, else the time of receipt."""
    seconds: float | None = None
    outcome: str | None = None
    exit_code: int | None = None
    counts: dict[str, int] = field(default_factory=dict)
    steps: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Of each step, in the order of the records: `status`, the record that `moved` it, how often it was
    `begun` and `tried`, whether it `lapsed` or which parts `failed`, what passed later (`flakes`), and
    its last `times`, each the beginning of a `StepTime`."""


def key(position: Position, fact: Fact) -> str | None:
    if fact.copied is True:
        return None
    match fact:
        case Began(what="run" | "step") | Ended(what="run" | "step"):
            return run_key(position)
        case Moved(agent=None) if fact.step is not None:
            return run_key(position)
    return None


def step(state: State, position: Position, fact: Fact) -> State:
    state.family, state.run = position.family, position.run
    match fact:
        case Began(what="run"):
            state.started, state.started_ms = position.at or position.received, when(position)
            state.ended = state.seconds = state.outcome = state.exit_code = None
            state.counts = _counts(fact.counts)
        case Ended(what="run"):
            _end(state, position, fact)
        case Began() if fact.step is not None:
            tries = _of(state, fact)
            tries["begun"] = add(tries.get("begun", 0), 1)
            tries["status"] = "working"
            _end_time(tries, position, failed=False)  # it was begun again
            begins = [
                *tries.get("times", ()),
                [position.seq, when(position), name_text(fact.agent)],
            ]
            tries["times"] = begins[-MOST_TIMES:]
        case Ended(attempt=int()) if fact.step is not None:
            _try(_of(state, fact), fact)
        case Ended() if fact.step is not None:
            _end_step(_of(state, fact), position, fact)
        case Moved():
            tries = _of(state, fact)
            phase = text_of(fact.phase)
            tries |= {"status": BLOCKED if fact.to == BLOCKED else phase, "moved": position.seq}
    return state


def _counts(given: Any) -> dict[str, int]:
    counts = given.items() if isinstance(given, Mapping) else ()
    return {text_of(name): n for name, count in counts if (n := integer(count)) is not None}


def _of(state: State, fact: Began | Ended | Moved) -> dict[str, Any]:
    name = text_of(fact.step)
    if isinstance(fact, Ended) and fact.attempt is not None:
        name = name.removesuffix(f"#{fact.attempt}")
    return state.steps.setdefault(name, {})


def _end(state: State, position: Position, fact: Ended) -> None:
    state.ended, state.outcome = position.at or position.received, short(fact.outcome)
    took = (when(position) - state.started_ms) / 1000 if state.started else None
    state.seconds = took if (seconds := number(fact.seconds)) is None else seconds
    code = number(fact.exit_code)
    state.exit_code = None if code is None else int(code)
    state.counts |= _counts(fact.counts)


def _try(tries: dict[str, Any], fact: Ended) -> None:
    """K15: a step that passes at a later try than its first was flaky. K25: where its parts are
    tried one by one, a part that failed and passed later was.
    """
    tries["tried"] = add(tries.get("tried", 0), 1)
    part, failed = name_text(fact.part), tries.get("failed", [])
    if fact.passed is False and part is not None and part not in failed:
        tries["failed"] = [*failed, part]
    elif fact.passed is True and part in failed:
        tries["failed"] = [each for each in failed if each != part]
        tries["flakes"] = add(tries.get("flakes", 0), 1)
    elif fact.passed is True and part is None and fact.attempt != 1:
        tries["flakes"] = 1


def _end_step(tries: dict[str, Any], position: Position, fact: Ended) -> None:
    failed = fact.passed is False or fact.error is not None
    if "tried" not in tries and tries.get("status") == "working":
        if failed:
            tries["lapsed"] = True
        elif "lapsed" in tries:
            tries["flakes"] = 1  # it had failed, and was begun again
    if tries.get("moved") != position.seq:  # else the same record has its status
        tries["status"] = "failed" if failed else "done"
    _end_time(tries, position, failed=failed)


def _end_time(tries: dict[str, Any], position: Position, *, failed: bool) -> None:
    if (times := tries.get("times")) and StepTime(*times[-1]).end_seq is None:
        tries["times"] = [*times[:-1], [*times[-1], position.seq, when(position), failed]]


def times(state: State) -> Iterator[tuple[str, StepTime]]:
    """The name of each step with its times, as often as it was begun."""
    for name, tries in state.steps.items():
        for each in tries.get("times", ()):
            yield name, StepTime(*each)


def stepped(state: State) -> bool:
    """Whether a run is worked off step by step."""
    return bool(state.steps) or not state.counts.keys().isdisjoint(STATED)


def summary(state: State) -> dict[str, Any]:
    """The summary of a run by its steps: counts of the source as reported, the others counted."""
    of = state.steps
    attempts = {name: tries for name in of if (tries := _tries(of[name]))}
    statuses = [each.get("status") for each in of.values()]
    flakes = sum(each.get("flakes", 0) for each in of.values())
    counted = {
        "total_nodes": len(of),
        **{status: statuses.count(status) for status in ("done", "failed", BLOCKED)},
        "total_attempts": sum(attempts.values()),
        "flake_retries": flakes,
    }
    return {
        "run_id": state.run,
        "started": state.started,
        "ended": state.ended,
        "duration_s": state.seconds,
        "outcome": state.outcome,
        **{name: state.counts.get(name, counted[name]) for name in STATED},
        "exit_code": state.exit_code,
        "failed_nodes": [name for name in of if of[name].get("status") == "failed"],
        "node_attempts": attempts,
    }


def _tries(tries: Mapping[str, Any]) -> int:
    """How often a step was tried: by its attempts, else by its begins."""
    return int(tries.get("tried") or tries.get("begun", 0))


fold = Fold(
    name="steps",
    about="How often was each step tried, and how did it end?",
    State=State,
    facts=(Began, Ended, Moved),
    key=key,
    step=step,
    rewound=True,
)
