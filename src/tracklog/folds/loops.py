"""Which run calls the same tool with the same arguments again and again?"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from tracklog.folds import Fold, Position, Sums, name_text, row_key, text_of
from tracklog.folds._calls import call_name
from tracklog.model.fact import Called

MOST_NAMES = 1000
"""After this many names of calls, a copy is counted as a call."""


@dataclass(slots=True)
class State:
    """One tool with one set of arguments, in one run."""

    family: str = ""
    run: str = ""
    tool: str = ""
    agents: list[str] = field(default_factory=list)
    times: int = 0
    names: list[str] = field(default_factory=list)
    """The calls that were counted, by each of their ids, so that a copy is not counted."""
    first_seq: int = 0
    """The first call: what its arguments are stands in that record."""
    last_seq: int = 0


def key(position: Position, fact: Called) -> str | None:
    # Arguments that are not known cannot be the same.
    if fact.copied is True or fact.input is None:
        return None
    return row_key(position, digest(fact.input), text_of(fact.tool))


def digest(arguments: Any) -> str:
    """A hash of the arguments, to compare them with others."""
    return sha256(text_of(arguments).encode(errors="replace")).hexdigest()[:24]


def step(state: State, position: Position, fact: Called) -> State:
    if not state.first_seq:
        state.family, state.run, state.first_seq = position.family, position.run, position.seq
        state.tool = text_of(fact.tool)
    names = [call_name(position, fact)]
    if (provider := name_text(fact.provider_call_id)) is not None:
        names.append(f"={provider}")
    known = any(name in state.names for name in names)
    if len(state.names) < MOST_NAMES and fact.synthetic_id is not True:
        state.names += [name for name in names if name not in state.names]
    if not known:
        state.times += 1
        state.last_seq = position.seq
    if (agent := name_text(fact.agent)) is not None and agent not in state.agents:
        state.agents = sorted([*state.agents, agent])
    return state


def sums(key: str, state: State) -> Sums:
    """How often what was called more than once was called: most was called once."""
    return {key: {"times": state.times}} if state.times > 1 else {}


def answer(states: Iterable[State], at_least: int = 3) -> list[dict[str, Any]]:
    """One row per tool and arguments that a run called so many times, the most often first."""
    loops = [state for state in states if state.times >= at_least]
    loops.sort(key=lambda state: (-state.times, -state.last_seq))
    return [
        {
            "family": state.family,
            "run": state.run,
            "tool": state.tool,
            "agents": state.agents,
            "times": state.times,
            "first_seq": state.first_seq,
            "last_seq": state.last_seq,
        }
        for state in loops
    ]


fold = Fold(
    name="loops",
    about="Which run calls the same tool with the same arguments again and again?",
    State=State,
    facts=(Called,),
    key=key,
    step=step,
    sums=sums,
)
