"""What each type of node does, and what an agent in one may say."""

import uuid
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import jsonschema_rs

from tracklog.event import Body
from tracklog.hosts.openwop.agents import Ref, context_key, group_of
from tracklog.hosts.openwop.definitions import DISPATCH, MOCK, SUPERVISOR, Node, faults_of
from tracklog.hosts.openwop.execution import BadAnswer, Cancelled, Execution, NodeFailed, Suspended
from tracklog.hosts.openwop.models import ModelFailed, Reply
from tracklog.hosts.openwop.settings import SYSTEM
from tracklog.hosts.openwop.tools import (
    Outcome,
    args_hash,
    error_of,
    forbidden,
    full_id,
    invoke,
    unknown_end,
)

BYTES_PER_TOKEN = 4
"""An estimate; no tokenizer runs."""
LONGEST_DELAY = 60_000
MOST_ROUNDS = 16
DEEPEST = 16
"""Runs inside runs."""
RATIFY = {
    "type": "object",
    "anyOf": [
        {"required": ["answers"]},
        {"required": ["decision"]},
        {"required": ["action"], "properties": {"action": {"enum": ["accept", "reject"]}}},
    ],
}
STUB_THOUGHT = "A conformance agent reasons about nothing in particular."

Settle = Callable[[Any], tuple[dict[str, Any], Mapping[str, Any] | None]]
"""From an answer to its normal form and, where there is one, the body of the event of its kind."""


def delegate(x: Execution, node: Node) -> Ref | None:
    """The agent that a node is given to: its pin, or one that the host makes for it (WOP-94)."""
    if node.ref is not None:
        return node.ref
    workflow = x.definition.id
    if node.type == MOCK:
        return {"agentId": node.config.get("agentId") or f"host:mock-agent:{workflow}:{node.id}"}
    if node.type == SUPERVISOR:
        return supervising(workflow, node)
    if node.type == "core.ai.callPrompt":
        return {"agentId": f"host:model:{workflow}:{node.id}"}
    return None


def supervising(workflow: str, node: Node) -> Ref:
    return node.ref or {
        "agentId": f"host:supervisor:{workflow}:{node.id}",
        "modelClass": "reasoning",
    }


