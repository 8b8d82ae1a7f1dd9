"""Spans that were written before the agent above them was known.

A program sends a span when it has ended: the calls of an agent arrive before the span of the agent.
"""

from typing import Any, NamedTuple

from tracklog.formats.importers.otlp.view import SpanView

BYTES = 4_000_000
"""The limit for all of them; those that wait longest are forgotten first."""


class UnnamedSpan(NamedTuple):
    """A span, as it was written under the name of its service."""

    span: SpanView
    run: str
    place: dict[str, Any]
    told: frozenset[int]
    """The numbers of its facts that were written."""
    size: int


class UnnamedSpans:
    """Spans without an agent, by the nearest span above that did not arrive yet.

    They are in memory only: after a restart they keep the name of their service.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, list[UnnamedSpan]] = {}
        self._bytes = 0

    def add(self, missing: str, found: UnnamedSpan) -> None:
        """Remember a span until the missing one arrives."""
        self._waiting.setdefault(missing, []).append(found)
        self._bytes += found.size
        while self._bytes > BYTES:
            self.pop(next(iter(self._waiting)))

    def pop(self, record: str) -> list[UnnamedSpan]:
        """The spans that waited for this one, in the order in which they came."""
        found = self._waiting.pop(record, [])
        self._bytes -= sum(each.size for each in found)
        return found
