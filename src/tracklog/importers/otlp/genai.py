"""Reads the vocabularies of model calls: OpenTelemetry GenAI in three generations, OpenInference,
and what else is met; the newest name first, whatever the schema's URL says.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from tracklog.importers import count, seconds
from tracklog.importers.otlp.view import text
from tracklog.importers.otlp.wire import DEEPEST

Attrs = Mapping[str, Any]

INPUT = ("input.value", "traceloop.entity.input")
OUTPUT = ("output.value", "traceloop.entity.output")
NAMES: Mapping[str, tuple[str, ...]] = {
    "provider": ("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system"),
    "agent": ("gen_ai.agent.name", "agent.name"),
    "agent_id": ("gen_ai.agent.id",),
    "workflow": ("gen_ai.workflow.name", "traceloop.workflow.name"),
    "asked": (
        "gen_ai.request.model",
        "llm.request.model_name",
        "llm.model_name",
        "embedding.model_name",
        "reranker.model_name",
    ),
    "answered": ("gen_ai.response.model", "llm.response.model_name"),
    "response": ("gen_ai.response.id",),
    "tool": ("gen_ai.tool.name", "tool.name"),
    "call": ("gen_ai.tool.call.id", "gen_ai.tool.call_id", "tool.id", "tool_call.id"),
    "arguments": ("gen_ai.tool.call.arguments", "tool.parameters", *INPUT),
    "result": ("gen_ai.tool.call.result", *OUTPUT),
    "node": ("tracklog.step", "graph.node.name", "graph.node.id", "langgraph_node"),
}
"""What is read by the first name that is there."""

USAGE: Mapping[str, tuple[str, ...]] = {
    "input_tokens": (
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.prompt_tokens",
        "llm.token_count.prompt",
    ),
    "output_tokens": (
        "gen_ai.usage.output_tokens",
        "gen_ai.usage.completion_tokens",
        "llm.token_count.completion",
    ),
    "cached_tokens": (
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.cache_read_input_tokens",
        "llm.token_count.prompt_details.cache_read",
    ),
    "cache_write_tokens": (
        "gen_ai.usage.cache_write.input_tokens",
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.cache_creation_input_tokens",
        "llm.token_count.prompt_details.cache_write",
    ),
    "reasoning_tokens": (
        "gen_ai.usage.reasoning.output_tokens",
        "llm.token_count.completion_details.reasoning",
    ),
    "total_tokens": ("llm.usage.total_tokens", "llm.token_count.total"),
}

PROVIDERS = {
    "az.ai.inference": "azure.ai.inference",
    "az.ai.openai": "azure.ai.openai",
    "xai": "x_ai",
}
"""Names that were given up for others."""

INFERENCE = ("chat", "generate_content", "text_completion")
LOOKUPS = (
    "embeddings", "retrieval", "rerank", "create_memory_store", "delete_memory_store",
    "create_memory", "update_memory", "upsert_memory", "search_memory", "delete_memory",
)  # fmt: skip  # one row
"""Operations that are called and return, as tools do."""

OPENINFERENCE = {
    "LLM": "chat",
    "EMBEDDING": "embeddings",
    "RETRIEVER": "retrieval",
    "RERANKER": "rerank",
    "TOOL": "execute_tool",
    "AGENT": "invoke_agent",
    "EVALUATOR": "judge",
    "GUARDRAIL": "judge",
}
OPERATIONS = {
    "completion": "chat",
    "llm_call": "chat",
    "tool_call": "execute_tool",
    "agent_call": "invoke_agent",
}
"""What some call an operation that has another name."""
TRACELOOP = {"workflow": "invoke_workflow", "agent": "invoke_agent", "tool": "execute_tool"}

ONLY_A = frozenset((
    "gen_ai.system", "gen_ai.usage.prompt_tokens", "gen_ai.usage.completion_tokens",
    "gen_ai.prompt", "gen_ai.completion",
))  # fmt: skip  # one row
ONLY_B = frozenset({"gen_ai.usage.cache_creation.input_tokens"})
ONLY_C = frozenset((
    "gen_ai.usage.cache_write.input_tokens", "gen_ai.retrieval.top_k",
    "gen_ai.usage.text.input_tokens", "gen_ai.usage.image.input_tokens",
    "gen_ai.usage.audio.input_tokens", "gen_ai.usage.video.input_tokens",
))  # fmt: skip  # one row
B_AND_C = frozenset((
    "gen_ai.provider.name", "gen_ai.system_instructions", "gen_ai.input.messages",
    "gen_ai.output.messages", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result",
    "gen_ai.tool.definitions", "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.reasoning.output_tokens",
))  # fmt: skip  # one row


OURS = "tracklog."
"""What our own exports have no word of the conventions for."""


def ours(attrs: Attrs) -> dict[str, Any]:
    """What one of our exports carried of a fact, under the names of its fields."""
    found = {key.removeprefix(OURS): each for key, each in attrs.items() if key.startswith(OURS)}
    return {key: parse(each) for key, each in found.items()}


def pick(attrs: Attrs, meaning: str) -> str | None:
    """A text by the newest of its names."""
    for name in NAMES[meaning]:
        if name in attrs and (found := text(attrs[name])):
            return found
    return None


def first(attrs: Attrs, meaning: str) -> Any:
    """Any value by the newest of its names."""
    return next((attrs[name] for name in NAMES[meaning] if attrs.get(name) is not None), None)


def operation(attrs: Attrs) -> str | None:
    """What a span does, in the words of GenAI; None when it is none of that."""
    named = text(attrs.get("gen_ai.operation.name"))
    if named:
        return OPERATIONS.get(named, named)
    kind = text(attrs.get("openinference.span.kind"))
    if kind:
        return OPENINFERENCE.get(kind.upper())
    loop = text(attrs.get("traceloop.span.kind"))
    if loop:
        return TRACELOOP.get(loop)
    if text(attrs.get("mcp.method.name")) and text(attrs.get("gen_ai.tool.name")):
        return "execute_tool"
    request = text(attrs.get("llm.request.type"))
    if request in ("chat", "completion"):
        return "chat" if request == "chat" else "text_completion"
    if pick(attrs, "provider") and (pick(attrs, "asked") or pick(attrs, "answered")):
        return "chat"
    return None


def is_chain(attrs: Attrs) -> bool:
    """Whether a span stands for all that was done, not for one thing in it."""
    return text(attrs.get("openinference.span.kind")) == "CHAIN"


def generation(attrs: Attrs, events: Iterable[str] = ()) -> str | None:
    """Which generation of the conventions this is: A, B, C, mixed; None where nothing tells."""
    found = set()
    old = any(_is_old_event(name) for name in events)
    flat = any(key.startswith(("gen_ai.prompt.", "gen_ai.completion.")) for key in attrs)
    if old or flat or not ONLY_A.isdisjoint(attrs):
        found.add("A")
    if not ONLY_B.isdisjoint(attrs):
        found.add("B")
    named = str(attrs.get("gen_ai.operation.name"))
    if named == "plan" or "memory" in named or not ONLY_C.isdisjoint(attrs):
        found.add("C")
    if not found & {"B", "C"} and not B_AND_C.isdisjoint(attrs):
        found.add("B")
    if len(found) > 1:
        return "mixed"
    if not found and any(key.startswith(("openinference.", "llm.")) for key in attrs):
        return "openinference"
    return next(iter(found), None)


def _is_old_event(name: str) -> bool:
    return name in OLD_EVENTS or name.startswith("gen_ai.content.")


OLD_EVENTS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    "gen_ai.choice": "assistant",
}
"""The events of generation A, and whose words they are."""


def provider(attrs: Attrs) -> str | None:
    found = pick(attrs, "provider")
    return PROVIDERS.get(found, found) if found else None


@dataclass(slots=True)
class Usage:
    """What a model call took."""

    tokens: dict[str, int] = field(default_factory=dict)
    cost: float | None = None
    forgot: str = ""
    """What the producer left out of the input, if it did."""

    def __bool__(self) -> bool:
        return bool(self.tokens) or self.cost is not None


def usage(attrs: Attrs) -> Usage:
    """Tokens in our keys; the input includes what was cached, the output what was reasoned."""
    found: dict[str, int] = {}
    for key, names in USAGE.items():
        for name in names:
            if name in attrs and (amount := count(attrs[name])) is not None:
                found[key] = amount
                break
    forgot = ""
    given = found.get("input_tokens")
    cached = found.get("cached_tokens", 0) + found.get("cache_write_tokens", 0)
    if given is not None and cached > given:
        forgot = f"{cached} cached tokens are more than the {given} of the input"
        found["input_tokens"] = given + cached
        found.pop("total_tokens", None)
    cost = seconds(attrs.get("llm.cost.total"))
    return Usage(found, cost, forgot)


def finish_reasons(attrs: Attrs) -> list[str]:
    given = attrs.get("gen_ai.response.finish_reasons", attrs.get("llm.finish_reason"))
    return [_finish(each) for each in (given if isinstance(given, list) else [given]) if text(each)]


def _finish(reason: str) -> str:
    return "tool_call" if reason == "tool_calls" else reason


@dataclass(slots=True)
class Message:
    """One message: whose it is, and its parts in the form of generations B and C."""

    role: str
    parts: list[Any]
    finish: str | None = None
    name: str | None = None


@dataclass(slots=True)
class Talk:
    """What was said to a model and by it."""

    system: list[Message] = field(default_factory=list)
    input: list[Message] = field(default_factory=list)
    output: list[Message] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)
    """Attributes whose JSON was cut by a limit: kept as text."""

    def __bool__(self) -> bool:
        return bool(self.system or self.input or self.output)


def talk(attrs: Attrs) -> Talk:
    """The messages of a span or an event, by whichever vocabulary they are told."""
    found = Talk()
    system = attrs.get("gen_ai.system_instructions")
    if system is not None:
        parts = _json(system, "gen_ai.system_instructions", found)
        parts = parts if isinstance(parts, list) else [parts]
        found.system = [Message("system", [_part(each) for each in parts if each is not None])]
    found.input = _messages(attrs, "gen_ai.input.messages", "user", found)
    found.output = _messages(attrs, "gen_ai.output.messages", "assistant", found)
    if not found.input:
        found.input = _flat(attrs, "gen_ai.prompt", "user") or _openinference(
            attrs, "llm.input_messages"
        )
    if not found.output:
        found.output = _flat(attrs, "gen_ai.completion", "assistant") or _openinference(
            attrs, "llm.output_messages"
        )
    return found


def payload(attrs: Attrs, names: Iterable[str], role: str) -> list[Message]:
    """What a call was given or gave, where it is told as one text: messages in JSON, or words."""
    given = next((attrs[name] for name in names if attrs.get(name) is not None), None)
    if given is None:
        return []
    value = _parsed(given)
    listed = value.get("messages") if isinstance(value, dict) else value
    if isinstance(listed, list) and all(isinstance(e, dict) and "role" in e for e in listed):
        found = [message_of(each, role) for each in listed]
    else:
        found = [
            message_of(given if isinstance(given, str) else orjson.dumps(given).decode(), role)
        ]
    return [message for message in found if message is not None]


def _json(value: Any, name: str, found: Talk) -> Any:
    """On spans a string of JSON, on events the value; what does not parse was cut by a limit."""
    if not isinstance(value, str):
        return value
    try:
        return _loads(value)
    except ValueError:
        if value[:1] in "[{":
            found.cut.append(name)
        return value


def _loads(text: str) -> Any:
    """JSON in a text; what goes too deep to be written again is refused as what is none."""
    value = orjson.loads(text)
    level, deep = [value], 0
    while level:
        deep += 1
        if deep > DEEPEST:
            raise ValueError
        below: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                below += each.values()
            elif isinstance(each, list):
                below += each
        level = below
    return value


def _messages(attrs: Attrs, name: str, role: str, found: Talk) -> list[Message]:
    given = attrs.get(name)
    if given is None:
        return []
    value = _json(given, name, found)
    if not isinstance(value, list):
        value = [value]
    return [message for each in value if (message := message_of(each, role)) is not None]


def message_of(given: Any, role: str) -> Message | None:
    """One message in whatever form: parts, content with tool calls, or bare text."""
    if isinstance(given, str):
        return Message(role, [{"type": "text", "content": given}]) if given else None
    if not isinstance(given, dict):
        return None if given is None else Message(role, [{"type": "value", "value": given}])
    role = text(given.get("role")) or role
    finish = text(given.get("finish_reason"))
    name = text(given.get("name"))
    if isinstance(given.get("parts"), list):
        parts = [_part(each) for each in given["parts"]]
    else:
        parts = _content(given, role)
    return Message(role, parts, _finish(finish) if finish else None, name)


def _content(given: Attrs, role: str) -> list[Any]:
    """The parts of a message that has content beside tool calls, as APIs have it."""
    content = given.get("content")
    if role in ("tool", "function"):
        id = text(given.get("tool_call_id")) or text(given.get("id"))
        return [{"type": "tool_call_response", "id": id, "response": content}]
    parts = content_parts(content)
    calls = given.get("tool_calls")
    return parts + [_call(each) for each in (calls if isinstance(calls, list) else [])]


def content_parts(content: Any) -> list[Any]:
    """Content as parts: a text, a list of them, or one that is written as JSON."""
    if isinstance(content, str) and content.startswith("[{"):
        try:
            parsed = _loads(content)
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


def _flat(attrs: Attrs, prefix: str, role: str) -> list[Message]:
    """`gen_ai.prompt.0.role` and the like, or all of it as JSON under the bare name."""
    found = nested(attrs, prefix)
    if found is None:
        whole = attrs.get(prefix)
        if whole is None:
            return []
        try:
            found = _loads(whole) if isinstance(whole, str) else whole
        except ValueError:
            found = whole
    listed = found if isinstance(found, list) else [found]
    return [message for each in listed if (message := message_of(each, role)) is not None]


def _openinference(attrs: Attrs, prefix: str) -> list[Message]:
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


def _seen(given: Attrs) -> Any:
    """One content of an OpenInference message."""
    inner = given.get("message_content")
    if not isinstance(inner, dict):
        return {"type": "value", "value": given}
    kind = inner.get("type")
    if kind in ("text", "reasoning") and isinstance(inner.get("text"), str):
        return {"type": kind, "content": inner["text"], **_without(inner, "type", "text")}
    return inner


def _without(given: Attrs, *keys: str) -> dict[str, Any]:
    return {key: value for key, value in given.items() if key not in keys}


def nested(attrs: Attrs, prefix: str) -> Any:
    """Flattened attributes as lists and objects; indices are sorted as numbers, gaps are legal."""
    root: dict[str, Any] = {}
    start = f"{prefix}."
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


def old_message(name: str, attrs: Attrs, body: Any) -> Message | None:
    """The message of an event of generation A: in the body, or in attributes of the event."""
    given = body if isinstance(body, dict) else None
    if given is None:
        content = attrs.get("gen_ai.event.content")
        if isinstance(content, str):
            try:
                given = _loads(content)
            except ValueError:
                given = {"content": content}
        elif isinstance(content, dict):
            given = content
    if not isinstance(given, dict):
        given = {key: attrs[key] for key in _OLD_KEYS if key in attrs}
        if isinstance(body, str) and "content" not in given:
            given["content"] = body
        for key in ("message", "tool_calls"):
            given[key] = _parsed(given.get(key))
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


def _parsed(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in "[{":
        try:
            return _loads(value)
        except ValueError:
            pass
    return value


parse = _parsed
"""A text that is JSON, as the value it says; anything else as it is."""
