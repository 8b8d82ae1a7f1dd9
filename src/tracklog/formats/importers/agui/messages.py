"""Complete messages, as a snapshot or a run's input has them."""

from collections.abc import Iterator
from typing import Any

from tracklog.formats.importers import word
from tracklog.formats.providers import input_of
from tracklog.model.fact import Called, Fact, Noted, Returned, Role, Said

ROLES: dict[str, Role] = {"developer": "system", "system": "system", "user": "user"}
"""The roles; any other role is a model's."""
ACTIVITY = "ACTIVITY_SNAPSHOT"
KNOWN = (
    "id", "role", "content", "name", "toolCalls", "toolCallId", "error", "encryptedValue",
)  # fmt: skip  # one row


def facts_of(message: dict[str, Any], place: int) -> Iterator[Fact]:
    """The text of a message, and its calls; the position names a call without an id."""
    id, role, content = word(message.get("id")), word(message.get("role")), message.get("content")
    if role == "tool":
        call = word(message.get("toolCallId"))
        yield Returned(
            call_id=call or "unknown",
            output=content,
            error=message.get("error"),
            synthetic_id=call is None,
        )
        return
    if role == "activity":
        text = word(message.get("activityType"))
        yield Noted(label=ACTIVITY, kind=ACTIVITY, text=text, data=message)
        return
    blocks = [_block(each, role == "reasoning") for each in _contents(content)]
    if opaque := word(message.get("encryptedValue")):
        blocks.append({"type": "thinking", "opaque": opaque})
    calls = [each for each in listed(message.get("toolCalls")) if isinstance(each, dict)]
    if blocks or not calls:
        yield Said(
            role=ROLES.get(role or "user", "assistant"),
            blocks=tuple(blocks),
            message_id=id,
            agent=word(message.get("name")),
        )
    for n, each in enumerate(calls):
        yield _called(each, f"{id or place}/{n}")


def rest_of(message: dict[str, Any]) -> dict[str, Any]:
    """The keys of a message that no fact covers."""
    if message.get("role") == "activity":
        return {}
    return {key: value for key, value in message.items() if key not in KNOWN}


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _called(call: dict[str, Any], synthetic: str) -> Called:
    asked, id = call.get("function"), word(call.get("id"))
    function: dict[str, Any] = asked if isinstance(asked, dict) else {}
    return Called(
        tool=word(function.get("name")) or "unknown",
        call_id=id or synthetic,
        input=input_of(function.get("arguments")),
        synthetic_id=id is None,
    )


def _contents(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [content] if content else []


def _block(part: Any, thought: bool) -> dict[str, Any]:
    text = part if isinstance(part, str) else part.get("text") if isinstance(part, dict) else None
    if not isinstance(text, str):
        kind = (word(part.get("type")) if isinstance(part, dict) else None) or "part"
        return {"type": "stream", "provider_type": kind, "chunk": part}
    return {"type": "thinking", "thinking": text} if thought else {"type": "text", "text": text}
