"""Records that were read from the end of a source that goes on: some of them do not come again.

At the end of a file everything is written that waited for more, and of a torn document everything
that can be read. When the file has grown, most of it is written again under the same ids. What is
not, was a guess: a copy whose original came later, a sum whose parts came later. It is replaced.
"""

from collections.abc import Container, Iterable
from hashlib import sha256
from itertools import starmap
from typing import Any, NamedTuple

import orjson

from tracklog.model.event import Body

MOST = 1 << 14
"""How many records are remembered."""


class Guess(NamedTuple):
    """A record that may not come again."""

    run: str
    key: str | None
    """Its key, where the last content counts."""
    raw: str
    """The hash of its content."""
    ids: list[str]
    """The ids of its lines."""

    def replacement(self, mapping: str) -> Body:
        """What the origin of a line has that replaces it."""
        if self.key is not None:
            raw = sha256(f"{self.raw} replaced".encode()).hexdigest()
            return {"mapping": mapping, "record": self.key, "raw": raw, "revised": True}
        return {"mapping": f"{mapping}.1", "raw": self.raw}  # newer than the mapping


class Provisional:
    """The guesses of the last reading that have not come again."""

    def __init__(self, guesses: Iterable[list[Any]]) -> None:
        self._open = {guess[:3]: guess for guess in starmap(Guess, guesses)}
        self._by_name: dict[Any, tuple[Any, ...]] = {}
        """The guesses by the ids of their lines, and by run and key."""
        for name, guess in self._open.items():
            self._by_name |= dict.fromkeys(guess.ids, name)
            self._by_name[guess.run, guess.key or guess.raw] = name

    def __bool__(self) -> bool:
        return bool(self._open)

    def seen(self, lines: Iterable[bytes]) -> None:
        """Take lines into account that were written now."""
        for line in lines if self._open else ():
            body = orjson.loads(line)
            run, origin = body["run"], body["origin"]
            names = [body["id"], (run, origin.get("raw"))]
            if "revised" in origin:
                names.append((run, origin["record"]))
            for name in names:
                self._open.pop(self._by_name.get(name, ()), None)

    def replaced(self) -> list[Guess]:
        """Those that did not come again."""
        return list(self._open.values())


def guesses(lines: Iterable[bytes], shared: Container[str]) -> list[list[Any]]:
    """The records of lines, but those that are `shared` with other lines."""
    found: dict[tuple[Any, ...], list[str]] = {}
    for line in lines:
        body = orjson.loads(line)
        origin = body["origin"]
        key, raw = origin["record"] if "revised" in origin else None, origin.get("raw")
        if raw and raw not in shared:
            found.setdefault((body["run"], key, raw), []).append(body["id"])
    return [[*name, ids] for name, ids in found.items()][-MOST:]
