"""The question to a player and its reply, the same for every model."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tracklog import Body, TracklogError
from tracklog.hosts.fishbowl.manifest import Manifest
from tracklog.hosts.fishbowl.memory import Remark

OFFLINE = "offline:"
"""What the endpoint of a player begins with that needs no server."""


class ModelFailed(TracklogError):
    """A model gave no reply that can be used."""


class Reply(NamedTuple):
    """What a model made of a prompt, and what that took."""

    kind: str
    payload: Body
    tokens: int = 0
    cost: float = 0.0
    calls: int = 1
    settled: bool = False
    """Whether it was ruled on before: it is shown as it is."""


@dataclass(slots=True)
class Prompt:
    """Everything that a player gets at its turn."""

    player: Manifest
    kinds: list[str]
    """What it may answer with."""
    seed: str
    goal: str
    scene: str
    recall: list[Remark]
    others: list[str]
    """The names of the rest of the cast."""
    about: Remark | None
    """What it answers; None when it speaks because its time has come."""
    remarks: int
    """How often it acted before."""
    turn: int
    secret: str | None = None
    correction: str | None = None
    """What was wrong with its reply, when it is asked once more."""
    lines: Mapping[str, list[str]] = field(default_factory=dict)
    """Its repertoire, by kind."""
    remarks_by_kind: Mapping[str, int] = field(default_factory=dict)
    """How often it acted before, by kind."""


class Model(Protocol):
    """One model; the rest of the engine knows nothing else of it."""

    offline: bool

    def reply(self, prompt: Prompt) -> Reply | None:
        """What the player says, None when it abstains; raises `ModelFailed`."""

    def close(self) -> None:
        """Close its connections."""
