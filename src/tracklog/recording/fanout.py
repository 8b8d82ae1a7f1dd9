"""Live subscribers of one recorder, served through bounded queues that never block a write."""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import NamedTuple, Self

from tracklog.model.event import Body
from tracklog.recording.transcript.entry import Entry

log = logging.getLogger("tracklog")

BUFFER = 256
WARN_EVERY = 1.0

ReadRange = Callable[[int, int], Iterator[Entry]]
"""The events of the file from one number through another; raises OSError where it cannot."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Events that a subscriber was too slow for, reported where they are missing."""

    first_seq: int
    last_seq: int
    count: int
    """The number of requested events in the gap; `first_seq` and `last_seq` are two of them."""
    run_id: str = ""

    @property
    def body(self) -> Body:
        """The gap as JSON; it has neither a type nor a number, and is never written to a
        transcript.
        """
        first, last = self.range
        run, count = self.run_id, self.count
        return {"gap": {"run_id": run, "first_seq": first, "last_seq": last, "count": count}}

    @property
    def range(self) -> tuple[int, int]:
        """The first and the last number that are missing."""
        return self.first_seq, self.last_seq


class SubscriberStats(NamedTuple):
    """Counts of the events that one subscriber requested."""

    name: str
    enqueued: int
    delivered: int
    dropped: int
    gaps: int
    first_dropped_seq: int | None
    last_dropped_seq: int | None
    healed: int
    lag: int
    """Events in its queue now."""
    high_water: int
    """The greatest length of its queue so far."""


class FanOutStats(NamedTuple):
    """AWF-53: drops are counted, including those of subscribers that have left."""

    published: int
    dropped_total: int
    subscribers: tuple[SubscriberStats, ...]


class _QueueEntry(NamedTuple):
    gap: Gap | None
    entry: Entry | None
    """None at the end."""


_END = _QueueEntry(None, None)