class Step:
    """One execution of one node."""

    def __init__(
        self, x: Execution, node: Node, ref: Ref | None, count: int, started: Body
    ) -> None:
        self.x, self.node, self.ref, self.count, self.started = x, node, ref, count, started
        self.config = node.config
        self.cause: Body | None = None
        """What the end of the node follows from, where that is more than its beginning."""
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

    def remember(self, outputs: Mapping[str, Any]) -> None:
        """What an agent that was not asked again has said before."""
        if self.node.type == "core.ai.callPrompt" and self.ref is not None:
            context = self.context()
            context.append({"role": "user", "content": _prompt(self)})
            context.append({"role": "assistant", "content": str(outputs.get("text", ""))})

    def context(self) -> list[dict[str, Any]]:
        assert self.ref is not None
        key = context_key(self.ref, self.node.id, self.count)
        return self.x.contexts.setdefault(key, [])

    # An agent reasons, calls tools, hands over and decides.

    def reason(self, agent: str, text: str, chunks: list[str] | None = None) -> None:
        x = self.x
        verbosity = x.configurable.get("reasoningVerbosity", x.settings.verbosity)
        if verbosity == "off":
            return
        most = x.settings.token_limit * BYTES_PER_TOKEN if verbosity == "summary" else None
        if chunks is not None:
            pieces, text = x.redactor.pieces(chunks), "".join(chunks)
            for number, piece in enumerate(_bounded(pieces, most)):
                said = {"agentId": agent, "delta": piece, "sequence": number}
                self.emit("agent.reasoning.delta", {**said, "verbosity": verbosity})
        text = _cut(x.redactor.text(text), most)  # WOP-43, WOP-44
        said = {"agentId": agent, "reasoning": text, "verbosity": verbosity}
        self.emit("agent.reasoned", said)

    def forbid(self, agent: str, tool: str) -> None:
        """A tool that the agent may not use, said before it begins (WOP-56)."""
        outcome = forbidden(tool, "tool is not in the agent's allowlist")
        self.returned(agent, tool, self._call_id(), outcome, None, None)

    def mock_call(self, agent: str, tool: str, call: Mapping[str, Any]) -> None:
        """A call whose end stands in the configuration."""
        arguments, call_id = call.get("arguments"), self._call_id()
        event = self._tool_called(agent, tool, call_id, arguments)
        recorded = self._recorded_return(call_id)
        outcome = recorded or self.x.engine.hooks.judge(self.x.principal, tool)
        if outcome is None and "error" in call:
            told = call["error"]
            outcome = Outcome(
                "error", error=error_of(told["error"], told["message"], told.get("details"))
            )
        elif outcome is None:
            outcome = Outcome("ok", call["result"])
        duration = call.get("durationMs", 0) if outcome.ran else None
        self.returned(agent, tool, call_id, outcome, duration, event)

    async def call(self, agent: str, tool: str, arguments: Any, *, allowed: bool = True) -> Outcome:
        """Calls a tool: on record before it is invoked, and after it ended (WOP-48, WOP-54)."""
        x, call_id = self.x, self._call_id()
        was_called = not x.is_live
        event = self._tool_called(agent, tool, call_id, arguments)
        recorded = self._recorded_return(call_id)
        if recorded is not None:
            self.returned(agent, tool, call_id, recorded, None, event)
            return recorded
        outcome = None if allowed else forbidden(tool, "tool is not in the agent's allowlist")
        outcome = outcome or x.engine.hooks.judge(x.principal, tool)
        duration = None
        if outcome is None:
            known = x.settings.tools.get(tool)
            if was_called and known is not None and not known.idempotent:
                outcome = unknown_end(tool)
            else:
                await x.flush()
                began = x.engine.monotonic()
                work = invoke(tool, x.settings.tools, arguments)
                outcome = await x.unless_stopped(work)
                duration = max(0, round(1000 * (x.engine.monotonic() - began)))
        self.returned(agent, tool, call_id, outcome, duration, event)
        return outcome

    def _call_id(self) -> str:
        self.called += 1
        return f"{self.node.id}:{self.count}:{self.called - 1}"

    def _tool_called(self, agent: str, tool: str, call_id: str, arguments: Any) -> Body | None:
        x = self.x
        cleaned = x.redactor.clean(arguments)
        said = {"agentId": agent, "toolId": tool, "toolName": tool, "callId": call_id}
        said |= {"arguments": cleaned}
        said |= {"inputs": cleaned} if x.settings.wire_aliases else {}
        said |= {"argsHash": args_hash(cleaned)}
        said |= {"principal": SYSTEM if agent == SYSTEM else x.principal}
        return self.emit("agent.toolCalled", {**said, "transport": transport_of(tool)})

    def _recorded_return(self, call_id: str) -> Outcome | None:
        event = self.x.peek()
        if event is None or event["type"] != "agent.toolReturned":
            return None
        payload = event["payload"]
        if payload.get("callId") != call_id:
            return None
        ran = payload.get("status") in ("ok", "error")
        return Outcome(
            payload.get("status", "ok"), payload.get("result"), payload.get("error"), ran
        )

    def returned(
        self,
        agent: str,
        tool: str,
        call_id: str,
        outcome: Outcome,
        duration: int | None,
        cause: Body | None,
    ) -> None:
        said: dict[str, Any] = {"agentId": agent, "toolId": tool, "toolName": tool}
        said |= {"callId": call_id, "status": outcome.status}
        if outcome.error is not None:
            said["error"] = outcome.error
        else:
            said["result"] = outcome.result
            said |= {"outcome": outcome.result} if self.x.settings.wire_aliases else {}
        said |= {"durationMs": duration} if duration is not None else {}
        self.emit("agent.toolReturned", said, cause)

    def hand_over(self, giver: Ref, taker: str, handoff: Mapping[str, Any]) -> None:
        """Control passes to another agent within the node (WOP-66)."""
        said: dict[str, Any] = {"from": giver, "to": {"agentId": taker}}
        said |= {"fromAgentId": giver["agentId"], "toAgentId": taker}
        said |= {key: handoff[key] for key in ("reason", "context") if key in handoff}
        self.emit("agent.handoff", said)

    async def decide(
        self, agent: str, decision: Any, confidence: float | None, reasoning: str | None = None
    ) -> Any:
        """An agent's decision; one that is not sure enough is a person's to confirm (WOP-24)."""
        x = self.x
        said: dict[str, Any] = {"agentId": agent, "decision": decision}
        said |= {} if confidence is None else {"confidence": confidence}
        said |= {"reasoning": reasoning} if reasoning else {}
        decided = self.emit("agent.decided", said)
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
        settle = _ratifying(decision, clarifies=kind == "clarification")
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
    ) -> tuple[dict[str, Any], Body | None]:
        """The answer in its normal form, and the event that resolved the question."""
        name = self.node.id
        key = f"{name}:{self.count}:{self.asked}"
        self.asked += 1
        request: dict[str, Any] = {"kind": kind, "key": key, "data": asked}
        request |= {"resumeSchema": schema} if schema else {}
        requested = self.emit("interrupt.requested", request, cause)
        place = {"nodeId": name, "interruptId": f"int:{key}"}
        self.emit("node.suspended", {**place, "kind": kind, "key": key, **also}, requested)
        value, by = self._answer(place["interruptId"])
        answer, told = settle(value)
        if told is not None and kind == "approval":
            self.emit("approval.received", {"nodeId": name, **told, "decidedBy": by}, requested)
        elif told is not None:
            said = {"nodeId": name, **told, "answeredBy": by}
            self.emit("clarification.resolved", said, requested)
        resolved = self.emit(
            "interrupt.resolved", {**place, "kind": kind, "resumeValue": value}, requested
        )
        rejects = answer.get("action") == "reject"
        if not rejects or kind == "approval":
            self.emit("node.resumed", {**place, "resumeValue": answer}, resolved)
        if rejects:
            self.cause = resolved
            raise NodeFailed("interrupt_rejected", f"{by} rejected it")
        return answer, resolved

    def _answer(self, interrupt: str) -> tuple[Any, str]:
        """What was answered: it is on record, or somebody answers just now, or nobody did."""
        x = self.x
        value, by, found = None, "default", False
        for ahead in range(2):
            event = x.peek(ahead)
            if event is None:
                break
            kind, payload = event["type"], event["payload"]
            if kind == "interrupt.resolved" and payload["interruptId"] == interrupt:
                return payload.get("resumeValue"), by
            if kind == "clarification.resolved":
                value, by = {"answers": payload["answers"]}, payload.get("answeredBy", by)
                found = True
            elif kind == "approval.received":
                value, by = {"action": payload["action"]}, payload.get("decidedBy", by)
                found = True
            else:
                break
        if found:  # cut off in the middle of an answer: what was kept of it is enough
            return value, by
        if x.log.cancel is not None:
            raise Cancelled
        answer = x.answer
        if answer is not None and answer.node == self.node.id and not answer.taken.done():
            x.tape, x.faithful = None, False  # from here on a replay is a run of its own
            return answer.value, answer.by
        raise Suspended

    # A run inside the run.

    async def child(self, workflow: str, inputs: Mapping[str, Any], cause: Body | None) -> Any:
        """The log of another run, once that has ended."""
        x = self.x
        if x.is_live and workflow not in x.engine.workflows.known:
            raise NodeFailed("child_failed", f"there is no workflow {workflow!r}")
        depth = int(x.host.get("depth", 0)) + 1
        if depth > DEEPEST:
            raise NodeFailed("child_failed", f"runs inside runs are more than {DEEPEST} deep")
        name = f"run-{uuid.uuid4()}"
        said = {"childRunId": name, "childWorkflowId": workflow}
        dispatched = self.emit("node.dispatched", said, cause)
        assert dispatched is not None
        name = dispatched["payload"]["childRunId"]
        await x.flush()
        parent = {"parentRunId": x.log.name, "depth": depth, "principal": x.principal}
        try:
            log = await x.engine.child(name, workflow, inputs, parent)
            await x.unless_stopped(x.engine.end_of(log))
        except Cancelled:
            await x.engine.cancel(name, "parent-cancelled", x.principal, parent=x.log.name)
            raise
        return log


