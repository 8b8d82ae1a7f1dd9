"""The input and output messages of a model, in any vocabulary."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from tracklog.formats.importers.otlp.attrs import Attrs, Names, text
from tracklog.formats.importers.otlp.genai import OLD_EVENTS, finish, is_json, loads, parse
from tracklog.formats.importers.otlp.wire import DEEPEST
from tracklog.model.fact import Role

ROLES: dict[str, Role] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "model": "assistant",
    "ai": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "world",
    "function": "world",
    "world": "world",
    "note": "note",
    "thought": "thought",
    "belief": "belief",
}
"""The roles; any other is a note."""


@dataclass(slots=True)
class ModelMessage:
    """One message: its role, and its parts in the form of generations B and C."""

    role: str
    parts: list[Any]
    finish: str | None = None
    name: str | None = None

    @property
    def beside(self) -> dict[str, str]:
        """The keys that a line has no field for: a name, and a role that is none of ours."""
        found = {"name": self.name} if self.name else {}
        return found if self.role.lower() in ROLES else {**found, "role": self.role}


@dataclass(slots=True)
class Conversation:
    """The input and output messages of a model."""

    system: list[ModelMessage] = field(default_factory=list)
    input: list[ModelMessage] = field(default_factory=list)
    output: list[ModelMessage] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)
    """Attributes whose JSON was cut by a limit: stored as text."""

    def __bool__(self) -> bool:
        return bool(self.system or self.input or self.output)


def talk(attrs: Attrs) -> Conversation:
    """The messages of a span or an event, in any vocabulary."""
    found = Conversation([], [], [], [])
    system = attrs.get("gen_ai.system_instructions")
    if system is not None:
        parts = _json(system, "gen_ai.system_instructions", found)
        parts = parts if isinstance(parts, list) else [parts]
        found.system = [ModelMessage("system", [_part(each) for each in parts if each is not None])]
    found.input = _messages(attrs, "gen_ai.input.messages", "user", found)
    found.output = _messages(attrs, "gen_ai.output.messages", "assistant", found)
    if not attrs.names.once(_has_others):
        return found
    if not found.input:
        found.input = (
            _flat(attrs, "gen_ai.prompt", "user")
            or _openinference(attrs, "llm.input_messages")
            or _messages(attrs, "ai.prompt.messages", "user", found)
        )
    if not any(message.parts for message in found.output):
        # LiteLLM sends a message without parts, and the tool call under the old names.
        found.output = (
            _flat(attrs, "gen_ai.completion", "assistant")
            or _openinference(attrs, "llm.output_messages")
            or _ai_sdk_output(attrs, found)
            or found.output
        )
    return found


def _has_others(names: Names) -> bool:
    """Whether messages may be under other names than the newest."""
    return any(map(names.has, _OTHERS))


_OTHERS = (
    "gen_ai.prompt",
    "gen_ai.completion",
    "llm.input_messages.",
    "llm.output_messages.",
    "ai.",
)
"""The beginnings of those names."""


def _ai_sdk_output(attrs: Attrs, found: Conversation) -> list[ModelMessage]:
    """The answer of a model in the names of the AI SDK for JavaScript: its text and its calls."""
    calls = _json(attrs.get("ai.response.toolCalls"), "ai.response.toolCalls", found)
    parts = [*content_parts(attrs.get("ai.response.text")), *content_parts(calls)]
    return [ModelMessage("assistant", parts)] if parts else []


def payload(attrs: Attrs, names: Iterable[str], role: str) -> list[ModelMessage]:
    """The input or output of a call that is given as one text: messages in JSON, or plain text."""
    for name in names:
        if (given := attrs.get(name)) is not None:
            break
    else:
        return []
    value = parse(given)
    listed = value.get("messages") if isinstance(value, dict) else value
    if isinstance(listed, list) and all(isinstance(e, dict) and "role" in e for e in listed):
        found = [message_of(each, role) for each in listed]
    else:
        found = [
            message_of(given if isinstance(given, str) else orjson.dumps(given).decode(), role)
        ]
    return [message for message in found if message is not None]


def _json(value: Any, name: str, found: Conversation) -> Any:
    """A string of JSON on spans, the value on events; JSON that does not parse was cut by a limit."""
    if not isinstance(value, str):
        return value
    try:
        return loads(value)
    except ValueError:
        if is_json(value):
            found.cut.append(name)
        return value


def _messages(attrs: Attrs, name: str, role: str, found: Conversation) -> list[ModelMessage]:
    given = attrs.get(name)
    if given is None:
        return []
    value = _json(given, name, found)
    if not isinstance(value, list):
        value = [value]
    return [message for each in value if (message := message_of(each, role)) is not None]


def message_of(given: Any, role: str) -> ModelMessage | None:
    """One message in any form: parts, content with tool calls, or plain text."""
    if isinstance(given, str):
        return ModelMessage(role, [{"type": "text", "content": given}]) if given else None
    if not isinstance(given, dict):
        return None if given is None else ModelMessage(role, [{"type": "value", "value": given}])
    role = text(given.get("role")) or role
    reason = text(given.get("finish_reason"))
    name = text(given.get("name"))
    if not isinstance(given.get("parts"), list):
        parts = _content(given, role)
    elif given.get("tool_call_id") or given.get("tool_calls"):
        # LiteLLM puts parts beside the keys of the API of OpenAI.
        parts = _content({**given, "content": _only_text(given["parts"])}, role)
    else:
        parts = [_part(each) for each in given["parts"]]
    return ModelMessage(role, parts, finish(reason) if reason else None, name)


def _only_text(parts: list[Any]) -> Any:
    """The text of an only part; the parts where there are more."""
    part = parts[0] if len(parts) == 1 else None
    is_text = isinstance(part, dict) and part.get("type") == "text"
    return part.get("content") if is_text and part is not None else parts


def _content(given: Mapping[str, Any], role: str) -> list[Any]:
    """The parts of a message that has content beside tool calls, as APIs have it."""
    content = given.get("content")
    if role in ("tool", "function") and not _has_results(content):
        id = text(given.get("tool_call_id")) or text(given.get("id"))
        return [{"type": "tool_call_response", "id": id, "response": content}]
    parts = content_parts(content)
    calls = parse(given.get("tool_calls"))
    if isinstance(calls, str) and calls:
        return [*parts, {"type": "text", "content": calls}]  # cut by a limit
    if not calls and isinstance(given.get("function_call"), dict):
        calls = [given["function_call"]]  # the older form, of one call without an id
    return parts + [_call(each) for each in (calls if isinstance(calls, list) else [])]


def _has_results(content: Any) -> bool:
    """Whether the content of a message is results of tools, each with the id of its call."""
    return isinstance(content, list) and any(
        isinstance(each, dict) and each.get("type") == "tool-result" for each in content
    )


def content_parts(content: Any) -> list[Any]:
    """Content as parts: a text, a list of them, or one that is written as JSON."""
    if isinstance(content, str) and content.startswith("[{"):
        try:
            parsed = loads(content)
        except ValueError:
            parsed = None
        if isinstance(parsed, list) and all(isinstance(e, dict) and "type" in e for e in parsed):
            content = parsed
    if isinstance(content, str):
        return [{"type": "text", "content": content}] if content else []
    if content is None:
        return []
    return [_part(each) for each in (content if isinstance(content, list) else [content])]


def _part(given: Any) -> Any:
    """A part in the form of B and C, from that of an API."""
    if isinstance(given, str):
        return {"type": "text", "content": given}
    if not isinstance(given, dict):
        return {"type": "value", "value": given}
    kind = given.get("type")
    if kind in ("text", "input_text", "output_text") and "content" not in given:
        return {"type": "text", "content": given.get("text", "")}
    if kind is None and isinstance(given.get("content"), str):
        return {**given, "type": "text"}
    if kind is None and set(given) == {"text"}:
        return {"type": "text", "content": given["text"]}
    if kind is None and isinstance(called := given.get("functionCall"), dict):
        return {"type": "tool_call", "id": called.get("id"), "name": called.get("name"),
                "arguments": called.get("args")}  # fmt: skip  # one thing
    if kind is None and isinstance(returned := given.get("functionResponse"), dict):
        return {"type": "tool_call_response", "id": returned.get("id"),
                "response": returned.get("response")}  # fmt: skip  # one thing
    if kind == "thinking" and isinstance(given.get("thinking"), str):
        return {**given, "type": "reasoning", "content": given["thinking"]}
    if kind == "tool-call":  # of the AI SDK, as the next
        return {"type": "tool_call", "id": given.get("toolCallId"), "name": given.get("toolName"),
                "arguments": given.get("input")}  # fmt: skip  # one thing
    if kind == "tool-result":
        output = given.get("output")
        value = output.get("value") if isinstance(output, dict) else output
        return {"type": "tool_call_response", "id": given.get("toolCallId"),
                "response": value}  # fmt: skip  # one thing
    if kind == "tool_use":
        return {"type": "tool_call", "id": given.get("id"), "name": given.get("name"),
                "arguments": given.get("input")}  # fmt: skip  # one thing
    if kind == "tool_result":
        return {"type": "tool_call_response", "id": given.get("tool_use_id"),
                "response": given.get("content")}  # fmt: skip  # one thing
    return given


def _call(given: Any) -> Any:
    if not isinstance(given, dict):
        return {"type": "value", "value": given}
    inner = given.get("tool_call", given)
    function = inner.get("function") if isinstance(inner, dict) else None
    named = function if isinstance(function, dict) else inner
    if not isinstance(named, dict):
        return {"type": "value", "value": given}
    return {
        "type": "tool_call",
        "id": text(inner.get("id")),
        "name": text(named.get("name")) or "unknown",
        "arguments": named.get("arguments"),
    }


def _flat(attrs: Attrs, prefix: str, role: str) -> list[ModelMessage]:
    """`gen_ai.prompt.0.role` and the like, or all of it as JSON under the bare name."""
    found = nested(attrs, prefix)
    if found is None:
        whole = attrs.get(prefix)
        if whole is None:
            return []
        try:
            found = loads(whole) if isinstance(whole, str) else whole
        except ValueError:
            found = whole
    listed = found if isinstance(found, list) else [found]
    return [message for each in listed if (message := message_of(each, role)) is not None]


def _openinference(attrs: Attrs, prefix: str) -> list[ModelMessage]:
    found = nested(attrs, prefix)
    messages = []
    for each in found if isinstance(found, list) else []:
        given = each.get("message") if isinstance(each, dict) else None
        if not isinstance(given, dict):
            continue
        contents = given.get("contents")
        if isinstance(contents, list):
            inner = [_seen(one) for one in contents if isinstance(one, dict)]
            given = {**given, "content": [*inner, *content_parts(given.get("content"))]}
        role = "assistant" if prefix == "llm.output_messages" else "user"
        if (message := message_of(given, role)) is not None:
            messages.append(message)
    return messages


def _seen(given: Mapping[str, Any]) -> Any:
    """One content of an OpenInference message."""
    inner = given.get("message_content")
    if not isinstance(inner, dict):
        return {"type": "value", "value": given}
    kind = inner.get("type")
    if kind in ("text", "reasoning") and isinstance(inner.get("text"), str):
        return {"type": kind, "content": inner["text"], **_without(inner, "type", "text")}
    return inner


def _without(given: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in given.items() if key not in keys}


def nested(attrs: Attrs, prefix: str) -> Any:
    """Flattened attributes as lists and objects; indices are sorted as numbers, gaps are allowed."""
    root: dict[str, Any] = {}
    start = f"{prefix}."
    if not attrs.names.has(start):
        return None
    for key, value in attrs.items():
        if not key.startswith(start):
            continue
        parts = key[len(start) :].split(".")
        if len(parts) > DEEPEST:
            continue
        place = root
        for part in parts[:-1]:
            below = place.setdefault(part, {})
            if not isinstance(below, dict):
                below = place[part] = {"": below}
            place = below
        place[parts[-1]] = value
    return _listed(root) if root else None


def _listed(tree: dict[str, Any]) -> Any:
    grown = {key: _listed(each) if isinstance(each, dict) else each for key, each in tree.items()}
    if all(re.fullmatch("[0-9]{1,9}", key, re.ASCII) for key in grown):
        return [grown[key] for key in sorted(grown, key=int)]
    return grown


def old_message(
    name: str, attrs: Mapping[str, Any], body: Any, cut: list[str]
) -> ModelMessage | None:
    """The message of an event of generation A: in the body, or in attributes of the event.

    Incomplete JSON is added to `cut`.
    """
    body = parse(body)
    content = parse(attrs.get("gen_ai.event.content"))
    if isinstance(body, dict):
        given = body
    elif isinstance(content, dict):
        given = content
    else:
        given = {key: attrs[key] for key in _OLD_KEYS if key in attrs}
        if isinstance(body or content, str) and "content" not in given:
            given["content"] = body or content
        for key in ("message", "tool_calls"):
            given[key] = parse(given.get(key))
            cut += [key] if is_json(given[key]) else []
        cut += ["gen_ai.event.content"] if is_json(content) else []
    if name == "gen_ai.choice":
        inner = given.get("message")
        if not isinstance(inner, dict):
            inner = {"content": inner} if inner is not None else dict(given)
        if "tool_calls" not in inner:
            inner = {**inner, "tool_calls": given.get("tool_calls")}
        given = {**inner, "finish_reason": given.get("finish_reason")}
    return message_of({key: value for key, value in given.items() if value is not None},
                      OLD_EVENTS[name])  # fmt: skip  # one call


_OLD_KEYS = ("role", "content", "id", "tool_calls", "message", "finish_reason", "index", "name")