class Subscription:
    """The events of a run for one subscriber: iterate it, or `async for` over it.

    Yields entries, and a `Gap` wherever entries were dropped, so that every loss is visible.
    """

    def __init__(
        self,
        fanout: "FanOut",
        name: str,
        buffer: int,
        types: frozenset[str] | None,
        backlog: Iterator[Entry | Gap],
        *,
        heal: bool,
    ) -> None:
        self.name = name
        self.buffer = buffer
        self._types = types
        self._fanout = fanout
        self._queue: SimpleQueue[_QueueEntry] = SimpleQueue()
        self._ready: Iterator[Entry | Gap] = backlog
        self._heals = heal
        self._wake: Callable[[], None] | None = None
        self._pending: Gap | None = None
        self._ended = False
        self.closed = False
        self.offered: int | None = None
        """The number of the last event that was offered to it."""
        self._enqueued = self._delivered = self._dropped = self._gaps = self._healed = 0
        self._first_dropped: int | None = None
        self._last_dropped: int | None = None
        self._high_water = 0
        self._warned_at: float | None = None
        self._unwarned: Gap | None = None

    def __iter__(self) -> Iterator[Entry | Gap]:
        return self

    def __next__(self) -> Entry | Gap:
        while (event := self._take()) is None:
            if self._ended:
                raise StopIteration
            self._open(self._queue.get())
        return event

    def __aiter__(self) -> AsyncIterator[Entry | Gap]:
        return self

    async def __anext__(self) -> Entry | Gap:
        while (event := self._take()) is None:
            if self._ended:
                raise StopAsyncIteration
            await self._arrival()
        return event

    def get(self, timeout: float | None = None) -> Entry | Gap | None:
        """The next entry, or None on a timeout or at the end."""
        until = None if timeout is None else time.monotonic() + timeout
        while (event := self._take()) is None and not self._ended:
            left = None if until is None else max(0.0, until - time.monotonic())
            try:
                self._open(self._queue.get(timeout=left))
            except Empty:
                return None
        return event

    def heal(self, gap: Gap) -> Iterator[Entry | Gap]:
        """Read the events of a gap from the file; those that the file cannot give stay a gap."""
        first, count = gap.first_seq, gap.count
        try:
            for entry in self._fanout.read(gap.first_seq, gap.last_seq):
                if entry.seq is not None and self._wants(entry.type):
                    self._healed += 1
                    first, count = entry.seq + 1, count - 1
                    yield entry
        except OSError as error:
            log.warning("subscriber %s cannot read its gap from the file: %s", self.name, error)
        if count > 0:
            yield replace(gap, first_seq=min(first, gap.last_seq), count=count)

    def close(self) -> None:
        """Request no more; queued entries can still be read. May be called more than once."""
        self._fanout.leave(self)

    def stats(self) -> SubscriberStats:
        return SubscriberStats(
            self.name,
            self._enqueued,
            self._delivered,
            self._dropped,
            self._gaps,
            self._first_dropped,
            self._last_dropped,
            self._healed,
            self._enqueued - self._delivered,
            self._high_water,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self) -> Entry | Gap | None:
        """The next entry that is available without waiting."""
        while True:
            if (event := next(self._ready, None)) is not None:
                return event
            try:
                self._open(self._queue.get_nowait())
            except Empty:
                if not self._take_pending():
                    return None
            if self._ended:
                return None

    def _take_pending(self) -> bool:
        """Once the queue is empty, return a pending gap without waiting for the next event."""
        if self._pending is None:
            return False
        with self._fanout.lock:
            gap = self._pending if self._queue.empty() else None
            if gap is not None:
                self._pending = None
        if gap is not None:
            self._ready = self._from_gap(gap)
        return True

    def _open(self, item: _QueueEntry) -> None:
        if item.entry is None and item.gap is None:
            self._ended = True
            return
        self._ready = self._unpack(item)

    def _unpack(self, item: _QueueEntry) -> Iterator[Entry | Gap]:
        if item.gap is not None:
            yield from self._from_gap(item.gap)
        if item.entry is not None:
            self._delivered += 1
            yield item.entry

    def _from_gap(self, gap: Gap) -> Iterator[Entry | Gap]:
        self._gaps += 1
        if self._heals:
            yield from self.heal(gap)
        else:
            yield gap

    async def _arrival(self) -> None:
        """Wait until something is published, without blocking the event loop."""
        loop = asyncio.get_running_loop()
        arrived = asyncio.Event()
        self._wake = lambda: _call_in(loop, arrived.set)
        try:
            if self._queue.empty():
                await arrived.wait()
        finally:
            self._wake = None

    def _wants(self, type_: str) -> bool:
        return self._types is None or type_ in self._types

    def _offer(self, entry: Entry, seq: int) -> None:
        """Queue the event, or drop it and remember the gap; under the lock of the fan-out.

        An interrupt can come after any call: values that belong together are changed without a call
        between them.
        """
        if self.offered is not None:
            if seq <= self.offered:
                return  # before the subscriber's cursor
            while self.offered < seq - 1:
                self._drop(self.offered + 1)  # an event that an interrupt kept from being published
        if self._types is not None and entry.type not in self._types:
            self.offered = seq
            return
        waiting = self._queue.qsize()
        if waiting >= self.buffer:
            self._drop(seq)
            return
        item = _QueueEntry(self._pending, entry)
        if waiting >= self._high_water:
            self._high_water = waiting + 1
        self._pending = None
        self._enqueued += 1
        self.offered = seq
        self._queue.put(item)
        if self._wake is not None:
            self._wake()

    def _drop(self, seq: int) -> None:
        # AWF-51: the new event is dropped; the older ones stay.
        pending, unwarned = self._merged(self._pending, seq), self._merged(self._unwarned, seq)
        self._pending, self._unwarned = pending, unwarned
        self._first_dropped = seq if self._first_dropped is None else self._first_dropped
        self._last_dropped = seq
        self._dropped += 1
        self.offered = seq

    def _merged(self, gap: Gap | None, seq: int) -> Gap:
        if gap is None:
            return Gap(seq, seq, 1, self._fanout.run_id)
        return replace(gap, last_seq=seq, count=gap.count + 1)

    def _due(self, now: float) -> Gap | None:
        """AWF-54: the warning that is due, at most once per second; for the first drop at once."""
        if self._unwarned is None:
            return None
        if self._warned_at is not None and now - self._warned_at < WARN_EVERY:
            return None
        due, self._unwarned, self._warned_at = self._unwarned, None, now
        return due

    def _end(self) -> None:
        if not self.closed:
            self.closed = True
            if self._pending is not None:
                self._queue.put(_QueueEntry(self._pending, None))
                self._pending = None
            self._queue.put(_END)
            if self._wake is not None:
                self._wake()


