"""A line, the event read from it, and the findings and problems of both."""

from typing import Any, Literal, NamedTuple

REDACTED = "[redacted:"
"""The start of the mark that replaces removed text; the reason and a bracket follow."""

Body = dict[str, Any]
"""One JSON object, as parsed."""

Level = Literal["error", "warning", "info"]


Envelope = tuple[str, str, str | None, str | None, str | None, str | None, str | None]
"""The fields that every dialect can read from a body: run, kind, at, id, actor, cause, and the
family of the run where it differs from the dialect's own. A bare tuple, because one is made for
every line that comes in.
"""


class Finding(NamedTuple):
    """Something unexpected in an event; the event is stored although it was found."""

    name: str
    """Its code: it does not change between versions."""
    message: str
    level: Level = "warning"


class Event(NamedTuple):
    """A line and what was read from it."""

    dialect: str
    family: str
    """Dialects that share runs share a family; a run is known by (family, run)."""
    run: str
    kind: str
    at: str | None
    """The emitter's clock, as the dialect writes it."""
    id: str | None
    """The identity of this event in its dialect, unique within its run; None where it has none."""
    actor: str | None
    cause: str | None
    """The identity of the event that caused this one."""
    body: Body
    """The body as understood: upcast, and with the tolerances of the dialect applied."""
    line: bytes
    """The bytes as written by the emitter; never changed."""
    odd: tuple[Finding, ...] = ()
    """The findings raised while the line was read."""


class Passed(NamedTuple):
    """A line that passed its check, with the fields that are needed to store it."""

    dialect: str
    family: str
    run: str
    kind: str
    id: str | None
    line: bytes


class Problem(NamedTuple):
    """One reason why a line is refused."""

    pointer: str
    """A JSON pointer; empty when the problem concerns the line as a whole."""
    message: str
    hint: str
    code: str
    """The name of this sort of problem, one of `tracklog.model.problems.CODES`."""


class Refusal(NamedTuple):
    """A line that was not accepted, with every problem, not only the first."""

    problems: tuple[Problem, ...]
    dialect: str | None = None
    kind: str | None = None
    run: str | None = None
