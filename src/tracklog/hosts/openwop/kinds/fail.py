"""`core.fail`: fails."""

from tracklog.hosts.openwop.exceptions import NodeFailed
from tracklog.hosts.openwop.kinds._kind import NodeKind, Outputs, fixed_outputs
from tracklog.hosts.openwop.step import NodeStep


async def run(step: NodeStep) -> Outputs:  # noqa: ARG001  # the signature of a kind
    raise NodeFailed("node_failed", "core.fail always fails")


kind = NodeKind(type="core.fail", run=run, is_pure=True, outputs=fixed_outputs())