def transport_of(tool: str) -> str:
    return "mcp" if tool.startswith("mcp:") else "native"


def _cut(text: str, most: int | None) -> str:
    """At most so many bytes, cut between characters, with a sign where it was."""
    raw = text.encode()
    if most is None or len(raw) <= most:
        return text
    return raw[: max(0, most - len("…".encode()))].decode(errors="ignore") + "…"


def _bounded(pieces: list[str], most: int | None) -> list[str]:
    if most is None or len("".join(pieces).encode()) <= most:
        return pieces
    kept, left = [], most
    for piece in pieces:
        part = piece.encode()[:left].decode(errors="ignore")
        kept.append(part)
        left -= len(part.encode())
        if part != piece:
            break
    return kept


def _ratifying(held: Any, *, clarifies: bool, supervises: bool = False) -> Settle:
    """The forms in which a held decision may be confirmed, replaced or rejected."""

    def settle(value: Any) -> tuple[dict[str, Any], Mapping[str, Any] | None]:
        if isinstance(value, str) and value in ("accept", "reject"):
            value = {"action": value}
        if not isinstance(value, dict):
            raise BadAnswer("answer with answers.decision, decision, or action accept or reject")
        given = _answers_in(value)
        if given is not None and "decision" in given:
            decision = given["decision"]
        elif "decision" in value:
            decision = value["decision"]
        elif value.get("action") == "accept":
            decision = held
        elif value.get("action") == "reject":
            return {"action": "reject"}, None
        elif supervises and "kind" in value:
            decision = value
        else:
            raise BadAnswer("answer with answers.decision, decision, or action accept or reject")
        if supervises and (fault := faults_of("orchestrator-decision", decision)):
            raise BadAnswer(f"that is no decision of a supervisor: {fault}")
        answers = {"answers": {"decision": decision}}
        return answers, answers if clarifies else None

    return settle


