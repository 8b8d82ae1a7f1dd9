"""`core.tool.call`: calls a tool."""

from collections.abc import Iterator

from tracklog.hosts.openwop.definitions import TOOL, DefinitionRefused, WorkflowNode
from tracklog.hosts.openwop.exceptions import NodeFailed
from tracklog.hosts.openwop.kinds._kind import (
    NodeKind,
    Outputs,
    Site,
    Use,
    any_ports,
    fixed_outputs,
    wrong,
)
from tracklog.hosts.openwop.settings import SYSTEM
from tracklog.hosts.openwop.step import NodeStep
from tracklog.hosts.openwop.tools import full_id


async def run(step: NodeStep) -> Outputs:
    agent = step.ref["agentId"] if step.ref else SYSTEM
    tool = full_id(step.config["toolId"])
    arguments = step.config.get("arguments", step.inputs())
    is_pinned = step.ref is not None
    if not step.x.engine.agents.allowed(agent, [tool], is_pinned=is_pinned):
        step.forbid(agent, tool)
        raise NodeFailed("forbidden", f"{agent} may not use {tool}", {"toolName": tool})
    outcome = await step.call(agent, tool, arguments)
    if outcome.error is not None:
        raise NodeFailed(
            outcome.error["code"], outcome.error["message"], outcome.error.get("details")
        )
    return {"result": outcome.result}


def check(node: WorkflowNode, site: Site) -> Iterator[DefinitionRefused]:  # noqa: ARG001  # the signature of a kind
    name = node.config.get("toolId")
    if not isinstance(name, str) or not name:
        yield wrong(node, "toolId", "toolId is missing in its config")
    if "arguments" in node.config and node.ports:
        text = "its arguments come from its config or from its inputs, not from both"
        yield wrong(node, "arguments", text)


def uses(node: WorkflowNode) -> Iterator[Use]:
    yield Use("tool", "toolId", full_id(node.config["toolId"]))


kind = NodeKind(
    type=TOOL,
    run=run,
    config=frozenset({"toolId", "arguments"}),
    check=check,
    uses=uses,
    ports=any_ports,
    outputs=fixed_outputs("result"),
)
