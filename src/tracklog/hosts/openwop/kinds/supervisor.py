"""`core.orchestrator.supervisor`: decides which agents are next."""

from collections.abc import Iterator
from typing import Any

import orjson

from tracklog import Body
from tracklog.hosts.openwop.agents import Ref
from tracklog.hosts.openwop.definitions import SUPERVISOR, DefinitionRefused, WorkflowNode
from tracklog.hosts.openwop.kinds._kind import (
    NodeKind,
    Outputs,
    Site,
    check_prompt,
    fixed_outputs,
    lacks,
    ports_of_prompt,
    wrong,
)
from tracklog.hosts.openwop.model_calls import ask_model
from tracklog.hosts.openwop.questions import RATIFY, ratifying
from tracklog.hosts.openwop.schemas import faults_of
from tracklog.hosts.openwop.step import NodeStep

MOCKS = frozenset({"mockDecisions", "mockDispatchPlan", "mockConfidence", "mockPendingDecision"})


async def run(step: NodeStep) -> Outputs:
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


async def _next_decision(step: NodeStep, number: int) -> dict[str, Any]:
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
    return _recorded_decision(step) or await _decision_of_model(step)


async def _decision_of_model(step: NodeStep) -> dict[str, Any]:
    """The decision in the model's JSON reply; if it has none, a decision to end, with the reason."""
    assert step.ref is not None
    system = step.x.engine.agents.prompt(step.ref["agentId"])
    messages = [{"role": "system", "content": system}] if system else []
    reply = await ask_model(step, [*messages, {"role": "user", "content": step.prompt()}], [])
    try:
        decision = orjson.loads(reply.text)
    except orjson.JSONDecodeError:
        decision = None
    if decision is None or faults_of("orchestrator-decision", decision):
        return {"kind": "terminate", "reason": "the model gave no decision"}
    return dict(decision)


def _recorded_decision(step: NodeStep) -> dict[str, Any] | None:
    """The decision of the model before the host was stopped: it is not asked again."""
    ahead = 0
    while (event := step.x.peek(ahead)) is not None and event.get("nodeId") == step.node.id:
        if event["type"] in ("runOrchestrator.decided", "node.suspended"):
            usage = step.x.peek()
            if usage is not None and usage["type"] == "provider.usage":
                step.emit("provider.usage", usage["payload"])
            decision: dict[str, Any] = event["payload"]["decision"]
            return decision
        ahead += 1
    return None


def check(node: WorkflowNode, site: Site) -> Iterator[DefinitionRefused]:
    config = node.config
    if not site.settings.orchestrates:
        text = f"{node.id}: this host does not offer agents.orchestrator"
        yield lacks(node, "agents.orchestrator", text)
    if not site.is_conformance and MOCKS & config.keys():
        names = sorted(MOCKS & config.keys())
        yield wrong(node, names[0], f"{', '.join(names)}: only in conformance-* workflows")
    plans = [name for name in ("mockDecisions", "mockDispatchPlan", "prompt") if name in config]
    if len(plans) > 1:
        yield wrong(node, plans[1], f"its decisions come from one of {', '.join(plans)}")
    planned = config.get("mockDecisions", config.get("mockDispatchPlan", []))
    if not isinstance(planned, list):
        yield wrong(node, plans[0], f"{plans[0]} is a list of decisions")
        planned = []
    unsure = config.get("mockConfidence", 1)
    if isinstance(unsure, bool) or not isinstance(unsure, int | float) or not 0 <= unsure <= 1:
        yield wrong(node, "mockConfidence", "mockConfidence is a number from 0 to 1")
    pending = [config["mockPendingDecision"]] if "mockPendingDecision" in config else []
    for decision in [*planned, *pending]:
        for fault in faults_of("orchestrator-decision", decision):
            yield wrong(node, "", fault)
    if "prompt" in config:
        yield from check_prompt(node)


def agent(workflow: str, node: WorkflowNode) -> Ref:
    return node.ref or {
        "agentId": f"host:supervisor:{workflow}:{node.id}",
        "modelClass": "reasoning",
    }


kind = NodeKind(
    type=SUPERVISOR,
    run=run,
    config=MOCKS | {"prompt"},
    check=check,
    agent=agent,
    ports=ports_of_prompt,
    outputs=fixed_outputs("decision"),
)
