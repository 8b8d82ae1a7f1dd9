"""One run: its events in the journal, and the state that is computed from them."""

import asyncio
import os
from dataclasses import replace
from typing import Any

import orjson

from tracklog import Answered, Asked, Body, Fact, Log, NoSuchRun, Noted, Record, Run, body_of
from tracklog.hosts import RunOver
from tracklog.hosts._notes import WRITER, put
from tracklog.hosts.openwop.agents import narrow
from tracklog.hosts.openwop.instance import FILE, instance_of
from tracklog.hosts.openwop.own_lines import OwnLines, own_lines
from tracklog.hosts.openwop.redaction import Redactor
from tracklog.hosts.openwop.settings import ENGINE, LOG_VERSION, SYSTEM

FAMILY, NOTES = "openwop", "tracklog"
"""The dialects of the events of a run, and of the notes beside them."""
TERMINAL = {"run.completed": "completed", "run.failed": "failed", "run.cancelled": "cancelled"}
WAITING = {
    "approval": "waiting-approval",
    "low-confidence": "waiting-approval",
    "clarification": "waiting-input",
    "custom": "waiting-input",
    "external-event": "waiting-external",
}
CANCEL, PAUSE, RESUME = "cancel-requested", "pause-requested", "resume-requested"
REQUEST, REFUSAL = "idempotent-request", "answer-refused"
PRUNED, NOBODY = "pruned", "terminal"
"""The note on a run that lost its beginning, and who answers where no operator does."""
"""Notes beside a run's own events: what was requested, and which answers did not fit."""


def ask_to_end(journal: Log, run: str, by: str) -> int:
    """Record the request to end a run; the host that carries it out reads it."""
    log = _as_recorded(journal, run)
    if not log.events:
        raise NoSuchRun(f"there is no run {run!r} of a host here", "`tracklog runs` lists them")
    if log.ended:
        raise RunOver(f"the run {run} has ended", "`tracklog runs` shows which have not")
    return put(journal, log.run, CANCEL, {"by": by})


def answered_by_key(journal: Log, run: str) -> str | None:
    """The request that answers a gate which counts votes or lists approvers; None for others."""
    log = _as_recorded(journal, run)
    question = log.snapshot.question
    if question is None or "instance" not in log.snapshot.host:
        return None
    data = question["payload"]["data"]
    if data.get("requiredApprovals", 1) <= 1 and "approversList" not in data:
        return None
    return f"POST /v1/runs/{run}/interrupts/{question['nodeId']} with the key of an approver"


def _as_recorded(journal: Log, run: str) -> "RunLog":
    """A run as an operator's command sees it; nobody can check here what a host elsewhere wrote."""
    folder = journal.folder()
    if os.access(folder / FILE, os.R_OK):  # there is a host here, and it is the same user's
        log = RunLog(run, own_lines(journal))
        log.refresh(journal)
        if log.snapshot.host.get("instance") == instance_of(folder):
            return log
    log = RunLog(run, None)
    log.refresh(journal)
    return log


