"""Who waits for a person, since when, with which question?"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tracklog.folds import Fold, Position, epoch_ms, name_text, row_key, short, text_of, when
from tracklog.journal.frame import stamp
from tracklog.model.fact import Answered, Asked

HOOKS = "hooks"
"""The writer of lines that an agent's hooks reported: an answer given here would not reach it."""


@dataclass(slots=True)
class State:
    family: str = ""
    run: str = ""
    question_id: str = ""
    agent: str | None = None
    step: str | None = None
    what: str | None = None
    text: str | None = None
    options: list[str] = field(default_factory=list)
    call_id: str | None = None
    expires: str | None = None
    elsewhere: bool = False
    """It is asked in the agent's own terminal, and can be answered only there."""
    times_asked: int = 0
    """An agent may ask again under the same id, and then waits again."""
    asked_seq: int | None = None
    asked_ms: int | None = None
    answers: int = 0
    """How often the last question was answered: by a person, and perhaps once more by the agent."""
    by: list[str] = field(default_factory=list)
    answer: str | None = None
    answered_seq: int | None = None
    answered_ms: int | None = None


def key(position: Position, fact: Asked | Answered) -> str | None:
    return None if fact.copied is True else row_key(position, text_of(fact.question_id))


def step(state: State, position: Position, fact: Asked | Answered) -> State:
    state.family, state.run, state.question_id = (
        position.family,
        position.run,
        text_of(fact.question_id),
    )
    state.agent = name_text(fact.agent) if fact.agent is not None else state.agent
    state.step = name_text(fact.step) if fact.step is not None else state.step
    if isinstance(fact, Asked):
        if state.answers or not state.times_asked:
            state.times_asked += 1
            state.asked_seq, state.asked_ms = position.seq, when(position)
            state.answers, state.by = 0, []
            state.answer = state.answered_seq = state.answered_ms = None
        state.what, state.text = name_text(fact.what) or state.what, short(fact.text, 2000)
        state.call_id, state.expires = name_text(fact.call_id), name_text(fact.expires)
        state.elsewhere = position.writer == HOOKS
        options = fact.options if isinstance(fact.options, tuple | list) else ()
        state.options = [short(option) or "" for option in options[:50]]
    else:
        state.answers += 1
        if (by := name_text(fact.by)) is not None and by not in state.by:
            state.by.append(by)
        if state.answers == 1:
            state.answer = short(fact.answer, 2000)
            state.answered_seq, state.answered_ms = position.seq, when(position)
    return state


def answer(
    states: Iterable[State], now: str, ended: Collection[tuple[str, str]] = ()
) -> list[dict[str, Any]]:
    """One row per question: the open ones first, who waits longest before the rest.

    Nobody waits in a run that has `ended`. An agent that says only that it was answered,
    and not what, closes its own open questions.
    """
    every = {(state.family, state.run, state.question_id): state for state in states}
    rows = [
        _row(state, now, _closing(state, every), ended=(state.family, state.run) in ended)
        for state in every.values()
    ]
    order = {"open": 0, "expired": 1, "abandoned": 2, "answered": 3, "unasked": 4}
    return sorted(
        rows, key=lambda row: (order[row["state"]], row["asked_seq"] or row["answered_seq"] or 0)
    )


def _row(state: State, now: str, closing: State | None, *, ended: bool) -> dict[str, Any]:
    answered = state.answered_ms if closing is None else closing.answered_ms
    until = epoch_ms(now) if answered is None else answered
    expires = epoch_ms(state.expires)
    if not state.times_asked:
        stands = "unasked"
    elif answered is not None:
        stands = "answered"
    elif ended:
        stands = "abandoned"
    elif expires is not None and until is not None and expires < until:
        stands = "expired"
    else:
        stands = "open"
    return {
        "family": state.family,
        "run": state.run,
        "question_id": state.question_id,
        "agent": state.agent,
        "step": state.step,
        "what": state.what,
        "text": state.text,
        "options": state.options,
        "call_id": state.call_id,
        "answerable": not state.elsewhere,
        "state": stands,
        "waiting_seconds": None
        if state.asked_ms is None or until is None
        else max(0, until - state.asked_ms) / 1000,
        "times_asked": state.times_asked,
        "asked_seq": state.asked_seq,
        "asked_at": _stamp(state.asked_ms),
        "lapses_at": _stamp(expires),
        "answer": state.answer,
        "answered_by": state.by,
        "answered_seq": state.answered_seq if closing is None else closing.answered_seq,
        "answered_at": _stamp(answered),
        "answered_twice": len(state.by) > 1,
    }


def _stamp(at_ms: int | None) -> str | None:
    return None if at_ms is None else stamp(at_ms / 1000)


def _closing(state: State, every: Mapping[tuple[str, str, str], State]) -> State | None:
    """The bare answer of the same agent that came after an open question."""
    if state.answers or not state.times_asked or state.agent is None:
        return None
    other = every.get((state.family, state.run, state.agent))
    if other is None or other.times_asked or (other.answered_seq or 0) < (state.asked_seq or 0):
        return None
    return other


fold = Fold(
    name="inbox",
    about="Who waits for a person, since when, with which question?",
    State=State,
    facts=(Asked, Answered),
    key=key,
    step=step,
)
