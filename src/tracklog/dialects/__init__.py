"""One language of events per file.

To write another: copy the file that is nearest to yours, change what differs, end it with a
`dialect = Dialect(...)`, and put samples under `tests/samples/dialects/<name>/`.
The folder is the registry; nothing else needs to hear of it.
An outside package offers its `Dialect` under the entry point group `tracklog.dialects`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from tracklog.model.event import Body, Envelope, Event, Finding
from tracklog.model.fact import Fact, Linked, Spent


class Shape(BaseModel):
    """The shape of one kind: what is declared is checked, what is not declared rides along."""

    model_config = ConfigDict(
        extra="allow",
        strict=True,
        allow_inf_nan=False,
        defer_build=True,
        use_attribute_docstrings=True,
    )


class ClosedShape(Shape):
    """A shape in which a key that is not declared is a fault."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")


@lru_cache(64)
def on_the_calendar(time: str) -> str:
    """The time as it is, if such a day and such a time of day exist.

    A model that must agree with its schema says with this what `format` says there.
    """
    year, month, day, hour, minute, second = map(int, re.split("[-T:.Z+]", time)[:6])
    date(year % 400 + 400, month, day)  # the calendar repeats, and knows a year 0000
    ahead = re.search("([+-])([0-9]{2}):([0-9]{2})$", time)
    sign, hours, minutes = ahead.groups() if ahead else ("+", "0", "0")
    offset = int(f"{sign}1") * (int(hours) * 60 + int(minutes))
    last = (hour * 60 + minute - offset) % 1440 == 1439  # of the day in UTC: it may have a leap
    if max(hour, int(hours)) > 23 or max(minute, int(minutes)) > 59 or second > 59 + last:
        raise ValueError("there is no such time of day")
    return time


UtcMillis = Annotated[
    str,
    Field(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$",
        json_schema_extra={"format": "date-time"},
        description="UTC, RFC 3339, three fraction digits and Z: 2026-05-05T09:00:00.000Z.",
    ),
    AfterValidator(on_the_calendar),
]
Count = Annotated[int, Field(ge=0, description="A whole number, 0 or more.")]
Seconds = Annotated[float, Field(ge=0, description="Seconds, 0 or more.")]
Share = Annotated[float, Field(ge=0, le=1, description="From 0 to 1, both included.")]


@dataclass(frozen=True, slots=True)
class Policy:
    """What a dialect admits, and what a repeated identity means in it."""

    kinds: Literal["open", "closed"]
    fields: Literal["open", "closed"]
    identity: Literal["none", "refuse", "keep"] = "none"
    """The same identity with another line is refused at the door, or kept with a finding."""
    reused: str = "id-reused"
    """The name of the finding on an identity heard before with another line."""
    elsewhere: str | None = None
    """The name of the finding on an identity heard before in another run, where that is one."""
    ignores: frozenset[str] = frozenset()
    """Keys that do not count when two lines of one identity are compared."""
    redactable: bool = True
    """Whether the door's redact hook may touch its lines."""
    halves: bool = False
    """Whether a text may hold half a surrogate pair, escaped: kept as it is, read as U+FFFD."""


class Source(NamedTuple):
    """What an event was made from, where one source may be read more than once."""

    writer: str
    names: tuple[str, ...]
    """The records of the source: of a run's events that a writer made from one of them,
    those of the newest version count."""
    version: tuple[tuple[int, str], ...] = ()
    """Of the writer's mapping; a newer one is greater."""
    content: str | None = None
    """A mark of what the record held, where another content under one name corrects it."""
    back: str | None = None
    """The record that was taken back, with what followed it."""


@dataclass(slots=True)
class Scene:
    """Where the next sentence of a conversion will stand, and what its speaker remembers."""

    run: str
    at: str
    """UTC, RFC 3339, as fine as the source gave it."""
    seq: int
    """The place of the sentence in what was said so far, from 1."""
    id: str
    """Fresh for each sentence and the same on every conversion of the same records."""
    memory: dict[str, Any] = field(default_factory=dict)
    """The speaker's own; kept from one sentence of a run to the next."""
    timed: bool = True
    """Whether the source told the time; else it is when it was received."""


def _no_tolerance(body: Body) -> tuple[Body, list[Finding]]:
    return body, []


def _nothing_left(_state: Any) -> list[Finding]:
    return []


def _own_name(event: Event) -> tuple[str, ...]:
    return () if event.id is None else (event.id,)


def _shows_nothing(_body: Body) -> bool:
    return False


