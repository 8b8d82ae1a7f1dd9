"""Carry out runs: each in a task of its own, under a lease, with every event in the journal."""

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tracklog import Log, Overtaken, Tape, TracklogError
from tracklog.hosts._notes import note
from tracklog.hosts.openwop.agents import Agents
from tracklog.hosts.openwop.control import AlreadyResolved, Control
from tracklog.hosts.openwop.exceptions import BadAnswer, Newer, Unknown
from tracklog.hosts.openwop.execution import Execution
from tracklog.hosts.openwop.instance import instance_of
from tracklog.hosts.openwop.journal_reader import JournalReader
from tracklog.hosts.openwop.keys import Keys
from tracklog.hosts.openwop.models import model_of
from tracklog.hosts.openwop.own_lines import own_lines
from tracklog.hosts.openwop.questions import PendingAnswer, deadline_of
from tracklog.hosts.openwop.recorded_answers import tape_for
from tracklog.hosts.openwop.redaction import Redactor
from tracklog.hosts.openwop.requests import DAY, Requests
from tracklog.hosts.openwop.run_cache import RunCache
from tracklog.hosts.openwop.run_limits import deadline
from tracklog.hosts.openwop.runlog import FAMILY, RunLog, line_of, new_event
from tracklog.hosts.openwop.settings import ENGINE, Settings
from tracklog.hosts.openwop.starting import Starter
from tracklog.hosts.openwop.tokens import tokens_of
from tracklog.hosts.openwop.tools import Hooks
from tracklog.hosts.openwop.webhooks import Webhooks
from tracklog.hosts.openwop.wire_v2 import Version2
from tracklog.hosts.openwop.wires import Version1, Wire
from tracklog.hosts.openwop.workflows import Workflows
from tracklog.web import logs

SWEEP = 1.0
"""Seconds after which a run whose host died is taken over by another that lives."""
_THREADS = 64  # runs whose events are written, and so synced, together


