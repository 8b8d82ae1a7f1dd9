"""What was heard: a line, the event read from it, and what was wrong or surprising about it."""

from typing import Any, Literal, NamedTuple

REDACTED = "[redacted:"
"""Stands where something was taken out of a text; what it was follows, and a bracket."""

Body = dict[str, Any]
"""One JSON object, as parsed."""

Level = Literal["error", "warning", "info"]


Envelope = tuple[str, str, str | None, str | None, str | None, str | None, str | None]
"""What every dialect can say of a body without understanding it:
run, kind, at, id, actor, cause, and the run's family where it is not the dialect's own.
A bare tuple, because one is made for every line at the door."""


class Finding(NamedTuple):
    """Something surprising that was kept."""

    name: str
    message: str
    level: Level = "warning"


class Event(NamedTuple):
    """A line, read."""

    dialect: str
    family: str
    """Dialects that share runs share a family; a run is known by (family, run)."""
    run: str
    kind: str
    at: str | None
    """The emitter's clock, in the dialect's own spelling."""
    id: str | None
    """The dialect's own identity of this event, unique within its run; None where it has none."""
    actor: str | None
    cause: str | None
    """The identity of the event that this one follows from."""
    body: Body
    """As understood: upcast, and with the dialect's named tolerances applied."""
    line: bytes
    """As written by the emitter; never changed."""
    odd: tuple[Finding, ...] = ()
    """What had to be tolerated to read it."""


class Passed(NamedTuple):
    """A line that passed the door: all that is still needed of it to be kept."""

    dialect: str
    family: str
    run: str
    kind: str
    id: str | None
    line: bytes


class Problem(NamedTuple):
    """One fault for which a line is refused."""

    pointer: str
    """A JSON pointer; empty when the line as a whole is at fault."""
    message: str
    hint: str


class Refusal(NamedTuple):
    """A line that was not accepted, and why: every fault, not the first."""

    problems: tuple[Problem, ...]
    dialect: str | None = None
    kind: str | None = None
    run: str | None = None
