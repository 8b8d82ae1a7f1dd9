"""The event stream of a run: which events each mode sends, and how."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

import orjson
from starlette.types import Receive, Send

from tracklog.hosts.openwop.runlog import RunLog, Snapshot
from tracklog.hosts.openwop.wires import Wire

KEEPALIVE = 15.0
LOOK = 1.0
"""Seconds after which a stream without events looks whether its client may still read it."""
MODES = ("values", "updates", "messages", "debug")

_UPDATES = frozenset(
    {
        "run.started",
        "run.completed",
        "run.failed",
        "run.cancelled",
        "run.paused",
        "run.resumed",
        "node.completed",
        "node.failed",
        "node.skipped",
        "node.suspended",
        "node.dispatched",
        "artifact.created",
    }
)
_PREFIXES = ("approval.", "clarification.", "interrupt.")
MESSAGE = "ai.message.chunk"
STATE = "state.snapshot"
_CHUNKS = frozenset({MESSAGE, "output.chunk"})


def wanted(kind: str, modes: tuple[str, ...], types: tuple[str, ...], name: str) -> bool:
    """Whether an event is sent; a list of types replaces the table of updates and debug (WOP-87).

    `name` is what the client's version of the protocol calls the type.
    """
    return any(_in_mode(kind, mode, types, name) for mode in modes)


def _in_mode(kind: str, mode: str, types: tuple[str, ...], name: str) -> bool:
    if mode == "messages":
        return kind in _CHUNKS
    if types and mode in ("updates", "debug"):
        return any(is_of_type(each, name) for each in types)
    if mode == "debug":
        return True
    update = kind in _UPDATES or kind.startswith(_PREFIXES)
    return update or (mode == "values" and kind == "node.started")


def is_of_type(pattern: str, kind: str) -> bool:
    """Whether a type is meant: by its name, or by a pattern such as `agent.*`."""
    return kind == pattern or (pattern.endswith("*") and kind.startswith(pattern[:-1]))


class _Revoked(Exception):
    """The key of the client is not accepted any more."""


class Stream:
    """Server-sent events for a client that follows a run; the server closes it at the end."""

    def __init__(
        self,
        send: Send,
        log: RunLog,
        wire: Wire,
        modes: tuple[str, ...],
        types: tuple[str, ...],
        buffer: float,
        view: Callable[[RunLog], dict[str, Any]],
    ) -> None:
        """With a `buffer` so many seconds are sent at once; `view` is a run as it is now."""
        self._view = view
        self._send, self._log, self._wire = send, log, wire
        self._modes, self._types, self._buffer = modes, types, buffer
        self._states, self._state = modes == ("values",), Snapshot()
        self._waiting: list[bytes] = []
        self._at = 0
        self._sent = time.monotonic()

    async def run(
        self,
        receive: Receive,
        after: int,
        stopping: Callable[[], bool],
        is_allowed: Callable[[], bool],
    ) -> None:
        """Send the events after a number and the new ones, until the run ends or the client leaves.

        It also ends when the client may not read it any more.
        """
        self._is_allowed = is_allowed
        head = [(b"content-type", b"text/event-stream; charset=utf-8")]
        head += [(b"cache-control", b"no-cache"), (b"connection", b"close")]
        head += [(b"x-content-type-options", b"nosniff")]
        head += [(b"openwop-version", self._wire.version.encode())]
        await self._send({"type": "http.response.start", "status": 200, "headers": head})
        gone = asyncio.ensure_future(_gone(receive))
        with contextlib.suppress(_Revoked):
            try:
                await self._follow(gone, after, stopping)
            finally:
                gone.cancel()
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _follow(
        self, gone: "asyncio.Future[None]", after: int, stopping: Callable[[], bool]
    ) -> None:
        log, self._at = self._log, after + 1
        if self._states:
            self._at = len(log.lines)
            for event in log.events[: self._at]:
                self._state.apply(event)
            await self._put(_frame(STATE, self._at - 1, self._snapshot()))
        while not gone.done():
            urgent = await self._send_new() or stopping()
            if self._waiting:
                if not urgent:
                    await self._gather(gone, stopping)
                await self._put(_frame("batch", self._at - 1, _array(self._waiting)))
                self._waiting = []
            if stopping() or (log.ended and self._at >= len(log.lines)):
                break
            if self._at >= len(log.lines) and not await self._is_more(gone, LOOK):
                self._check()
                if time.monotonic() - self._sent >= KEEPALIVE and not stopping():
                    await self._put(b":keepalive\n\n")

    async def _gather(self, gone: "asyncio.Future[None]", stopping: Callable[[], bool]) -> None:
        """Collect events until the time is up or an event must be sent at once."""
        until = time.monotonic() + self._buffer
        while (left := until - time.monotonic()) > 0 and not gone.done() and not stopping():
            await self._is_more(gone, left)
            if await self._send_new():
                return

    async def _send_new(self) -> bool:
        """Send or collect what is new; True if it must be sent at once."""
        log, frames, urgent = self._log, [], self._log.ended
        for line, event in zip(log.lines[self._at :], log.events[self._at :], strict=False):
            self._at += 1
            kind = event["type"]
            urgent = urgent or kind == "node.suspended"
            if self._states:
                self._state.apply(event)
            if not wanted(kind, self._modes, self._types, self._wire.kind(kind)):
                continue
            number = event["sequence"]
            body = self._snapshot() if self._states else self._wire.event(line, event, log)
            if self._buffer:
                self._waiting.append(body)
            elif self._states:
                frames.append(_frame(STATE, number, body))
            else:
                frames.append(self._rendered(kind, number, body))
        if frames:
            await self._put(b"".join(frames))
        return urgent

    def _rendered(self, kind: str, number: int, body: bytes) -> bytes:
        """An event as a frame; what `messages` sends has a name of its own.

        Its data is the payload by the specification, and the event by the official clients; so it
        is both.
        """
        if kind not in _CHUNKS or "messages" not in self._modes:
            return _frame(self._wire.kind(kind), number, body)
        event = orjson.loads(body)
        return _frame(MESSAGE, number, orjson.dumps({**event["payload"], **event}))

    async def _is_more(self, gone: "asyncio.Future[None]", seconds: float) -> bool:
        """Whether something happened within this time."""
        before = len(self._log.lines)
        news = asyncio.ensure_future(self._log.wait(seconds))
        await asyncio.wait({news, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not news.done():
            news.cancel()
        return gone.done() or len(self._log.lines) > before or self._log.ended

    def _snapshot(self) -> bytes:
        """The state after the last event that was sent; at the end of the log with the children."""
        log = self._log
        if self._at >= len(log.lines):
            state = self._view(log)
        else:
            state = self._state.as_json(log.name, cancelling=log.cancel is not None)
        return orjson.dumps(self._wire.snapshot(state, log))

    def _check(self) -> None:
        if not self._is_allowed():
            raise _Revoked

    async def _put(self, body: bytes) -> None:
        self._check()
        self._sent = time.monotonic()
        await self._send({"type": "http.response.body", "body": body, "more_body": True})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _array(lines: list[bytes]) -> bytes:
    return b"[" + b",".join(lines) + b"]"


def _frame(kind: str, number: int, body: bytes) -> bytes:
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (max(0, number), kind.encode(), body)
