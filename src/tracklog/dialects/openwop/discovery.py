"""The rules that come from the discovery document of a host."""

from typing import Any

from tracklog.dialects.openwop.spelling import payload_of, slots
from tracklog.dialects.openwop.state import Gate, finding
from tracklog.model.event import Body, Event, Finding

FLAGS = {
    "agent.reasoned": "reasoningEvents",
    "agent.reasoning.delta": "reasoningEvents",
    "agent.toolCalled": "toolEvents",
    "agent.toolReturned": "toolEvents",
    "agent.handoff": "handoffEvents",
    "agent.decided": "decisionEvents",
}
"""Which flag of a discovery document allows which type."""


def gate(discovery: Body) -> Gate:
    """Findings for events that a host with this discovery document must not write (WOP-75)."""
    supported = value_at(discovery, "agents", "supported") is True
    block = value_at(discovery, "capabilities", "agents")
    block = block if isinstance(block, dict) else {}

    def allowed(flag: str) -> bool:
        return block[flag] is True if flag in block else supported

    def judge(event: Event) -> list[Finding]:
        flag, kind = FLAGS.get(event.kind), event.kind
        if flag is not None and not allowed(flag):
            return [finding("not-advertised", f"{kind} is written, {flag} is not advertised")]
        if kind == "agent.reasoning.delta" and (
            advertised(discovery, "reasoning", "streaming") is not True
        ):
            message = "a delta is written, reasoning.streaming is not advertised"
            return [finding("not-advertised", message)]
        if not advertised(discovery, "memoryBackends"):
            return [
                finding("not-advertised", f"{key} has a memoryRef, no memory is advertised")
                for holder, key in slots(kind, payload_of(event.body))
                if "memoryRef" in holder[key]
            ]
        return []

    return judge


def advertised(discovery: Body, *path: str) -> Any:
    """A value of the RFC's block, else of the root."""
    value = value_at(discovery, "capabilities", "agents", *path)
    return value_at(discovery, "agents", *path) if value is None else value


def value_at(value: Any, *path: str) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value
