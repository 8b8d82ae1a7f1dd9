"""Run the rules of the dialects across the events of a run; nothing is refused here."""

import json
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any

import orjson

from tracklog.dialects import Dialect
from tracklog.model.event import Body, Event, Finding


def digest(dialect: Dialect, body: Body) -> bytes:
    """A digest that is equal for two bodies that are equal as JSON values, without ignored keys."""
    if dialect.policy.ignores:
        body = {key: value for key, value in body.items() if key not in dialect.policy.ignores}
    try:
        canonical = orjson.dumps(body, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # too deep for orjson, an integer of 65 bits, or half a surrogate pair
        canonical = b"".join(_flat(body))
    return blake2b(canonical, digest_size=16).digest()


def _flat(value: Any) -> Iterator[bytes]:
    """The parts of a JSON value in a fixed order, however deep it is."""
    stack = [value]
    while stack:
        match stack.pop():
            case dict() as pairs:
                yield b"{%d" % len(pairs)
                stack += [part for key in sorted(pairs) for part in (key, pairs[key])]
            case list() as values:
                yield b"[%d" % len(values)
                stack += values
            case leaf:
                yield json.dumps(leaf).encode()


class Lint:
    """Keeps the state of each run and returns the findings of each next event."""

    def __init__(self, dialects: Iterable[Dialect]) -> None:
        self._dialects = {dialect.name: dialect for dialect in dialects}
        self._states: dict[tuple[str, str, str], Any] = {}
        self._digests: dict[tuple[str, str, str], dict[str, bytes]] = {}
        self._others: set[tuple[tuple[str, str, str], str, bytes]] = set()
        """Other contents that came under a known identity."""
        self._where: dict[tuple[str, str], str] = {}
        """The first run of an identity, in dialects where an identity belongs to one run."""

    def add(self, event: Event) -> Iterator[Finding]:
        """The findings of one event, given all events before it."""
        dialect = self._dialects[event.dialect]
        yield from event.odd
        key = (event.dialect, event.family, event.run)
        if event.id is not None and dialect.policy.identity != "none":
            digests = self._digests.setdefault(key, {})
            known, now = digests.get(event.id), digest(dialect, event.body)
            other = (key, event.id, now)
            if known == now or other in self._others:
                yield Finding("duplicate", f"{event.id} is a duplicate of an earlier line", "info")
                return  # a duplicate is counted once
            if known is not None:
                message = f"{event.id} was used before by another line"
                yield Finding(dialect.policy.reused, message, "error")
                self._others.add(other)
            else:
                digests[event.id] = now
                yield from self._elsewhere(dialect, event.id, event.run)
        self._states[key], findings = dialect.rules(self._states.get(key), event)
        yield from findings

    def _elsewhere(self, dialect: Dialect, id: str, run: str) -> Iterator[Finding]:
        if dialect.policy.elsewhere is None:
            return
        first = self._where.setdefault((dialect.name, id), run)
        if first != run:
            message = f"{id} was used before in the run {first}"
            yield Finding(dialect.policy.elsewhere, message)

    def rest(self) -> Iterator[tuple[str, str, Finding]]:
        """The findings that remain at the end of the log: (dialect, run, finding)."""
        for (name, _, run), state in self._states.items():
            for finding in self._dialects[name].rest(state):
                yield name, run, finding
