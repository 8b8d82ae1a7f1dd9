"""Spans that were written before the agent above them was known.

A program sends a span when it has ended: the calls of an agent arrive before the span of the agent.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

BYTES = 1_000_000
"""The limit for the contents of all of them; those that wait longest are forgotten first."""

Fetch = Callable[[str], bytes]
"""The stored item with this hash; raises `NoSuchBlob`, `BlobDamaged` or `OSError`."""


@dataclass(slots=True)
class UnnamedSpan:
    """A span, as it was written under the name of its service."""

    record: str
    run: str
    place: dict[str, Any]
    ids: list[str]
    """The ids of its lines."""
    raw: str
    """The hash of the stored item."""
    content: str | None
    """The item; None where it must be fetched."""

    @property
    def size(self) -> int:
        return len(self.content or "")

    @property
    def state(self) -> dict[str, Any]:
        """All of it as a JSON value."""
        return {name: getattr(self, name) for name in self.__slots__}


class UnnamedSpans:
    """Spans without an agent, by the nearest span above that did not arrive yet."""

    def __init__(self, state: dict[str, list[dict[str, Any]]]) -> None:
        self._waiting = state
        self._bytes = sum(len(each["content"] or "") for row in state.values() for each in row)
        self._remembered: dict[str, UnnamedSpan] = {}

    def add(self, missing: str, found: UnnamedSpan) -> None:
        """Remember a span until the missing one arrives."""
        self._waiting.setdefault(missing, []).append(found.state)
        self._bytes += found.size
        while self._bytes > BYTES:
            self.pop(next(iter(self._waiting)))

    def pop(self, record: str) -> list[UnnamedSpan]:
        """The spans that waited for this one, in the order in which they came."""
        if record not in self._waiting:
            return []
        found = [UnnamedSpan(**each) for each in self._waiting.pop(record)]
        self._bytes -= sum(each.size for each in found)
        return found

    def remember(self, record: str, body: Mapping[str, Any]) -> None:
        """Remember from a line of a span that the span has no agent yet, or that it got one."""
        origin = body["origin"]
        if "speaker" in origin:
            self._remembered.pop(record, None)
        elif "unnamed" in origin and "raw" in origin:
            known = self._remembered.get(record)
            if known is None or known.raw != origin["raw"]:
                place = {key: origin[key] for key in ("path", "offset") if key in origin}
                known = UnnamedSpan(record, body["run"], place, [], origin["raw"], None)
                self._remembered[record] = known
            known.ids.append(body["id"])

    def settle(self, above: Callable[[str], tuple[str | None, str | None]]) -> None:
        """Let the spans wait that were read from lines; `above` gives the span that is missing."""
        for found in self._remembered.values():
            if (missing := above(found.record)[1]) is not None:
                self.add(missing, found)
        self._remembered = {}
