"""`core.tool.call`: calls a tool."""

from collections.abc import Iterator

from tracklog.hosts.openwop.definitions import TOOL, Node, Refused
from tracklog.hosts.openwop.exceptions import NodeFailed
from tracklog.hosts.openwop.kinds._kind import NodeKind, Outputs, Site, invalid
from tracklog.hosts.openwop.settings import SYSTEM
from tracklog.hosts.openwop.step import Step
from tracklog.hosts.openwop.tools import full_id


async def run(step: Step) -> Outputs:
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


def check(node: Node, site: Site) -> Iterator[Refused]:  # noqa: ARG001  # the signature of a kind
    name = node.config.get("toolId")
    if not isinstance(name, str) or not name:
        yield invalid(f"{node.id}: toolId is missing in its config", field="toolId")
    if "arguments" in node.config and node.ports:
        text = f"{node.id}: its arguments come from its config or from its inputs, not from both"
        yield invalid(text, field="arguments")


kind = NodeKind(type=TOOL, run=run, config=frozenset({"toolId", "arguments"}), check=check)
