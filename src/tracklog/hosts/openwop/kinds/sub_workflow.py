"""`core.subWorkflow`: runs another workflow as a run of its own."""

from collections.abc import Iterator

from tracklog.hosts.openwop.definitions import Node, Refused
from tracklog.hosts.openwop.exceptions import NodeFailed
from tracklog.hosts.openwop.kinds._kind import NodeKind, Outputs, Site, invalid
from tracklog.hosts.openwop.step import Step


async def run(step: Step) -> Outputs:
    log = await step.child(step.config["workflowId"], step.inputs(), step.started)
    status = log.snapshot.status
    if status != "completed":
        raise NodeFailed("child_failed", f"{log.name} is {status}", {"childRunId": log.name})
    outputs: Outputs = dict(log.events[-1]["payload"].get("outputs", {}))
    return {**outputs, "childRunId": log.name, "childStatus": status}


def check(node: Node, site: Site) -> Iterator[Refused]:  # noqa: ARG001  # the signature of a kind
    name = node.config.get("workflowId")
    if not isinstance(name, str) or not name:
        yield invalid(f"{node.id}: workflowId is missing in its config")


kind = NodeKind(type="core.subWorkflow", run=run, config=frozenset({"workflowId"}), check=check)
