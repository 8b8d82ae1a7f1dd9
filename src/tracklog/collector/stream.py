"""The live stream: `GET /api/stream`, server-sent events whose ids are the journal's numbers.

One reader, the hub, reads new records once, encodes them once, and hands the same bytes to all
watchers that are up to date. A watcher that lags is left out, reads for itself from the journal,
and joins again. A watcher of one run in a foreign format always reads for itself, when the hub has
news of it. The writer knows nothing of watchers.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

import orjson
from starlette.responses import Response

from tracklog.collector.exchange import here, options_of
from tracklog.collector.protocol import EXTENSION, HttpConnection
from tracklog.collector.watching import ALL, StreamFilter, Watcher, chunk, filter_of
from tracklog.formats import registry
from tracklog.formats.live import Live, live_of
from tracklog.journal import frame
from tracklog.journal.frame import Run, seq_of
from tracklog.model.errors import TracklogError
from tracklog.web import logs
from tracklog.web.trouble import Trouble

if TYPE_CHECKING:
    from tracklog.collector.app import Collector
    from tracklog.home.home import Home
    from tracklog.web.limits import Limits
    from tracklog.web.routing import RoutedRequest

_POLL = 0.025  # seconds between two checks for records of another process
_AGAIN = 0.5  # seconds before a journal that could not be read is read again
_BLOCK = 1000  # records that are encoded together
_FEW = 20  # watchers that can be served at once, whatever else goes on
_REST = (
    # the longest pause of the hub after serving more, in seconds, so that others get their turn
    0.025
)
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
]


class Hub:
    """Hands on new records, as long as there are watchers."""

    def __init__(self, home: "Home", limits: "Limits") -> None:
        self.home, self.limits = home, limits
        self.cursor = 0
        """The record up to which all watchers that are up to date have everything."""
        self.watching = 0
        self.closed = 0
        """Watchers that were closed because they did not read."""
        self.stopping = False
        self.active: Callable[[], tuple[str, ...]] = tuple
        """Which tokens can be used."""
        self._active: tuple[str, ...] = ()
        self._abreast: dict[StreamFilter, dict[Watcher, None]] = {}
        self._runs: dict[str, set[asyncio.Event]] = {}
        self._last = 0
        self._turn = asyncio.Lock()
        """Lets one lagging watcher read at a time: they may wait, posts may not."""
        self._poked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def end(self) -> int:
        """The position behind the last record."""
        return self.home.journal.last

    def position(self, last_id: str, after: int | None, cursor: str | None) -> int | None:
        """The cursor: where a browser stopped, else where the client wants to begin; None for now."""
        text = last_id or cursor
        return number_of(text) if text else after

    def start(self, after: int | None) -> tuple[int, bytes]:
        """Where a watcher begins, and what it is told of that first."""
        last = self.home.journal.last
        if after is None:
            return last, b""
        if after <= last:
            return after, b""
        # Another home is served here, or one that lost its end: the watcher must not wait for ever.
        data = orjson.dumps({"after": after, "last": last})
        return last, b"event: reset\nid: %d\ndata: %b\n\n" % (last, data)

    def heartbeat(self, cursor: int) -> bytes:
        """The watcher's cursor, the first and the last record of the journal, and the time."""
        first, last = self.home.journal.first, max(cursor, self.home.journal.last)
        data = orjson.dumps({"first": first, "last": last, "now": frame.stamp(self.home.clock())})
        return b"event: heartbeat\nid: %d\ndata: %b\n\n" % (cursor, data)

    def poke(self) -> None:
        """Wake the hub: there may be new records; without it the hub checks a moment later."""
        self._poked.set()

    async def serve(self, watcher: Watcher) -> None:
        """Send everything after the watcher's cursor, and new records, until one side leaves."""
        self.watching += 1
        try:
            while not (watcher.gone or self.stopping) and watcher.check():
                self._check_watchers()
                if not self._join(watcher):
                    await self._replay(watcher)
                    continue
                await watcher.left.wait()
                watcher.left.clear()
                if not (watcher.gone or watcher.refused or self.stopping):
                    await watcher.drain(self.limits.stalled_seconds)
                    self.closed += watcher.gone
        finally:
            self.watching -= 1
            self._leave(watcher)

    async def attend(self, watcher: Watcher, live: Live) -> None:
        """Send the events of a run, encoded for this watcher alone, until it ends or one side
        leaves.
        """
        self.watching += 1
        try:
            with self.news_of(live.run[1]) as watcher.left:
                while not (watcher.gone or self.stopping or live.over) and watcher.check():
                    watcher.left.clear()
                    async with self._turn:
                        content = await asyncio.to_thread(live.read_on)
                    if content is None:
                        await self._news(watcher)
                        continue
                    watcher.send(content)
                    if not watcher.gone:
                        await watcher.drain(self.limits.stalled_seconds)
                        self.closed += watcher.gone
        finally:
            self.watching -= 1

    async def _news(self, watcher: Watcher) -> None:
        """Wait until there is news for the watcher, with heartbeats."""
        try:
            async with asyncio.timeout(self.limits.heartbeat_seconds):
                await watcher.left.wait()
        except TimeoutError:
            watcher.send(comment(self.home.journal.last))

    @contextlib.contextmanager
    def news_of(self, *runs: str) -> Iterator[asyncio.Event]:
        """An event that is set whenever something is recorded of these runs; of any, if none is
        given.
        """
        event, names = asyncio.Event(), runs or ("",)
        if not self._runs:
            self._last = self.end()
        for name in names:
            self._runs.setdefault(name, set()).add(event)
        self._begin()
        try:
            yield event
        finally:
            for name in names:
                self._runs[name].discard(event)
                if not self._runs[name]:
                    del self._runs[name]

    async def stop(self) -> None:
        """Disconnect all watchers."""
        self.stopping = True
        for watchers in list(self._abreast.values()):
            for watcher in list(watchers):
                watcher.left.set()
        for events in self._runs.values():
            for event in events:
                event.set()
        self._poked.set()
        if self._task is not None:
            await self._task

    def _begin(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    def _join(self, watcher: Watcher) -> bool:
        """Whether the watcher is up to date now; one that lags only a little is sent the rest."""
        journal = self.home.journal
        if watcher.cursor + 1 < journal.first or journal.last - watcher.cursor > _BLOCK:
            return False
        if not self._abreast:
            self.cursor = watcher.cursor
        while self.cursor < watcher.cursor:
            if not self._deliver():
                self.cursor = watcher.cursor  # its cursor is after the end of this journal
        while watcher.cursor < self.cursor:
            frames = self._read(watcher.cursor, self.cursor - watcher.cursor)
            if not frames:
                return False
            watcher.send(self._events(watcher.wanted, frames))
            watcher.cursor = seq_of(frames[-1])
        self._abreast.setdefault(watcher.wanted, {})[watcher] = None
        self._begin()
        return True

    def _leave(self, watcher: Watcher) -> None:
        group = self._abreast.get(watcher.wanted)
        if group is not None and watcher in group:
            del group[watcher]
            if not group:
                del self._abreast[watcher.wanted]

    async def _replay(self, watcher: Watcher) -> None:
        """The next block from the journal, for a watcher that lags."""
        journal = self.home.journal
        first, after = journal.first, watcher.cursor
        if after + 1 < first:
            watcher.send(gap(after, first))
            watcher.cursor = first - 1
            return
        run = watcher.wanted.run
        one = run if run and run[0] else None
        last = journal.last
        frames = await asyncio.to_thread(self._read, after, _BLOCK, one)
        if frames:
            content = await asyncio.to_thread(self._events, watcher.wanted, frames)
            watcher.send(content)
            watcher.cursor = seq_of(frames[-1])
        else:
            watcher.cursor = max(after, last)
        if not watcher.gone:
            await watcher.drain(self.limits.stalled_seconds)
            self.closed += watcher.gone

    async def _run(self) -> None:
        """Read on as long as a watcher is up to date or waits for news."""
        beat = time.monotonic()
        while (self._abreast or self._runs) and not self.stopping:
            began = time.monotonic()
            try:
                self._check_watchers()
                moved = self._deliver() if self._abreast else False
                moved = self._spread_news() or moved
                if began - beat >= self.limits.heartbeat_seconds:
                    beat = began
                    self._share(ALL, self.heartbeat(self.cursor), everyone=True)
            except TracklogError as error:
                logs.log("error", f"the live streams wait: {error.message}", hint=error.hint)
                await self._readable()
                continue
            if moved:
                await asyncio.sleep(0)  # the sockets are written in the next round of the loop
                if self.watching > _FEW:
                    await asyncio.sleep(min(_REST, 2 * (time.monotonic() - began)))
            else:
                self._poked.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_POLL):
                        await self._poked.wait()

    async def _readable(self) -> None:
        """Wait until the journal can be read again: its database may be away for a while."""
        while not self.stopping:
            await asyncio.sleep(_AGAIN)
            with contextlib.suppress(TracklogError):
                await asyncio.to_thread(self.end)
                return

    def _check_watchers(self) -> None:
        """Before anything is sent on: end the streams of tokens that were revoked or have expired."""
        active = self.active()
        if active == self._active:
            return
        self._active = active
        for watcher in [each for group in self._abreast.values() for each in group]:
            if not watcher.check():
                self._leave(watcher)
                watcher.left.set()
        for events in self._runs.values():
            for event in events:
                event.set()

    def _deliver(self) -> bool:
        """Read the next block and hand it to all watchers that are up to date; False at the end."""
        before, journal = self.cursor, self.home.journal
        frames = self._read(before, _BLOCK)
        if not frames:
            return False
        first = seq_of(frames[0])
        content = b""
        if first > before + 1 and journal.first > before + 1:
            content = gap(before, journal.first)
        self.cursor = seq_of(frames[-1])
        for wanted in list(self._abreast):
            self._share(wanted, content + self._events(wanted, frames), before=before)
        return True

    def _share(
        self,
        wanted: StreamFilter,
        content: bytes,
        *,
        before: int | None = None,
        everyone: bool = False,
    ) -> None:
        """Send the same bytes to all watchers with the same filter; one without room reads for
        itself.
        """
        if not content:
            return
        shared = chunk(content)
        groups = list(self._abreast.values()) if everyone else [self._abreast[wanted]]
        for group in groups:
            full = []
            for watcher in group:
                if watcher.connection.flow.write_paused:
                    full.append(watcher)
                else:
                    watcher.hand(shared)
            for watcher in full:
                watcher.cursor = self.cursor if before is None else before
                self._leave(watcher)
                watcher.left.set()

    def _spread_news(self) -> bool:
        if not self._runs:
            return False
        frames = self._read(self._last, _BLOCK)
        names = {run[1] for each in frames if (run := frame.run_of(each))}
        for name in names | {""} if names else ():
            for event in self._runs.get(name, ()):
                event.set()
        if frames:
            self._last = seq_of(frames[-1])
        return bool(frames)

    def _read(self, after: int, limit: int, run: Run | None = None) -> list[bytes]:
        """Frames after a number, encoded so that no line can forge a field of the stream."""
        while True:
            frames = self.home.store.read(after, limit, run)
            good = [each for each in frames if b"\r" not in each and seq_of(each) > after]
            if good or not frames:
                return good
            limit *= 2

    def _events(self, wanted: StreamFilter, frames: list[bytes]) -> bytes:
        if wanted != ALL:
            frames = [
                each
                for each in frames
                if (record := frame.record(each)) and wanted.matches(record, self.home)
            ]
        # Each begins with {"seq": and its number: `_read` has looked.
        parts = [b"id: %b\ndata: %b\n\n" % (each[7 : each.find(b",", 7)], each) for each in frames]
        return b"".join(parts)


