"""One execution of a node: its events, questions, calls and decisions."""

import re
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from tracklog import Body, RecordedAnswer, TapeMiss
from tracklog.hosts.openwop.agents import Ref, context_key
from tracklog.hosts.openwop.definitions import PLACEHOLDER, DefinitionRefused, WorkflowNode
from tracklog.hosts.openwop.exceptions import (
    AlreadyVoted,
    BadAnswer,
    Cancelled,
    NodeFailed,
    Suspended,
)
from tracklog.hosts.openwop.masking import check_known
from tracklog.hosts.openwop.questions import (
    RATIFY,
    SPLIT,
    VOTE,
    Ballot,
    GivenAnswer,
    Settle,
    deadline_of,
    ratifying,
)
from tracklog.hosts.openwop.reasoning import Reasoning
from tracklog.hosts.openwop.recorded_answers import CHILD, PERSON
from tracklog.hosts.openwop.redaction import masked
from tracklog.hosts.openwop.schemas import DEEPEST as DEEPEST_VALUE
from tracklog.hosts.openwop.schemas import is_deep
from tracklog.hosts.openwop.settings import SYSTEM
from tracklog.hosts.openwop.tools import (
    CallOutcome,
    args_hash,
    error_of,
    forbidden,
    invoke,
    unknown_end,
)

if TYPE_CHECKING:
    from tracklog.hosts.openwop.execution import Execution

DEEPEST = 16
"""Runs inside runs."""