class Snapshot:
    """The state of a run, computed from its events alone."""

    def __init__(self) -> None:
        self.status = "pending"
        self.workflow = ""
        self.started: str | None = None
        self.completed: str | None = None
        self.current: str | None = None
        self.nodes: dict[str, dict[str, Any]] = {}
        self.variables: dict[str, Any] = {}
        self.channels: dict[str, list[Any]] = {}
        self.configurable: dict[str, Any] = {}
        self.error: dict[str, Any] | None = None
        self.interrupt: dict[str, Any] | None = None
        self.orchestrator: dict[str, Any] | None = None
        self.host: dict[str, Any] = {}
        self.agents: dict[str, dict[str, Any]] = {}
        """The agents that acted."""
        self.question: Body | None = None
        """The event with which the run asks for something."""
        self.paused_at: str | None = None
        self.children: dict[str, str] = {}
        """The runs that it started, each with the node."""
        self.asked: set[str] = set()
        """Nodes that asked something at some time."""

    def apply(self, event: Body) -> None:
        kind, payload, node = event["type"], event["payload"], event.get("nodeId")
        if kind == "node.dispatched":
            self.children[payload["childRunId"]] = str(node)
        elif kind.startswith("node."):
            self._node(kind, payload)
        elif kind.startswith("agent."):
            name = payload.get("agentId") or payload.get("fromAgentId")
            if isinstance(name, str) and name != SYSTEM:
                self.agents.setdefault(name, {"agentId": name})
        elif kind == "run.started":
            self.status, self.started = "running", event["timestamp"]
            self.workflow = payload["workflowId"]
            self.variables = dict(payload.get("inputs", {}))
            self.configurable = payload.get("configurable", {})
            self.host = event.get("host", {})
            if "overlay" in self.host.get("fork", {}):
                self.configurable = {**self.configurable, **self.host["fork"]["overlay"]}
            self.orchestrator = self.host.get("orchestrator")
        elif kind in TERMINAL:
            self.status, self.completed = TERMINAL[kind], event["timestamp"]
            self.current = self.interrupt = self.question = self.paused_at = None
            self.error = payload.get("error") if kind == "run.failed" else None
        elif kind == "interrupt.requested":
            self.interrupt = {"kind": payload["kind"], "key": payload["key"], "nodeId": node}
            self.question = event
            self.asked.add(str(node))
        elif kind == "run.paused":
            self.status, self.paused_at = "paused", event["timestamp"]
        elif kind == "run.resumed":
            self.status, self.paused_at = "running", None
        elif kind == "channel.written":
            self._write(payload)
        elif kind == "variable.changed":
            self.variables[payload["name"]] = payload.get("next")

    def _node(self, kind: str, payload: Body) -> None:
        name = payload.get("nodeId")
        if name is None:
            return
        if kind == "node.started":
            self.nodes[name] = {"status": "running", "attempt": payload.get("attempt", 0)}
            if "agent" in payload:
                self.agents[payload["agent"]["agentId"]] = payload["agent"]
        elif kind == "node.suspended":
            word = "waiting-approval" if payload.get("reason") == "low-confidence" else None
            self.status = word or WAITING.get(payload.get("kind", ""), "waiting-approval")
            self.current = name
            self.nodes[name]["status"] = "suspended"
            self.interrupt = {
                "interruptId": payload["interruptId"],
                **(self.interrupt or {"nodeId": name}),
            }
            if "reason" in payload:
                self.interrupt["reason"] = payload["reason"]
        elif kind == "node.resumed":
            self.status, self.current, self.interrupt = "running", None, None
            self.question = None
            self.nodes[name]["status"] = "running"
        elif kind in ("node.completed", "node.failed", "node.skipped", "node.cancelled"):
            self.nodes.setdefault(name, {"attempt": 0})["status"] = kind.removeprefix("node.")
            if kind == "node.completed":
                self.variables.update(payload.get("outputs", {}))

    def _write(self, payload: Body) -> None:
        """A known messageId is a no-op, the first one wins (WOP-35)."""
        channel = self.channels.setdefault(payload["channel"], [])
        value = payload["value"]
        name = value.get("messageId") if isinstance(value, dict) else None
        if name is None or all(each.get("messageId") != name for each in channel):
            channel.append(value)

    def as_json(self, run: str, *, cancelling: bool = False) -> dict[str, Any]:
        """The state as clients get it: RunSnapshot."""
        data: dict[str, Any] = {
            "runId": run,
            "workflowId": self.workflow,
            "status": "cancelling" if cancelling and not self.ended else self.status,
        }
        if self.current is not None:
            data["currentNodeId"] = self.current
        data["startedAt"] = self.started
        if self.completed is not None:
            data["completedAt"] = self.completed
        if len(self.agents) == 1 and not (self.orchestrator and self._only_orchestrated()):
            data["agent"] = next(iter(self.agents.values()))  # WOP-72
        if self.orchestrator is not None:
            data["runOrchestrator"] = narrow(self.orchestrator)
        data |= {
            "nodeStates": self.nodes,
            "variables": self.variables,
            "channels": self.channels,
            "configurable": self.configurable,
        }
        if self.error is not None:
            data["error"] = {
                key: self.error[key] for key in ("code", "message", "details") if key in self.error
            }
        if self.interrupt is not None and self.current is not None:
            data["interrupt"] = self.interrupt
        for name in ("tags", "metadata", "parentRunId", "parentNodeId"):
            if name in self.host:
                data[name] = self.host[name]
        if self.paused_at is not None:
            data["pausedAt"] = self.paused_at
        return {**data, "engineVersion": ENGINE, "eventLogSchemaVersion": LOG_VERSION}

    def _only_orchestrated(self) -> bool:
        assert self.orchestrator is not None
        return self.agents.keys() == {self.orchestrator["agentId"]}

    @property
    def ended(self) -> bool:
        return self.status in TERMINAL.values()


