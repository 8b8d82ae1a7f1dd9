"""Notes on a run beside its own events, such as the request to end it; its host reads them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tracklog import Noted

if TYPE_CHECKING:
    from tracklog import Log, Run

WRITER = "host"
OPERATIONS: "Run" = ("tracklog", "operations")
"""The run for what is done to the host itself, and belongs to no run of it."""


def note(journal: "Log", run: "Run", label: str, data: Mapping[str, Any]) -> bytes:
    """A note as a line, to be appended in a batch with other lines."""
    return journal.fact_line(run, Noted(label=label, data=dict(data)), writer=WRITER)


def put(journal: "Log", run: "Run", label: str, data: Mapping[str, Any]) -> int:
    """Append a note; returns the number of its record."""
    return journal.append_fact(run, Noted(label=label, data=dict(data)), writer=WRITER)
