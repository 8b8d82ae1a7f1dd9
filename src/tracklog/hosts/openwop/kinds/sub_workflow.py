"""`core.subWorkflow`: runs another workflow as a run of its own."""

from collections.abc import Iterator, Mapping
from typing import Any

from tracklog.hosts.openwop.definitions import DefinitionRefused, WorkflowNode
from tracklog.hosts.openwop.exceptions import NodeFailed
from tracklog.hosts.openwop.kinds._kind import (
    NodeKind,
    Outputs,
    Site,
    Use,
    any_ports,
    check_mapping,
    wrong,
)
from tracklog.hosts.openwop.step import NodeStep


async def run(step: NodeStep) -> Outputs:
    config = step.config
    mapping = config.get("inputMapping", {})
    inputs = {**step.inputs(), **mapped_inputs(step, mapping)}
    log = await step.child(config["workflowId"], inputs, step.started, mapping)
    status = log.snapshot.status
    outputs: Outputs = {"childRunId": log.name, "childStatus": status}
    if status != "completed":
        if config.get("onChildFailure") == "absorb":
            return outputs
        raise NodeFailed("child_failed", f"{log.name} is {status}", {"childRunId": log.name})
    if "outputMapping" not in config:
        return {**log.events[-1]["payload"].get("outputs", {}), **outputs}
    return {**mapped_outputs(log.snapshot.variables, config["outputMapping"]), **outputs}


def mapped_inputs(step: NodeStep, mapping: Mapping[str, str]) -> dict[str, Any]:
    """Inputs of a child from variables of the run; a variable that is not set leaves its key alone."""
    variables = step.x.variables
    return {child: variables[own] for child, own in mapping.items() if own in variables}


def mapped_outputs(variables: Mapping[str, Any], mapping: Mapping[str, str]) -> Outputs:
    """Outputs of a node from variables of a child that completed."""
    return {own: variables[child] for own, child in mapping.items() if child in variables}


def check(node: WorkflowNode, site: Site) -> Iterator[DefinitionRefused]:  # noqa: ARG001  # the signature of a kind
    config = node.config
    name = config.get("workflowId")
    if not isinstance(name, str) or not name:
        yield wrong(node, "workflowId", "workflowId is missing in its config")
    for key in ("inputMapping", "outputMapping"):
        yield from check_mapping(node, key)
    mapping = config.get("inputMapping", {})
    for port in node.ports.keys() & (mapping.keys() if isinstance(mapping, dict) else ()):
        text = f"inputMapping and inputs both have {port[:50]!r}"
        yield wrong(node, "inputMapping", text)
    for key in ("waitForCompletion", "propagateCancellation"):
        if config.get(key, True) is not True:
            yield wrong(node, key, f"{key} is always true here")
    if config.get("onChildFailure", "fail-parent") not in ("fail-parent", "absorb"):
        yield wrong(node, "onChildFailure", "onChildFailure is fail-parent or absorb")


def uses(node: WorkflowNode) -> Iterator[Use]:
    yield Use("workflow", "workflowId", node.config["workflowId"])


def outputs(node: WorkflowNode) -> frozenset[str] | None:
    mapping = node.config.get("outputMapping")
    return None if mapping is None else frozenset({*mapping, "childRunId", "childStatus"})


kind = NodeKind(
    type="core.subWorkflow",
    other_types=("core.control.subWorkflow",),
    run=run,
    config=frozenset(
        {
            "workflowId",
            "inputMapping",
            "outputMapping",
            "waitForCompletion",
            "propagateCancellation",
            "onChildFailure",
        }
    ),
    check=check,
    uses=uses,
    ports=any_ports,
    outputs=outputs,
)