class RunLog:
    """The events of a run, read from the journal on request; those who wait for news are woken."""

    def __init__(self, name: str, own: OwnLines | None) -> None:
        """Only events that a host of this home wrote are read; without `own`, all."""
        self.name, self.own = name, own
        self.run: Run = (FAMILY, name)
        self.lines: list[bytes] = []
        self.events: list[Body] = []
        self.snapshot = Snapshot()
        self.cancel: dict[str, Any] | None = None
        """The request to cancel the run."""
        self.pause: dict[str, Any] | None = None
        """The request to pause the run, until it is resumed."""
        self.resume: dict[str, Any] = {}
        """The request to resume the run."""
        self.refused_answers: dict[str, int] = {}
        """The number of answers that did not fit, by question."""
        self.answers: list[tuple[str, Any, str]] = []
        """Answers from the command line or the console: question, answer, by whom."""
        self.unwritten: dict[str, dict[str, Any]] = {}
        """Inputs, and outputs of nodes, as they were before secrets were masked; only in memory."""
        self.redactor: Redactor | None = None
        """Knows the secrets of the run that began this one; only in memory."""
        self._is_gone = False
        """Whether the beginning was pruned: who sends it again, begins no run."""
        self._question: Record | None = None
        """The last record in which the run asked for something."""
        self._cursor = 0
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def is_waited_for(self) -> bool:
        return bool(self._waiting)

    @property
    def ended(self) -> bool:
        return self.snapshot.ended

    @property
    def waits(self) -> bool:
        """Whether it continues only after an answer or a resume."""
        return self.snapshot.interrupt is not None or self.snapshot.status == "paused"

    def as_json(self) -> dict[str, Any]:
        return self.snapshot.as_json(self.name, cancelling=self.cancel is not None)

    def refresh(self, journal: Log) -> bool:
        """Read what is new in the journal, and say whether there was anything."""
        before = self._cursor
        for record in journal.read(self._cursor, self.run):
            self._cursor = record.seq
            if record.line and record.dialect == FAMILY:
                event = body_of(record)
                if event.get("sequence") == len(self.events) and self._is_own(record, event):
                    self._add(record, event)
            elif record.line and record.dialect == NOTES:
                for fact in journal.facts_in(record):
                    self._note(fact)
        if self._cursor == before:
            return False
        self.wake()
        return True

    def _is_own(self, record: Record, event: Body) -> bool:
        return not self._is_gone and (self.own is None or self.own.has_event(record, event))

    def _add(self, record: Record, event: Body) -> None:
        self.lines.append(record.line)
        self.events.append(event)
        self.snapshot.apply(event)
        if event["type"] == "interrupt.requested":
            self._question = record

    def _note(self, fact: Fact) -> None:
        match fact:
            case Noted(label=label) if label == CANCEL and self.cancel is None:
                self.cancel = dict(fact.data or {})
            case Noted(label=label) if label == PAUSE:
                self.pause = dict(fact.data or {})
            case Noted(label=label) if label == RESUME:
                self.pause, self.resume = None, dict(fact.data or {})
            case Noted(label=label) if label == REFUSAL:
                name = str((fact.data or {}).get("interruptId"))
                self.refused_answers[name] = self.refused_answers.get(name, 0) + 1
            case Noted(label=label) if label == PRUNED and not self.events:
                self._is_gone = True
            case Asked():
                self.answers.clear()  # they did not fit
            case Answered(by=by) if by not in (None, NOBODY):
                answer = (str(fact.question_id), fact.answer, str(by))
                self.answers.append(answer)

    def asked_again(self, journal: Log, why: str, at: str) -> bytes:
        """The question that the run waits for, asked again after an answer that did not fit."""
        assert self._question is not None
        facts = journal.facts_in(self._question)
        (asked,) = (fact for fact in facts if isinstance(fact, Asked))
        again = replace(asked, text=f"{why}. {asked.text or ''}".rstrip())
        return journal.fact_line(self.run, again, writer=WRITER, at=at)

    def event_id(self, sequence: int) -> str:
        """The id of an event of this run."""
        assert self.own is not None
        return self.own.event_id(self.name, sequence)

    def wake(self) -> None:
        """Wake everybody who waits."""
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until there is something new, or the time is up."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            await asyncio.wait({waiting}, timeout=seconds)
        finally:
            self._waiting.discard(waiting)


def new_event(
    log: RunLog,
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
        "eventId": log.event_id(sequence),
        "runId": log.name,
        "sequence": sequence,
        "timestamp": at,
        "type": kind,
    }
    if node is not None:
        event["nodeId"] = node
    if cause is not None:
        event["causationId"] = cause
    if kind == "output.chunk":  # also one that is copied from another run
        payload = {**payload, "runId": log.name}
    return {**event, "payload": payload, "schemaVersion": 1, "engineVersion": "1", **more}


def line_of(event: Body) -> bytes:
    return orjson.dumps(event)