def _anything(_event: Event, _facts: Iterable[Fact]) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The shape of a dialect."""

    name: str
    about: str
    """One sentence: who speaks it, about what."""
    policy: Policy
    kind_key: str
    """The key of a body that holds its kind."""
    kinds: Mapping[str, type[Shape]]
    """The shape of each kind, by kind."""
    frame: type[Shape]
    """What all kinds have in common: all that is asked of a kind that `kinds` does not list."""
    claim: Callable[[Body], float]
    """How much of this dialect's envelope a body shows, from 0 to 2; see `share`."""
    read: Callable[[Body], Envelope]
    """Never raises: what is missing or of the wrong type is left to the check."""
    facts: Callable[[Event], Iterator[Fact]]
    rules: Callable[[Any, Event], tuple[Any, list[Finding]]]
    """From a run's state (None at first, then its own) and the next event; owns the state."""
    say: Callable[[Fact, Scene], Body | None]
    """The fact in this dialect's words, valid by its own check, or None."""
    family: str = ""
    """Of its runs; its own name unless it shares runs."""
    tolerate: Callable[[Body], tuple[Body, list[Finding]]] = _no_tolerance
    """The named reading tolerances: the body as it is understood, and a finding for each.
    A body that needs none is returned as it is."""
    source: Callable[[Event], Source | None] | None = None
    """What an event was made from, in a dialect that retells what others wrote."""
    rest: Callable[[Any], list[Finding]] = _nothing_left
    """What is still amiss in a run's state when nothing more comes."""
    names: Callable[[Event], tuple[str, ...]] = _own_name
    """What another event's `cause` may call it: its identity, and what else it goes by."""
    extension: tuple[str, ...] = ("converted",)
    """Where in a body a converted line carries the lines that it was made of."""
    carries: Callable[[Event, Iterable[Fact]], bool] = _anything
    """Whether the line of an event in another dialect may be carried whole."""
    contract: str | None = None
    """The file in contracts/schemas/ that is derived from `kinds`; None where none is."""
    documents: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    """Other shapes that this dialect publishes, by file."""
    powers: tuple[str, ...] = ()
    """What its agents may do that a step of a program cannot, where the dialect speaks of that."""
    document_rules: Mapping[str, Callable[[Body], list[Finding]]] = field(default_factory=dict)
    """What is surprising in such a document that has its shape, by file."""
    version_key: str | None = None
    """The key of a body that holds its version, where the dialect has versions."""
    current: int = 1
    """The version that `kinds` describe."""
    upcasts: Mapping[int, Callable[[Body], Body]] = field(default_factory=dict)
    """From version n to n + 1, by n; applied in a chain before the check (`upcast_v1_v2`)."""
    guessed: bool = True
    """Whether a line may be taken for this dialect without being told."""
    excused: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By kind, required keys that a reader can do without: `tolerate` gives a finding for each
    that is absent, and `facts` and `rules` work without it. The published shape still has them."""
    profile_of: str = ""
    """The dialect that this one is a profile of, where lines of both look alike."""
    own_keys: tuple[str, ...] = ()
    """Keys that lines of a profile have and lines of its base have not."""
    shows: Callable[[Body], bool] = _shows_nothing
    """Whether a body has what only this profile has: then it is recognised without being told."""

    def __post_init__(self) -> None:
        if not self.family:
            object.__setattr__(self, "family", self.name)


def share(body: Body, envelope: Iterable[str | tuple[str, ...]], known: bool) -> float:
    """How much of an envelope a body shows, plus 1 when its kind is known to the dialect.

    A tuple in the envelope is one key with several spellings.
    """
    keys = [(key,) if isinstance(key, str) else key for key in envelope]
    found = sum(any(spelling in body for spelling in key) for key in keys)
    return found / len(keys) + (1 if known and found * 2 >= len(keys) else 0)


def text(value: Any) -> str | None:
    """The value if it is a string; a passthrough key of another type says nothing."""
    return value if isinstance(value, str) else None


def number(value: Any) -> float | None:
    """The value if it is a number; a boolean is none."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def extras(body: Body, agent: str | None = None) -> Iterator[Fact]:
    """The few passthrough keys that say something in any dialect with open fields (K33)."""
    usage, cost = body.get("usage"), number(body.get("cost_usd"))
    if isinstance(usage, dict) or cost is not None:
        yield Spent(
            agent=agent,
            model=text(body.get("model")),
            usage=usage if isinstance(usage, dict) else None,
            cost_usd=cost,
        )
    parent = text(body.get("parent_run_id"))
    if parent:
        yield Linked(agent=agent, kind="sub-run", parent=parent)


def millis(at: str) -> str:
    """A UTC time cut or filled to milliseconds."""
    whole, _, fraction = at.removesuffix("Z").partition(".")
    return f"{whole}.{fraction[:3]:0<3}Z"


def slug(name: str, pattern: str, fallback: str) -> str:
    """A foreign name made to fit an id pattern: unchanged if it fits, else what can be kept."""
    kept = re.sub(r"[^a-zA-Z0-9]+", "-", name).strip("-")[:64]
    for candidate in (name, kept, kept.lower()):
        if re.fullmatch(pattern, candidate):
            return candidate
    return fallback
