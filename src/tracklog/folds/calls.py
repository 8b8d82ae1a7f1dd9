"""Which tools were called, by whom, and what came back?"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tracklog.folds import (
    UNREPORTED,
    Fold,
    Position,
    end_rank,
    integer,
    name_text,
    rank,
    row_key,
    short,
    text_of,
    when,
)
from tracklog.folds._calls import call_name
from tracklog.model.fact import Called, Returned

FIDELITIES = ("observed", "reported", "reconstructed", "inferred")


@dataclass(slots=True)
class State:
    family: str = ""
    run: str = ""
    call_id: str = ""
    synthetic: bool = False
    tool: str | None = None
    agent: str | None = None
    step: str | None = None
    provider_call_id: str | None = None
    parent_call_id: str | None = None
    tool_server: str | None = None
    called: int = 0
    """The rank of the report of the call that counts: how directly it was observed. The same for
    its end.
    """
    called_seq: int | None = None
    """None: only its end was recorded."""
    called_ms: int | None = None
    returned: int = 0
    returned_seq: int | None = None
    """None: it did not return."""
    returned_ms: int | None = None
    """The time, where the duration or the call itself was not reported."""
    ok: bool | None = None
    status: str | None = None
    error: str | None = None
    exit_code: int | None = None
    micros: int | None = None
    copied: bool = False
    """Only a copy of another run's history: shown, never counted."""


def key(position: Position, fact: Called | Returned) -> str:
    return row_key(position, call_name(position, fact))


def step(state: State, position: Position, fact: Called | Returned) -> State:
    if not state.family:
        state.family, state.run = position.family, position.run
        state.call_id, state.synthetic = text_of(fact.call_id), fact.synthetic_id is True
        state.copied = True
    state.copied = state.copied and fact.copied is True
    state.agent = state.agent or name_text(fact.agent)
    state.step = state.step or name_text(fact.step)
    far = rank(fact)
    if isinstance(fact, Called):
        state.provider_call_id = state.provider_call_id or name_text(fact.provider_call_id)
        state.parent_call_id = state.parent_call_id or name_text(fact.parent_call_id)
        state.tool_server = state.tool_server or name_text(fact.tool_server)
        if far < _called(state):
            state.called, state.tool = far, text_of(fact.tool)
            state.called_seq, state.called_ms = position.seq, when(position)
    else:
        state.tool = state.tool or name_text(fact.tool)
        ok = fact.ok if isinstance(fact.ok, bool) else None
        if end_rank(far, ok) < _end(state):
            state.returned, state.returned_seq = far, position.seq
            state.ok = ok
            state.status, state.error = short(fact.status, 120), short(fact.error, 120)
            state.exit_code = fact.exit_code if _is_small(fact.exit_code) else None
            state.micros = integer(fact.seconds, 1_000_000)
            needed = state.micros is None or state.called_seq is None
            state.returned_ms = when(position) if needed else None
    return state


def _called(state: State) -> int:
    return UNREPORTED if state.called_seq is None else state.called


def _returned(state: State) -> int:
    return UNREPORTED if state.returned_seq is None else state.returned


def _end(state: State) -> tuple[bool, int, int]:
    return end_rank(_returned(state), state.ok)


def _is_small(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**31


def answer(states: Iterable[State]) -> list[dict[str, Any]]:
    """One row per call in the order of the journal: two copies of a call are one row."""
    return sorted(map(_row, joined(states)), key=lambda row: row["seq"])


def joined(states: Iterable[State]) -> list[list[State]]:
    """The copies of each call; the first of them is the original."""
    every = list(states)
    if not any(state.provider_call_id for state in every):  # nothing says that two are one
        return [[state] for state in every]
    ordered = sorted(
        every, key=lambda state: (min(_called(state), _returned(state)), first_seq([state]))
    )
    named = {(each.family, each.run, each.call_id): each for each in ordered if not each.synthetic}
    originals: dict[int, State] = {}
    """The original of a copy; it may be a copy itself."""
    for state in ordered:
        copy = named.get((state.family, state.run, state.provider_call_id or ""))
        if copy is None or id(copy) in originals or _first(originals, state) is copy:
            continue
        originals[id(copy)] = state
    calls: dict[int, list[State]] = {}
    for state in ordered:
        first = _first(originals, state)
        calls.setdefault(id(first), [first])
        if first is not state:
            calls[id(first)].append(state)
    return list(calls.values())


def both_ends(copies: list[State]) -> tuple[State, State]:
    """Of the copies of a call, the one whose begin counts, and the one whose end counts."""
    if len(copies) == 1:
        return copies[0], copies[0]
    return min(copies, key=_called), min(copies, key=_end)


def _first(originals: Mapping[int, State], state: State) -> State:
    while (original := originals.get(id(state))) is not None:
        state = original
    return state


def first_seq(copies: Iterable[State]) -> int:
    """The first record of a call."""
    seqs = (seq for each in copies for seq in (each.called_seq, each.returned_seq))
    return min((seq for seq in seqs if seq is not None), default=2**63)


def _row(copies: list[State]) -> dict[str, Any]:
    call, end = both_ends(copies)
    return {
        "family": call.family,
        "run": call.run,
        "call_id": copies[0].call_id,
        "provider_call_id": copies[0].provider_call_id,
        "parent_call_id": call.parent_call_id,
        "tool": call.tool or end.tool,
        "tool_server": call.tool_server,
        "agent": call.agent or end.agent,
        "step": call.step or end.step,
        "fidelity": _fidelity(min(_called(call), _returned(end))),
        "copies": len(copies),
        "copied": all(each.copied for each in copies),
        "open": end.returned_seq is None,
        "ok": end.ok,
        "status": end.status,
        "error": end.error,
        "exit_code": end.exit_code,
        "seconds": call_seconds(call, end),
        "seq": first_seq(copies),
        "called_seq": call.called_seq,
        "returned_seq": end.returned_seq,
    }


def _fidelity(far: int) -> str | None:
    return FIDELITIES[far] if far < len(FIDELITIES) else None


def call_seconds(call: State, end: State) -> float | None:
    """How long a call took; None where that is not known."""
    if end.micros is not None:
        return end.micros / 1_000_000
    if call.called_ms is None or end.returned_ms is None or end.returned_ms <= call.called_ms:
        return None
    return (end.returned_ms - call.called_ms) / 1000


fold = Fold(
    name="calls",
    about="Which tools were called, by whom, and what came back?",
    State=State,
    facts=(Called, Returned),
    key=key,
    step=step,
)
