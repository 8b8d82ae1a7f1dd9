"""The messages of a run, one by one."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from tracklog.folds import Fold, Position, name_text, row_key, short, text_in, text_of, when
from tracklog.model.fact import Said

MOST_PARTS = 200
PART = ("seq", "role", "characters", "mark")


@dataclass(slots=True)
class State:
    """One message; its words stand in its records."""

    family: str = ""
    run: str = ""
    message_id: str | None = None
    agent: str | None = None
    to: str | None = None
    step: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    injected: bool = False
    copied: bool = False
    withdrawn: bool = False
    """It was withdrawn: shown, and not counted."""
    seq: int = 0
    at_ms: int = 0
    parts: list[list[Any]] = field(default_factory=list)
    """What it says, in order: the record, the role, how many characters, and what tells the words
    from others. The words themselves stand in the journal."""


def key(position: Position, fact: Said) -> str:
    id = name_text(fact.message_id)
    return row_key(position, f"#{position.seq}" if id is None else f"={id}")


def apply_message(state: State, position: Position, fact: Said) -> State:
    """The message reducer: a message that is known already changes nothing; the first one wins.

    Two `Said` facts of one record are parts of one message. So are several records with the id of
    one message, if they were imported from a file that has each message in pieces. A withdrawn
    piece is a part only of a message that was withdrawn completely.
    """
    if not state.parts:
        state.family, state.run, state.message_id = (
            position.family,
            position.run,
            name_text(fact.message_id),
        )
        state.agent, state.to, state.step = (
            name_text(fact.agent),
            name_text(fact.to),
            name_text(fact.step),
        )
        state.model, state.stop_reason = name_text(fact.model), short(fact.stop_reason)
        state.injected, state.copied = fact.injected is True, fact.copied is True
        state.withdrawn = position.withdrawn
        state.seq, state.at_ms = position.seq, when(position)
    elif position.seq != state.seq and fact.fidelity != "reconstructed":
        return state
    elif state.withdrawn and not position.withdrawn:
        state.withdrawn, state.parts = False, []  # it came again, or came longer
    elif position.withdrawn and not state.withdrawn:
        return state  # a part of it was withdrawn, the rest counts
    words = text_in(fact.blocks)
    part = [position.seq, text_of(fact.role), len(words), mark_of(words)]
    if len(state.parts) < MOST_PARTS and all(part[1:] != each[1:] for each in state.parts):
        state.parts.append(part)
    return state


def mark_of(words: str) -> str:
    """A hash of a text, to compare it with others."""
    return blake2b(words.encode(errors="replace"), digest_size=6).hexdigest()


def answer(states: Iterable[State]) -> list[dict[str, Any]]:
    """One row per message, in the order of their first records; without the text."""
    return [
        {
            "family": state.family,
            "run": state.run,
            "message_id": state.message_id,
            "agent": state.agent,
            "to": state.to,
            "step": state.step,
            "model": state.model,
            "stop_reason": state.stop_reason,
            "injected": state.injected,
            "copied": state.copied,
            "withdrawn": state.withdrawn,
            "seq": state.seq,
            "at_ms": state.at_ms,
            "parts": [dict(zip(PART, part, strict=True)) for part in state.parts],
        }
        for state in sorted(states, key=lambda state: state.seq)
    ]


fold = Fold(
    name="conversation",
    about="What was said, message by message?",
    State=State,
    facts=(Said,),
    key=key,
    step=apply_message,
)
