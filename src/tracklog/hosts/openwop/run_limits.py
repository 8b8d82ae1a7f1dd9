"""The limits of a run: how long it may take, and with which code it fails beyond them."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from tracklog import Body
from tracklog.hosts.openwop.definitions import Definition
from tracklog.hosts.openwop.settings import Settings

CAPS = {
    "node-executions": ("recursion_limit_exceeded", "node executions"),
    "loop-iterations": ("loop_limit_exceeded", "turns of a loop"),
}
"""The code with which a run fails, and what it has too many of, by the kind of limit."""


def seconds_of(event: Body) -> float:
    """The time of an event, in seconds since 1970."""
    return datetime.fromisoformat(event["timestamp"]).timestamp()


def time_spent(events: Iterable[Body], now: float, *, is_waiting: bool) -> float:
    """Seconds in which a run worked: without the time in which it waited or was paused."""
    spent, since = 0.0, now
    for number, event in enumerate(events):
        if number == 0 or event["type"] in ("node.resumed", "run.resumed"):
            since = seconds_of(event)
        elif event["type"] in ("node.suspended", "run.paused"):
            spent, since = spent + seconds_of(event) - since, seconds_of(event)
    return spent + (0.0 if is_waiting else now - since)


class Limit(NamedTuple):
    """A limit of the duration of a run, and how much of it the run has used."""

    most: int
    """Milliseconds."""
    spent: float
    """Seconds."""

    @property
    def left(self) -> float:
        """Seconds that the run may still take."""
        return self.most / 1000 - self.spent


def _longest(settings: Settings, configurable: Mapping[str, Any]) -> int:
    """Milliseconds that a run may take from its first event on: by its options and the host."""
    most = settings.max_run_duration_ms
    return min(most, int(configurable.get("runTimeoutMs", most)))


def deadline(settings: Settings, started: Body, configurable: Mapping[str, Any]) -> float:
    """The time at which a run has taken too long, also while it waits, in seconds since 1970."""
    return seconds_of(started) + _longest(settings, configurable) / 1000


def nearest_limit(
    settings: Settings,
    definition: Definition,
    configurable: Mapping[str, Any],
    events: Sequence[Body],
    now: float,
    *,
    is_waiting: bool,
) -> Limit:
    """The limit that a run reaches first.

    Those of its options and of the host count from the first event on. That of the workflow counts
    only the time in which the run works.
    """
    limit = Limit(_longest(settings, configurable), now - seconds_of(events[0]))
    timeout = definition.source["settings"].get("timeout")
    if not timeout:
        return limit
    spent = time_spent(events, now, is_waiting=is_waiting)
    return min(limit, Limit(int(timeout), spent), key=lambda each: each.left)
