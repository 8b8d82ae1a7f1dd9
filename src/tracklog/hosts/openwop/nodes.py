"""The types of nodes, and what each does."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import jsonschema_rs

from tracklog import Body
from tracklog.hosts.openwop.agents import Ref
from tracklog.hosts.openwop.definitions import DISPATCH, MOCK, PROMPT, SUPERVISOR, Node
from tracklog.hosts.openwop.ends import BadAnswer, NodeFailed
from tracklog.hosts.openwop.execution import Execution
from tracklog.hosts.openwop.messages import message_channel, say
from tracklog.hosts.openwop.prompting import call_prompt, decision_of_model
from tracklog.hosts.openwop.settings import SYSTEM
from tracklog.hosts.openwop.step import RATIFY, Step, answers_in, ratifying
from tracklog.hosts.openwop.tools import full_id

LONGEST_DELAY = 60_000
STUB_THOUGHT = "A conformance agent reasons about nothing in particular."


def delegate(x: Execution, node: Node) -> Ref | None:
    """The agent that a node is given to: its pin, or one that the host makes for it (WOP-94)."""
    if node.ref is not None:
        return node.ref
    workflow = x.definition.id
    if node.type == MOCK:
        return {"agentId": node.config.get("agentId") or f"host:mock-agent:{workflow}:{node.id}"}
    if node.type == SUPERVISOR:
        return supervising(workflow, node)
    if node.type == PROMPT:
        return {"agentId": f"host:model:{workflow}:{node.id}"}
    return None


def supervising(workflow: str, node: Node) -> Ref:
    return node.ref or {
        "agentId": f"host:supervisor:{workflow}:{node.id}",
        "modelClass": "reasoning",
    }


async def noop(step: Step) -> dict[str, Any]:  # noqa: ARG001  # the shape of a node's body
    return {}


async def identity(step: Step) -> dict[str, Any]:
    outputs = step.inputs()
    if step.config.get("emitDuplicateMessageId"):
        await _write_twice(step)
    return outputs


async def _write_twice(step: Step) -> None:
    channel = message_channel(step)
    name = f"{step.node.id}:{step.count}:0"
    say(step, channel, name, step.ref, "hello")
    fields = {"channel": channel, "messageId": name, "duplicate": True}
    data = {"level": "debug", "message": "duplicate messageId ignored", "nodeId": step.node.id}
    step.emit("log.appended", {**data, "fields": fields})


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
        answers = answers_in(value) if isinstance(value, dict) else None
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
    """Emit the events of its configuration, in the order of RFC 0023."""
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
        settle = ratifying(decision, clarifies=True, supervises=True)
        answer, cause = await step.ask("clarification", asked, RATIFY, cause, unsure, settle)
        decision = answer["answers"]["decision"]
    data = {"agentId": agent, "decision": decision}
    step.cause = step.emit("runOrchestrator.decided", data, cause)
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
    return _held_before(step) or await decision_of_model(step)


def _held_before(step: Step) -> dict[str, Any] | None:
    """The decision of the model before the host was stopped: it is not asked again."""
    ahead = 0
    while (event := step.x.peek(ahead)) is not None and event.get("nodeId") == step.node.id:
        if event["type"] in ("runOrchestrator.decided", "node.suspended"):
            usage = step.x.peek()
            if usage is not None and usage["type"] == "provider.usage":
                step.emit("provider.usage", usage["payload"])
            held: dict[str, Any] = event["payload"]["decision"]
            return held
        ahead += 1
    return None


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
        raise NodeFailed(
            outcome.error["code"], outcome.error["message"], outcome.error.get("details")
        )
    return {"result": outcome.result}


BODIES: Mapping[str, Callable[[Step], Coroutine[Any, Any, dict[str, Any]]]] = {
    "core.noop": noop,
    "core.identity": identity,
    "core.delay": delay,
    "core.fail": fail,
    "core.approvalGate": approval,
    "core.clarificationGate": clarification,
    "core.subWorkflow": sub_workflow,
    PROMPT: call_prompt,
    "core.tool.call": call_tool,
    MOCK: mock_agent,
    SUPERVISOR: supervise,
    DISPATCH: dispatch,
}
