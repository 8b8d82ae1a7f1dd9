"""A span that is not written yet, and the ids of spans."""

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from tracklog.formats.exporters import ExportRecord, span_of

INTERNAL, CLIENT = 1, 3
OK, ERROR = 1, 2
Values = dict[str, Any]
Facts = list[dict[str, Any]]


@dataclass(slots=True)
class ExportSpan:
    """A span that is not written yet."""

    id: str
    name: str
    kind: int
    parent: str | None
    trace: str
    first: ExportRecord
    last: ExportRecord
    values: Values = field(default_factory=dict)
    facts: Facts = field(default_factory=list)
    """The facts it was made from, for the importer."""
    events: list[tuple[int, str, Values]] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    code: int = 0
    message: str | None = None


def trace_id(family: str, root: str) -> str:
    """The trace of a run: that of the run at the top of its tree."""
    return _id(16, family, root)


def span_id(family: str, run: str, role: str, key: str = "") -> str:
    """The span of a run, a step, a model's turn or a tool call."""
    return _id(8, family, run, role, key)


def _id(size: int, *parts: str) -> str:
    digest = sha256("\n".join(parts).encode("utf-8", "surrogatepass")).digest()[:size]
    # All zero is invalid in OpenTelemetry.
    return (digest if any(digest) else digest[:-1] + b"\1").hex()


def parent_of(entry: ExportRecord) -> str | None:
    """The span that the cause of a record names."""
    cause = entry.event.cause if entry.event else None
    span = span_of((cause,)) if cause else None
    return span[1] if span else None
