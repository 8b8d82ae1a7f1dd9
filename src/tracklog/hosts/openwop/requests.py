"""Requests with an `Idempotency-Key`: a retry gets the same answer."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from tracklog import Fact, Noted
from tracklog.hosts.openwop.runlog import REQUEST

if TYPE_CHECKING:
    from tracklog.hosts.openwop.engine import Engine


class Request:
    """A request that may come again under the same key, and then gets the same answer."""

    def __init__(self, engine: "Engine", key: str, body: str) -> None:
        self._engine, self.key, self.body = engine, key, body
        self.noted: dict[str, Any] | None = None
        """The answer that is on record; nobody is told another."""

    def note(self, status: int, reply: Mapping[str, Any]) -> bytes:
        """What is kept of it, in one group with what it did."""
        self.noted = dict(reply)
        said = {"key": self.key, "body": self.body, "status": status, "reply": self.noted}
        return self._engine.note(reply["runId"], REQUEST, {**said, "at": self._engine.clock()})


class Requests:
    """Idempotency keys of the last day: in the journal, and here to be found."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._known: dict[str, dict[str, Any]] = {}
        self._busy: dict[str, asyncio.Lock] = {}

    def find(self, key: str) -> dict[str, Any] | None:
        return self._known.get(key)

    def hear(self, fact: Fact) -> None:
        """Takes in a request that was answered here before, or by another process."""
        if isinstance(fact, Noted) and fact.label == REQUEST and isinstance(fact.data, Mapping):
            answered = dict(fact.data)
            if "key" in answered:
                self._known.setdefault(answered["key"], answered)

    def keep(self, key: str, body: str, status: int, reply: Mapping[str, Any]) -> None:
        said = {"key": key, "body": body, "status": status, "reply": dict(reply)}
        self._known[key] = {**said, "at": self._engine.clock()}

    def forget(self, before: float) -> None:
        for key, said in list(self._known.items()):
            if said["at"] < before:
                self._known.pop(key, None)

    def dump(self) -> list[dict[str, Any]]:
        return list(self._known.values())

    def load(self, said: list[dict[str, Any]]) -> None:
        self._known = {each["key"]: each for each in said}

    @contextlib.asynccontextmanager
    async def alone(self, key: str) -> AsyncIterator[None]:
        """Nobody else works on the same key, in this process or another."""
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
