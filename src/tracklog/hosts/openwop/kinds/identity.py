"""`core.identity`: copies its inputs to its outputs."""

from collections.abc import Iterator

from tracklog.hosts.openwop.definitions import DefinitionRefused, WorkflowNode
from tracklog.hosts.openwop.kinds._kind import (
    NodeKind,
    Outputs,
    Site,
    any_ports,
    check_channel,
    wrong,
)
from tracklog.hosts.openwop.messages import message_channel, write_message
from tracklog.hosts.openwop.step import NodeStep


async def run(step: NodeStep) -> Outputs:
    outputs = step.inputs()
    if step.config.get("emitDuplicateMessageId"):
        _write_twice(step)
    return outputs


def _write_twice(step: NodeStep) -> None:
    """Write one message, and record that its duplicate was ignored."""
    channel = message_channel(step)
    name = f"{step.node.id}:{step.count}:0"
    write_message(step, channel, name, step.ref, "hello")
    fields = {"channel": channel, "messageId": name, "duplicate": True}
    data = {"level": "debug", "message": "duplicate messageId ignored", "nodeId": step.node.id}
    step.emit("log.appended", {**data, "fields": fields})


def check(node: WorkflowNode, site: Site) -> Iterator[DefinitionRefused]:
    emits = node.config.get("emitDuplicateMessageId", False)
    if not isinstance(emits, bool):
        yield wrong(node, "emitDuplicateMessageId", "emitDuplicateMessageId is true or false")
    elif emits:
        yield from check_channel(node, site)
    elif "channel" in node.config:
        yield wrong(node, "channel", "channel is for emitDuplicateMessageId")


kind = NodeKind(
    type="core.identity",
    run=run,
    config=frozenset({"emitDuplicateMessageId", "channel"}),
    check=check,
    is_pure=True,
    copies=True,
    ports=any_ports,
    outputs=lambda node: frozenset(node.ports),
)
