"""The content of messages as blocks, for every format that speaks as the Anthropic API does.

A block keeps what the source said under its own names, beside the keys that its type has.
"""

from typing import Any, NamedTuple

from tracklog.importers._telling import count, word

TOOL_USES = ("tool_use", "server_tool_use", "mcp_tool_use")


class Use(NamedTuple):
    """A tool call among the content of a message."""

    id: str | None
    tool: str
    input: Any
    by_provider: bool


class Result(NamedTuple):
    """The result of a tool call among the content of a message."""

    id: str | None
    ok: bool | None
    output: Any
    kind: str


class Words(NamedTuple):
    """Blocks that are no call and no result, in order."""

    blocks: list[dict[str, Any]]


Part = Use | Result | Words


def text_block(text: Any, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **more}


def foreign(kind: str, value: Any) -> dict[str, Any]:
    """An element of a type that blocks do not have: whole, under the source's own word."""
    return {"type": "stream", "provider_type": kind, "chunk": value}


def parts(content: Any) -> list[Part]:
    """The content of a message, in order; what stands together is one part."""
    found: list[Part] = []
    waiting: list[dict[str, Any]] = []
    for element in content if isinstance(content, list) else (content,):
        part = _part(element)
        if isinstance(part, dict):
            waiting.append(part)
        elif part is not None:
            if waiting:
                found.append(Words(waiting))
                waiting = []
            found.append(part)
    if waiting:
        found.append(Words(waiting))
    return found


def _part(element: Any) -> dict[str, Any] | Use | Result | None:
    if isinstance(element, str):
        return text_block(element) if element else None
    if not isinstance(element, dict):
        return None if element is None else foreign("element", element)
    kind = word(element.get("type")) or "element"
    if kind in TOOL_USES:
        return _use(kind, element)
    if kind == "tool_result" or kind.endswith("_tool_result"):
        return _result(kind, element)
    return block(kind, element)


def block(kind: str, element: dict[str, Any]) -> dict[str, Any] | None:
    """One element that is neither a call nor a result, as a block; None when it says nothing."""
    if kind == "text" and is_text(element.get("text")):
        return dict(element) if element["text"] else None
    if kind == "thinking" and is_text(element.get("thinking")):
        return dict(element)
    if kind == "redacted_thinking":
        return {"type": "thinking", "thinking": "", "opaque": element.get("data")}
    return foreign(kind, element)


def is_text(value: Any) -> bool:
    """Whether a value is text, in its place or lifted out."""
    return isinstance(value, str) or (isinstance(value, dict) and "$blob" in value)


def _use(kind: str, element: dict[str, Any]) -> Use:
    name = word(element.get("name")) or "unknown"
    return Use(word(element.get("id")), name, element.get("input"), kind == "server_tool_use")


def _result(kind: str, element: dict[str, Any]) -> Result:
    failed = element.get("is_error")
    content = element.get("content")
    if isinstance(content, dict) and str(content.get("type", "")).endswith("_error"):
        failed = True
    ok = not failed if isinstance(failed, bool) else True
    id = word(element.get("tool_use_id")) or word(element.get("id"))
    return Result(id, ok, plain_output(content), kind)


def plain_output(content: Any) -> Any:
    """The text of a result that is nothing but one text; else all of it."""
    if isinstance(content, list) and len(content) == 1:
        only = content[0]
        if isinstance(only, dict) and only.keys() == {"type", "text"} and only["type"] == "text":
            return only["text"]
    return content


def usage(said: Any) -> dict[str, Any] | None:
    """Tokens in our keys: what was read from and written to the cache is part of the input."""
    if not isinstance(said, dict):
        return None
    given = count(said.get("input_tokens"))
    cached = count(said.get("cache_read_input_tokens"))
    written = count(said.get("cache_creation_input_tokens"))
    output = count(said.get("output_tokens"))
    found: dict[str, Any] = {}
    if given is not None or cached is not None or written is not None:
        found["input_tokens"] = (given or 0) + (cached or 0) + (written or 0)
    if cached is not None:
        found["cached_tokens"] = cached
    if written is not None:
        found["cache_write_tokens"] = written
    if output is not None:
        found["output_tokens"] = output
    if not found:
        return None
    if "input_tokens" in found and output is not None:
        found["total_tokens"] = found["input_tokens"] + output
    return {**found, "raw": said}