def comment(last: int) -> bytes:
    """The same as a comment, for formats without an event for it."""
    return b": heartbeat, the journal ends at %d\n\n" % last


def gap(after: int, first: int) -> bytes:
    """The records after `after` were deleted; the next record is `first`."""
    data = orjson.dumps({"after": after, "next": first})
    return b"event: gap\nid: %d\ndata: %b\n\n" % (first - 1, data)


async def stream(collector: "Collector", call: "RoutedRequest") -> None:
    """Replay from the requested cursor, then send new records."""
    hub, query = collector.hub, call.query
    stream_filter = await asyncio.to_thread(
        filter_of, collector.home, query["run"], query["dialect"], query["kind"]
    )
    after, begin = hub.start(_cursor(hub, call))
    begin += hub.heartbeat(after)
    await _send(call, Watcher(_connection(call), stream_filter, after), begin, hub.serve)


async def live(collector: "Collector", call: "RoutedRequest") -> Response | None:
    """A run in a foreign format: the state at the cursor, then new events, until it ends."""
    home, run = collector.home, (call.names["family"], call.names["run"])
    exporter = registry.exporter(call.names["format"])
    chosen, after = exporter.chosen(options_of(call)), _number(call)
    followed = await collector.runner.ask(lambda: live_of(home, here(home, run), exporter, chosen))
    begin = await asyncio.to_thread(followed.join, after)
    if after is not None and await asyncio.to_thread(lambda: followed.has_read_all):
        return Response(status_code=204)  # a browser reconnects after any other status
    watcher = Watcher(_connection(call), ALL, followed.cursor)
    begin = comment(home.journal.last) + begin
    await _send(call, watcher, begin, lambda watcher: collector.hub.attend(watcher, followed))
    return None


