"""Which audit checkpoints pass, which fail, and which sometimes pass and sometimes fail?"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tracklog.folds import Fold, Position, audit_result, epoch_ms, name_text, row_key, text_of, when
from tracklog.model.errors import UnknownName
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


def answer(states: Iterable[State], window: str, now: str) -> list[dict[str, Any]]:
    """One row per checkpoint, the most flaky first; a window that is none is an error."""
    if window not in WINDOWS:
        raise UnknownName(
            f"there is no window {window!r}", f"the windows are: {', '.join(WINDOWS)}"
        )
    length, end = WINDOWS[window], epoch_ms(now) or 0
    verdicts: dict[str, list[State]] = defaultdict(list)
    for state in states:
        if length is None or end - length < state.at_ms <= end:
            verdicts[state.checkpoint].append(state)
    rows = [_row(checkpoint, each) for checkpoint, each in verdicts.items()]
    return sorted(rows, key=lambda row: (-row["flakiness"], -row["total"], row["checkpoint"]))


def _row(checkpoint: str, states: list[State]) -> dict[str, Any]:
    states.sort(key=lambda state: state.seq)
    results = [state.result for state in states]
    passed, failed = results.count("pass"), results.count("fail")
    failures = [state for state in states if state.result == "fail"]
    return {
        "checkpoint": checkpoint,
        "total": len(states),
        "pass": passed,
        "fail": failed,
        "warn": results.count("warn"),
        "flakiness": flakiness(passed, failed),
        "colour": colour(flakiness(passed, failed)),
        "last_fail_run_id": failures[-1].run if failures else None,
        "last_fail_family": failures[-1].family if failures else None,
        "last_seq": states[-1].seq,
        "recent": results[-RECENT:],
    }


def flakiness(passed: int, failed: int) -> float:
    """1 when it passes as often as it fails, 0 when it always does the same or never decides."""
    # The same number as 1 - |P - 0.5| * 2, without its rounding: 9 of 10 is amber.
    return 2 * min(passed, failed) / (passed + failed) if passed + failed else 0.0


def colour(flakiness: float) -> str:
    return "red" if flakiness >= 0.5 else "amber" if flakiness >= 0.2 else "green"


fold = Fold(
    name="audits",
    about="Which audit checkpoints pass, which fail, and which sometimes pass and sometimes fail?",
    State=State,
    facts=(Decided,),
    key=key,
    step=step,
)
