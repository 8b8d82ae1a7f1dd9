"""`core.conformance.mock-agent`: emits the events of its configuration, in the order of RFC 0023."""

from collections.abc import Iterator, Mapping
from typing import Any

from tracklog.hosts.openwop.agents import Ref
from tracklog.hosts.openwop.definitions import MOCK, DefinitionRefused, WorkflowNode
from tracklog.hosts.openwop.kinds._kind import (
    NodeKind,
    Outputs,
    Site,
    fixed_outputs,
    not_offered,
    wrong,
)
from tracklog.hosts.openwop.schemas import faults_of
from tracklog.hosts.openwop.step import NodeStep
from tracklog.hosts.openwop.tools import full_id

STUB_REASONING = "A conformance agent reasons about nothing in particular."


async def run(step: NodeStep) -> Outputs:
    config, ref, x = step.config, step.ref, step.x
    assert ref is not None
    agent = config.get("agentId") or ref["agentId"]
    calls = [(full_id(call["toolId"]), call) for call in config.get("mockToolCalls", [])]
    names = [tool for tool, _ in calls]
    allowed = x.engine.agents.allowed(agent, names, is_pinned=False)  # none of them is run
    for tool, _ in calls:
        if tool not in allowed:
            step.forbid(agent, tool)
    reasoning = config.get("mockReasoning", False)
    if reasoning is not False:
        _reason(step, agent, {"summary": STUB_REASONING} if reasoning is True else reasoning)
    for tool, call in calls:
        if tool in allowed:
            step.mock_call(agent, tool, call)
    if "mockHandoff" in config:
        giver = ref if ref["agentId"] == agent else {"agentId": agent}
        step.hand_over(giver, config["mockHandoff"]["toAgentId"], config["mockHandoff"])
        agent = config["mockHandoff"]["toAgentId"] if x.settings.handoff_events else agent
    if "mockDecision" in config:
        mock = config["mockDecision"]
        confidence = mock.get("confidence", config.get("mockConfidence"))
        await step.decide(agent, mock["decision"], confidence, mock.get("reasoning"))
    elif "mockConfidence" in config:
        await step.decide(agent, {"kind": "mock"}, config["mockConfidence"])
    return {}


def _reason(step: NodeStep, agent: str, reasoning: Mapping[str, Any]) -> None:
    verbosity = step.x.configurable.get("reasoningVerbosity", step.x.settings.verbosity)
    chunks = reasoning.get("streamChunks")
    if chunks:
        step.reason(agent, "", list(chunks))
    elif verbosity == "full" and "trace" in reasoning:
        step.reason(agent, reasoning["trace"])
    else:
        step.reason(agent, reasoning["summary"])


def check(node: WorkflowNode, site: Site) -> Iterator[DefinitionRefused]:
    if not site.is_conformance:
        yield not_offered(node)
    faults = faults_of("core-conformance-mock-agent-config", dict(node.config))
    yield from (wrong(node, "", fault) for fault in faults)
    for call in () if faults else node.config.get("mockToolCalls", []):
        if ("result" in call) == ("error" in call):
            yield wrong(node, "mockToolCalls", "a tool call has a result or an error")


def agent(workflow: str, node: WorkflowNode) -> Ref:
    if node.ref is not None:
        return node.ref
    return {"agentId": node.config.get("agentId") or f"host:mock-agent:{workflow}:{node.id}"}


kind = NodeKind(
    type=MOCK,
    run=run,
    config=frozenset(
        {
            "agentId",
            "mockReasoning",
            "mockToolCalls",
            "mockHandoff",
            "mockDecision",
            "mockConfidence",
        }
    ),
    check=check,
    agent=agent,
    outputs=fixed_outputs(),
)