def _answers_in(value: Mapping[str, Any]) -> dict[str, Any] | None:
    given = value.get("answers")
    if isinstance(given, dict):
        return given
    if isinstance(given, list) and all(isinstance(each, dict) and "id" in each for each in given):
        return {str(each["id"]): each.get("answer") for each in given}
    return None


# The types of nodes.


async def noop(step: Step) -> dict[str, Any]:  # noqa: ARG001  # the shape of a node's body
    return {}


async def identity(step: Step) -> dict[str, Any]:
    outputs = step.inputs()
    if step.config.get("emitDuplicateMessageId"):
        await _write_twice(step)
    return outputs


async def _write_twice(step: Step) -> None:
    channel = _message_channel(step)
    name = f"{step.node.id}:{step.count}:0"
    say(step, channel, name, step.ref, "hello")
    fields = {"channel": channel, "messageId": name, "duplicate": True}
    said = {"level": "debug", "message": "duplicate messageId ignored", "nodeId": step.node.id}
    step.emit("log.appended", {**said, "fields": fields})


def _message_channel(step: Step) -> str:
    channels = step.x.definition.source.get("channels", {})
    wanted = step.config.get("channel")
    for name, declared in channels.items():
        if declared.get("reducer") == "message" and wanted in (None, name):
            return str(name)
    raise NodeFailed("validation_error", "the workflow declares no such message channel")


