"""By which names is a run known elsewhere?"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tracklog.folds import MARK, Fold, Position, Sums, row_key, text_of
from tracklog.model.fact import Linked


@dataclass(slots=True)
class State:
    """One name of one run in another system: a thread, a trace, a session."""

    family: str = ""
    run: str = ""
    system: str = ""
    alias: str = ""
    seq: int = 0


def key(position: Position, fact: Linked) -> str | None:
    if fact.kind != "alias" or fact.copied is True or not fact.alias:
        return None
    return row_key(position, text_of(fact.system), text_of(fact.alias))


def step(state: State, position: Position, fact: Linked) -> State:
    if not state.seq:
        state.family, state.run, state.seq = position.family, position.run, position.seq
        state.system, state.alias = text_of(fact.system), text_of(fact.alias)
    return state


def sums(_key: str, state: State) -> Sums:
    """The runs by each name, and the system in which it is theirs."""
    return {name(state.system, state.alias): {f"{state.family}:{state.run}": 1}}


def name(system: Any, alias: Any) -> str:
    """The key of a name that runs have in a system."""
    return f"{text_of(alias)}{MARK}{text_of(system)}"


def answer(states: Iterable[State]) -> dict[str, list[tuple[str, str]]]:
    """The runs by each name that they have elsewhere."""
    runs: dict[str, set[tuple[str, str]]] = {}
    for state in states:
        runs.setdefault(state.alias, set()).add((state.family, state.run))
    return {alias: sorted(runs[alias]) for alias in sorted(runs)}


fold = Fold(
    name="aliases",
    about="By which names is a run known elsewhere?",
    State=State,
    facts=(Linked,),
    key=key,
    step=step,
    sums=sums,
    shared=True,
)
