"""Messages between agents, and the channels that they are written to."""

from typing import Any

from tracklog.hosts.openwop.agents import Ref, group_of
from tracklog.hosts.openwop.exceptions import NodeFailed
from tracklog.hosts.openwop.schemas import faults_against
from tracklog.hosts.openwop.step import NodeStep


def message_channel(step: NodeStep) -> str:
    channels = step.x.definition.source.get("channels", {})
    wanted = step.config.get("channel")
    for name, declared in channels.items():
        if declared.get("reducer") == "message" and wanted in (None, name):
            return str(name)
    raise NodeFailed("validation_error", "the workflow declares no such message channel")


def write_message(
    step: NodeStep, channel: str, message_id: str, ref: Ref | None, content: Any
) -> None:
    """Write a message to a channel (WOP-29 to WOP-33)."""
    seconds = step.x.engine.clock()
    message = {"messageId": message_id, "from": ref["agentId"] if ref else "user"}
    if ref is not None and (group := group_of(ref)):
        message["groupId"] = group  # WOP-16
    value = {**message, "content": content, "ts": int(seconds * 1000)}
    schema = step.x.definition.source["channels"][channel].get("schema")
    if schema is not None:
        earlier = [each for each in step.x.history if each["type"] == "channel.written"]
        values = [e["payload"]["value"] for e in earlier if e["payload"]["channel"] == channel]
        if faults := faults_against(schema, [*values, value]):
            raise NodeFailed("validation_error", f"the channel {channel}: {faults[0]}")
    data = {"channel": channel, "value": value, "reducer": "append", "nodeId": step.node.id}
    step.emit("channel.written", {**data, "writtenAt": step.x.engine.now(step.x.log)})
