"""What is surprising across the events of a run; nothing is refused here."""

import json
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any

import orjson

from tracklog.dialects import Dialect
from tracklog.model.event import Body, Event, Finding


def digest(dialect: Dialect, body: Body) -> bytes:
    """Equal for two bodies that are equal as JSON values, in what counts for this dialect."""
    if dialect.policy.ignores:
        body = {key: value for key, value in body.items() if key not in dialect.policy.ignores}
    try:
        canonical = orjson.dumps(body, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # too deep for it, an integer of 65 bits, or half a surrogate pair
        canonical = b"".join(_flat(body))
    return blake2b(canonical, digest_size=16).digest()


def _flat(value: Any) -> Iterator[bytes]:
    """The parts of a JSON value in one order, however deep it is."""
    left = [value]
    while left:
        match left.pop():
            case dict() as pairs:
                yield b"{%d" % len(pairs)
                left += [part for key in sorted(pairs) for part in (key, pairs[key])]
            case list() as values:
                yield b"[%d" % len(values)
                left += values
            case leaf:
                yield json.dumps(leaf).encode()


class Lint:
    """Holds each run's state and tells what each next event has surprising about it."""

    def __init__(self, dialects: Iterable[Dialect]) -> None:
        self._dialects = {dialect.name: dialect for dialect in dialects}
        self._states: dict[tuple[str, str, str], Any] = {}
        self._heard: dict[tuple[str, str, str], dict[str, bytes]] = {}
        self._others: set[tuple[tuple[str, str, str], str, bytes]] = set()
        """What else was heard under an identity that was known."""
        self._where: dict[tuple[str, str], str] = {}
        """The run in which an identity was heard first, where it should stand in one only."""

    def hear(self, event: Event) -> Iterator[Finding]:
        """The findings of one event, after all that were heard before it."""
        dialect = self._dialects[event.dialect]
        yield from event.odd
        key = (event.dialect, event.family, event.run)
        if event.id is not None and dialect.policy.identity != "none":
            heard = self._heard.setdefault(key, {})
            seen, now = heard.get(event.id), digest(dialect, event.body)
            other = (key, event.id, now)
            if seen == now or other in self._others:
                yield Finding("duplicate", f"{event.id} was heard before, the same", "info")
                return  # told twice, counted once
            if seen is not None:
                message = f"{event.id} was heard before with another line"
                yield Finding(dialect.policy.reused, message, "error")
                self._others.add(other)
            else:
                heard[event.id] = now
                yield from self._elsewhere(dialect, event.id, event.run)
        self._states[key], found = dialect.rules(self._states.get(key), event)
        yield from found

    def _elsewhere(self, dialect: Dialect, id: str, run: str) -> Iterator[Finding]:
        if dialect.policy.elsewhere is None:
            return
        first = self._where.setdefault((dialect.name, id), run)
        if first != run:
            message = f"{id} was heard before in the run {first}"
            yield Finding(dialect.policy.elsewhere, message)

    def rest(self) -> Iterator[tuple[str, str, Finding]]:
        """What is still amiss when nothing more comes: (dialect, run, finding)."""
        for (name, _, run), state in self._states.items():
            for finding in self._dialects[name].rest(state):
                yield name, run, finding
