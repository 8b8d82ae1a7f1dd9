"""The envelope of an event, and the kinds that every run may have."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from tracklog.dialects import ClosedShape, on_the_calendar
from tracklog.model.fact import Role

CORE_EVENT_KINDS = frozenset(
    {
        "run.started",
        "run.finished",
        "world.observed",
        "agent.thought",
        "agent.spoke",
        "agent.reflected",
        "judge.verdict",
        "user.injected",
    }
)
"""The kinds with a rendering and an importance of their own; other kinds are accepted too."""

IMPORTANCE = {
    "user.injected": 0.95,
    "judge.verdict": 0.9,
    "agent.reflected": 0.85,
    "world.observed": 0.7,
    "agent.spoke": 0.5,
    "run.finished": 0.5,
    "agent.thought": 0.4,
    "run.started": 0.3,
}
"""The importance of an event for an agent's memory, from 0 to 1, by kind."""

USUAL_IMPORTANCE = 0.5

KIND = r"^[a-z][a-z0-9]*(\.[a-z][a-z0-9]*)+$"
CREATED_AT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|\+00:00)$"


def importance(kind: str) -> float:
    """The importance of a kind; all kinds outside the core have the same."""
    return IMPORTANCE.get(kind, USUAL_IMPORTANCE)


def _integer(value: Any) -> Any:
    """An integer as JSON Schema defines it: 1.0 is one, true is not."""
    if isinstance(value, bool):
        raise ValueError("a boolean is no number")  # noqa: TRY004 - what pydantic listens for
    return int(value) if isinstance(value, float) and value.is_integer() else value


Name = Annotated[str, Field(min_length=1)]


class FishbowlEnvelope(ClosedShape):
    """The envelope, the same for every kind; it has exactly eight fields."""

    id: Name
    """Unique and not empty; the same id twice is one event."""
    run_id: Name
    """Groups events into one run; not empty."""
    turn: Annotated[int, Field(ge=0), BeforeValidator(_integer)]
    """The logical turn, 0 or more: sim time, not the wall clock."""
    kind: Annotated[str, Field(pattern=KIND)]
    """Lower-case words joined by dots, at least two: agent.spoke, clue.found."""
    actor: Name
    """The emitter: an agent, the scenario, the visitor or the system; not empty."""
    payload: dict[str, Any]
    """A JSON object; what is in it depends on the kind and is never refused."""
    created_at: Annotated[
        str,
        Field(pattern=CREATED_AT, json_schema_extra={"format": "date-time"}),
        AfterValidator(on_the_calendar),
    ]
    """UTC, RFC 3339 with Z or +00:00: 2026-05-05T09:00:00Z."""
    schema_version: Annotated[Literal[1], BeforeValidator(_integer)]
    """Always 1 today."""


ROLES: dict[str, Role] = {
    "world.observed": "world",
    "agent.thought": "thought",
    "agent.spoke": "assistant",
    "agent.reflected": "belief",
    "judge.verdict": "assistant",
    "user.injected": "user",
}
"""The core kinds that carry `text`, and the role of the text."""
