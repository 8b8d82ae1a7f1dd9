"""Read the vocabularies of model calls: OpenTelemetry GenAI in three generations, OpenInference,
and others; the newest name first, whatever the schema URL is.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson

from tracklog.formats.importers import count, in_seconds
from tracklog.formats.importers.otlp.attrs import Attrs, Names, text
from tracklog.formats.importers.otlp.wire import DEEPEST

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
        "ai.usage.cachedInputTokens",
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
        "ai.usage.reasoningTokens",
    ),
    "total_tokens": ("llm.usage.total_tokens", "llm.token_count.total"),
}

USAGE_OBJECT = "metadata.usage_object"
"""Where LiteLLM prints the usage as a Python object; only this has the cached tokens."""
_CACHED = re.compile(r"'cached_tokens': ([0-9]{1,15})")

COSTS = ("llm.cost.total", "gen_ai.cost.total_cost")

PROVIDERS = {
    "az.ai.inference": "azure.ai.inference",
    "az.ai.openai": "azure.ai.openai",
    "xai": "x_ai",
}
"""Old names and their replacements."""

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
    **dict.fromkeys(("completion", "acompletion", "responses", "aresponses",
        "anthropic_messages", "aanthropic_messages"), "chat"),
    **dict.fromkeys(("agenerate_content", "generate_content_stream",
        "agenerate_content_stream"), "generate_content"),
    "atext_completion": "text_completion",
    **dict.fromkeys(("embedding", "aembedding"), "embeddings"),
    "arerank": "rerank",
    "llm_call": "chat",
    "tool_call": "execute_tool",
    "agent_call": "invoke_agent",
}  # fmt: skip  # a row for each meaning
"""Other names of operations."""
TRACELOOP = {"workflow": "invoke_workflow", "agent": "invoke_agent", "tool": "execute_tool"}

GENERATIONS: Mapping[str, str] = {
    **dict.fromkeys(("gen_ai.system", "gen_ai.usage.prompt_tokens",
        "gen_ai.usage.completion_tokens", "gen_ai.prompt", "gen_ai.completion"), "A"),
    "gen_ai.usage.cache_creation.input_tokens": "B",
    **dict.fromkeys(("gen_ai.provider.name", "gen_ai.system_instructions", "gen_ai.input.messages",
        "gen_ai.output.messages", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result",
        "gen_ai.tool.definitions", "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.reasoning.output_tokens"), "B or C"),
    **dict.fromkeys(("gen_ai.usage.cache_write.input_tokens", "gen_ai.retrieval.top_k",
        "gen_ai.usage.text.input_tokens", "gen_ai.usage.image.input_tokens",
        "gen_ai.usage.audio.input_tokens", "gen_ai.usage.video.input_tokens"), "C"),
}  # fmt: skip  # a row each
"""The generation of a name, where it does not belong to all."""


def pick(attrs: Attrs, meaning: str) -> str | None:
    """A text by the newest of its names."""
    for name in attrs.names.meanings[meaning]:
        found = attrs[name]
        if isinstance(found, str) and found:
            return found
    return None


def metadata(attrs: Attrs, key: str) -> str | None:
    """A text of the metadata that LangChain gives to its spans, as JSON."""
    given = attrs.get("metadata")
    if not isinstance(given, str) or f'"{key}"' not in given:
        return None
    found = parse(given)
    return text(found.get(key)) if isinstance(found, dict) else None


def first(attrs: Attrs, meaning: str) -> Any:
    """Any value by the newest of its names."""
    for name in attrs.names.meanings[meaning]:
        if (found := attrs[name]) is not None:
            return found
    return None


def operation(attrs: Attrs) -> str | None:
    """The operation of a span, in the words of GenAI; None when it has none."""
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
    """Whether a span stands for a complete workflow, not for one operation in it."""
    return text(attrs.get("openinference.span.kind")) == "CHAIN"


class Named(Protocol):
    """Something that has a name, such as an event."""

    name: str


def generation(attrs: Attrs, events: Iterable[Named] = ()) -> str | None:
    """The generation of the conventions: A, B, C, mixed; None where nothing shows it."""
    named = str(attrs.get("gen_ai.operation.name"))
    is_old = bool(events) and any(is_old_event(each.name) for each in events)
    if named == "plan" or "memory" in named:
        return _generation(attrs.names, {"C", "A"} if is_old else {"C"})
    return _generation(attrs.names, {"A"}) if is_old else attrs.names.once(_generation)


def _generation(names: Names, others: Iterable[str] = ()) -> str | None:
    found = {GENERATIONS[name] for name in names.all if name in GENERATIONS}
    found |= set(others)
    if names.has("gen_ai.prompt.") or names.has("gen_ai.completion."):
        found.add("A")
    if "B or C" in found:
        found.remove("B or C")
        found |= {"B"} if not found & {"B", "C"} else set()
    if len(found) > 1:
        return "mixed"
    if not found and (names.has("openinference.") or names.has("llm.")):
        return "openinference"
    return next(iter(found), None)


def is_old_event(name: str) -> bool:
    """Whether an event holds a message, as in generation A."""
    return name in OLD_EVENTS or name.startswith("gen_ai.content.")


OLD_EVENTS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    "gen_ai.choice": "assistant",
}
"""The events of generation A, and the roles of their messages."""


def model(attrs: Attrs) -> str | None:
    """The model that answered, or else the one that was asked for."""
    return pick(attrs, "answered") or pick(attrs, "asked")


def provider(attrs: Attrs) -> str | None:
    found = pick(attrs, "provider")
    return PROVIDERS.get(found, found) if found else None


@dataclass(slots=True)
class Usage:
    """The usage of a model call."""

    tokens: dict[str, int] = field(default_factory=dict)
    cost: float | None = None
    forgot: str = ""
    """The part that the producer left out of the input, if it did."""

    def __bool__(self) -> bool:
        return bool(self.tokens) or self.cost is not None


_COUNTED = {name: key for key, names in USAGE.items() for name in names}
_NEWEST = {name: place for place, name in enumerate(_COUNTED)}


def _counts(names: Names) -> list[str]:
    """The names of counts, the newest name of each first."""
    return sorted(_COUNTED.keys() & names.all.keys(), key=_NEWEST.__getitem__)


def usage(attrs: Attrs) -> Usage:
    """Tokens under our keys; the input includes cached tokens, the output reasoning tokens."""
    names, found = attrs.names, {}
    for name in names.once(_counts):
        key = _COUNTED[name]
        if key not in found and (amount := count(attrs[name])) is not None:
            found[key] = amount
    if "cached_tokens" not in found and USAGE_OBJECT in attrs:
        inner = _CACHED.search(str(attrs[USAGE_OBJECT]))
        found |= {"cached_tokens": int(inner[1])} if inner else {}
    forgot = ""
    given = found.get("input_tokens")
    cached = found.get("cached_tokens", 0) + found.get("cache_write_tokens", 0)
    if cached and given is not None and cached > given:
        forgot = f"{cached} cached tokens are more than the {given} of the input"
        found["input_tokens"] = given + cached
        found.pop("total_tokens", None)
    costs = names.once(_costs)
    return Usage(found, in_seconds(attrs[costs[0]]) if costs else None, forgot)


def _costs(names: Names) -> list[str]:
    """The names of costs, the one that counts first."""
    return [name for name in COSTS if name in names.all]


def finish_reasons(attrs: Attrs) -> list[str]:
    given = parse(attrs.get("gen_ai.response.finish_reasons", attrs.get("llm.finish_reason")))
    if given is None:
        return []
    return [finish(each) for each in (given if isinstance(given, list) else [given]) if text(each)]


def finish(reason: str) -> str:
    """The reason why a model stopped, in the word of the newest generation."""
    return "tool_call" if reason == "tool_calls" else reason


def loads(text: str) -> Any:
    """JSON in a text; JSON that is too deep to be encoded again is refused."""
    value = orjson.loads(text)
    if text.count("[") + text.count("{") >= DEEPEST and _is_deep(value):
        raise ValueError
    return value


def _is_deep(value: Any) -> bool:
    level, deep = [value], 0
    while level and deep <= DEEPEST:
        deep += 1
        below: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                below += each.values()
            elif isinstance(each, list):
                below += each
        level = below
    return deep > DEEPEST


def parse(value: Any) -> Any:
    """The value of a text that is JSON; anything else unchanged."""
    if is_json(value):
        try:
            return loads(value)
        except ValueError:
            pass
    return value


def is_json(value: Any) -> bool:
    """Whether a value is meant to be JSON: a text that begins like it."""
    return isinstance(value, str) and value.startswith(("[", "{"))
