"""One event language (dialect) per file or folder.

To add one: copy the dialect nearest to yours, change what differs, end it with `dialect =
Dialect(...)`, and put samples under `tests/samples/dialects/<name>/`. The folder is the registry;
nothing else has to change. An outside package offers its `Dialect` under the entry point group
`tracklog.dialects`.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema

from tracklog.model.event import Body, Envelope, Event, Finding
from tracklog.model.fact import Fact, Linked, Noted, Returned, Said, Spent
from tracklog.model.field_docs import field_docs


class Shape(BaseModel):
    """The shape of one kind: declared keys are checked, other keys are allowed."""

    model_config = ConfigDict(
        extra="allow",
        strict=True,
        allow_inf_nan=False,
        defer_build=True,
    )

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Describe the fields by their docstrings; at import, as pydantic can, it takes long.

        The description of a field's type follows: "Lines with the same key are one spend. Not empty."
        """
        for name, text in field_docs(cls, Shape).items():
            field = cls.__pydantic_fields__.get(name)
            if field is not None and text not in (field.description or ""):
                field.description = f"{text} {field.description or ''}".strip()
        return handler(source)


class ClosedShape(Shape):
    """A shape in which an undeclared key is an error."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")


@lru_cache(64)
def on_the_calendar(time: str) -> str:
    """The time unchanged, if that day and time exist.

    A model that must agree with its schema uses this for what `format` checks there.
    """
    year, month, day, hour, minute, second = map(int, re.split("[-T:.Z+]", time)[:6])
    date(year % 400 + 400, month, day)  # the calendar repeats every 400 years, and has a year 0000
    ahead = re.search("([+-])([0-9]{2}):([0-9]{2})$", time)
    sign, hours, minutes = ahead.groups() if ahead else ("+", "0", "0")
    offset = int(f"{sign}1") * (int(hours) * 60 + int(minutes))
    # of the day in UTC: 23:59:60 may be a leap second
    last = (hour * 60 + minute - offset) % 1440 == 1439
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
    """Which lines a dialect accepts, and how it treats a repeated identity."""

    kinds: Literal["open", "closed"]
    fields: Literal["open", "closed"]
    identity: Literal["none", "refuse", "keep"] = "none"
    """A known identity with another line is refused at intake, or stored with a finding."""
    reused: str = "id-reused"
    """The name of the finding when an identity comes again with another line."""
    elsewhere: str | None = None
    """The name of the finding when an identity comes again in another run; None for no finding."""
    ignores: frozenset[str] = frozenset()
    """Keys that are ignored when two lines with the same identity are compared."""
    redactable: bool = True
    """Whether the redact hook of the intake may change its lines."""
    halves: bool = False
    """Whether a text may hold half a surrogate pair, escaped: stored unchanged, read as U+FFFD."""


class SourceRecord(NamedTuple):
    """The source record of an event, in dialects whose sources may be read more than once."""

    writer: str
    names: tuple[str, ...]
    """The records of the source. Of the events of a run that one writer made from the same record,
    those of the newest version count.
    """
    version: tuple[tuple[int, str], ...] = ()
    """The version of the writer's mapping; a newer one is greater."""
    content: str | None = None
    """A mark of the record's content, where other content under the same name is a correction."""
    back: str | None = None
    """The record that was withdrawn, with everything that followed it."""