class NodeStep:
    """One execution of one node."""

    def __init__(
        self, x: "Execution", node: WorkflowNode, ref: Ref | None, count: int, started: Body
    ) -> None:
        self.x, self.node, self.ref, self.count, self.started = x, node, ref, count, started
        self.config = node.config
        self.cause: Body | None = None
        """The event that causes the end of the node, if that is not its beginning."""
        self.asked = self.called = 0

    def emit(self, kind: str, payload: Mapping[str, Any], cause: Body | None = None) -> Body | None:
        return self.x.emit(kind, payload, self.node.id, cause)

    def inputs(self) -> dict[str, Any]:
        """The values at the node's ports."""
        found: dict[str, Any] = {}
        for port, value in self.node.ports.items():
            if value["type"] == "static":
                found[port] = value["value"]
                continue
            if value["type"] == "variable":
                source, name = self.x.variables, value["variableName"]
            else:
                source, name = self.x.outputs.get(value["nodeId"], {}), value["outputKey"]
            if name in source:
                found[port] = source[name]
            elif not value.get("optional"):
                raise NodeFailed("validation_error", f"there is no value for the input {port!r}")
        return found

    def prompt(self) -> str:
        """The configured text, with the input of that name in the place of each `{{name}}`."""
        inputs = self.inputs()

        def filled(hit: re.Match[str]) -> str:
            if hit[1] not in self.node.ports:
                return hit[0]
            value = inputs.get(hit[1], "")  # an optional input may have no value
            return value if isinstance(value, str) else orjson.dumps(value).decode()

        return PLACEHOLDER.sub(filled, str(self.config["prompt"]))

    def context(self) -> list[dict[str, Any]]:
        assert self.ref is not None
        key = context_key(self.ref, self.node.id, self.count)
        return self.x.contexts.setdefault(key, [])

    # An agent reasons, calls tools, hands over and decides.

    def reason(self, agent: str, text: str, chunks: list[str] | None = None) -> None:
        """Record a complete piece of reasoning, in the pieces that are to be sent."""
        reasoning = Reasoning(self, agent)
        for piece in self.x.redactor.pieces(chunks or ()):
            reasoning.send(piece)
        reasoning.close("".join(chunks) if chunks else text)

    def forbid(self, agent: str, tool: str) -> None:
        """Record that the agent may not use a tool, before it begins (WOP-56)."""
        outcome = forbidden(tool, "tool is not in the agent's allowlist")
        self.returned(agent, tool, self._call_id(), outcome, None, None)

    def mock_call(self, agent: str, tool: str, call: Mapping[str, Any]) -> None:
        """Record a call whose result is in the configuration."""
        arguments, call_id = call.get("arguments"), self._call_id()
        event = self._tool_called(agent, tool, call_id, arguments)
        recorded = self._recorded_return(call_id)
        outcome = recorded or self._judge(tool)
        if outcome is None and "error" in call:
            error = call["error"]
            outcome = CallOutcome(
                "error", error=error_of(error["error"], error["message"], error.get("details"))
            )
        elif outcome is None:
            outcome = CallOutcome("ok", call["result"])
        duration = call.get("durationMs", 0) if outcome.ran else None
        self.returned(agent, tool, call_id, outcome, duration, event)

    async def call(
        self, agent: str, tool: str, arguments: Any, *, allowed: bool = True
    ) -> CallOutcome:
        """Call a tool; recorded before it is invoked and after it ended (WOP-48, WOP-54)."""
        x, call_id = self.x, self._call_id()
        was_called, lost = not x.is_live, x.masks.lost_ports(self.node)
        if not was_called:
            check_known(lost)
        event = self._tool_called(agent, tool, call_id, arguments)
        recorded = self._recorded_return(call_id)
        if recorded is not None:
            self.returned(agent, tool, call_id, recorded, None, event)
            return recorded
        outcome = None if allowed else forbidden(tool, "tool is not in the agent's allowlist")
        outcome = outcome or self._judge(tool)
        duration = None
        if outcome is None:
            known = x.settings.tools.get(tool)
            if was_called and (lost or (known is not None and not known.idempotent)):
                outcome = unknown_end(tool)
            else:
                outcome, duration = await self._invoke(tool, arguments)
        self.returned(agent, tool, call_id, outcome, duration, event)
        return outcome

    async def _invoke(self, tool: str, arguments: Any) -> tuple[CallOutcome, int]:
        x = self.x
        await x.flush()
        asked = {"tool": tool, "input": x.redactor.clean(arguments)}
        if (played := self.play("tool", asked, tool)) is not None:
            recorded = played.answer
            if "status" not in recorded:  # of a run of another dialect
                failed = recorded.get("error")
                error = None if failed is None else error_of("tool_failed", str(failed))
                return CallOutcome("error" if error else "ok", recorded.get("output"), error), 0
            ended = CallOutcome(recorded["status"], recorded.get("result"), recorded.get("error"))
            return ended, recorded.get("durationMs", 0)
        began = x.engine.monotonic()
        work = invoke(tool, x.settings.tools, arguments)
        outcome = await x.unless_stopped(work, is_pausable=False)
        return outcome, max(0, round(1000 * (x.engine.monotonic() - began)))

    def play(self, kind: str, asked: Any, lane: str | None = None) -> RecordedAnswer | None:
        """The answer of the run's tape; None without a tape, or where a missing answer is asked live."""
        if self.x.recorded is None:
            return None
        try:
            return self.x.recorded.play(kind, asked, lane or self.node.id)
        except TapeMiss as miss:
            raise NodeFailed("replay_source_missing", miss.message) from None

    def _judge(self, tool: str) -> CallOutcome | None:
        """The reason why the principal of the run may not call a tool now; None if it may."""
        return self.x.engine.hooks.judge(self.x.host, tool)

    def _call_id(self) -> str:
        self.called += 1
        return f"{self.node.id}:{self.count}:{self.called - 1}"

    def _tool_called(self, agent: str, tool: str, call_id: str, arguments: Any) -> Body | None:
        x = self.x
        hidden = x.masks.of_ports(self.node) if isinstance(arguments, dict) else {}
        cleaned = x.redactor.clean(masked(arguments, hidden) if hidden else arguments)
        data = {"agentId": agent, "toolId": tool, "toolName": tool, "callId": call_id}
        data |= {"arguments": cleaned}
        data |= {"inputs": cleaned} if x.settings.wire_aliases else {}
        data |= {"argsHash": args_hash(cleaned)}
        data |= {"principal": SYSTEM if agent == SYSTEM else x.principal}
        return self.emit("agent.toolCalled", {**data, "transport": transport_of(tool)})

    def _recorded_return(self, call_id: str) -> CallOutcome | None:
        event = self.x.peek()
        if event is None or event["type"] != "agent.toolReturned":
            return None
        payload = event["payload"]
        if payload.get("callId") != call_id:
            return None
        ran = payload.get("status") in ("ok", "error")
        return CallOutcome(
            payload.get("status", "ok"), payload.get("result"), payload.get("error"), ran
        )

    def returned(
        self,
        agent: str,
        tool: str,
        call_id: str,
        outcome: CallOutcome,
        duration: int | None,
        cause: Body | None,
    ) -> None:
        data: dict[str, Any] = {"agentId": agent, "toolId": tool, "toolName": tool}
        data |= {"callId": call_id, "status": outcome.status}
        if outcome.error is not None:
            data["error"] = outcome.error
        else:
            data["result"] = outcome.result
            data |= {"outcome": outcome.result} if self.x.settings.wire_aliases else {}
        data |= {"durationMs": duration} if duration is not None else {}
        self.emit("agent.toolReturned", data, cause)

    def hand_over(self, giver: Ref, taker: str, handoff: Mapping[str, Any]) -> None:
        """Control passes to another agent within the node (WOP-66)."""
        data: dict[str, Any] = {"from": giver, "to": {"agentId": taker}}
        data |= {"fromAgentId": giver["agentId"], "toAgentId": taker}
        data |= {key: handoff[key] for key in ("reason", "context") if key in handoff}
        self.emit("agent.handoff", data)

    async def decide(
        self, agent: str, decision: Any, confidence: float | None, reasoning: str | None = None
    ) -> Any:
        """Record a decision of an agent; a person must confirm one below the threshold (WOP-24)."""
        x = self.x
        data: dict[str, Any] = {"agentId": agent, "decision": decision}
        data |= {} if confidence is None else {"confidence": confidence}
        data |= {"reasoning": reasoning} if reasoning else {}
        decided = self.emit("agent.decided", data)
        threshold = x.engine.agents.threshold(agent, x.configurable)
        if decided is None or confidence is None or confidence >= threshold:
            return decision
        if x.settings.escalation == "suppress":  # WOP-27
            breach = {"kind": "confidence-escalation-suppressed", "limit": threshold}
            breach |= {"observed": confidence, "nodeId": self.node.id, "agentId": agent}
            self.emit("cap.breached", breach, decided)
            return decision
        numbers = f"with confidence {confidence:g}, below {threshold:g}"
        prompt = f"{agent} decided {numbers}. Confirm or replace the decision."
        unsure = {"agentId": agent, "threshold": threshold, "observed": confidence}
        unsure["decision"] = decision
        if x.orchestrator is not None:  # WOP-25
            asks = {"kind": "ask-user", "prompt": prompt}
            by = {"agentId": x.orchestrator["agentId"], "decision": asks}
            supervisor = x.definition.supervisor
            assert supervisor is not None
            cause = x.emit("runOrchestrator.decided", by, supervisor.id, decided)
            kind, asked = "low-confidence", dict(unsure)
        else:  # WOP-26
            kind, cause = "clarification", decided
            questions = [{"id": "decision", "question": prompt}]
            asked = {"contextType": "low-confidence", "questions": questions}
        also = {"reason": "low-confidence", **unsure}
        settle = ratifying(decision, clarifies=kind == "clarification")
        answer, resolved = await self.ask(kind, asked, RATIFY, cause, also, settle)
        decision = answer["answers"]["decision"]
        self.emit(
            "agent.decided", {"agentId": agent, "decision": decision, "ratified": True}, resolved
        )
        return decision

    # A person is asked.

    async def ask(
        self,
        kind: str,
        asked: Mapping[str, Any],
        schema: Mapping[str, Any] | None,
        cause: Body | None,
        also: Mapping[str, Any],
        settle: Settle,
        *,
        ballot: Ballot | None = None,
    ) -> tuple[dict[str, Any], Body | None]:
        """The answer in its normal form, and the event that resolved the question.

        The question is rejected when its time is up: `timeoutMs` of the node's configuration.
        """
        name, timeout = self.node.id, self.config.get("timeoutMs")
        key = f"{name}:{self.count}:{self.asked}"
        self.asked += 1
        request: dict[str, Any] = {"kind": kind, "key": key, "data": asked}
        request |= {"resumeSchema": schema} if schema else {}
        request |= {"timeoutMs": timeout} if timeout else {}
        requested = self.emit("interrupt.requested", request, cause)
        assert requested is not None
        place = {"nodeId": name, "interruptId": f"int:{key}"}
        self.emit("node.suspended", {**place, "kind": kind, "key": key, **also}, requested)
        while True:
            given = self._answer(place["interruptId"], kind, requested, settle, ballot)
            if given.is_timeout:
                answer: dict[str, Any] = {"action": "reject"}
                fields: Mapping[str, Any] | None = {"action": "timeout"}
            else:
                answer, fields = settle(given.value, is_new=given.is_new)
            if kind == "approval" and fields is not None:
                data = {"nodeId": name, **fields, "decidedBy": given.by}
                self.emit("approval.received", data, requested)
            elif fields is not None and not given.is_timeout:
                data = {"nodeId": name, **fields, "answeredBy": given.by}
                self.emit("clarification.resolved", data, requested)
            if ballot is None or given.is_timeout:
                break
            if ballot.count(given.by, answer["action"]) or given.is_final:
                break
            if not given.is_recorded:
                raise Suspended  # others are still missing
        if ballot is not None and ballot.is_split and not given.is_timeout:
            answer = {"action": "reject"}
            given = given._replace(value=answer, is_split=True)
        resolved = self._resolve(place, kind, given, requested)
        decides = kind != "external-event"  # what comes from outside may hold any words
        rejects = given.is_timeout or (decides and answer.get("action") == "reject")
        if not rejects or kind == "approval":
            self.emit("node.resumed", {**place, "resumeValue": answer}, resolved)
        if rejects:
            self.cause = resolved
            people = ballot.rejected_by if ballot is not None else [given.by]
            why = "nobody answered in time"
            why = why if given.is_timeout else f"rejected by {', '.join(people)}"
            raise NodeFailed("approval_rejected", why, {"retryable": False})
        return answer, resolved

    def _resolve(
        self, place: Mapping[str, Any], kind: str, given: GivenAnswer, requested: Body
    ) -> Body | None:
        data: dict[str, Any] = {**place, "kind": kind, "resumeValue": given.value}
        data |= {"resolvedAt": given.at or self.x.engine.now(self.x.log), "resolvedBy": given.by}
        if given.is_timeout or given.is_split:
            reason = "timeout" if given.is_timeout else SPLIT
            data |= {"reason": reason, "outcome": "rejected"}
        return self.emit("interrupt.resolved", data, requested)

    def _answer(
        self, interrupt: str, kind: str, requested: Body, settle: Settle, ballot: Ballot | None
    ) -> GivenAnswer:
        """The answer: the recorded one, or the one that is given now; without one the run waits."""
        x = self.x
        recorded = self._recorded_answer(interrupt)
        if recorded is not None:
            return recorded
        if x.log.cancel is not None:
            raise Cancelled
        if x.tape is not None:
            x.go_on_alone()
        deadline = deadline_of(requested)
        if deadline is not None and x.engine.clock() >= deadline:
            return GivenAnswer({"action": "timeout"}, SYSTEM, is_timeout=True)
        refused, most = x.log.refused_answers.get(interrupt, 0), x.settings.clarification_rounds
        if kind == "clarification" and refused > most:
            breach = {"kind": "clarification", "limit": most, "observed": refused}
            self.cause = self.emit("cap.breached", {**breach, "nodeId": self.node.id})
            text = f"more than {most} answers did not fit the question"
            raise NodeFailed("clarification_rounds_exceeded", text, {"retryable": False})
        answer = x.answer
        if answer is not None and answer.node == self.node.id and not answer.taken.done():
            if is_deep(answer.value):
                raise BadAnswer(f"the answer has more than {DEEPEST_VALUE} levels")
            by = answer.by
            if ballot is not None:
                by = ballot.admit(by, answer.value, is_manual=answer.manual)
                if by in ballot.votes:  # the same person again: counted once
                    if settle(answer.value, is_new=True)[0]["action"] != ballot.votes[by]:
                        raise AlreadyVoted(ballot.votes[by])
                    answer.taken.set_result(None)
                    raise Suspended
            return GivenAnswer(answer.value, by, is_new=True)
        if x.recorded is not None and x.recorded.next(PERSON, self.node.id) is not None:
            played = self.play(PERSON, None)
            assert played is not None
            data = played.answer
            late = data["value"] == {"action": "timeout"}  # a person cannot say that
            about = (data["value"], data["by"], True, late)
            return GivenAnswer(*about, at=data.get("at"))
        raise Suspended

    def _recorded_answer(self, interrupt: str) -> GivenAnswer | None:
        """The answer, or one vote of several, that the log has next."""
        x, by, found = self.x, "default", None
        for ahead in range(2):
            event = x.peek(ahead)
            if event is None:
                break
            kind, payload = event["type"], event["payload"]
            if kind == "interrupt.resolved" and payload["interruptId"] == interrupt:
                if payload.get("reason") == SPLIT and found is not None:
                    return found._replace(is_final=True)
                late = payload.get("reason") == "timeout"
                value = payload.get("resumeValue")
                return GivenAnswer(value, by, is_final=True, is_timeout=late)
            if found is not None:
                break
            if kind == "clarification.resolved":
                by = payload.get("answeredBy", by)
                found = GivenAnswer({"answers": payload["answers"]}, by)
            elif kind == "approval.received":
                by = payload.get("decidedBy", by)
                value = {key: payload[key] for key in VOTE if key in payload}
                late = payload["action"] == "timeout"
                found = GivenAnswer(value, by, is_timeout=late, is_recorded=True)
            else:
                break
        return found

    # A run inside the run.

    async def child(
        self,
        workflow: str,
        inputs: Mapping[str, Any],
        cause: Body | None,
        mapping: Mapping[str, str],
    ) -> Any:
        """The log of another run, once that has ended.

        Its inputs come from ports of the node and, by a mapping, from variables.
        """
        x = self.x
        known = x.engine.workflows.known
        child = known.get(workflow)
        tenant = x.host.get("tenant", x.settings.tenant)
        if x.is_live and (child is None or not child.is_active or not child.is_for(tenant)):
            raise NodeFailed("child_failed", f"there is no active workflow {workflow!r}")
        depth = int(x.host.get("depth", 0)) + 1
        if depth > DEEPEST:
            raise NodeFailed("child_failed", f"runs inside runs are more than {DEEPEST} deep")
        name = f"run-{uuid.uuid4()}"
        data = {"childRunId": name, "childWorkflowId": workflow}
        dispatched = self.emit("node.dispatched", data, cause)
        assert dispatched is not None
        name = dispatched["payload"]["childRunId"]
        await x.flush()
        parent: dict[str, Any] = {"parentRunId": x.log.name, "parentNodeId": self.node.id}
        parent |= {"depth": depth, "principal": x.principal}
        parent |= {key: x.host[key] for key in ("tenant", "operator", "scopes") if key in x.host}
        parent |= self._tape_of_child()
        hidden = {child for child, own in mapping.items() if own in x.masks.variables}
        lost = {own for own in mapping.values() if own in x.masks.lost}
        if inputs.keys() - mapping.keys():
            hidden |= x.masks.of_ports(self.node).keys()
            lost |= x.masks.lost_ports(self.node)
        parent |= {"hidden": sorted(hidden)} if hidden else {}
        if not x.engine.log(name).events:
            check_known(lost)
        try:
            begun = (name, workflow, inputs, x.configurable, parent, x.redactor)
            log = await x.engine.starter.child(*begun)
            await x.unless_stopped(x.engine.end_of(log), is_pausable=False)
        except DefinitionRefused as refused:
            raise NodeFailed("child_failed", f"{workflow}: {refused.message}") from None
        except Cancelled:
            await x.engine.control.cancel(name, "parent-cancelled", x.principal, parent=x.log.name)
            raise
        return log

    def _tape_of_child(self) -> dict[str, Any]:
        """The tape of a sub-run: the recorded sub-run at the same place."""
        x = self.x
        if x.recorded is None or x.recorded.next(CHILD, self.node.id) is None:
            return {}
        played = self.play(CHILD, None)
        assert played is not None
        return {"tape": {**x.host["tape"], "run": played.answer}}


def transport_of(tool: str) -> str:
    return "mcp" if tool.startswith("mcp:") else "native"