def say(step: Step, channel: str, message_id: str, ref: Ref | None, content: Any) -> None:
    """A message, written to a channel (WOP-29 to WOP-33)."""
    seconds = step.x.engine.clock()
    message = {"messageId": message_id, "from": ref["agentId"] if ref else "user"}
    if ref is not None and (group := group_of(ref)):
        message["groupId"] = group  # WOP-16
    value = {**message, "content": content, "ts": int(seconds * 1000)}
    said = {"channel": channel, "value": value, "reducer": "append", "nodeId": step.node.id}
    step.emit("channel.written", {**said, "writtenAt": step.x.engine.now(step.x.log)})


async def delay(step: Step) -> dict[str, Any]:
    length = step.inputs().get("delayMs", step.config.get("delayMs", 0))
    if isinstance(length, bool) or not isinstance(length, int | float):
        raise NodeFailed("validation_error", "delayMs is a number of milliseconds")
    if not 0 <= length <= LONGEST_DELAY:
        raise NodeFailed("validation_error", f"delayMs is from 0 to {LONGEST_DELAY}")
    await step.x.flush()
    await step.x.sleep_until(step.started, length / 1000)
    return {}


async def fail(step: Step) -> dict[str, Any]:  # noqa: ARG001  # the shape of a node's body
    raise NodeFailed("node_failed", "core.fail always fails")


async def approval(step: Step) -> dict[str, Any]:
    config, name = step.config, step.node.id
    actions = config.get("actions", ["accept", "reject"])
    asked = {
        "artifactId": name,
        "artifactType": "workflow-node",
        "title": config.get("title", name),
    }
    asked |= {"description": config["description"]} if "description" in config else {}
    schema: dict[str, Any] = {"type": "object", "required": ["action"]}
    schema |= {"properties": {"action": {"enum": actions}}}

    def settle(value: Any) -> tuple[dict[str, Any], Mapping[str, Any]]:
        action = value.get("action") if isinstance(value, dict) else value
        if not isinstance(action, str) or action not in actions or action == "ask":
            raise BadAnswer(
                f"action is one of {', '.join(each for each in actions if each != 'ask')}"
            )
        return {"action": action}, {"action": action}

    answer, _ = await step.ask("approval", {**asked, "actions": actions}, schema, None, {}, settle)
    return answer


async def clarification(step: Step) -> dict[str, Any]:
    return await _clarify(step, step.config["questions"], step.started)


async def _clarify(
    step: Step, questions: list[dict[str, Any]], cause: Body | None
) -> dict[str, Any]:
    def settle(value: Any) -> tuple[dict[str, Any], Mapping[str, Any]]:
        if isinstance(value, str) and len(questions) == 1:
            value = {"answers": {questions[0]["id"]: value}}
        answers = _answers_in(value) if isinstance(value, dict) else None
        if answers is None:
            raise BadAnswer("answer with an object `answers`, one member for each question")
        for question in questions:
            if question["id"] not in answers:
                raise BadAnswer(f"the question {question['id']!r} is not answered")
            _check_answer(question, answers[question["id"]])
        return {"answers": answers}, {"answers": answers}

    asked = {"questions": questions}
    answer, _ = await step.ask("clarification", asked, None, cause, {}, settle)
    return answer


def _check_answer(question: Mapping[str, Any], answer: Any) -> None:
    if "schema" not in question:
        return
    try:
        jsonschema_rs.validate(question["schema"], answer)
    except jsonschema_rs.ValidationError as error:
        raise BadAnswer(f"{question['id']}: {error.message[:300]}") from None


