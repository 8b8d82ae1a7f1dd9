"""Cancel, pause, resume and answer runs; what is asked is recorded before anything is done."""

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tracklog import Overtaken
from tracklog.hosts.openwop.exceptions import AlreadyVoted, BadAnswer, Newer, NotAllowed, Unknown
from tracklog.hosts.openwop.questions import PendingAnswer
from tracklog.hosts.openwop.requests import Request
from tracklog.hosts.openwop.runlog import CANCEL, PAUSE, REFUSAL, RESUME, RunLog
from tracklog.hosts.openwop.settings import ENGINE

if TYPE_CHECKING:
    from tracklog.hosts.openwop.engine import Engine

PATIENCE = 2.0
"""The longest time in seconds that a request waits for its effect before it is answered."""


class AlreadyResolved(Exception):
    """The question was answered before, or its run has ended."""


class Conflict(Exception):
    """The state of a run does not allow it."""

    def __init__(self, log: RunLog, status: str) -> None:
        text = f"the run is {status}"
        if log.pause is not None and status == "running":
            text += ", and a pause was requested: it takes effect when the node has ended"
        super().__init__(text)
        self.status, self.ended = status, log.ended
        self.paused_at = log.snapshot.paused_at


class Control:
    """The requests to runs that are under way."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine

    async def cancel(
        self, name: str, reason: str | None, by: str, parent: str | None = None
    ) -> RunLog:
        """Cancel a run."""
        engine = self._engine
        log = engine.known(name)
        if log.ended or log.cancel is not None:
            return log
        request: dict[str, Any] = {"by": by, **self._reason(reason)}
        request |= {"parent": parent} if parent else {}
        await self._note(log, CANCEL, request)

        def go_on() -> None:
            if name in engine.reader.open and not engine.is_running(name):
                engine.take_up(name)

        await self._until(log, lambda: log.ended, go_on)
        return log

    def status(self, log: RunLog) -> str:
        """The status of a run in all answers; while a child run waits for a person, so does the run."""
        if log.cancel is not None and not log.ended:
            return "cancelling"
        if log.snapshot.status == "running":
            for name in log.snapshot.children:
                child = self.child(log, name)
                if child is None and log.snapshot.host.get("fork", {}).get("mode") == "replay":
                    child = self._engine.log(name)  # of its source, for whose end it waits
                status = "" if child is None else self.status(child)
                if status.startswith("waiting-"):
                    return status
        return log.snapshot.status

    def child(self, log: RunLog, name: str) -> RunLog | None:
        """A child run that this run has begun; a fork names the children of its source, too."""
        child = self._engine.log(name)
        is_own = child.events and child.snapshot.host.get("parentRunId") == log.name
        return child if is_own else None

    async def end_children(self, log: RunLog, reason: str) -> None:
        """End the child runs of a run that ends before them."""
        by = str(log.snapshot.host.get("principal", "default"))
        for name in list(log.snapshot.children):
            child = self.child(log, name)
            if child is not None and not child.ended:
                await self.cancel(name, reason, by, parent=log.name)

    async def pause(self, name: str, policy: str, reason: str | None, by: str) -> str | None:
        """Request a pause; the time at which it began, if it has begun."""
        log = self._engine.known(name)
        if self.status(log) != "running" or log.pause is not None:
            raise Conflict(log, self.status(log))
        request = {"by": by, "drainPolicy": policy, "at": self._engine.now(log)}
        await self._note(log, PAUSE, {**request, **self._reason(reason)})
        await self._until(log, lambda: log.ended or log.snapshot.status == "paused")
        if log.ended:  # it had nothing left to do
            raise Conflict(log, self.status(log))
        return log.snapshot.paused_at

    async def resume(self, name: str, reason: str | None, by: str) -> str:
        """Continue a run that is paused; the time of that."""
        log = self._engine.known(name)
        if self.status(log) != "paused":
            raise Conflict(log, self.status(log))
        at = self._engine.now(log)
        await self._note(log, RESUME, {"by": by, "at": at, **self._reason(reason)})
        await self._until(log, lambda: log.snapshot.status != "paused")
        return at

    async def resolve(
        self, name: str, node: str, value: Any, by: str, request: Request | None = None
    ) -> RunLog:
        """Answer the question that a run waits for; on return the answer is in the journal."""
        engine = self._engine
        log = engine.known(name)
        if not _asks(log, node):
            raise AlreadyResolved if node in log.snapshot.asked else Unknown
        if not isinstance(value, dict):  # a bare word is only for `tracklog answer`
            raise BadAnswer("resumeValue is missing, or no object")
        if int(log.snapshot.host.get("engine", 0)) > ENGINE:
            raise Newer
        interrupt = (log.snapshot.interrupt or {}).get("interruptId")
        answer = PendingAnswer(node, value, by, _note_of(request, name, node))
        until = engine.monotonic() + 5
        while not engine.take_up(name, answer):
            if engine.monotonic() > until or engine.stopping:
                raise AlreadyResolved
            await asyncio.sleep(0.01)
            log.refresh(engine.journal)
            if not _asks(log, node):
                raise AlreadyResolved
        try:
            await asyncio.shield(answer.taken)
        except Overtaken:
            raise AlreadyResolved from None
        except (NotAllowed, AlreadyVoted):
            raise
        except BadAnswer:
            if interrupt is not None:
                await engine.write(
                    log, [], (engine.note(name, REFUSAL, {"interruptId": interrupt, "by": by}),)
                )
                engine.take_up(name)  # the question is closed after too many of them
            raise
        return log

    async def _note(self, log: RunLog, label: str, data: Mapping[str, Any]) -> None:
        await self._engine.write(log, [], (self._engine.note(log.name, label, data),))
        self._engine.act(log)

    def _reason(self, reason: str | None) -> dict[str, Any]:
        return {"reason": self._engine.redactor.text(reason)} if reason else {}

    async def _until(
        self, log: RunLog, done: Callable[[], bool], go_on: Callable[[], None] = lambda: None
    ) -> None:
        until = self._engine.monotonic() + PATIENCE
        while not done() and self._engine.monotonic() < until and not self._engine.stopping:
            go_on()
            await log.wait(0.1)


def _asks(log: RunLog, node: str) -> bool:
    asked, now = log.snapshot.interrupt, log.snapshot.current
    return asked is not None and now == node and log.cancel is None


def _note_of(request: Request | None, run: str, node: str) -> Callable[[str], bytes] | None:
    if request is None:
        return None
    return lambda status: request.note(200, {"runId": run, "nodeId": node, "status": status})
