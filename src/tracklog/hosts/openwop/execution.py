"""Carry out one run: repeat what is in the journal, and continue from there."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tracklog import Body, Tape
from tracklog.hosts.openwop.definitions import DISPATCH, Definition, WorkflowNode
from tracklog.hosts.openwop.event_writer import TIMEOUT, ends_attempt, ends_early, open_start
from tracklog.hosts.openwop.exceptions import (
    Again,
    Cancelled,
    Drifted,
    NodeFailed,
    Paused,
    ReplayEnded,
    RunFailed,
    Suspended,
)
from tracklog.hosts.openwop.kinds import KINDS, is_pure
from tracklog.hosts.openwop.masking import Masks
from tracklog.hosts.openwop.questions import PendingAnswer
from tracklog.hosts.openwop.redaction import masked
from tracklog.hosts.openwop.run_limits import CAPS, Limit, deadline, nearest_limit
from tracklog.hosts.openwop.runlog import RunLog
from tracklog.hosts.openwop.step import NodeStep
from tracklog.hosts.openwop.stoppable import StoppableWriter
from tracklog.hosts.openwop.tools import unknown_end

if TYPE_CHECKING:
    from tracklog.hosts.openwop.engine import Engine

PAUSE, LONGEST_PAUSE = 100, 10_000
"""Milliseconds before a node that failed is tried again: the first time, and at most; it doubles."""


class Execution(StoppableWriter):
    """One run, from its first record to its end, or to where it must wait."""

    def __init__(
        self,
        engine: "Engine",
        log: RunLog,
        definition: Definition,
        *,
        live: Mapping[str, Any] | None = None,
        answer: PendingAnswer | None = None,
        tape: list[Body] | None = None,
        recorded: Tape | None = None,
    ) -> None:
        masks = Masks(definition, log.events[0].get("host", {}).get("hidden", ()))
        inputs = masks.take_inputs(log, live)
        redactor = masks.secrets(log.redactor or engine.redactor, inputs)
        super().__init__(engine, log, redactor, answer, tape, recorded)
        self.definition, self.masks = definition, masks
        self.configurable = log.snapshot.configurable
        self.principal: str = self.host.get("principal", "default")
        self.variables = inputs
        self.source: RunLog | None = None
        """The source of a replay, until it has ended."""
        self._timer: asyncio.Timeout | None = None
        self.starts: dict[str, int] = {}
        """The number of starts of each node."""
        self.outcomes: dict[str, str] = {}
        self.outputs: dict[str, dict[str, Any]] = {}
        self.decisions: dict[str, list[Body]] = {}
        """The decisions that each supervisor made by itself."""
        self.contexts: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        self.current: WorkflowNode | None = None
        self._is_repeated = False  # whether the outputs of the current node come from a log
        self.attempt = 0
        """The number of the attempt at the current node."""

    async def run(self) -> None:
        """Run to the end, or to a question that a person must answer."""
        try:
            try:
                left = None if self.tape is not None else self._limit_of_time().left
                async with asyncio.timeout(left) as timer:
                    self._timer = timer
                    try:
                        await self._wait_for_source()
                        await self._walk()
                    finally:
                        self._timer = None
            except Cancelled:
                self._cancelled()
            except TimeoutError:
                await self._out_of_time()
            except Suspended:
                if self._limit_of_time().left > 0:
                    raise
                self.go_on_alone()
                await self._out_of_time()
            except RunFailed as failed:
                data: dict[str, Any] = {"error": failed.error}
                data |= {"failedNodeId": failed.node} if failed.node else {}
                self.emit("run.failed", data, cause=failed.cause)
            except Drifted as drifted:
                self.history = self.history[: self.at]
                self.tape = None
                error = {"code": "engine_version_mismatch", "message": str(drifted)}
                self.at = len(self.log.events)
                self.emit("run.failed", {"error": error})
            else:
                outputs: dict[str, Any] = {}
                for node in self.definition.sinks:
                    outputs |= self.masks.outputs_of(node, self.outputs.get(node, {}))
                self.emit("run.completed", {"outputs": outputs})
                self.note_missing()
        except (Suspended, ReplayEnded):
            pass
        await self.flush()
        self.masks.forget(self.log)

    async def _wait_for_source(self) -> None:
        """Wait until the source of a replay has ended: what it has not done cannot be repeated."""
        if self.source is None:
            return
        until = deadline(self.settings, self.history[0], self.configurable)
        try:
            async with asyncio.timeout(until - self.engine.clock()):
                await self.unless_stopped(self.engine.end_of(self.source), is_pausable=False)
        except (Cancelled, TimeoutError):
            self.tape, self.at = None, len(self.history)
            if (started := open_start(self.history)) is not None:
                self.current = self.definition.nodes[started["nodeId"]]
                self.attempt = started["payload"]["attempt"]
            raise
        self.use_tape(list(self.source.events))
        self.source = None

    def go_on_alone(self) -> None:
        super().go_on_alone()
        if self._timer is not None:
            now = asyncio.get_running_loop().time()
            self._timer.reschedule(now + self._limit_of_time().left)

    def _limit_of_time(self) -> Limit:
        now, waits = self.engine.clock(), self.log.waits or self.source is not None
        about = (self.settings, self.definition, self.configurable)
        return nearest_limit(*about, self.history, now, is_waiting=waits)

    async def _out_of_time(self) -> None:
        """Fail the node and the run, which took longer than it may; its child runs are ended."""
        await self.flush()
        await self.engine.control.end_children(self.log, "parent-timeout")
        most, seconds = self._limit_of_time()
        error = {"code": TIMEOUT, "message": f"the run took longer than {most} ms"}
        spent = max(most + 1, round(1000 * seconds))
        data: dict[str, Any] = {"kind": "run-duration", "limit": most, "observed": spent}
        node = self.current
        name = node.id if node else None
        cause = self.emit("cap.breached", {**data, "nodeId": name} if name else data, name)
        if name is not None:
            failed = {"nodeId": name, "error": error, "attempts": self.attempt + 1}
            cause = self.emit("node.failed", failed, name, cause)
        fields = {"error": error, **({"failedNodeId": name} if name else {})}
        self.emit("run.failed", fields, cause=cause)

    async def _walk(self) -> None:
        self._take_start()
        order, at = self.definition.order, 0
        turns: dict[str, int] = {}
        dispatched = 0
        """The executions of all dispatch nodes of the run."""
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
            self._check_cap("node-executions", self._limit(), self._executions + 1, node)
            if node.type == DISPATCH:
                dispatched += 1
                cap = node.config.get("iterationCap", dispatched)
                self._check_cap("loop-iterations", cap, dispatched, node)
            outputs = await self._execute(node)
            head = self.definition.loops.get(node.id)
            if head is None or outputs.get("decision") == "terminate":
                continue
            turns[node.id] = turns.get(node.id, 1) + 1
            settings = self.definition.source["settings"]
            caps = (
                node.config.get("iterationCap"),
                settings.get("maxLoopbackIterations"),
                self.configurable.get("maxLoopIterations"),
            )
            if limits := [cap for cap in caps if cap]:
                self._check_cap("loop-iterations", min(limits), turns[node.id], node)
            for each in self.definition.body_of_loop(node.id):
                self.outcomes.pop(each, None)
            at = order.index(head)
        self._look_up(node=None)

    def _take_start(self) -> None:
        started = self.history[0]
        self.emit("run.started", started["payload"])

    def _look_up(self, node: WorkflowNode | None) -> None:
        """Check between two steps whether the run goes on."""
        self.current = node
        while not self.is_live and self.history[self.at]["type"] == "run.paused":
            self._pause()
        if not self.is_live:
            if self.history[self.at]["type"] == "run.cancelled":
                raise Cancelled
            return
        if self.log.cancel is not None:
            raise Cancelled
        while (event := self.due_on_tape()) is not None and event["type"] == "run.paused":
            self._pause()
        if event is not None and ends_early(event):
            self._repeat_end()
        if self.log.pause is not None:
            self._pause()

    def _repeat_end(self) -> None:
        """Repeat the end of a source that ended between two nodes."""
        while (event := self.on_tape()) is not None:
            self.repeat(event)
        raise ReplayEnded

    def _pause(self) -> None:
        """Pause here, unless it is recorded that the run, or the source of a replay, went on."""
        event = self.due_on_tape()
        if event is not None and event["type"] == "run.paused":
            self.repeat(event)
        else:
            request = self.log.pause or {}
            data = {"reason": request["reason"]} if "reason" in request else {}
            policy = request.get("drainPolicy", "drain-current-node")
            self.emit("run.paused", {**data, "drainPolicy": policy})
        event = self.due_on_tape()
        if event is not None and ends_early(event):
            self._repeat_end()
        if event is not None and event["type"] == "run.resumed":
            self.repeat(event)
            return
        if self.is_live and self.log.cancel is not None:
            raise Cancelled
        if self.is_live and self.log.pause is not None:
            raise Suspended
        if not self.is_live and self.history[self.at]["type"] == "run.cancelled":
            raise Cancelled
        self.cut.clear()
        reason = self.log.resume.get("reason")
        self.emit("run.resumed", {"reason": reason} if reason else {})

    @property
    def _executions(self) -> int:
        return sum(self.starts.values())

    def _limit(self) -> int:
        most = self.settings.max_node_executions
        return min(most, int(self.configurable.get("recursionLimit", most)))

    def _check_cap(self, kind: str, limit: int, observed: int, node: WorkflowNode) -> None:
        if observed <= limit:
            return
        data = {"kind": kind, "limit": limit, "observed": observed, "nodeId": node.id}
        breach = self.emit("cap.breached", data, node.id)
        code, what = CAPS[kind]
        raise RunFailed({"code": code, "message": f"{what} exceed {limit}"}, node.id, breach)

    def _is_due(self, node: WorkflowNode) -> bool:
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

    async def _execute(self, node: WorkflowNode) -> dict[str, Any]:
        """Execute one node, with the retries that the workflow allows; its outputs."""
        if requires := KINDS[node.type].requires:
            return self._refuse(node, requires[0])
        failures = 0
        while True:
            step = self._start(node)
            try:
                outputs = await self._attempt(step)
                break
            except Paused:
                self.faithful = False
                self.current = None
                self._pause()
                self.attempt += 1  # the one that was cut off counts
                continue
            except Again as again:
                retried = again.retried
            except NodeFailed as failed:
                self.faithful = False
                if self._is_final(failed, failures):
                    outputs = self._fail(step, failed)
                    break
                if self._executions >= self._limit():
                    outputs = self._fail(step, self._over_limit(step, failed))
                    break
                retried = self._try_again(step, failed, failures)
            failures += "lastError" in retried["payload"]
            self.attempt = retried["payload"]["attempt"]
            if self.is_live:
                await self.flush()
                seconds = retried["payload"].get("delayMs", 0) / 1000
                await self.sleep_until(retried, seconds, is_pausable=False)
        self.current, self.attempt = None, 0
        known = self.log.unwritten.get(f"{node.id}:{step.count}")
        from_log, copies = self._is_repeated and known is None, KINDS[node.type].copies
        outputs = outputs if known is None else known
        self.masks.remember(node, outputs, copies=copies, from_log=from_log)
        self.redactor = self.masks.secrets(self.redactor, outputs)
        self.outputs[node.id] = outputs
        self.variables.update(outputs)
        return outputs

    def _refuse(self, node: WorkflowNode, capability: str) -> dict[str, Any]:
        """Fail a node that needs what this host does not provide; it is not started."""
        text = f"{node.type} requires {capability}, which this host does not provide"
        error: dict[str, Any] = {"code": "capability_not_provided", "message": text}
        error["details"] = {"capability": capability}
        data = {"nodeId": node.id, "error": error, "attempts": 1}
        event = self.emit("node.failed", data, node.id)
        assert event is not None
        self.outputs[node.id] = {}
        return self._failed(node, error, event)

    def _start(self, node: WorkflowNode) -> NodeStep:
        ref = KINDS[node.type].agent(self.definition.id, node)  # WOP-94
        count = self.starts.get(node.id, 0)
        data: dict[str, Any] = {"nodeId": node.id, "typeId": node.type, "attempt": self.attempt}
        data |= {"agent": ref} if ref else {}
        started = self.emit("node.started", data, node.id)
        assert started is not None
        self.starts[node.id] = count + 1
        self.current = node
        return NodeStep(self, node, ref, count, started)

    async def _attempt(self, step: NodeStep) -> dict[str, Any]:
        node = step.node
        step.started = self.pass_starts(node.id) or step.started
        recorded = self.recorded_end(node.id, is_executed=is_pure(node))
        self._is_repeated = recorded is not None
        if recorded is not None:
            return self._repeat_all(step, recorded)
        if self._is_cut_here(step):
            if self.tape is None:
                raise Again(self._begin_again(step))
            step.started = self.start_again(step.started)
        self.faithful = self.tape is not None and not is_pure(node)
        outputs = await KINDS[node.type].run(step)
        self.faithful = False
        hidden = self.masks.of_outputs(node, copies=KINDS[node.type].copies)
        done: dict[str, Any] = {"nodeId": node.id, "outputs": masked(outputs, hidden)}
        done |= {"agent": step.ref} if step.ref else {}
        completed = self.emit("node.completed", done, node.id, step.cause)
        if completed is not None and completed["payload"]["outputs"] != outputs:
            self.log.unwritten[f"{node.id}:{step.count}"] = outputs
        self.outcomes[node.id] = "success"
        return outputs

    def _is_final(self, failed: NodeFailed, failures: int) -> bool:
        if failed.is_final:
            return True
        return failures >= int(self.definition.source["settings"].get("maxRetries", 0))

    def _is_cut_here(self, step: NodeStep) -> bool:
        """Whether a fork was cut off inside this attempt, and has not gone on yet.

        A branch goes on inside a node that only asks. A replay goes on inside a node whose events
        it repeats: only a node that it executes begins again.
        """
        fork, node = self.host.get("fork", {}), step.node
        if not step.started["sequence"] < int(fork.get("fromSeq", 0)) == len(self.history):
            return False
        return is_pure(node) if self.tape is not None else not KINDS[node.type].only_asks

    def _begin_again(self, step: NodeStep) -> Body:
        """Leave the attempt in which a branch was cut off; the node begins again, with its options."""
        while not self.is_live:
            self.consume(None)
        events = self.history[step.started["sequence"] :]
        ended = {e["payload"]["callId"] for e in events if e["type"] == "agent.toolReturned"}
        for event in [e for e in events if e["type"] == "agent.toolCalled"]:
            payload = event["payload"]
            if payload["callId"] not in ended:
                place = payload["agentId"], payload["toolId"], payload["callId"]
                step.returned(*place, unknown_end(payload["toolId"]), None, event)
        retried = step.emit("node.retried", {"nodeId": step.node.id, "attempt": self.attempt + 1})
        assert retried is not None
        return retried

    def _over_limit(self, step: NodeStep, failed: NodeFailed) -> NodeFailed:
        """The failure of a node that would be tried again if the run might execute more nodes."""
        limit, name = self._limit(), step.node.id
        data = {"kind": "node-executions", "limit": limit, "observed": limit + 1, "nodeId": name}
        step.cause = self.emit("cap.breached", data, name)
        code, what = CAPS["node-executions"]
        details = {"retryable": False, "lastError": failed.error}
        return NodeFailed(code, f"{what} exceed {limit}", details)

    def _try_again(self, step: NodeStep, failed: NodeFailed, failures: int) -> Body:
        """Record that the node is tried once more, and why."""
        data: dict[str, Any] = {"nodeId": step.node.id, "attempt": self.attempt + 1}
        data["delayMs"] = min(PAUSE << min(failures, 16), LONGEST_PAUSE)
        retried = self.emit(
            "node.retried", {**data, "lastError": failed.error}, step.node.id, step.cause
        )
        assert retried is not None
        return retried

    def _fail(self, step: NodeStep, failed: NodeFailed) -> dict[str, Any]:
        """End the run, unless an edge handles the failure of this node."""
        name = step.node.id
        data = {"nodeId": name, "error": failed.error, "attempts": self.attempt + 1}
        event = self.emit("node.failed", data, name, step.cause)
        assert event is not None
        return self._failed(step.node, failed.error, event)

    def _failed(self, node: WorkflowNode, error: Mapping[str, Any], event: Body) -> dict[str, Any]:
        self.outcomes[node.id] = "failed"
        edges = [r for each in self.definition.upstream.values() for s, r in each if s == node.id]
        if not {"any_failed", "all_complete"} & set(edges):
            self._look_up(node=None)  # a pause that was requested comes before the end
            raise RunFailed(error, node.id, event)
        return {}

    def _cancelled(self) -> None:
        request = self.log.cancel or {}
        data: dict[str, Any] = {"reason": request.get("reason") or "cancelled"}
        if self.current is not None:
            self.emit("node.cancelled", {"nodeId": self.current.id, **data}, self.current.id)
        data["cancelledBy"] = request.get("by", "default")
        data |= {"parentRunId": request["parent"]} if "parent" in request else {}
        self.emit("run.cancelled", data)

    def _repeat_all(self, step: NodeStep, end: int) -> dict[str, Any]:
        """Repeat a recorded attempt to its end; no person is asked, and nothing is called."""
        node = step.node
        while True:
            self.pass_notes()
            upcoming = self.due_on_tape() if self.is_live else self.history[self.at]
            assert upcoming is not None
            if upcoming["type"] == "run.paused":
                raise Paused
            if self.is_live and upcoming.get("nodeId") is None and ends_early(upcoming):
                self._repeat_end()  # a replay that waited has ended so in older versions
            if not self.is_live:
                is_end = ends_attempt(self.history, self.at, node.id)
                event = self.consume(None)
            else:
                assert self.tape is not None
                is_end = ends_attempt(self.tape, self.tape_at, node.id)
                event = self.repeat(upcoming)
            kind, payload = event["type"], event["payload"]
            if kind == "runOrchestrator.decided" and event.get("nodeId") == node.id:
                self.decisions.setdefault(node.id, []).append(event)
            if not is_end:
                continue
            if kind == "node.retried":
                raise Again(event)
            if kind == "node.completed":
                outputs: dict[str, Any] = payload.get("outputs", {})
                KINDS[node.type].repeated(step, outputs)
                self.outcomes[node.id] = "success"
                return outputs
            if kind == "node.failed":
                return self._failed(node, payload["error"], event)
            self.current = None
            if end < 0:
                ending = self.on_tape()
                if ending is not None:
                    self.repeat(ending)
                raise ReplayEnded
            raise Cancelled

    @property
    def orchestrator(self) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.host.get("orchestrator")
        return found
