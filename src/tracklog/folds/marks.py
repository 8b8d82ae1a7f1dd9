"""What did people note about runs and records: tags, scores, notes, what they have seen?"""

from dataclasses import dataclass

from tracklog.folds import Fold, Position, name_text, number, row_key
from tracklog.model.fact import Marked


@dataclass(slots=True)
class State:
    """One mark. A later line can withdraw it; the two may come in any order."""

    family: str = ""
    run: str = ""
    mark: str = ""
    """The id of its line."""
    seq: int = 0
    """Its record; 0 as long as only its withdrawal was recorded."""
    at: str = ""
    record: int | None = None
    """The record that was marked; null for the run itself."""
    tag: str | None = None
    score: float | None = None
    note: str | None = None
    seen: bool | None = None
    by: str | None = None
    claimed_by: str | None = None
    withdrawn_seq: int | None = None
    """The record that withdrew it first."""
    withdrawn_by: str | None = None
    withdrawn_at: str | None = None


def key(position: Position, fact: Marked) -> str | None:
    name = fact.withdraws if fact.withdraws is not None else position.id
    return None if fact.copied is True or name is None else row_key(position, name)


def step(state: State, position: Position, fact: Marked) -> State:
    at = position.at or position.received
    state.family, state.run = position.family, position.run
    if fact.withdraws is not None:
        state.mark = fact.withdraws
        if state.withdrawn_seq is None:
            state.withdrawn_seq, state.withdrawn_at = position.seq, at
            state.withdrawn_by = name_text(fact.by)
        return state
    state.mark, state.seq, state.at = position.id or "", position.seq, at
    state.record, state.score = fact.record, number(fact.score)
    state.tag, state.note = name_text(fact.tag), name_text(fact.note)
    state.seen = fact.seen if isinstance(fact.seen, bool) else None
    state.by, state.claimed_by = name_text(fact.by), name_text(fact.claimed_by)
    return state


def holds(state: State, at: int | None = None) -> bool:
    """Whether a mark was made and not withdrawn, now or at a record."""
    if not state.seq or (at is not None and state.seq > at):
        return False
    return state.withdrawn_seq is None or (at is not None and state.withdrawn_seq > at)


fold = Fold(
    name="marks",
    about="What did people note about runs and records: tags, scores, notes, what they have seen?",
    State=State,
    facts=(Marked,),
    key=key,
    step=step,
    listed=True,
)