async def mock_agent(step: Step) -> dict[str, Any]:
    """Says what its configuration says, in the order that RFC 0023 gives."""
    config, ref, x = step.config, step.ref, step.x
    assert ref is not None
    agent = config.get("agentId") or ref["agentId"]
    calls = [(full_id(call["toolId"]), call) for call in config.get("mockToolCalls", [])]
    allowed = x.engine.agents.allowed(agent, [tool for tool, _ in calls])
    for tool, _ in calls:
        if tool not in allowed:
            step.forbid(agent, tool)
    thought = config.get("mockReasoning", False)
    if thought is not False:
        _mock_thought(step, agent, {"summary": STUB_THOUGHT} if thought is True else thought)
    for tool, call in calls:
        if tool in allowed:
            step.mock_call(agent, tool, call)
    if "mockHandoff" in config:
        giver = ref if ref["agentId"] == agent else {"agentId": agent}
        step.hand_over(giver, config["mockHandoff"]["toAgentId"], config["mockHandoff"])
        agent = config["mockHandoff"]["toAgentId"] if x.settings.handoff_events else agent
    if "mockDecision" in config:
        said = config["mockDecision"]
        confidence = said.get("confidence", config.get("mockConfidence"))
        await step.decide(agent, said["decision"], confidence, said.get("reasoning"))
    elif "mockConfidence" in config:
        await step.decide(agent, {"kind": "mock"}, config["mockConfidence"])
    return {}


def _mock_thought(step: Step, agent: str, thought: Mapping[str, Any]) -> None:
    verbosity = step.x.configurable.get("reasoningVerbosity", step.x.settings.verbosity)
    chunks = thought.get("streamChunks")
    if chunks:
        step.reason(agent, "", list(chunks))
    elif verbosity == "full" and "trace" in thought:
        step.reason(agent, thought["trace"])
    else:
        step.reason(agent, thought["summary"])


async def supervise(step: Step) -> dict[str, Any]:
    x, config = step.x, step.config
    assert step.ref is not None
    agent, earlier = step.ref["agentId"], x.decisions.setdefault(step.node.id, [])
    cause: Body | None = step.started
    decision = await _next_decision(step, len(earlier))
    confidence = config.get("mockConfidence", decision.get("confidence"))
    threshold = x.engine.agents.threshold(agent, x.configurable)
    if (
        confidence is not None
        and confidence < threshold
        and not (earlier and "mockConfidence" in config)
    ):
        numbers = f"with confidence {confidence:g}, below {threshold:g}"
        question = f"{agent} holds a decision {numbers}. Confirm or replace it."
        wanted = {"type": "object", "required": ["kind"]}
        asked = {"contextType": "low-confidence"} | {
            "questions": [{"id": "decision", "question": question, "schema": wanted}]
        }
        unsure = {"reason": "low-confidence", "agentId": agent, "threshold": threshold}
        unsure |= {"observed": confidence, "decision": decision}
        settle = _ratifying(decision, clarifies=True, supervises=True)
        answer, cause = await step.ask("clarification", asked, RATIFY, cause, unsure, settle)
        decision = answer["answers"]["decision"]
    said = {"agentId": agent, "decision": decision}
    step.cause = step.emit("runOrchestrator.decided", said, cause)
    assert step.cause is not None
    earlier.append(step.cause)
    return {"decision": decision["kind"]}


async def _next_decision(step: Step, number: int) -> dict[str, Any]:
    config = step.config
    if number == 0 and "mockPendingDecision" in config:
        pending: dict[str, Any] = config["mockPendingDecision"]
        return pending
    planned = config.get("mockDecisions", config.get("mockDispatchPlan"))
    if planned is not None:
        planned = planned[number : number + 1]
        return dict(planned[0]) if planned else {"kind": "terminate"}
    if "prompt" not in config:
        return {"kind": "terminate"}
    recorded = step.x.peek()
    if recorded is not None and recorded["type"] == "runOrchestrator.decided":
        decided: dict[str, Any] = recorded["payload"]["decision"]
        return decided
    return await _decision_of_model(step)


async def _decision_of_model(step: Step) -> dict[str, Any]:
    """What the model says in JSON, if it is a decision; else it is over, and it says why."""
    from orjson import JSONDecodeError, loads  # noqa: PLC0415  # here alone

    reply = await _ask_model(step, [{"role": "user", "content": _prompt(step)}], [])
    try:
        decision = loads(reply.text)
    except JSONDecodeError:
        decision = None
    if decision is None or faults_of("orchestrator-decision", decision):
        return {"kind": "terminate", "reason": "the model gave no decision"}
    return dict(decision)


