"""When was the context of a run compacted?"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tracklog.folds import Fold, Position, integer, name_text, run_key, when
from tracklog.model.fact import Noted

LABEL = "compaction"
"""The label of the notes that are about one, whatever the source calls it."""
MOST_NOTES = 10_000


class CompactionNote(NamedTuple):
    """What one record says of a compaction; a source may write one at its begin and one at its end."""

    seq: int
    at_ms: int
    agent: str | None
    before: int | None
    """Tokens of the context before it."""
    after: int | None


@dataclass(slots=True)
class State:
    family: str = ""
    run: str = ""
    notes: list[list[Any]] = field(default_factory=list)
    """The first ones, each a `CompactionNote`."""


def key(position: Position, fact: Noted) -> str | None:
    if fact.label != LABEL or fact.copied is True or position.withdrawn:
        return None
    return run_key(position)


def step(state: State, position: Position, fact: Noted) -> State:
    state.family, state.run = position.family, position.run
    data = fact.data if isinstance(fact.data, dict) else {}
    if len(state.notes) < MOST_NOTES:
        sizes = (integer(data.get(name)) for name in ("before", "after"))
        state.notes.append([position.seq, when(position), name_text(fact.agent), *sizes])
    return state


def notes(state: State) -> list[CompactionNote]:
    """The notes of a run, in the order of its records."""
    return [CompactionNote(*each) for each in state.notes]


fold = Fold(
    name="compactions",
    about="When was the context of a run compacted?",
    State=State,
    facts=(Noted,),
    key=key,
    step=step,
)
