"""`core.delay`: waits."""

from collections.abc import Iterator
from typing import Any

from tracklog.hosts.openwop.definitions import DefinitionRefused, WorkflowNode
from tracklog.hosts.openwop.exceptions import NodeFailed
from tracklog.hosts.openwop.kinds._kind import NodeKind, Outputs, Site, fixed_outputs, wrong
from tracklog.hosts.openwop.step import NodeStep

LONGEST = 60_000
"""Milliseconds."""
RULE = f"delayMs is a number of milliseconds, from 0 to {LONGEST}"


def _is_good(length: Any) -> bool:
    is_number = isinstance(length, int | float) and not isinstance(length, bool)
    return is_number and 0 <= length <= LONGEST


async def run(step: NodeStep) -> Outputs:
    length = step.config.get("delayMs", step.inputs().get("delayMs"))
    if not _is_good(length):
        raise NodeFailed("validation_error", RULE)
    await step.x.flush()
    await step.x.sleep_until(step.started, length / 1000)
    return {}


def check(node: WorkflowNode, site: Site) -> Iterator[DefinitionRefused]:  # noqa: ARG001  # the signature of a kind
    if ("delayMs" in node.config) == ("delayMs" in node.ports):
        text = "delayMs is in its config or in its inputs, not in both"
        yield wrong(node, "delayMs", text if node.ports else "delayMs is missing in its config")
    elif not _is_good(node.config.get("delayMs", 0)):
        yield wrong(node, "delayMs", RULE)


kind = NodeKind(
    type="core.delay",
    run=run,
    config=frozenset({"delayMs"}),
    check=check,
    is_pure=True,
    ports=lambda _node: frozenset({"delayMs"}),
    outputs=fixed_outputs(),
)
