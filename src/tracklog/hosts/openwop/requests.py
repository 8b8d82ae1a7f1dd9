"""Requests with an `Idempotency-Key`: a retry gets the same answer."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from tracklog import Fact, Noted, write_file
from tracklog.hosts.openwop.runlog import REQUEST

if TYPE_CHECKING:
    from tracklog.hosts.openwop.engine import Engine


DAY = 86_400.0
"""Seconds for which a key is remembered."""


class Request:
    """A request that may come again under the same key, and then gets the same answer."""

    def __init__(
        self, engine: "Engine", key: str, body: str, render: Callable[[dict[str, Any]], Any]
    ) -> None:
        self._engine, self.key, self.body, self._render = engine, key, body, render
        self.noted: dict[str, Any] | None = None
        """The answer that is recorded; every retry gets the same."""

    def note(self, status: int, reply: Mapping[str, Any]) -> bytes:
        """The note of the answered request, written in one batch with its events."""
        self.noted = dict(self._render(dict(reply)))
        return self.note_of(reply["runId"], status, self.noted)

    def note_of(self, run: str, status: int, reply: Mapping[str, Any]) -> bytes:
        """The note of a request whose answer was rendered before."""
        data = {"key": self.key, "body": self.body, "status": status, "reply": dict(reply)}
        return self._engine.note(run, REQUEST, {**data, "at": self._engine.clock()})


class Requests:
    """The idempotency keys of the last day, read from the journal.

    An answer that belongs to no run, or that is a refusal, has a file of its own beside the journal.
    """

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._folder = engine.journal.folder() / "requests"
        self._known: dict[str, dict[str, Any]] = {}
        self._busy: dict[str, asyncio.Lock] = {}

    def find(self, key: str) -> dict[str, Any] | None:
        found = self._known.get(key) or _read(self._folder / f"{key}.json")
        return found if found is not None and found["at"] >= self._engine.clock() - DAY else None

    def add(self, fact: Fact) -> None:
        """Remember a request that was answered before, here or by another process."""
        if isinstance(fact, Noted) and fact.label == REQUEST and isinstance(fact.data, Mapping):
            answered = dict(fact.data)
            if "key" in answered:
                self._known.setdefault(answered["key"], answered)

    def keep(self, key: str, body: str, status: int, reply: Mapping[str, Any] | None) -> None:
        data = {"key": key, "body": body, "status": status, "reply": reply}
        self._known[key] = {**data, "at": self._engine.clock()}

    def store(self, key: str) -> None:
        """Write an answer that is remembered to a file, for other hosts and after a restart."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(self._folder / f"{key}.json", orjson.dumps(self._known[key]))

    def forget(self, before: float) -> None:
        for key, request in list(self._known.items()):
            if request["at"] < before:
                self._known.pop(key, None)
                (self._folder / f"{key}.json").unlink(missing_ok=True)

    def tidy(self) -> None:
        """Remove the files of requests that nobody remembers any more."""
        for path in self._folder.glob("*.json"):
            found = _read(path)
            if found is None or found["at"] < self._engine.clock() - DAY:
                path.unlink(missing_ok=True)

    def dump(self) -> list[dict[str, Any]]:
        return list(self._known.values())

    def load(self, requests: list[dict[str, Any]]) -> None:
        self._known = {each["key"]: each for each in requests}

    @contextlib.asynccontextmanager
    async def alone(self, key: str) -> AsyncIterator[None]:
        """Work on a key alone: no other task or process does so at the same time."""
        lock = self._busy.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                run = ("request", key)
                while not self._engine.leases.take(run):  # noqa: ASYNC110  # another process has it
                    await asyncio.sleep(0.01)
                try:
                    yield
                finally:
                    self._engine.leases.release(run)
        finally:
            if not lock.locked():
                self._busy.pop(key, None)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        data: dict[str, Any] = orjson.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return data