async def _send(
    call: "RoutedRequest",
    watcher: Watcher,
    begin: bytes,
    serve: Callable[[Watcher], Awaitable[None]],
) -> None:
    await call.send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    await asyncio.sleep(0)  # the head goes first: the stream is written past the server
    watcher.check_again = call.check_again
    if call.scope["method"] != "HEAD":
        watcher.send(b"retry: 1000\n\n" + begin)
        await serve(watcher)
        if watcher.gone:
            return
    await call.send({"type": "http.response.body", "body": b"", "more_body": False})


def _connection(call: "RoutedRequest") -> HttpConnection:
    connection: HttpConnection | None = call.scope.get("extensions", {}).get(EXTENSION)
    assert connection is not None, "streams are served by our own protocol"
    return connection


def _cursor(hub: Hub, call: "RoutedRequest") -> int | None:
    """The cursor: where a browser stopped, else where the client wants to begin; None for now."""
    last_id = call.headers.get(b"last-event-id", b"").strip().decode("latin-1")
    return hub.position(last_id, call.query["after"], call.query.get("cursor"))


def _number(call: "RoutedRequest") -> int | None:
    """The same in one run, whose position is the number of a record."""
    last_id = call.headers.get(b"last-event-id", b"").strip().decode("latin-1")
    return number_of(last_id) if last_id else call.query["after"]


def number_of(text: str) -> int:
    """The number of a record that a client gives as its position."""
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise Trouble(
            400, "Last-Event-ID is no number", "it is the `id` of the last event received"
        )
    return int(text)
