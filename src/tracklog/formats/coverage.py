"""Find the fields of a line that no fact covers."""

import copy
from collections.abc import Iterator
from typing import Any

from tracklog.dialects import Dialect
from tracklog.model.event import Event
from tracklog.reading.record import facts_of

DEEP = 4
KNOWN = 20_000


class UncoveredFields:
    """Finds the fields of a line that no fact covers: the facts stay the same when the field
    changes.

    Each place of each kind is tried once and remembered.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.known: dict[tuple[str, str], bool] = {}

    def __call__(self, event: Event) -> Iterator[str]:
        for pointer, keys in _places(event.body, ""):
            known = self.known.get((event.kind, pointer))
            if known is None:
                known = len(self.known) < KNOWN and self._is_uncovered(event, keys)
                if len(self.known) < KNOWN:
                    self.known[event.kind, pointer] = known
            if known:
                yield pointer

    def _is_uncovered(self, event: Event, keys: tuple[str | int, ...]) -> bool:
        if "~".join(map(str, keys)).startswith("~".join(self.dialect.extension)):
            return False
        other = copy.deepcopy(event.body)
        place: Any = other
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = _changed(place[keys[-1]])
        try:
            if self.dialect.read(other) != self.dialect.read(event.body):
                return False
            facts, failed = facts_of(self.dialect, event._replace(body=other))
            return failed is None and facts == facts_of(self.dialect, event)[0]
        except Exception:  # noqa: BLE001  # a reader that stumbles over it has looked at it
            return False


def _changed(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return f"{value}~" if isinstance(value, str) else "~"


def _places(
    value: Any, pointer: str, keys: tuple[str | int, ...] = ()
) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    """Every leaf of a body; all items of one list share one place."""
    if isinstance(value, dict) and value and len(keys) < DEEP:
        for key, each in value.items():
            yield from _places(each, f"{pointer}/{key}", (*keys, key))
    elif isinstance(value, list) and value and len(keys) < DEEP:
        yield from _places(value[0], f"{pointer}/*", (*keys, 0))
    elif keys:
        yield pointer, keys
