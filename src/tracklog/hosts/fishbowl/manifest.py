"""The manifest of a player: persona, events that it receives and may emit, model."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from tracklog import FISHBOWL_KIND

ENGINE_ACTORS = frozenset({"conductor", "visitor"})
"""Actors that have no manifest; the scenario is another one."""

STAMPED = frozenset({"text", "accused", "correct", "no_contest", "reveal"})
"""Keys of a payload that are always present, or that only the program writes."""

HANDLERS = ("spy-host", "judged-competition")
VERDICT, REFLECTION, THOUGHT = "judge.verdict", "agent.reflected", "agent.thought"


class StrictManifest(BaseModel):
    """A shape in which unknown keys and values of another type are faults."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


def _kind(kind: str) -> str:
    if re.fullmatch(FISHBOWL_KIND, kind) is None:
        raise ValueError("a kind is lower-case words joined by dots, such as agent.spoke")
    return kind


def _field(name: str) -> str:
    if name in STAMPED or name.startswith("_"):
        raise ValueError(f"{name!r} is written by the program, not by a player")
    return name


def _handler(name: str) -> str:
    if name not in HANDLERS:
        raise ValueError(f"the handlers are {' and '.join(HANDLERS)}")
    return name


Kind = Annotated[str, AfterValidator(_kind)]
Name = Annotated[str, Field(min_length=1)]
Positive = Annotated[int, Field(ge=1)]


class Schedule(StrictManifest):
    """When a player speaks by itself, and how often it may speak in a row."""

    tick_every: Positive | None = None
    max_consecutive: Positive = 3
    """How many times in a row it may act."""


class Recall(StrictManifest):
    """How much a player remembers."""

    window: Positive = 8
    use_salience: bool = False
    salience_top_k: Positive = 8
    reflection_threshold: Annotated[float, Field(gt=0)] | None = None
    """It reflects when the importance of what it received since then adds up to this."""


class Manifest(StrictManifest):
    """One player."""

    name: Name
    role: Literal["worker", "judge", "observer", "reflector"] = "worker"
    persona: str
    handler: Annotated[str, AfterValidator(_handler)] | None = None
    subscribes_to: list[Kind] = []
    may_emit: list[Kind] = []
    schedule: Schedule = Schedule()
    model_profile: Literal["tiny", "fast", "balanced", "strong"] = "fast"
    model_endpoint: Name | None = None
    memory: Recall = Recall()
    tools: list[str] = []
    output_extra_fields: list[Annotated[Name, AfterValidator(_field)]] = []
    hue: Annotated[int, Field(ge=0, le=360)] | None = None
    archetype: str | None = None
    commentary: str | None = None

    @property
    def content_kinds(self) -> list[str]:
        """The kinds of event that it may send in its turn."""
        return [kind for kind in self.may_emit if kind != REFLECTION]
