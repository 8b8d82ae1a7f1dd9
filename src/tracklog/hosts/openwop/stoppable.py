"""Write the events of a run, and wait, until the run is cancelled or paused."""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from tracklog import TAPE_LABEL, Body, Tape, tape_report
from tracklog.hosts.openwop.event_writer import EventWriter
from tracklog.hosts.openwop.exceptions import Cancelled, Paused
from tracklog.hosts.openwop.questions import PendingAnswer
from tracklog.hosts.openwop.redaction import Redactor
from tracklog.hosts.openwop.run_limits import seconds_of
from tracklog.hosts.openwop.runlog import TERMINAL, RunLog, line_of

if TYPE_CHECKING:
    from tracklog.hosts.openwop.engine import Engine

T = TypeVar("T")


class StoppableWriter(EventWriter):
    """The events of one run, and the waits between them."""

    def __init__(
        self,
        engine: "Engine",
        log: RunLog,
        redactor: Redactor,
        answer: PendingAnswer | None,
        tape: list[Body] | None,
        recorded: Tape | None,
    ) -> None:
        super().__init__(log, engine.settings, redactor, engine.now, tape)
        self.engine, self.answer = engine, answer
        self.recorded = recorded
        """The recorded run that answers in the place of models, tools and people."""
        self.stop = asyncio.Event()
        """Set when the run is to be cancelled."""
        self.cut = asyncio.Event()
        """Set when the run is to be paused at once."""

    async def flush(self) -> None:
        """Write the pending events; on return all are in the journal."""
        if not self.buffer:
            return
        lines = [line_of(event) for event in self.buffer]
        answer = self.answer
        notes: tuple[bytes, ...] = ()
        resumed = any(event["type"] == "interrupt.resolved" for event in self.buffer)
        if self.recorded is not None and self.buffer[-1]["type"] in TERMINAL:
            data = {"source": self.host["tape"]["run"], **tape_report([self.recorded])}
            notes = (self.engine.note(self.log.name, TAPE_LABEL, data),)
        if answer is not None and not answer.taken.done():
            status = "running" if resumed else self.log.snapshot.status
            notes += (answer.note(status),) if answer.note else ()
        self.buffer.clear()
        await _completed(self.engine.write(self.log, lines, notes))
        if answer is not None and not answer.taken.done():
            answer.taken.set_result(None)

    async def unless_stopped(self, work: Coroutine[Any, Any, T], *, is_pausable: bool = True) -> T:
        """The result of some work, unless the run is cancelled or, at once, paused meanwhile.

        What may have an effect outside is not cut off by a pause: the pause waits for its end.
        """
        request = self.log.pause or {}
        if request.get("drainPolicy") == "immediate":
            self.cut.set()
        if self.log.cancel is not None or (is_pausable and self.cut.is_set()):
            work.close()
            raise Cancelled if self.log.cancel is not None else Paused
        doing, stopping = asyncio.ensure_future(work), asyncio.ensure_future(self.stop.wait())
        others = [stopping]
        if is_pausable:
            others.append(asyncio.ensure_future(self.cut.wait()))
        try:
            await asyncio.wait({doing, *others}, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                return doing.result()
            raise Cancelled if stopping.done() else Paused
        finally:
            for each in (doing, *others):
                if not each.done():
                    each.cancel()
            await asyncio.gather(doing, *others, return_exceptions=True)

    async def sleep_until(self, started: Body, seconds: float, *, is_pausable: bool = True) -> None:
        """Sleep until so many seconds after an event, also over restarts of the host."""
        if self.tape is not None:
            return
        left = seconds_of(started) + seconds - self.engine.clock()
        if left > 0:
            await self.unless_stopped(asyncio.sleep(left), is_pausable=is_pausable)


async def _completed(work: Coroutine[Any, Any, None]) -> None:
    """Finish some work even when the waiting task is cancelled."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
