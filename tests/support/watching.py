"""An AG-UI client: what it takes from a stream, what it insists on, and what it shows."""

import json
import re
from typing import Any

Event = dict[str, Any]

FIELDS: dict[str, dict[str, Any]] = {
    "RUN_STARTED": {"threadId": str, "runId": str},
    "RUN_FINISHED": {"threadId": str, "runId": str},
    "RUN_ERROR": {"message": str},
    "STEP_STARTED": {"stepName": str},
    "STEP_FINISHED": {"stepName": str},
    "TEXT_MESSAGE_START": {"messageId": str, "role": str},
    "TEXT_MESSAGE_CONTENT": {"messageId": str, "delta": str},
    "TEXT_MESSAGE_END": {"messageId": str},
    "TOOL_CALL_START": {"toolCallId": str, "toolCallName": str},
    "TOOL_CALL_ARGS": {"toolCallId": str, "delta": str},
    "TOOL_CALL_END": {"toolCallId": str},
    "TOOL_CALL_RESULT": {"messageId": str, "toolCallId": str, "content": str},
    "STATE_SNAPSHOT": {"snapshot": object},
    "MESSAGES_SNAPSHOT": {"messages": list},
    "REASONING_START": {"messageId": str},
    "REASONING_END": {"messageId": str},
    "REASONING_MESSAGE_START": {"messageId": str, "role": str},
    "REASONING_MESSAGE_CONTENT": {"messageId": str, "delta": str},
    "REASONING_MESSAGE_END": {"messageId": str},
    "REASONING_ENCRYPTED_VALUE": {"subtype": str, "entityId": str, "encryptedValue": str},
    "RAW": {"event": object},
    "CUSTOM": {"name": str, "value": object},
}
OPENS = {
    "TEXT_MESSAGE_START": "messageId",
    "TOOL_CALL_START": "toolCallId",
    "STEP_STARTED": "stepName",
    "REASONING_START": "messageId",
    "REASONING_MESSAGE_START": "messageId",
}
INSIDE = {
    "TEXT_MESSAGE_CONTENT": "TEXT_MESSAGE_START",
    "TEXT_MESSAGE_END": "TEXT_MESSAGE_START",
    "TOOL_CALL_ARGS": "TOOL_CALL_START",
    "TOOL_CALL_END": "TOOL_CALL_START",
    "STEP_FINISHED": "STEP_STARTED",
    "REASONING_MESSAGE_CONTENT": "REASONING_MESSAGE_START",
    "REASONING_MESSAGE_END": "REASONING_MESSAGE_START",
    "REASONING_END": "REASONING_START",
}
SHAPES = {
    "user": {"content": str},
    "system": {"content": str},
    "developer": {"content": str},
    "reasoning": {"content": str},
    "tool": {"content": str, "toolCallId": str},
    "assistant": {},
}


def frames_of(stream: bytes) -> list[tuple[int | None, Event]]:
    """Each event with the number beside it; comments and bare fields are passed over."""
    frames = stream.decode().split("\n\n")
    assert frames.pop() == ""
    found = []
    for frame in frames:
        fields = dict(line.split(": ", 1) for line in frame.split("\n"))
        if "data" in fields:
            assert fields.keys() <= {"id", "data"}
            id = fields.get("id")
            assert id is None or re.fullmatch(r"\d+", id)
            found.append((int(id) if id else None, json.loads(fields["data"])))
    return found


def events_of(stream: bytes) -> list[Event]:
    return [event for _, event in frames_of(stream)]


def check_stream(stream: bytes) -> None:
    check_events(events_of(stream))


def check_events(events: list[Event]) -> None:
    """What the official client enforces, at every moment of a stream."""
    running, opened = False, set()
    for event in events:
        kind = event["type"]
        _check_fields(event)
        if kind == "RUN_STARTED":
            assert not running, event
            running = True
        else:
            assert running, event
        if kind in OPENS:
            key = (kind, event[OPENS[kind]])
            assert key not in opened, event
            opened.add(key)
        if kind in INSIDE:
            start = INSIDE[kind]
            key = (start, event[OPENS[start]])
            assert key in opened, event
            if kind.endswith(("_END", "_FINISHED")):
                opened.discard(key)
        if kind in ("RUN_FINISHED", "RUN_ERROR"):
            assert not opened, event
            running = False


