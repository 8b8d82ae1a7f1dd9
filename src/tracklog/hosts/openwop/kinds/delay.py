"""`core.delay`: waits."""

from tracklog.hosts.openwop.exceptions import NodeFailed
from tracklog.hosts.openwop.kinds._kind import NodeKind, Outputs
from tracklog.hosts.openwop.step import Step

LONGEST = 60_000
"""Milliseconds."""


async def run(step: Step) -> Outputs:
    length = step.inputs().get("delayMs", step.config.get("delayMs", 0))
    if isinstance(length, bool) or not isinstance(length, int | float):
        raise NodeFailed("validation_error", "delayMs is a number of milliseconds")
    if not 0 <= length <= LONGEST:
        raise NodeFailed("validation_error", f"delayMs is from 0 to {LONGEST}")
    await step.x.flush()
    await step.x.sleep_until(step.started, length / 1000)
    return {}


kind = NodeKind(type="core.delay", run=run, config=frozenset({"delayMs"}), is_pure=True)
