"""The live stream of a store with several shards: positions are those of all shards.

The `id` of an event is the position of the watcher in every shard. A record that is appended later
may have a smaller number, so a number alone would not tell a client where to continue.
"""

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import orjson

from tracklog.collector.stream import _BLOCK, Hub
from tracklog.collector.watching import ALL, StreamFilter, Watcher
from tracklog.journal import frame
from tracklog.journal.sharding import Ends, ShardedStore, cursor_text, ends_of
from tracklog.web.trouble import Trouble

if TYPE_CHECKING:
    from tracklog.home.home import Home
    from tracklog.web.limits import Limits


class ShardedHub(Hub):
    """Hands on the new records of every shard; the cursors of watchers have a number per shard."""

    def __init__(self, home: "Home", limits: "Limits", store: ShardedStore) -> None:
        super().__init__(home, limits)
        self._store = store
        self.cursor: Any = ()
        self._last: Any = ()

    def end(self) -> Any:
        return self._store.ends()

    def position(self, last_id: str, after: int | None, cursor: str | None) -> Any:
        text = last_id or cursor
        if text is None:
            if after:
                raise Trouble(
                    400,
                    "this store has several shards: a number does not say where to continue",
                    "give `cursor` instead of `after`: the `id` of the last event, or `cursor` of a page",
                )
            return None if after is None else (0,) * len(self._store.parts)
        ends = ends_of(text, len(self._store.parts))
        if ends is None:
            raise Trouble(
                400, f"{text[:80]!r} is no cursor", "it is the `id` of the last event received"
            )
        return ends

    def start(self, after: Any) -> tuple[Any, bytes]:
        now = self._store.ends()
        if after is None:
            return now, b""
        begin = tuple(map(min, after, now))
        if begin != after:
            data: dict[str, int | str] = {"after": cursor_text(after), "last": sum(now)}
            return begin, self._event("reset", begin, data)
        firsts = tuple(part.own.first - 1 for part in self._store.parts)
        if not _is_behind(after, firsts):
            return after, b""
        begin = tuple(map(max, after, firsts))
        return begin, self._event(
            "gap", begin, {"after": cursor_text(after), "next": self._store.first}
        )

    def heartbeat(self, cursor: Any) -> bytes:
        home = self.home
        data = {
            "first": home.journal.first,
            "last": max(sum(cursor), home.journal.last),
            "now": frame.stamp(home.clock()),
        }
        return self._event("heartbeat", cursor, data)

    @staticmethod
    def _event(name: str, at: Ends, data: Mapping[str, int | str]) -> bytes:
        content = name.encode(), cursor_text(at).encode(), orjson.dumps(data)
        return b"event: %b\nid: %b\ndata: %b\n\n" % content

    def _join(self, watcher: Watcher) -> bool:
        now = self._store.ends()
        if sum(now) - sum(watcher.cursor) > _BLOCK:
            return False
        if not self._abreast:
            self.cursor = watcher.cursor
        while _is_behind(self.cursor, watcher.cursor):
            if not self._deliver():
                return False
        while _is_behind(watcher.cursor, self.cursor):
            frames = self._up_to(watcher.cursor, self.cursor)
            if not frames:
                return False
            self._send(watcher, frames)
        self._abreast.setdefault(watcher.wanted, {})[watcher] = None
        self._begin()
        return True

    def _up_to(self, after: Ends, through: Ends) -> list[bytes]:
        """Records behind one position, and not behind another."""
        frames = self._store.read_behind(after, _BLOCK)
        shards = len(through)
        numbers = (frame.seq_of(each) - 1 for each in frames)
        return [
            each
            for each, number in zip(frames, numbers, strict=True)
            if number // shards < through[number % shards]
        ]

    def _send(self, watcher: Watcher, frames: list[bytes]) -> None:
        ends = list(self._store.moved(watcher.cursor, frames))
        watcher.send(self._events_at(watcher.wanted, frames, ends))
        watcher.cursor = ends[-1]

    async def _replay(self, watcher: Watcher) -> None:
        run = watcher.wanted.run
        one = run if run and run[0] else None
        now = self._store.ends()
        frames = await asyncio.to_thread(self._store.read_behind, watcher.cursor, _BLOCK, one)
        if frames:
            await asyncio.to_thread(self._send, watcher, frames)
        else:
            watcher.cursor = tuple(map(max, watcher.cursor, now))
        if not watcher.gone:
            await watcher.drain(self.limits.stalled_seconds)
            self.closed += watcher.gone

    def _deliver(self) -> bool:
        before = self.cursor
        frames = self._store.read_behind(before, _BLOCK)
        if not frames:
            return False
        ends = list(self._store.moved(before, frames))
        self.cursor = ends[-1]
        for wanted in list(self._abreast):
            self._share(wanted, self._events_at(wanted, frames, ends), before=before)
        return True

    def _spread_news(self) -> bool:
        if not self._runs:
            return False
        self._last = self._last or self._store.ends()
        frames = self._store.read_behind(self._last, _BLOCK)
        names = {run[1] for each in frames if (run := frame.run_of(each))}
        for name in names | {""} if names else ():
            for event in self._runs.get(name, ()):
                event.set()
        self._last = (self._last, *self._store.moved(self._last, frames))[-1]
        return bool(frames)

    def _events_at(self, wanted: StreamFilter, frames: list[bytes], ends: list[Ends]) -> bytes:
        return b"".join(
            b"id: %b\ndata: %b\n\n" % (cursor_text(at).encode(), each)
            for each, at in self._wanted(wanted, frames, ends)
        )

    def _wanted(
        self, wanted: StreamFilter, frames: list[bytes], ends: list[Ends]
    ) -> Iterator[tuple[bytes, Ends]]:
        for each, at in zip(frames, ends, strict=True):
            if b"\r" in each:  # damage: it could forge a field of the stream
                continue
            if wanted == ALL or (
                (record := frame.record(each)) and wanted.matches(record, self.home)
            ):
                yield each, at


def _is_behind(ends: Ends, other: Ends) -> bool:
    return any(mine < theirs for mine, theirs in zip(ends, other, strict=True))
