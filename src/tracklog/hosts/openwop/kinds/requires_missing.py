"""`conformance.requiresMissing`: requires a runtime capability that no host provides."""

from collections.abc import Iterator

from tracklog.hosts.openwop.definitions import DefinitionRefused, WorkflowNode
from tracklog.hosts.openwop.kinds._kind import NodeKind, Outputs, Site, not_offered
from tracklog.hosts.openwop.step import NodeStep


async def run(step: NodeStep) -> Outputs:
    raise AssertionError(step.node.id)  # it is never executed


def check(node: WorkflowNode, site: Site) -> Iterator[DefinitionRefused]:
    if not site.is_conformance:
        yield not_offered(node)


kind = NodeKind(
    type="conformance.requiresMissing",
    run=run,
    check=check,
    requires=("conformance.never-provided",),
)