@dataclass(slots=True)
class Scene:
    """The place of the next line of a conversion, and the state of its writer."""

    run: str
    at: str
    """UTC, RFC 3339, as precise as the source."""
    seq: int
    """The number of the line in the output so far, from 1."""
    id: str
    """Unique for each line, and the same on every conversion of the same records."""
    memory: dict[str, Any] = field(default_factory=dict)
    """The state of the writer, from one line of a run to the next."""
    timed: bool = True
    """Whether the source has a time; if not, `at` is the time of receipt."""


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
    """A dialect: its shapes, and the functions that read and write it."""

    name: str
    about: str
    """One sentence: which programs write it, and about what."""
    policy: Policy
    kind_key: str
    """The key of a body that holds its kind."""
    kinds: Mapping[str, type[Shape]]
    """The shape of each kind, by kind."""
    frame: type[Shape]
    """The keys that all kinds share: the only check for a kind that `kinds` does not list."""
    claim: Callable[[Body], float]
    """How much of this dialect's envelope a body shows, from 0 to 2; see `share`."""
    read: Callable[[Body], Envelope]
    """Reads the envelope. Never raises: missing keys and wrong types are left to the check."""
    facts: Callable[[Event], Iterator[Fact]]
    """What an event means, as facts; they are the same in all dialects."""
    rules: Callable[[Any, Event], tuple[Any, list[Finding]]]
    """From the state of a run (None at first) and the next event, the new state and the findings.
    """
    write: Callable[[Fact, Scene], Body | None]
    """Writes a fact: as a line of this dialect that passes its own check, or None."""
    family: str = ""
    """The family of its runs; its own name unless it shares runs with other dialects."""
    tolerate: Callable[[Body], tuple[Body, list[Finding]]] = _no_tolerance
    """The deviations that are tolerated: the body as it is understood, and a finding for each. A
    body that needs none is returned unchanged.
    """
    source: Callable[[Event], SourceRecord | None] | None = None
    """The source record of an event, in a dialect that holds imported events."""
    rest: Callable[[Any], list[Finding]] = _nothing_left
    """The findings that remain in the state of a run at the end of the log."""
    names: Callable[[Event], tuple[str, ...]] = _own_name
    """The names that the `cause` of another event may use for it: its identity and its aliases."""
    extension: tuple[str, ...] = ("converted",)
    """The key path under which a converted line carries the lines it was made from."""
    carries: Callable[[Event, Iterable[Fact]], bool] = _anything
    """Whether a converted line may carry the complete line of this event."""
    contract: str | None = None
    """The file in contracts/schemas/ that is derived from `kinds`; None where none is."""
    documents: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    """Other shapes that this dialect publishes, by file."""
    powers: tuple[str, ...] = ()
    """Actions that its agents may take and a step of a program may not, where the dialect has such.
    """
    document_rules: Mapping[str, Callable[[Body], list[Finding]]] = field(default_factory=dict)
    """The rules of such a document that its shape cannot express, by file."""
    version_key: str | None = None
    """The key of a body that holds its version, where the dialect has versions."""
    current: int = 1
    """The version that `kinds` describe."""
    upcasts: Mapping[int, Callable[[Body], Body]] = field(default_factory=dict)
    """From version n to n + 1, by n; applied in a chain before the check (`upcast_v1_v2`)."""
    guessed: bool = True
    """Whether a line may be recognised as this dialect when the sender does not name it."""
    excused: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By kind, required keys that a reader can do without: `tolerate` gives a finding for each
    absent one, and `facts` and `rules` work without it. The published shape still requires them.
    """
    profile_of: str = ""
    """The dialect that this one is a profile of, where lines of both look alike."""
    own_keys: tuple[str, ...] = ()
    """Keys that lines of a profile have and lines of its base do not have."""
    shows: Callable[[Body], bool] = _shows_nothing
    """Whether a body has something that only this profile has: then it is recognised automatically.
    """

    def __post_init__(self) -> None:
        if not self.family:
            object.__setattr__(self, "family", self.name)

    @property
    def modules(self) -> set[str]:
        """The modules of the functions that read a line: when one changes, so may what they read."""
        return {each.__module__ for each in (self.read, self.facts, self.rules)}


def share(body: Body, envelope: Collection[str | tuple[str, ...]], known: bool) -> float:
    """How much of an envelope a body shows, plus 1 when the dialect knows its kind.

    A tuple in the envelope is one key with several spellings.
    """
    present = 0
    for key in envelope:
        if key in body or (isinstance(key, tuple) and not body.keys().isdisjoint(key)):
            present += 1
    return present / len(envelope) + (1 if known and present * 2 >= len(envelope) else 0)


def claim_by_kind(
    key: str, kinds: Collection[str], envelope: Collection[str]
) -> Callable[[Body], float]:
    """The claim of a dialect whose kinds are its own: one is enough, whatever else is missing."""

    def claim(body: Body) -> float:
        known = text(body.get(key)) in kinds
        return max(share(body, envelope, known), float(known))

    return claim


def text(value: Any) -> str | None:
    """The value if it is a string, else None: an extra key may have any type."""
    return value if isinstance(value, str) else None


def number(value: Any) -> float | None:
    """The value if it is a number; a boolean is not one."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def extras(body: Body, agent: str | None = None) -> Iterator[Fact]:
    """The few extra keys that have a meaning in every dialect with open fields (K33)."""
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


def without_outputs(family: str) -> Callable[[Event, Iterable[Fact]], bool]:
    """A `carries` that leaves out every line with the output of a tool (KAHN-52).

    Lines of this family are carried: they hold only a summary of an output, or its end.
    """

    def carries(event: Event, facts: Iterable[Fact]) -> bool:
        if event.family == family:
            return True
        blocks = (block for fact in facts if isinstance(fact, Said) for block in fact.blocks)
        return not any(isinstance(fact, Returned | Noted) for fact in facts) and not any(
            block.get("type") not in ("text", "thinking") for block in blocks
        )

    return carries


def millis(at: str) -> str:
    """A UTC time cut or padded to milliseconds."""
    seconds, _, fraction = at.removesuffix("Z").partition(".")
    return f"{seconds}.{fraction[:3]:0<3}Z"


def slug(name: str, pattern: str, fallback: str) -> str:
    """A foreign name made to fit an id pattern: unchanged if it fits, else without what does not
    fit.
    """
    fitting = re.sub(r"[^a-zA-Z0-9]+", "-", name).strip("-")[:64]
    for candidate in (name, fitting, fitting.lower()):
        if re.fullmatch(pattern, candidate):
            return candidate
    return fallback