async def dispatch(step: Step) -> dict[str, Any]:
    x = step.x
    head = x.definition.loops.get(step.node.id)
    found = [each for name, each in x.decisions.items() if head in (None, name) and each]
    if not found:
        raise NodeFailed("no_pending_decision", "no supervisor has decided anything")
    decided = found[-1][-1]
    decision = decided["payload"]["decision"]
    step.cause = decided
    if decision["kind"] == "terminate":
        return {"decision": "terminate"} | (
            {"reason": decision["reason"]} if "reason" in decision else {}
        )
    if decision["kind"] == "ask-user":
        asked = [{"id": "answer", "question": decision["prompt"]}]
        answer = await _clarify(step, asked, decided)
        return {"answer": answer["answers"]["answer"]}
    workers = decision["nextWorkerIds"]
    if len(workers) > 1 and step.config.get("fanOutPolicy") == "reject":
        raise NodeFailed("fan_out_unsupported", f"there are {len(workers)} workers at once")
    outputs: dict[str, Any] = {}
    for worker in workers:
        log = await step.child(worker, {}, decided)
        status = log.snapshot.status
        if status != "completed":
            raise NodeFailed("child_failed", f"{log.name} is {status}", {"childRunId": log.name})
        outputs = {"childRunId": log.name, "childStatus": status}
    return outputs


async def sub_workflow(step: Step) -> dict[str, Any]:
    log = await step.child(step.config["workflowId"], step.inputs(), step.started)
    status = log.snapshot.status
    if status != "completed":
        raise NodeFailed("child_failed", f"{log.name} is {status}", {"childRunId": log.name})
    outputs: dict[str, Any] = dict(log.events[-1]["payload"].get("outputs", {}))
    return {**outputs, "childRunId": log.name, "childStatus": status}


async def call_tool(step: Step) -> dict[str, Any]:
    agent = step.ref["agentId"] if step.ref else SYSTEM
    tool = full_id(step.config["toolId"])
    arguments = step.config.get("arguments", step.inputs())
    if not step.x.engine.agents.allowed(agent, [tool]):
        step.forbid(agent, tool)
        raise NodeFailed("forbidden", f"{agent} may not use {tool}", {"toolName": tool})
    outcome = await step.call(agent, tool, arguments)
    if outcome.error is not None:
        raise NodeFailed(outcome.error["code"], outcome.error["message"])
    return {"result": outcome.result}


def _prompt(step: Step) -> str:
    """The configured text, with `{{name}}` replaced by the inputs of that name."""
    text = str(step.config["prompt"])
    for name, value in step.inputs().items():
        text = text.replace("{{" + name + "}}", value if isinstance(value, str) else str(value))
    return text


async def _ask_model(step: Step, messages: list[dict[str, Any]], tools: list[str]) -> Reply:
    x = step.x
    await x.flush()
    try:
        return await x.unless_stopped(x.engine.model.ask(messages, tools, x.configurable))
    except ModelFailed as error:
        raise NodeFailed("model_failed", str(error)) from None


async def call_prompt(step: Step) -> dict[str, Any]:
    """A model answers a prompt, with tools if it may use some."""
    x, ref = step.x, step.ref
    assert ref is not None
    agent = ref["agentId"]
    prompt, context = _prompt(step), step.context()
    if (held := _decided_before(step)) is not None:
        text, confidence, reasoning = held
    else:
        _begin_anew(step)
        offered = [full_id(tool) for tool in step.config.get("tools", [])]
        allowed = x.engine.agents.allowed(agent, offered)
        for tool in offered:
            if tool not in allowed:
                step.forbid(agent, tool)
        system = step.config.get("system") or x.engine.agents.prompt(agent)
        messages = [{"role": "system", "content": system}] if system else []
        messages += [*context, {"role": "user", "content": prompt}]
        reply = await _converse(step, agent, messages, allowed)
        text, confidence, reasoning = reply.text, reply.confidence, None
    decision = await step.decide(agent, {"text": text}, confidence, reasoning)
    if isinstance(decision, dict) and isinstance(decision.get("text"), str):
        text = decision["text"]
    if "channel" in step.config:
        say(step, _message_channel(step), f"{step.node.id}:{step.count}:0", ref, text)
    context.append({"role": "user", "content": prompt})
    context.append({"role": "assistant", "content": text})
    return {"text": text}


