"""Answers from the index, which one thread at a time brings up to the journal's end."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from tracklog.collector.worker import Worker
from tracklog.index.indexer import BEHIND
from tracklog.journal.sharding import ShardedJournal
from tracklog.model.errors import IndexUnusable, TracklogError
from tracklog.web.trouble import Trouble

if TYPE_CHECKING:
    from tracklog.home.home import Home

T = TypeVar("T")
AS_OF: ContextVar[int | None] = ContextVar("as of", default=None)
"""The last indexed record, for an answer that could not wait for the rest."""
PATIENCE = 5.0
"""Seconds that a question waits for the index; then it is answered with the current index."""
_PAUSE = 1.0  # seconds until an index that could not be written is tried again
_GIVE = "give the `last_seq` of the response to your POST"
_BEING_MADE = IndexUnusable("the index is being built and is still empty", "try again later")


class IndexWorker(Worker):
    """A thread that keeps a shared index up to date, as long as no other process does so."""

    def __init__(self, home: "Home") -> None:
        super().__init__("index worker", failure="the index is not kept up to date", pause=_PAUSE)
        self._home = home

    def start(self) -> None:
        """Begin, if the index is shared; else each question brings the index up to date."""
        if self._home.shares_index:
            super().start()

    def work(self) -> None:
        """Index what is new, until it is stopped."""
        try:
            self._home.index.keep_up(self.stopped.is_set)
        except TracklogError:
            if not self.stopped.is_set():  # the next process continues where this one ends
                raise


class QuestionRunner:
    """Answers questions; one update of the index serves all questions that wait at the same time."""

    def __init__(self, home: "Home") -> None:
        self.home = home
        self._indexing = ThreadPoolExecutor(1, "index")
        self._asking = ThreadPoolExecutor(4, "ask")
        self._now: asyncio.Task[Exception | None] | None = None
        self._next: asyncio.Task[Exception | None] | None = None

    async def ask(self, question: Callable[[], T], indexed: int | None = None) -> T:
        """The result of a function that reads the index, once the index is up to date.

        With `indexed` it is enough that this record is in the index; where it is not within a few
        seconds, the client is asked to come again. A record that does not exist is a 404.

        Where it cannot be brought up to date, as on a full disk, the answer comes from the current
        index, and `AS_OF` says how far that goes. Where there is no index yet, it raises.
        """
        if indexed is not None and isinstance(self.home.journal, ShardedJournal):
            indexed = await self.run(partial(self._all, indexed))
        if indexed is not None and (await self.run(self._known) or 0) >= indexed:
            return await self.run(question)
        catching_up = self._caught_up()
        await asyncio.wait({catching_up}, timeout=PATIENCE)
        failure = catching_up.result() if catching_up.done() else _BEING_MADE
        if failure is not None:
            known = await self.run(self._known)
            if known is None:
                raise failure
            if indexed is not None and known < indexed:
                raise IndexUnusable(
                    f"record {indexed} is not in the index yet, which has record {known}",
                    "ask again in a moment",
                )
            AS_OF.set(known)
        elif indexed is not None and (await self.run(self._known) or 0) < indexed:
            last = self.home.journal.last
            raise Trouble(
                404,
                f"there is no record {indexed}: the last one is {last}",
                _GIVE,
            )
        return await self.run(question)

    def _all(self, number: int) -> int:
        """How many records must be indexed, so that one is: with shards, all that there are."""
        journal = self.home.journal
        found = journal.read(number - 1, 1)
        if not found or found[0].seq != number:
            raise Trouble(404, f"there is no record {number}", _GIVE)
        return journal.last

    def _known(self) -> int | None:
        """The last indexed record; None where the index cannot be read."""
        try:
            return self.home.index.known
        except (TracklogError, OSError):
            return None

    async def run(self, question: Callable[[], T]) -> T:
        """The same for a function that does not need the index to be up to date."""
        return await asyncio.get_running_loop().run_in_executor(self._asking, question)

    def close(self) -> None:
        self._indexing.shutdown(cancel_futures=True)
        self._asking.shutdown(cancel_futures=True)

    def _caught_up(self) -> "asyncio.Task[Exception | None]":
        """Returns when everything is indexed that was recorded before this call."""
        loop = asyncio.get_running_loop()
        if self._now is None or self._now.done():
            self._now = loop.create_task(self._catch_up())
            return self._now
        if self._next is None or self._next.done():
            self._next = loop.create_task(self._after(self._now))
        return self._next

    async def _after(self, running: "asyncio.Task[Exception | None]") -> Exception | None:
        await asyncio.wait({running})
        self._now = asyncio.current_task()
        self._next = None
        return await self._catch_up()

    async def _catch_up(self) -> Exception | None:
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._indexing, self._index)
        except Exception as failure:  # noqa: BLE001  # the caller raises it
            return failure
        return None

    def _index(self) -> None:
        index = self.home.index  # opened here, by the first caller
        for finding in index.catch_up():
            if finding.name == BEHIND:
                raise IndexUnusable(finding.message, "try again in a moment")
