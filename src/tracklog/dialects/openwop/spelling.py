"""Keys with two spellings: read a value under either name, and find the agents of an event."""

from collections.abc import Iterator
from typing import Any

from tracklog.model.event import Body

TURNS = {
    "conversation.opened": "initialTurn",
    "conversation.exchanged": "turn",
    "conversation.closed": "finalTurn",
}


def first(body: Body, *keys: str) -> Any:
    """The value of the first key that is present; null is a value."""
    return next((body[key] for key in keys if key in body), None)


def payload_of(body: Body) -> Body:
    """The payload, if it is an object."""
    payload = body.get("payload")
    return payload if isinstance(payload, dict) else {}


def node_of(body: Body) -> str | None:
    """The node of an event: the envelope's, else the payload's."""
    node = body.get("nodeId") or payload_of(body).get("nodeId")
    return node if isinstance(node, str) and node else None


def agent_of(ref: Any) -> str | None:
    """The agentId of a ref."""
    agent = ref.get("agentId") if isinstance(ref, dict) else None
    return agent if isinstance(agent, str) else None


def hands(payload: Body) -> tuple[str | None, str | None]:
    """The agents of a handoff, from and to."""
    given = agent_of(payload.get("from")) or payload.get("fromAgentId")
    taken = agent_of(payload.get("to")) or payload.get("toAgentId")
    return given, taken


def actor_of(payload: Body) -> str | None:
    """The agent of an event, as far as its payload names it."""
    agent = payload.get("agentId")
    if isinstance(agent, str):
        return agent
    return agent_of(payload.get("agent")) or agent_of(payload.get("from"))


def turn_of(kind: str, payload: Body) -> Body | None:
    """The turn of a conversation event."""
    turn = payload.get(TURNS[kind]) if kind in TURNS else None
    return turn if isinstance(turn, dict) else None


def message_of(payload: Body) -> Body | None:
    """The message that was written to a channel, if the value is one."""
    value = payload.get("value")
    if not isinstance(value, dict):
        return None
    named = all(isinstance(value.get(key), str) for key in ("messageId", "from"))
    return value if named and "content" in value else None


def slots(kind: str, payload: Body) -> Iterator[tuple[Body, str]]:
    """The places of AgentRefs: the object that holds one, and its key."""
    holders: list[tuple[Body | None, str]] = []
    if kind in ("node.started", "node.completed"):
        holders = [(payload, "agent")]
    elif kind == "agent.handoff":
        holders = [(payload, "from"), (payload, "to")]
    elif kind in TURNS:
        holders = [(turn_of(kind, payload), "agent")]
    for holder, key in holders:
        if holder is not None and isinstance(holder.get(key), dict):
            yield holder, key


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal; true is not 1, and 1 is 1.0."""
    pairs = [(one, other)]
    while pairs:  # a loop, because values may be nested deeper than calls
        left, right = pairs.pop()
        if isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
            pairs += [(left[key], right[key]) for key in left]
        elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
            pairs += zip(left, right, strict=True)
        elif isinstance(left, dict | list | bool) or isinstance(right, dict | list | bool):
            if left is not right:
                return False
        elif left != right:
            return False
    return True
