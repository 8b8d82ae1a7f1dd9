"""The question to a player and its reply, the same for every model."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tracklog import Body
from tracklog.hosts.fishbowl.manifest import Manifest
from tracklog.hosts.fishbowl.memory import Remark

OFFLINE = "offline:"
"""The prefix of endpoints that need no server."""


class PlayerReply(NamedTuple):
    """The reply of a model, with its tokens, cost and number of calls."""

    kind: str
    payload: Body
    tokens: int = 0
    cost: float = 0.0
    calls: int = 1
    settled: bool = False
    """Whether it was checked before, as a recorded reply was; it is then used unchanged."""


@dataclass(slots=True)
class Prompt:
    """Everything that a player gets at its turn."""

    player: Manifest
    kinds: list[str]
    """The kinds of event that it may answer with."""
    seed: str
    goal: str
    scene: str
    recall: list[Remark]
    others: list[str]
    """The names of the rest of the cast."""
    about: Remark | None
    """The remark that it answers; None if it speaks by its schedule."""
    remarks: int
    """How often it acted before."""
    turn: int
    secret: str | None = None
    correction: str | None = None
    """What was wrong with its first reply, if it is asked once more."""
    lines: Mapping[str, list[str]] = field(default_factory=dict)
    """Its repertoire, by kind."""
    remarks_by_kind: Mapping[str, int] = field(default_factory=dict)
    """How often it acted before, by kind."""


class PlayerModel(Protocol):
    """One model, as the rest of the host uses it."""

    offline: bool

    def reply(self, prompt: Prompt) -> PlayerReply | None:
        """The reply of the player, None if it says nothing; raises `ModelFailed`."""

    def close(self) -> None:
        """Close its connections."""