def _check_fields(event: Event) -> None:
    for name, shape in FIELDS[event["type"]].items():
        assert isinstance(event[name], shape), event
    assert all(value is not None for name, value in event.items() if name != "value"), event
    assert isinstance(event["timestamp"], int)
    assert isinstance(event.get("metadata", {}), dict)
    if event["type"].endswith(("_CONTENT", "_ARGS")):
        assert event["delta"]
    if event["type"] == "TEXT_MESSAGE_START":
        assert event["role"] in ("developer", "system", "assistant", "user")
    for usage in event.get("usage", []):
        assert usage.keys() <= {
            "provider", "model", "inputTokens", "outputTokens", "totalTokens", "reasoningTokens",
            "cachedInputTokens",
        }  # fmt: skip  # one set
        amounts = [value for name, value in usage.items() if name.endswith("Tokens")]
        assert all(type(amount) is int and 0 <= amount < 2**53 for amount in amounts)
    for message in event.get("messages", []):
        check_message(message)
    outcome = event.get("outcome")
    if outcome is not None:
        assert outcome["type"] in ("success", "interrupt")
    for interrupt in (outcome or {}).get("interrupts", []):
        assert isinstance(interrupt["id"], str)
        assert isinstance(interrupt["reason"], str)
        assert None not in interrupt.values()
        assert isinstance(interrupt.get("responseSchema", {}), dict)
    given = event.get("input")
    if given is not None:
        assert {"threadId", "runId", "messages", "tools", "context"} <= given.keys()
        assert {each["status"] for each in given["resume"]} == {"resolved"}
        assert all(None not in each.values() for each in given["resume"])


def check_message(message: Event) -> None:
    assert isinstance(message["id"], str)
    for name, shape in SHAPES[message["role"]].items():
        assert isinstance(message[name], shape), message
    for call in message.get("toolCalls", []):
        assert call["type"] == "function"
        assert isinstance(call["id"], str)
        assert isinstance(call["function"]["name"], str)
        assert isinstance(call["function"]["arguments"], str)
    assert None not in message.values()


def shown(events: list[Event]) -> list[Event]:
    """The messages of a client that heard these events."""
    messages: list[Event] = []

    def find(id: str) -> Event | None:
        return next((each for each in messages if each["id"] == id), None)

    for event in events:
        match event["type"]:
            case "TEXT_MESSAGE_START" | "REASONING_MESSAGE_START":
                made = {"id": event["messageId"], "role": event["role"], "content": ""}
                messages.append(made | ({"name": event["name"]} if "name" in event else {}))
            case "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT":
                find(event["messageId"])["content"] += event["delta"]
            case "REASONING_ENCRYPTED_VALUE":
                if (sealed := find(event["entityId"])) is not None:
                    sealed["encryptedValue"] = event["encryptedValue"]
            case "TOOL_CALL_START":
                id = event.get("parentMessageId", event["toolCallId"])
                if (owner := find(id)) is None:
                    owner = {"id": id, "role": "assistant"}
                    messages.append(owner)
                function = {"name": event["toolCallName"], "arguments": ""}
                call = {"id": event["toolCallId"], "type": "function", "function": function}
                owner.setdefault("toolCalls", []).append(call)
            case "TOOL_CALL_ARGS":
                for call in _calls(messages, event["toolCallId"]):
                    call[1]["function"]["arguments"] += event["delta"]
            case "TOOL_CALL_RESULT":
                _put_result(messages, event)
            case "MESSAGES_SNAPSHOT":
                messages = json.loads(json.dumps(event["messages"]))
    return messages


def _calls(messages: list[Event], id: str) -> list[tuple[int, Event]]:
    return [
        (place, call)
        for place, message in enumerate(messages)
        for call in message.get("toolCalls", [])
        if call["id"] == id
    ]


def _put_result(messages: list[Event], event: Event) -> None:
    """Behind the call that it answers and the results that are there."""
    result = {
        "id": event["messageId"],
        "role": "tool",
        "toolCallId": event["toolCallId"],
        "content": event["content"],
    }
    owners = _calls(messages, event["toolCallId"])
    place = owners[0][0] + 1 if owners else len(messages)
    while owners and place < len(messages) and messages[place]["role"] == "tool":
        place += 1
    messages.insert(place, result)
