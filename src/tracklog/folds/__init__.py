"""One question per file: a pure function from a state and a fact to a state.

To write another: a file here named after its question, with a `State` (a dataclass of JSON values,
all with defaults), a `step`, and at its end `fold = Fold(...)`.
If the question is answered from many states, its file also has a pure `answer(...)`.
No fold knows a dialect, reads a clock or raises: age and "lost" are computed when asked, from `now`.
The folder is the registry; an outside package offers its `Fold` under `tracklog.folds`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from tracklog.fact import Fact

S = TypeVar("S")


class Told(NamedTuple):
    """Where and when a fact was told."""

    seq: int
    received: str
    """When the journal numbered it: UTC, three fraction digits."""
    family: str
    run: str
    at: str | None
    """The emitter's clock, as it spelled it; None where it has none."""
    kind: str
    id: str | None
    cause: str | None
    dialect: str
    """To be shown, never to be switched on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold(Generic[S]):
    """The shape of a fold."""

    name: str
    about: str
    """The question that it answers."""
    State: type[S]
    """A dataclass of JSON values, all with defaults; `State()` is the state before any fact."""
    facts: tuple[type[Fact], ...]
    """The facts that it listens to."""
    key: Callable[[Told, Any], str | None]
    """The state that a fact belongs to; None when it belongs to none."""
    step: Callable[[S, Told, Any], S]
    """The state after the fact; owns the state. Sums are integers, so that order changes nothing."""


def run_key(told: Told) -> str:
    """The key of a run: a family has no colon in its name, so it can be cut apart again."""
    return f"{told.family}:{told.run}"


def run_of(key: str) -> tuple[str, str]:
    """The family and the run of such a key."""
    family, _, run = key.partition(":")
    return family, run