class Engine:
    """All runs of one host; everything but the journal's own work happens in one loop."""

    def __init__(self, journal: Log, settings: Settings, keys: Keys | None = None) -> None:
        self.journal, self.settings = journal, settings
        self.keys = keys or Keys(settings)
        self.clock, self.monotonic = journal.clock, time.monotonic
        self._redactor = Redactor(settings.all_secrets)
        self._known_tokens = 0
        self.agents = Agents(settings)
        self.workflows = Workflows(settings, self.agents)
        self.workflows.load()
        self.hooks = Hooks(settings, self.keys)
        self.model = model_of(settings)
        self.leases = journal.leases()
        self.instance = instance_of(journal.folder())
        self.own = own_lines(journal)
        self.tokens = tokens_of(journal.folder(), settings.token_secrets)
        self.wires: dict[str, Wire] = {
            "1.0": Version1(),
            "2.0": Version2(settings, journal, self.own),
        }
        self.webhooks = Webhooks(self, self.wires)
        self.stopping = False
        self.requests = Requests(self)
        self.control = Control(self)
        self.starter = Starter(self)
        self.reader = JournalReader(journal, self.instance, self.own, self.requests)
        self.tapes: dict[str, Tape] = {}
        """The recorded answers of the runs that use some."""
        self.runs = RunCache(journal, self.own, lambda name: name in self._running)
        self._running: dict[str, tuple[Execution | None, asyncio.Task[None]]] = {}
        self._quiet: set[str] = set()
        """Open runs that wait for a person."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        """The timers of runs that wait: for the end of their time, or that of their question."""
        self._sweeper: asyncio.Task[None] | None = None
        self._inline = journal.durability == "os"
        self._writers = ThreadPoolExecutor(_THREADS, "openwop-write")

    @property
    def redactor(self) -> Redactor:
        """Knows the secrets of the settings and the tokens of all keys."""
        tokens = self.keys.secrets()
        if len(tokens) != self._known_tokens:  # there are more of them, never fewer
            self._redactor = Redactor({**tokens, **self.settings.all_secrets})
            self._known_tokens = len(tokens)
        return self._redactor

    async def start(self, *, alone: bool = False) -> None:
        """Continue every unfinished run that no other host works on.

        With `alone`, only runs that are begun here are carried out; others are left to other hosts.
        """
        loop = asyncio.get_running_loop()
        if alone:
            self.reader.skip()
        else:
            self.reader.load()
            await asyncio.to_thread(self.reader.catch_up)
            await asyncio.to_thread(self.requests.tidy)
            self._sweep()
            self._sweeper = asyncio.create_task(self._sweep_on())
            self.webhooks.start()

        def notify(runs: set[str]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is gone
                loop.call_soon_threadsafe(self.pass_on, runs)

        self.reader.listen(notify)

    async def stop(self) -> None:
        """Stop working on every run where it is; the next host continues it there."""
        self.stopping = True
        self.runs.wake()
        for timer in self._timers.values():
            timer.cancel()
        tasks = [task for _, task in self._running.values()]
        tasks += [self._sweeper] if self._sweeper else []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(self.reader.stop)
        await asyncio.to_thread(self.webhooks.stop)
        await self.model.close()
        self._writers.shutdown()
        self.reader.save()
        self.leases.close()

    def pass_on(self, runs: Iterable[str]) -> None:
        """Read new events of these runs, and wake those who wait for them."""
        self._quiet &= self.reader.open
        for name in runs:
            log = self.runs.get(name)
            if log is None and name in self.reader.open:
                log = self.log(name)
            if log is not None:
                log.refresh(self.journal)
                if not log.waits and self._is_ours(log):
                    self._quiet.discard(name)  # another host continued it, and may die
                self.act(log)

    def _is_ours(self, log: RunLog) -> bool:
        """Whether this host can carry out a run."""
        engine = int(log.snapshot.host.get("engine", 0))
        return engine <= ENGINE and log.snapshot.workflow in self.workflows.known

    def act(self, log: RunLog) -> None:
        """Carry out what an operator asked for beside the protocol: an answer, or the end of the run."""
        with contextlib.suppress(Newer):  # it is recorded, and another host may carry it out
            self._carry_out_requests(log)

    def _carry_out_requests(self, log: RunLog) -> None:
        running = self._running.get(log.name)
        if running is not None:
            if running[0] is not None and log.cancel is not None:
                running[0].stop.set()
            elif running[0] is not None and (log.pause or {}).get("drainPolicy") == "immediate":
                running[0].cut.set()
            return
        resumes = log.snapshot.status == "paused" and log.pause is None
        if log.name in self.reader.open and (log.cancel or log.answers or resumes):
            self._quiet.discard(log.name)
            self.take_up(log.name)

    def is_running(self, name: str) -> bool:
        """Whether this host is carrying out a run."""
        return name in self._running

    def _watch(self, log: RunLog) -> None:
        """Take up a run again when its time is up, or that of its question."""
        if (timer := self._timers.pop(log.name, None)) is not None:
            timer.cancel()
        question = log.snapshot.question
        until = deadline(self.settings, log.events[0], log.snapshot.configurable)
        if question is not None:
            until = min(until, deadline_of(question) or until)
        if self.stopping:
            return

        def expired() -> None:
            self._timers.pop(log.name, None)
            self._quiet.discard(log.name)  # from now on the sweeper takes it up, if this fails
            with contextlib.suppress(Newer):
                self.take_up(log.name)

        # A little late, so that the clock has passed the deadline when it is looked at.
        seconds = max(0.0, until - self.clock()) + 0.002
        self._timers[log.name] = asyncio.get_running_loop().call_later(seconds, expired)

    async def _sweep_on(self) -> None:
        while True:
            await asyncio.sleep(SWEEP)
            try:
                self._sweep()
            except Exception as error:  # noqa: BLE001  # logged, and tried again
                logs.log_failure("runs that were left could not be taken up", error)
            self.requests.forget(self.clock() - DAY)
            self.webhooks.start()

    def _sweep(self) -> None:
        for name in sorted(self.reader.open - self._quiet - self._running.keys()):
            try:
                self.take_up(name)
            except Newer:
                text = (
                    "this run is left alone: a newer engine wrote it, or its workflow is not here"
                )
                logs.log("warning", text, run=name)

    def take_up(self, name: str, answer: PendingAnswer | None = None) -> bool:
        """Take the lease of a run and continue it; False when another host has it or it has ended."""
        log = self.log(name)
        if self.stopping or name in self._running or not self.leases.take(log.run):
            return False
        log.refresh(self.journal)
        if not log.events or log.ended:
            self.reader.open.discard(name)
            self.leases.release(log.run)
            return False
        if answer is None and log.answers and log.snapshot.interrupt is not None:
            answer = self._manual_answer(log)
        try:
            self.go_on(log, answer=answer)
        except BaseException:
            self.leases.release(log.run)
            raise
        return True

    def _manual_answer(self, log: RunLog) -> PendingAnswer | None:
        """An answer that was given at the console or the command line."""
        asked = log.snapshot.interrupt or {}
        for question, value, by in reversed(log.answers):
            if question in (asked.get("interruptId"), asked.get("nodeId")):
                log.answers.clear()
                return PendingAnswer(asked["nodeId"], value, by, manual=True)
        log.answers.clear()
        return None

    def log(self, name: str) -> RunLog:
        """A run by its name; it may be empty."""
        return self.runs.read(name)

    def known(self, name: str) -> RunLog:
        """A run of this host."""
        log = self.runs.get(name) or RunLog(name, self.own)
        log.refresh(self.journal)
        if not log.events or log.snapshot.host.get("instance") != self.instance:
            raise Unknown
        self.runs.add(log)
        return log

    def go_on(
        self,
        log: RunLog,
        *,
        live: Mapping[str, Any] | None = None,
        answer: PendingAnswer | None = None,
    ) -> None:
        """Carry out a run from the end of its log on; this host has its lease."""
        host = log.snapshot.host
        if int(host.get("engine", 0)) > ENGINE:
            self._quiet.add(log.name)
            raise Newer
        definition = self.workflows.known.get(log.snapshot.workflow)
        fork = host.get("fork", {})
        if definition is None and log.cancel is None:
            self._quiet.add(log.name)  # another host on this journal may have it
            raise Newer
        if definition is None or definition.fingerprint != host.get("definition"):
            failing = self._end(log, "workflow_changed", "its workflow is not as it was")
            self._keep(log, None, failing, answer)
            return
        source = tape = None
        if fork.get("mode") == "replay":
            source = self.log(fork["sourceRunId"])
            source.refresh(self.journal)
            tape = source.events[: fork.get("through")]
        recorded = tape_for(self.journal, log)
        if recorded is not None:
            self.tapes[log.name] = recorded
        x = Execution(self, log, definition, live=live, answer=answer, tape=tape, recorded=recorded)
        if source is not None and "through" not in fork:
            x.source = source
        self._keep(log, x, x.run(), answer)

    def _keep(
        self,
        log: RunLog,
        x: Execution | None,
        work: Coroutine[Any, Any, None],
        answer: PendingAnswer | None,
    ) -> None:
        self._quiet.discard(log.name)
        task = asyncio.create_task(self._carry_out(log, work, answer))
        task.add_done_callback(lambda _: work.close())  # of a host that stops before it begins
        self._running[log.name] = (x, task)

    async def _carry_out(
        self, log: RunLog, work: Coroutine[Any, Any, None], answer: PendingAnswer | None
    ) -> None:
        failure: BaseException | None = None
        again = False
        try:
            await work
        except (BadAnswer, Overtaken) as error:
            failure, again = error, isinstance(error, Overtaken)
        except TracklogError as error:
            failure = error
            logs.log("error", error.message, run=log.name, hint=error.hint)
        except Exception as error:  # noqa: BLE001  # the run is left where it is, and the log says why
            failure = error
            logs.log_failure("a run could not be carried out", error, run=log.name)
            with contextlib.suppress(Exception):
                log.refresh(self.journal)
                await self._end(log, "internal_error", "the host failed; its log says why")
        finally:
            self._running.pop(log.name, None)
            self.leases.release(log.run)
        if answer is not None and not answer.taken.done():
            answer.taken.set_exception(failure or AlreadyResolved())
            answer.taken.exception()  # so that the exception counts as seen
            if answer.manual:
                logs.log("warning", "an answer does not fit", run=log.name, why=str(failure))
            if answer.manual and isinstance(failure, BadAnswer):
                await self._ask_again(log, str(failure))
        if log.ended:
            self.reader.open.discard(log.name)
            self.tapes.pop(log.name, None)
        elif failure is None or isinstance(failure, BadAnswer):
            self._quiet.add(log.name)
            self._watch(log)
            if log.cancel is not None or (log.answers and not again):
                self.act(log)

    async def _ask_again(self, log: RunLog, why: str) -> None:
        """Ask the question again after an answer that does not fit, and say why."""
        try:
            await self.write(log, [], [log.asked_again(self.journal, why, self.now(log))])
        except Exception as error:  # noqa: BLE001  # the run continues to wait
            logs.log_failure("a question could not be asked again", error, run=log.name)

    async def _end(self, log: RunLog, code: str, message: str) -> None:
        await self.control.end_children(log, "parent-failed")
        data = {"error": {"code": code, "message": message}}
        event = new_event(log, len(log.events), self.now(log), "run.failed", data)
        await self.write(log, [line_of(event)])

    def is_left(self, log: RunLog) -> bool:
        """Whether a run waits for no person, and no host carries it out."""
        if log.ended or log.snapshot.interrupt is not None or log.name in self._running:
            return False
        if not self.leases.take(log.run):
            return False
        self.leases.release(log.run)
        return not log.refresh(self.journal)

    async def end_of(self, log: RunLog) -> None:
        while not log.ended:
            await log.wait(30)
            log.refresh(self.journal)

    def now(self, log: RunLog) -> str:
        """The time; never before the run's last event."""
        at = self.journal.now()
        return max(at, log.events[-1]["timestamp"]) if log.events else at

    def note(self, run: str, label: str, data: Mapping[str, Any]) -> bytes:
        """A note about a run, as a line."""
        return note(self.journal, (FAMILY, run), label, data)

    async def write(self, log: RunLog, lines: Sequence[bytes], notes: Sequence[bytes] = ()) -> None:
        """Append lines, all or none; on return those who follow the run have them."""
        every = [*notes, *lines]
        if self._inline:
            self._admit(every, mixed=bool(notes))
        else:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._writers, lambda: self._admit(every, mixed=bool(notes)))
        log.refresh(self.journal)

    def _admit(self, lines: list[bytes], *, mixed: bool) -> None:
        if not lines:
            return
        verdicts = self.journal.admit(lines, None if mixed else FAMILY)
        for verdict in verdicts:
            if verdict.verdict == "refused":
                why = "; ".join(f"{each.pointer} {each.message}" for each in verdict.problems)
                raise Overtaken(f"the journal refused an event: {why}", "the run is read again")