async def _converse(
    step: Step, agent: str, messages: list[dict[str, Any]], allowed: list[str]
) -> Reply:
    import orjson  # noqa: PLC0415  # here alone

    for _ in range(MOST_ROUNDS):
        reply = await _ask_model(step, messages, allowed)
        spent = {"provider": reply.provider, "model": reply.model, **reply.usage}
        if reply.usage:
            step.emit("provider.usage", spent)
        if reply.reasoning:
            step.reason(agent, reply.reasoning)  # before it acts (WOP-42)
        if not reply.calls:
            return reply
        wanted = [
            {"id": id, "type": "function"}
            | {"function": {"name": tool, "arguments": orjson.dumps(given).decode()}}
            for id, tool, given in reply.calls
        ]
        messages.append({"role": "assistant", "content": reply.text, "tool_calls": wanted})
        for id, tool, given in reply.calls:
            name = full_id(tool)
            outcome = await step.call(agent, name, given, allowed=name in allowed)
            told = outcome.result if outcome.error is None else outcome.error
            content = told if isinstance(told, str) else orjson.dumps(told).decode()
            messages.append({"role": "tool", "tool_call_id": id, "content": content})
    raise NodeFailed("model_failed", f"it called tools for {MOST_ROUNDS} rounds")


def _decided_before(step: Step) -> tuple[str, float | None, str | None] | None:
    """What a model decided before we were stopped: it is not asked again."""
    x, ahead = step.x, 0
    while (event := x.peek(ahead)) is not None:
        if event["type"] == "agent.decided" and event.get("nodeId") == step.node.id:
            for _ in range(ahead):
                passed = x.peek()
                assert passed is not None
                x.emit(passed["type"], passed["payload"], passed.get("nodeId"))
            payload = event["payload"]
            text = str(payload["decision"].get("text", ""))
            return text, payload.get("confidence"), payload.get("reasoning")
        ahead += 1
    return None


def _begin_anew(step: Step) -> None:
    """A conversation that broke off in the middle is begun again, and that is on record."""
    x = step.x
    while (event := x.peek()) is not None:
        x.emit(event["type"], event["payload"], event.get("nodeId"))
    began = x.history[step.started["sequence"] :]
    attempt = sum(each["type"] == "node.started" for each in began)
    if len(began) == 1 or began[-1]["type"] == "node.started":
        return
    name = step.node.id
    returned = {e["payload"]["callId"] for e in began if e["type"] == "agent.toolReturned"}
    for event in began:
        payload = event["payload"]
        if event["type"] == "agent.toolCalled" and payload["callId"] not in returned:
            agent, tool = payload["agentId"], payload["toolId"]
            step.returned(agent, tool, payload["callId"], unknown_end(tool), None, event)
    step.emit("node.retried", {"nodeId": name, "attempt": attempt})
    said = {"nodeId": name, "typeId": step.node.type, "attempt": attempt}
    step.emit("node.started", {**said, "agent": step.ref} if step.ref else said)
    step.called = sum(each["type"] == "agent.toolCalled" for each in began)


BODIES: Mapping[str, Callable[[Step], Coroutine[Any, Any, dict[str, Any]]]] = {
    "core.noop": noop,
    "core.identity": identity,
    "core.delay": delay,
    "core.fail": fail,
    "core.approvalGate": approval,
    "core.clarificationGate": clarification,
    "core.subWorkflow": sub_workflow,
    "core.ai.callPrompt": call_prompt,
    "core.tool.call": call_tool,
    MOCK: mock_agent,
    SUPERVISOR: supervise,
    DISPATCH: dispatch,
}
