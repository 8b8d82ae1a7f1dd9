"""`conformance.requiresMissing`: requires a runtime capability that no host provides."""

from collections.abc import Iterator

from tracklog.hosts.openwop.definitions import Node, Refused
from tracklog.hosts.openwop.kinds._kind import NodeKind, Outputs, Site, not_offered
from tracklog.hosts.openwop.step import Step


async def run(step: Step) -> Outputs:
    raise AssertionError(step.node.id)  # it is never executed


def check(node: Node, site: Site) -> Iterator[Refused]:
    if not site.is_conformance:
        yield not_offered(node)


kind = NodeKind(
    type="conformance.requiresMissing",
    run=run,
    check=check,
    requires=("conformance.never-provided",),
)
