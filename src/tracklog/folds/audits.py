"""Which audit checkpoints pass, which fail, and which sometimes pass and sometimes fail?"""

from dataclasses import dataclass
from typing import Literal

from tracklog.folds import (
    MARK,
    MINUTE,
    MOST,
    Fold,
    Position,
    Sums,
    audit_result,
    name_text,
    row_key,
    text_of,
    when,
)
from tracklog.model.fact import Decided

RECENT = 12
"""The newest verdicts of a checkpoint that are listed one by one."""
WINDOWS = {"24h": 24 * 3_600_000, "7d": 7 * 24 * 3_600_000, "all": None}


@dataclass(slots=True)
class State:
    """One verdict on one checkpoint."""

    checkpoint: str = ""
    family: str = ""
    run: str = ""
    agent: str | None = None
    result: str = ""
    """`pass`, `fail` or `warn`."""
    at_ms: int = 0
    seq: int = 0


def key(position: Position, fact: Decided) -> str | None:
    if fact.copied is True or fact.name is None or audit_result(fact) is None:
        return None
    return row_key(position, str(position.seq), text_of(fact.name))


def step(state: State, position: Position, fact: Decided) -> State:
    state.checkpoint, state.result = text_of(fact.name), audit_result(fact) or ""
    state.family, state.run, state.agent = position.family, position.run, name_text(fact.agent)
    state.at_ms, state.seq = when(position), position.seq
    return state


def sums(_key: str, state: State) -> Sums:
    """The verdicts on each checkpoint, by result, the latest first."""
    prefix = verdicts_key(state.checkpoint, state.result)
    return {
        f"{prefix}{order(state.at_ms)}{MOST - state.seq:016}": {f"{state.family}:{state.run}": 1}
    }


def verdicts_key(checkpoint: str, result: str) -> str:
    """The prefix of the rows of verdicts on a checkpoint with this result."""
    return f"{checkpoint.replace(MARK, ' ')}{MARK}{result}{MARK}"  # as cells spell it


def order(at_ms: int) -> str:
    """What follows: the minute, counted back from the end of time, and the millisecond."""
    at = min(max(0, at_ms), MOST)
    return f"{order_of_minute(at // MINUTE)}{MINUTE - 1 - at % MINUTE:05}"


def order_of_minute(minute: int) -> str:
    return f"{MOST // MINUTE - max(0, minute):012}"


def verdict_of(key: str) -> tuple[int, int]:
    """The time and the record of a verdict, from the key of its row."""
    at = key.rpartition(MARK)[2]
    minute = MOST // MINUTE - int(at[:12])
    return minute * MINUTE + MINUTE - 1 - int(at[12:17]), MOST - int(at[17:])


def flakiness(passed: int, failed: int) -> float:
    """1 when it passes as often as it fails, 0 when it always does the same or never decides."""
    # The same number as 1 - |P - 0.5| * 2, without its rounding: 9 of 10 is amber.
    return 2 * min(passed, failed) / (passed + failed) if passed + failed else 0.0


def colour(flakiness: float) -> Literal["green", "amber", "red"]:
    return "red" if flakiness >= 0.5 else "amber" if flakiness >= 0.2 else "green"


fold = Fold(
    name="audits",
    about="Which audit checkpoints pass, which fail, and which sometimes pass and sometimes fail?",
    State=State,
    facts=(Decided,),
    key=key,
    step=step,
    sums=sums,
)
