"""`core.noop`: does nothing."""

from tracklog.hosts.openwop.kinds._kind import NodeKind, Outputs, fixed_outputs
from tracklog.hosts.openwop.step import NodeStep


async def run(step: NodeStep) -> Outputs:  # noqa: ARG001  # the signature of a kind
    return {}


kind = NodeKind(type="core.noop", run=run, is_pure=True, outputs=fixed_outputs())
