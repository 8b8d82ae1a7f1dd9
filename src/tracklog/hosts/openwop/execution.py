"""Carrying out one run: what is on record is gone through again, and from there on it goes live.

Every step says its events through `emit`. Where the run's own log has the event already, it is
taken from there and nothing is done again; a replay takes the payload from the source's log
(WOP-81, WOP-82); everything else is new. So the log alone decides where a run goes on.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from tracklog.event import Body
from tracklog.hosts.openwop.definitions import Definition, Node
from tracklog.hosts.openwop.redaction import Redactor
from tracklog.hosts.openwop.runlog import TERMINAL, RunLog
from tracklog.tape import LABEL, Tape, report

if TYPE_CHECKING:
    from tracklog.hosts.openwop.engine import Engine

T = TypeVar("T")
TIMEOUT = "run_timeout"
ENDS = ("node.completed", "node.failed", "node.cancelled")
PURE = frozenset({"core.noop", "core.identity", "core.delay", "core.fail"})


def is_pure(node: Node) -> bool:
    """Whether a replay carries it out again: it needs nobody and no clock, and comes out the same."""
    return node.type in PURE and not node.config.get("emitDuplicateMessageId")


class NodeFailed(Exception):
    """A node cannot go on."""

    def __init__(self, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.error: dict[str, Any] = {"code": code, "message": message}
        if details:
            self.error["details"] = dict(details)


class RunFailed(Exception):
    """The run ends here, without success."""

    def __init__(self, error: Mapping[str, Any], node: str | None, cause: Body | None) -> None:
        super().__init__(error["message"])
        self.error, self.node, self.cause = error, node, cause


class Suspended(Exception):
    """The run waits for a person; it is on record for what."""


class Cancelled(Exception):
    """Somebody wanted the run to end."""


class Retold(Exception):
    """The source of a replay ended here, and so does the replay."""


class Drifted(Exception):
    """The log does not say what this host would have said: host or workflow were changed."""


class BadAnswer(Exception):
    """An answer that does not fit its question."""


class Answer:
    """What a person answered, on its way into the log."""

    def __init__(
        self,
        node: str,
        value: Any,
        by: str,
        notes: tuple[bytes, ...] = (),
        *,
        told: bool = False,
    ) -> None:
        self.node, self.value, self.by, self.notes = node, value, by, notes
        self.told = told
        """Whether it was given beside the protocol, so that nobody waits to hear what became of it."""
        self.taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Execution:
    """One run, from its first record to its end, or to where it must wait."""

    def __init__(
        self,
        engine: "Engine",
        log: RunLog,
        definition: Definition,
        *,
        live: Mapping[str, Any] | None = None,
        answer: Answer | None = None,
        tape: list[Body] | None = None,
        recorded: Tape | None = None,
    ) -> None:
        self.engine, self.log, self.definition, self.answer = engine, log, definition, answer
        self.settings = engine.settings
        self.history = list(log.events)
        self.at = 0
        started, snapshot = self.history[0], log.snapshot
        self.host: Mapping[str, Any] = started.get("host", {})
        self.configurable = snapshot.configurable
        self.principal: str = self.host.get("principal", "default")
        inputs = dict(started["payload"].get("inputs", {}) if live is None else live)
        self.variables = inputs
        hidden = {n: inputs[n] for n in definition.sensitive() if isinstance(inputs.get(n), str)}
        self.redactor: Redactor = engine.redactor.also(hidden)
        self.recorded = recorded
        """What answers in the place of models, tools and people."""
        self.tape, self.tape_at = tape, 0
        self.told: dict[int, str] = {}
        """Of a replay: the own event for each of the source's."""
        self.faithful = False
        """Whether what is said now must be what the source said."""
        self.stop = asyncio.Event()
        self.buffer: list[Body] = []
        self.execs: dict[str, int] = {}
        self.outcomes: dict[str, str] = {}
        self.outputs: dict[str, dict[str, Any]] = {}
        self.decisions: dict[str, list[Body]] = {}
        """What each supervisor decided by itself."""
        self.contexts: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        self.current: Node | None = None

    @property
    def is_live(self) -> bool:
        """Whether everything on record has been gone through."""
        return self.at >= len(self.history)

    async def run(self) -> None:
        """To the end, or to where somebody must answer."""
        try:
            try:
                async with asyncio.timeout(self._time_left()):
                    await self._walk()
            except Cancelled:
                self._cancelled()
            except TimeoutError:
                self._out_of_time()
            except RunFailed as failed:
                said: dict[str, Any] = {"error": failed.error}
                said |= {"failedNodeId": failed.node} if failed.node else {}
                self.emit("run.failed", said, cause=failed.cause)
            except Drifted as drifted:
                self.history = self.history[: self.at]
                self.tape = None
                error = {"code": "engine_version_mismatch", "message": str(drifted)}
                self.at = len(self.log.events)
                self.emit("run.failed", {"error": error})
            else:
                outputs: dict[str, Any] = {}
                for node in self.definition.sinks:
                    outputs |= self.outputs.get(node, {})
                self.emit("run.completed", {"outputs": self._masked(outputs)})
                self._missing()
        except (Suspended, Retold):
            pass
        await self.flush()

    def _time_left(self) -> float | None:
        """Seconds that the run may still take; the time in which it waits for people is theirs."""
        most = self.definition.source["settings"].get("timeout")
        if not most or self.tape is not None:
            return None
        spent, since = 0.0, _seconds(self.history[0])
        for event in self.history:
            if event["type"] == "node.suspended":
                spent, since = spent + _seconds(event) - since, _seconds(event)
            elif event["type"] == "node.resumed":
                since = _seconds(event)
        waiting = self.log.snapshot.interrupt is not None
        spent += 0.0 if waiting else self.engine.clock() - since
        return float(most) / 1000 - spent

    def _out_of_time(self) -> None:
        """The run took longer than its definition allows: its node fails, and it with that."""
        most = int(self.definition.source["settings"]["timeout"])
        error = {"code": TIMEOUT, "message": f"the run took longer than {most} ms"}
        elapsed = max(most + 1, round(1000 * (self.engine.clock() - _seconds(self.history[0]))))
        said: dict[str, Any] = {"kind": "run-duration", "limit": most, "observed": elapsed}
        node = self.current
        name = node.id if node else None
        cause = self.emit("cap.breached", {**said, "nodeId": name} if name else said, name)
        if name is not None:
            failed = {"nodeId": name, "error": error, "attempts": 1}
            cause = self.emit("node.failed", failed, name, cause)
        told = {"error": error, **({"failedNodeId": name} if name else {})}
        self.emit("run.failed", told, cause=cause)

    async def _walk(self) -> None:
        self._take_start()
        order, executions, at = self.definition.order, 0, 0
        turns: dict[str, int] = {}
        while at < len(order):
            node = self.definition.nodes[order[at]]
            at += 1
            if node.id in self.outcomes:
                continue
            self._look_up(node=None)
            if not self._is_due(node):
                self.outcomes[node.id] = "success" if node.disabled else "skipped"
                reason = "disabled" if node.disabled else "trigger-rule"
                self.emit("node.skipped", {"nodeId": node.id, "reason": reason}, node.id)
                continue
            self._check_cap("node-executions", self._limit(), executions + 1, node)
            executions += 1
            outputs = await self._execute(node)
            head = self.definition.loops.get(node.id)
            if head is None or outputs.get("decision") == "terminate":
                continue
            turns[node.id] = turns.get(node.id, 1) + 1
            if cap := node.config.get("iterationCap"):
                self._check_cap("loop-iterations", cap, turns[node.id], node)
            for each in self.definition.body_of_loop(node.id):
                self.outcomes.pop(each, None)
            at = order.index(head)

    def _take_start(self) -> None:
        started = self.history[0]
        self.emit("run.started", started["payload"])

    def _look_up(self, node: Node | None) -> None:
        """Between two steps: whether it is to go on at all."""
        self.current = node
        if not self.is_live:
            if self.history[self.at]["type"] == "run.cancelled":
                raise Cancelled
            return
        if self.log.cancel is not None:
            raise Cancelled
        if self.tape is not None:
            event = self._on_tape()
            if event is not None and event["type"] == "run.cancelled":
                self._retell(event)
                raise Retold

    def _limit(self) -> int:
        most = self.settings.max_node_executions
        return min(most, int(self.configurable.get("recursionLimit", most)))

    def _check_cap(self, kind: str, limit: int, observed: int, node: Node) -> None:
        if observed <= limit:
            return
        said = {"kind": kind, "limit": limit, "observed": observed, "nodeId": node.id}
        breach = self.emit("cap.breached", said, node.id)
        what = "node executions" if kind == "node-executions" else "turns of a loop"
        error = {"code": "recursion_limit_exceeded", "message": f"{what} exceed {limit}"}
        raise RunFailed(error, node.id, breach)

    def _is_due(self, node: Node) -> bool:
        if node.disabled:
            return False
        before = [
            (self.outcomes.get(source), rule) for source, rule in self.definition.upstream[node.id]
        ]
        found = [outcome for outcome, _ in before]
        holds = {
            "all_success": all(each == "success" for each in found),
            "any_success": "success" in found,
            "all_complete": True,
            "none_failed": "failed" not in found,
            "any_failed": "failed" in found,
        }
        return all(holds[rule] for _, rule in before)

    async def _execute(self, node: Node) -> dict[str, Any]:
        from tracklog.hosts.openwop.nodes import BODIES, delegate  # noqa: PLC0415  # a circle
        from tracklog.hosts.openwop.step import Step  # noqa: PLC0415

        ref = delegate(self, node)
        count = self.execs[node.id] = self.execs.get(node.id, -1) + 1
        said: dict[str, Any] = {"nodeId": node.id, "typeId": node.type, "attempt": 0}
        said |= {"agent": ref} if ref else {}
        started = self.emit("node.started", said, node.id)
        assert started is not None
        step = Step(self, node, ref, count, started)
        self.current = node
        try:
            recorded = self._recorded_end(node)
            if recorded is not None:
                outputs = self._retell_all(step, recorded)
            else:
                self.faithful = self.tape is not None and not is_pure(node)
                outputs = await BODIES[node.type](step)
                self.faithful = False
                done: dict[str, Any] = {"nodeId": node.id, "outputs": self._masked(outputs, node)}
                done |= {"agent": ref} if ref else {}
                self.emit("node.completed", done, node.id, step.cause)
        except NodeFailed as failed:
            self.faithful = False
            self._fail(step, failed)
            outputs = {}
        else:
            self.outcomes[node.id] = "success"
        self.current = None
        self.outputs[node.id] = outputs
        self.variables.update(outputs)
        return outputs

    def _fail(self, step: Any, failed: NodeFailed) -> None:
        """Ends the run, unless an edge says what to do when this node fails."""
        name = step.node.id
        said = {"nodeId": name, "error": failed.error, "attempts": 1}
        event = self.emit("node.failed", said, name, step.cause)
        self.outcomes[name] = "failed"
        edges = [
            rule for each in self.definition.upstream.values() for s, rule in each if s == name
        ]
        if not {"any_failed", "all_complete"} & set(edges):
            raise RunFailed(failed.error, name, event)

    def _cancelled(self) -> None:
        wish = self.log.cancel or {}
        said: dict[str, Any] = {"reason": wish.get("reason") or "cancelled"}
        if self.current is not None:
            self.emit("node.cancelled", {"nodeId": self.current.id, **said}, self.current.id)
        said["cancelledBy"] = wish.get("by", "default")
        said |= {"parentRunId": wish["parent"]} if "parent" in wish else {}
        self.emit("run.cancelled", said)

    def _masked(self, outputs: Mapping[str, Any], node: Node | None = None) -> dict[str, Any]:
        hidden = self.definition.sensitive() | (node.sensitive if node else frozenset())
        return {k: f"[REDACTED:{k}]" if k in hidden else v for k, v in outputs.items()}

    # Saying something.

    def emit(
        self,
        kind: str,
        payload: Mapping[str, Any],
        node: str | None = None,
        cause: Body | None = None,
        **more: Any,
    ) -> Body | None:
        """The event: the one on record, or a new one; None for a type that is not advertised."""
        self._pass_notes()
        if not self.is_live:
            return self._consume(kind, node)
        if not self.settings.writes(kind):  # WOP-75
            return None
        if self.tape is not None and self.at > 0:
            event = self._on_tape()
            if event is not None and self.faithful:
                if (event["type"], event.get("nodeId")) != (kind, node):
                    self._diverged(event, "type-mismatch", kind)
                    self.faithful = False
                    raise NodeFailed("replay_source_missing", f"the source has no {kind} here")
                return self._retell(event)
            if event is None and self.faithful and not self._source_waits():
                self.faithful = False
                raise NodeFailed("replay_source_missing", f"the source ends before {kind}")
            if event is not None:
                self._compare(event, kind, payload, node)
            elif not self._source_waits():
                self._diverged(None, "extra", kind)
        event_cause = None if cause is None else cause["eventId"]
        return self._write(kind, self.redactor.clean(dict(payload)), node, event_cause, **more)

    def _pass_notes(self) -> None:
        while not self.is_live and self.history[self.at]["type"] == "replay.diverged":
            self.at += 1

    def _consume(self, kind: str | None, node: str | None = None) -> Body:
        event = self.history[self.at]
        if kind is not None and (event["type"], event.get("nodeId")) != (kind, node):
            if event["type"] == "cap.breached" and event["payload"]["kind"] == "run-duration":
                raise TimeoutError  # cut off while it said so
            where = f"event {self.at} is {event['type']} and not {kind}"
            raise Drifted(f"host or workflow were changed while this run was under way: {where}")
        self.at += 1
        if self.tape is not None and self._on_tape() is not None:
            self.told[self.tape_at] = event["eventId"]
            self.tape_at += 1
        return event

    def _write(
        self, kind: str, payload: Any, node: str | None, cause: str | None, **more: Any
    ) -> Body:
        event = new_event(
            self.log.name, self.at, self.engine.now(self.log), kind, payload, node, cause, **more
        )
        self.buffer.append(event)
        self.at += 1
        self.history.append(event)
        if self.tape is not None and kind != "replay.diverged" and self._on_tape() is not None:
            self.told[self.tape_at] = event["eventId"]
            self.tape_at += 1
        return event

    # A replay's source.

    def _on_tape(self) -> Body | None:
        """The next event of the source that would be written here."""
        assert self.tape is not None
        while self.tape_at < len(self.tape):
            event = self.tape[self.tape_at]
            if event["type"] != "replay.diverged" and self.settings.writes(event["type"]):
                return event
            self.tape_at += 1
        return None

    def _source_waits(self) -> bool:
        assert self.tape is not None
        return bool(self.tape[-1]["type"] == "node.suspended")

    def _retell(self, event: Body) -> Body:
        """Payload and order as in the source; id, time and run are our own."""
        assert self.tape is not None
        cause = None
        if "causationId" in event:
            number = event["causationId"].rpartition("-")[2]
            cause = self.told.get(int(number)) if number.isdigit() else None
        return self._write(event["type"], event["payload"], event.get("nodeId"), cause)

    def _compare(
        self, event: Body, kind: str, payload: Mapping[str, Any], node: str | None
    ) -> None:
        if (event["type"], event.get("nodeId")) != (kind, node):
            self._diverged(event, "type-mismatch", kind)
        elif orjson.dumps(event["payload"], option=orjson.OPT_SORT_KEYS) != orjson.dumps(
            self.redactor.clean(dict(payload)), option=orjson.OPT_SORT_KEYS
        ):
            self._diverged(event, "output", kind)

    def _diverged(self, event: Body | None, how: str, where: str) -> None:
        said: dict[str, Any] = {"sourceRunId": self.host["fork"]["sourceRunId"]}
        said["atSequence"] = self.at if event is None else event["sequence"]
        said |= {} if event is None else {"originalEventId": event["eventId"]}
        said |= {"divergenceKind": how, "divergencePoint": where}
        self._write("replay.diverged", said, None, None)

    def _missing(self) -> None:
        """A replay that ended before its source did; it cannot be said behind the end."""
        if self.tape is None:
            return
        left = self._on_tape()
        if left is not None and self.buffer and self.buffer[-1]["type"] == "run.completed":
            end = self.buffer.pop()
            self.history.pop()
            self.at -= 1
            self._diverged(left, "missing", left["type"])
            self.tape = None
            self._write(end["type"], end["payload"], None, None)

    def _recorded_end(self, node: Node) -> int | None:
        """Where the end of this execution of a node is on record: in our log, or in the source's."""
        for at in range(self.at, len(self.history)):
            event = self.history[at]
            if event["type"] in ENDS and event.get("nodeId") == node.id:
                return at
        if self.tape is None:
            return None
        for at in range(self.tape_at, len(self.tape)):
            event = self.tape[at]
            if event["type"] in ENDS and event.get("nodeId") == node.id:
                return None if is_pure(node) and not _was_cut_off(event) else -1
        return None

    def _retell_all(self, step: Any, end: int) -> dict[str, Any]:
        """Goes through an execution that is on record to its end; nobody is asked or called."""
        node = step.node
        while True:
            self._pass_notes()
            if not self.is_live:
                event = self._consume(None)
            else:
                source = self._on_tape()
                assert source is not None
                event = self._retell(source)
            kind, payload = event["type"], event["payload"]
            if kind == "runOrchestrator.decided" and event.get("nodeId") == node.id:
                self.decisions.setdefault(node.id, []).append(event)
            if event.get("nodeId") != node.id or kind not in ENDS:
                continue
            if kind == "node.completed":
                outputs: dict[str, Any] = payload.get("outputs", {})
                step.remember(outputs)
                return outputs
            if kind == "node.failed":
                return self._failed_before(node, payload["error"], event)
            self.current = None
            if end < 0:
                ending = self._on_tape()
                if ending is not None:
                    self._retell(ending)
                raise Retold
            raise Cancelled

    def _failed_before(self, node: Node, error: Mapping[str, Any], event: Body) -> dict[str, Any]:
        self.outcomes[node.id] = "failed"
        edges = [r for each in self.definition.upstream.values() for s, r in each if s == node.id]
        if not {"any_failed", "all_complete"} & set(edges):
            raise RunFailed(error, node.id, event)
        return {}

    def peek(self, ahead: int = 0) -> Body | None:
        """What is on record next, of our own or of the source's."""
        self._pass_notes()
        if self.at + ahead < len(self.history):
            return self.history[self.at + ahead]
        if self.tape is not None and self.faithful and self.is_live and self._on_tape() is not None:
            place = self.tape_at + ahead
            return self.tape[place] if place < len(self.tape) else None
        return None

    # Waiting, and keeping what was said.

    async def flush(self) -> None:
        """On return everything that was said is in the journal."""
        if not self.buffer:
            return
        lines = [line_of(event) for event in self.buffer]
        answer = self.answer
        notes: tuple[bytes, ...] = ()
        if self.recorded is not None and self.buffer[-1]["type"] in TERMINAL:
            said = {"source": self.host["tape"]["run"], **report([self.recorded])}
            notes = (self.engine.note(self.log.name, LABEL, said),)
        if answer is not None and not answer.taken.done():
            notes += answer.notes
        self.buffer.clear()
        await _whole(self.engine.write(self.log, lines, notes))
        if answer is not None and not answer.taken.done():
            answer.taken.set_result(None)

    async def unless_stopped(self, work: Coroutine[Any, Any, T]) -> T:
        """What comes of some work, unless the run is cancelled meanwhile."""
        if self.log.cancel is not None:
            work.close()
            raise Cancelled
        doing, stopping = asyncio.ensure_future(work), asyncio.ensure_future(self.stop.wait())
        try:
            await asyncio.wait({doing, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                return doing.result()
            raise Cancelled
        finally:
            for each in (doing, stopping):
                if not each.done():
                    each.cancel()
            await asyncio.gather(doing, stopping, return_exceptions=True)

    async def sleep_until(self, started: Body, seconds: float) -> None:
        """As long as it takes since an event, however often we were stopped meanwhile."""
        if self.tape is not None:
            return
        left = _seconds(started) + seconds - self.engine.clock()
        if left > 0:
            await self.unless_stopped(asyncio.sleep(left))

    @property
    def orchestrator(self) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.host.get("orchestrator")
        return found


def _was_cut_off(event: Body) -> bool:
    """Whether a node ended because somebody, or the clock, wanted that."""
    error = event["payload"].get("error", {})
    return event["type"] == "node.cancelled" or bool(error.get("code") == TIMEOUT)


async def _whole(work: Coroutine[Any, Any, None]) -> None:
    """Work that is done to its end even when nobody wants to wait for that any longer."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


def _seconds(event: Body) -> float:
    return datetime.fromisoformat(event["timestamp"]).timestamp()


def new_event(
    run: str,
    sequence: int,
    at: str,
    kind: str,
    payload: Any,
    node: str | None = None,
    cause: str | None = None,
    **more: Any,
) -> Body:
    """An event, its keys in the order in which we write them."""
    event: Body = {
        "eventId": f"evt-{run}-{sequence}",
        "runId": run,
        "sequence": sequence,
        "timestamp": at,
        "type": kind,
    }
    if node is not None:
        event["nodeId"] = node
    if cause is not None:
        event["causationId"] = cause
    return {**event, "payload": payload, "schemaVersion": 1, "engineVersion": "1", **more}


def line_of(event: Body) -> bytes:
    return orjson.dumps(event)