class FanOut:
    """Hands each written event to every subscriber, and to each only as many as its queue can hold."""

    def __init__(
        self,
        run_id: str = "",
        read: ReadRange | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.run_id = run_id
        self.closed = False
        self.lock = threading.Lock()
        self._read = read
        self._clock = clock
        self._subscribers: tuple[Subscription, ...] = ()
        self._published = self._dropped_before = self._named = 0
        self._due: list[tuple[str, Gap]] = []

    def subscribe(
        self,
        name: str | None = None,
        buffer: int = BUFFER,
        types: Iterable[str] | None = None,
        backlog: tuple[int, int] | None = None,
        *,
        heal: bool = False,
        last_seq: int | None = None,
    ) -> Subscription:
        """A new subscriber for events after `last_seq`, and for a backlog of these numbers."""
        if isinstance(buffer, bool) or not isinstance(buffer, int) or buffer < 1:
            raise ValueError(f"buffer must be a whole number of events, 1 or more, not {buffer!r}")
        wanted = None if types is None else frozenset(types)
        with self.lock:
            self._named += 1
            name = name or f"subscriber-{self._named}"
            subscription = Subscription(self, name, buffer, wanted, iter(()), heal=heal)
            if backlog is not None and backlog[0] <= backlog[1]:
                subscription._ready = self._replay(subscription, *backlog)
            if self.closed:
                subscription._end()
            else:
                subscription.offered = last_seq
                self._subscribers += (subscription,)
        return subscription

    def publish(self, entry: Entry) -> None:
        """Offer the event to every subscriber that wants it and has room; never waits, never fails."""
        if not entry.type or entry.seq is None:
            log.warning("an event without a type or a number is not published")
            return
        self.offer(entry)
        if self._due:
            self.warn()

    def offer(self, entry: Entry) -> None:
        """`publish` without logging: the warnings are left for `warn`."""
        seq = entry.seq or 0
        with self.lock:
            if self.closed:
                return
            self._published += 1
            self._offer_each(entry, seq)

    def _offer_each(self, entry: Entry, seq: int) -> None:
        # Outside of the lock: Python 3.12 and 3.13 do not release it when an interrupt comes at the
        # end of a round of a loop whose last statement is an `if`.
        for subscription in self._subscribers:
            subscription._offer(entry, seq)
            if subscription._unwarned is not None:
                gap = subscription._due(self._clock())
                if gap is not None:
                    self._due.append((subscription.name, gap))

    def warn(self) -> None:
        """Log the warnings that are due; called where a slow log blocks nobody."""
        while self._due:
            name, gap = self._due.pop(0)
            log.warning(
                "subscriber %s is too slow: %d events dropped, seq %d to %d; the file has them",
                name,
                gap.count,
                gap.first_seq,
                gap.last_seq,
                extra={
                    "subscriber": name,
                    "dropped": gap.count,
                    "first_dropped_seq": gap.first_seq,
                    "last_dropped_seq": gap.last_seq,
                },
            )

    @property
    def due(self) -> bool:
        """Whether a warning is due."""
        return bool(self._due)

    @property
    def empty(self) -> bool:
        """Whether there is no subscriber."""
        return not self._subscribers

    def read(self, first: int, last: int) -> Iterator[Entry]:
        """The events from `first` through `last`, from the file."""
        return iter(()) if self._read is None else self._read(first, last)

    def leave(self, subscription: Subscription) -> None:
        """Remove one subscriber."""
        with self.lock:
            if not subscription.closed:
                others = tuple(each for each in self._subscribers if each is not subscription)
                self._subscribers = others
                self._dropped_before += subscription._dropped
            subscription._end()

    def close(self) -> None:
        """End every subscription after its queued events. May be called more than once."""
        with self.lock:
            if self.closed:
                return
            self.closed = True
            for subscription in self._subscribers:
                subscription._end()

    def stats(self) -> FanOutStats:
        with self.lock:
            each = tuple(subscription.stats() for subscription in self._subscribers)
        dropped = self._dropped_before + sum(one.dropped for one in each)
        return FanOutStats(self._published, dropped, each)

    def _replay(self, subscription: Subscription, first: int, last: int) -> Iterator[Entry | Gap]:
        try:
            for entry in self.read(first, last):
                first = (entry.seq or 0) + 1
                if subscription._wants(entry.type):
                    yield entry
        except OSError as error:
            log.warning("subscriber %s cannot read its backlog: %s", subscription.name, error)
            yield Gap(first, last, last - first + 1, self.run_id)


def _call_in(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    try:
        loop.call_soon_threadsafe(call)
    except RuntimeError:
        pass  # the loop was closed: nobody waits there any more
