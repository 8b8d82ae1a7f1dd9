"""Claude: the output of `claude -p --output-format stream-json`, and the Messages API under it."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from tracklog.formats.providers import (
    Body,
    Provider,
    ReplyBuilder,
    WrongType,
    count,
    foreign,
    input_of,
    is_text,
    items,
    obj,
    only,
    option,
    original_block,
    text,
    word,
)

HOUR = "ephemeral_1h_input_tokens"
USES = ("tool_use", "server_tool_use", "mcp_tool_use")
EVENTS = ("message_start", "message_delta", "message_stop", "ping", "error")
BLOCK_EVENTS = ("content_block_start", "content_block_delta", "content_block_stop")
CONVENIENCES = ("text", "thinking", "signature", "input_json", "citation")
"""Events that an SDK adds to those of the API, each with a `snapshot` of the state."""


def tokens(raw: Any) -> Body:
    """A usage in the common keys: input with both cache counts, which the provider separates."""
    usage = obj(raw)
    read, write = count(usage.get("cache_read_input_tokens")), _written(usage)
    given, output = count(usage.get("input_tokens")), count(usage.get("output_tokens"))
    known: Body = {}
    if given is not None or read is not None or write is not None:
        known["input_tokens"] = (given or 0) + (read or 0) + (write or 0)
    if read is not None:
        known["cached_tokens"] = read
    if write is not None:
        known["cache_write_tokens"] = write
        # The part of the cache write that is stored for an hour, which has another price.
        if hour := count(obj(usage.get("cache_creation")).get(HOUR)):
            known["cache_write_1h_tokens"] = hour
    if output is not None:
        known["output_tokens"] = output
    if known:
        known["total_tokens"] = known.get("input_tokens", 0) + (output or 0)
        known["raw"] = usage
    return known


def _written(usage: Body) -> int | None:
    whole = count(usage.get("cache_creation_input_tokens"))
    if whole is not None:
        return whole
    parts = [count(each) for each in obj(usage.get("cache_creation")).values()]
    known = [each for each in parts if each is not None]
    return sum(known) if known else None


class Draft:
    """One message of the Messages API while it is streamed."""

    def __init__(self, message: Body) -> None:
        self.message = message
        self.id = word(message.get("id"))
        self.usage: Body = dict(obj(message.get("usage")))
        self.stop_reason = word(message.get("stop_reason"))
        self.parts: dict[Any, Body] = {}
        self.joined: dict[Any, str] = {}
        self.open: set[Any] = set()
        self.done = False

    def feed(self, event: Body) -> None:
        """Add one event of the stream."""
        index = event.get("index")
        index = index if isinstance(index, int) else len(self.parts) - 1
        match event.get("type"):
            case "content_block_start":
                self.parts[index] = dict(obj(event.get("content_block")))
                self.open.add(index)
            case "content_block_delta":
                self._grow(index, obj(event.get("delta")))
            case "content_block_stop":
                self.open.discard(index)
                if isinstance(event.get("content_block"), dict):  # an SDK sets it
                    self.parts[index] = event["content_block"]
                    self.joined.pop(index, None)
            case "message_delta":
                delta = obj(event.get("delta"))
                self.stop_reason = word(delta.get("stop_reason")) or self.stop_reason
                # Cumulative: it replaces the value of `message_start`, and is never added to it.
                usage = {k: v for k, v in obj(event.get("usage")).items() if v is not None}
                self.usage |= usage
            case "message_stop":
                self.done = True
                self.open.clear()

    def _grow(self, index: Any, delta: Body) -> None:
        part = self.parts.setdefault(index, {"type": _kind(delta)})
        self.open.add(index)
        match delta.get("type"):
            case "text_delta":
                part["text"] = (text(part.get("text")) or "") + (text(delta.get("text")) or "")
            case "thinking_delta":
                grown = text(delta.get("thinking")) or ""
                part["thinking"] = (text(part.get("thinking")) or "") + grown
            case "signature_delta":
                grown = text(delta.get("signature")) or ""
                part["signature"] = (text(part.get("signature")) or "") + grown
            case "input_json_delta":
                grown = text(delta.get("partial_json")) or ""
                self.joined[index] = self.joined.get(index, "") + grown
            case "citations_delta":
                cited = items(part.get("citations"))
                part["citations"] = [*cited, delta.get("citation")]
            case other:
                part.setdefault("deltas", []).append({"type": other, "delta": delta})

    def elements(self) -> list[tuple[Body, bool]]:
        """The elements in order, each with whether the stream ended before it was complete."""
        result = []
        for index, part in sorted(self.parts.items(), key=lambda item: str(item[0]).zfill(9)):
            whole, partial = dict(part), index in self.open
            if index in self.joined:
                joined = self.joined[index]
                whole["input"] = input_of(joined) if joined else {}
                partial = partial or isinstance(whole["input"], str)
            result.append((whole, partial))
        return result


def _kind(delta: Body) -> str:
    kinds = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "thinking"}
    return kinds.get(text(delta.get("type")) or "", "tool_use")


class ClaudeToolUse(NamedTuple):
    """A tool call among the content of a message."""

    id: str | None
    tool: str | None
    input: Any
    server: str | None = None
    by_provider: bool = False
    rest: Body | None = None
    """The fields that a call does not usually have."""


class ClaudeToolResult(NamedTuple):
    """The result of a tool call among the content of a message."""

    id: str | None
    content: Any
    wrong: bool | None
    """Whether it is marked as failed or as successful."""
    rest: Body | None = None
    """The fields that a result does not usually have."""


Part = ClaudeToolUse | ClaudeToolResult | Body
"""A call, a result, or a block that is neither."""


def part_of(element: Any) -> Part | None:
    """One element of a message's content, as files and streams have it; None where it is empty.

    A block is the element itself, with all keys beside those of its type.
    """
    if type(element) is not dict:
        if isinstance(element, str):
            return {"type": "text", "text": element} if element else None
        return None if element is None else foreign("element", element)
    kind = element.get("type")
    if kind == "text" and is_text(element.get("text")):
        return element if element["text"] else None
    if kind in USES:
        name, server = word(element.get("name")), word(element.get("server_name"))
        given = element.get("input")
        return ClaudeToolUse(
            word(element.get("id")), name, given, server, kind == "server_tool_use",
            _rest(element, CALL),
        )  # fmt: skip  # one call
    if kind == "thinking" and is_text(element.get("thinking", "")):
        return element if "thinking" in element else {**element, "thinking": ""}
    if kind == "redacted_thinking":
        return {"type": "thinking", "thinking": "", "opaque": element.get("data", "")}
    kind = word(kind) or "element"
    return _result(element) if kind.endswith("tool_result") else foreign(kind, element)


def _result(element: Body) -> ClaudeToolResult:
    wrong, content = element.get("is_error"), element.get("content")
    if isinstance(content, dict) and str(content.get("type", "")).endswith("_error"):
        wrong = True
    id = word(element.get("tool_use_id")) or word(element.get("id"))
    return ClaudeToolResult(
        id, content, wrong if isinstance(wrong, bool) else None, _rest(element, RESULT)
    )


CALL = frozenset({"type", "id", "name", "input", "server_name", "cache_control"})
RESULT = frozenset({"type", "id", "tool_use_id", "content", "is_error", "cache_control"})


def _rest(element: Body, known: frozenset[str]) -> Body | None:
    """The fields of an element that are not known and not empty."""
    if element.keys() <= known:
        return None
    rest = {key: each for key, each in element.items() if key not in known and each is not None}
    return rest or None


def write_block(reply: ReplyBuilder, element: Any, **extras: Any) -> Body | None:
    """One element of a message's content, as a block of a reply."""
    part = part_of(element)
    if part is None:
        return None
    if isinstance(part, ClaudeToolUse):
        more = {"tool_server": part.server, **extras}
        return reply.call(part.id, part.tool, part.input, **more)
    if isinstance(part, ClaudeToolResult):
        return reply.result(part.id, part.content, is_error=part.wrong, **extras)
    if part["type"] == "stream":
        reply.unknown(element, **extras)
        return None
    kind = part["type"]
    own = {kind: part[kind]}
    own |= {key: value for key, value in part.items() if key != "type" and value not in (None, "")}
    if kind == "thinking" and "opaque" in part:
        own = {"opaque": part["opaque"]}
    return reply.add(kind, own, **extras)


class _MessageState:
    """The state of one message, over all its lines."""

    def __init__(self) -> None:
        self.blocks: list[Body] = []
        self.usage: Body = {}


class ClaudeStreamReader:
    """Reads the stream of one agent and of its sub-agents."""

    def __init__(self, reply: ReplyBuilder) -> None:
        self.reply = reply
        self._messages: dict[tuple[str, str | None], _MessageState] = {}
        self._drafts: dict[str | None, Draft] = {}
        self._last: tuple[str, str | None] | None = None
        self._total = False

    def feed(self, body: Body) -> bool:
        kind = body.get("type")
        parent = word(body.get("parent_tool_use_id"))
        self.reply.note(provider_session_id=word(body.get("session_id")))
        if kind == "system" and body.get("subtype") == "init":
            version = word(body.get("claude_code_version"))
            self.reply.note(model=word(body.get("model")), provider_version=version)
        elif kind == "assistant" and isinstance(body.get("message"), dict):
            self._write_text(body["message"], parent)
        elif kind == "user" and isinstance(body.get("message"), dict):
            self._answer(body["message"], parent)
        elif kind == "message":  # one body of the API
            self._write_text(body, parent)
        elif kind == "result":
            self._conclude(body)
        elif kind == "stream_event":
            self._draw(obj(body.get("event")), parent)
        elif kind in EVENTS or kind in BLOCK_EVENTS:
            self._draw(body, parent)
        else:
            return kind in CONVENIENCES and ("snapshot" in body or kind == "signature")
        return True

    def end(self) -> None:
        for parent in [*self._drafts]:
            self._flush(parent)
        if not self._total:
            self._sum_messages()

    def _write_text(self, message: Body, parent: str | None) -> None:
        id = word(message.get("id"))
        key = (id or f"#{len(self._messages)}", parent)
        if key != self._last:
            if self._last is not None and parent is None:
                self.reply.settle()
                self.reply.turn += self._last[1] is None
            self._last = key
        known = self._messages.setdefault(key, _MessageState())
        amounts = tokens(message.get("usage"))
        if amounts.get("output_tokens", -1) >= known.usage.get("output_tokens", -1):
            known.usage = amounts
        self.reply.note(stop_reason=word(message.get("stop_reason")))
        if parent is None:
            self.reply.note(model=word(message.get("model")))
        extras = {"message_id": id, "parent_tool_id": parent}
        earlier, used = [each for each in known.blocks if self.reply.holds(each)], set[int]()
        for element in _elements(message.get("content")):
            self._cover(id, parent, element)
            if not _again(element, earlier, used):
                block = write_block(self.reply, element, **extras)
                if block is not None and not any(block is each for each in known.blocks):
                    known.blocks.append(block)

    def _answer(self, message: Body, parent: str | None) -> None:
        for element in items(message.get("content")):
            kind = text(obj(element).get("type")) or ""
            if kind != "text":  # the echoed prompt is in a message of its own
                write_block(self.reply, element, parent_tool_id=parent)

    def _conclude(self, body: Body) -> None:
        reply = self.reply
        cost = body.get("total_cost_usd")
        amounts = tokens(body.get("usage"))
        self._total = bool(amounts)
        reply.note(
            usage=amounts or None,
            cost_usd=cost if isinstance(cost, int | float) and cost >= 0 else None,
            turns=count(body.get("num_turns")),
            duration_ms=count(body.get("duration_ms")),
            stop_reason=word(body.get("stop_reason")),
        )
        reply.answer = text(body.get("result"))
        if body.get("is_error") is True:
            reply.fail(reply.answer or text(body.get("subtype")) or "error")

    def _draw(self, event: Body, parent: str | None) -> None:
        kind = event.get("type")
        self.reply.partial(event, str(kind))
        if kind == "message_start":
            self._flush(parent)
            self._drafts[parent] = Draft(obj(event.get("message")))
        elif kind == "error":
            self.reply.fail(obj(event.get("error")).get("message") or event.get("error"))
        elif kind != "ping":
            draft = self._drafts.setdefault(parent, Draft({}))
            draft.feed(event)

    def _cover(self, id: str | None, parent: str | None, element: Any) -> None:
        """Drop the draft of a message whose complete line came."""
        draft = self._drafts.get(parent)
        if draft is None or draft.id != id:
            return
        kind, call = obj(element).get("type"), obj(element).get("id")
        for index, part in [*draft.parts.items()]:
            if part.get("type") == kind and part.get("id") == call:
                del draft.parts[index]
                break

    def _flush(self, parent: str | None) -> None:
        """Write a message whose complete line never came, from its pieces."""
        draft = self._drafts.pop(parent, None)
        if draft is None:
            return
        key = (draft.id or f"#{len(self._messages)}", parent)
        if key not in self._messages:
            self._messages[key] = _MessageState()
            if parent is None:
                self.reply.note(model=word(draft.message.get("model")))
        known = self._messages[key]
        amounts = tokens(draft.usage)
        if amounts.get("output_tokens", -1) > known.usage.get("output_tokens", -1):
            known.usage = amounts
        self.reply.note(stop_reason=draft.stop_reason)
        extras = {"message_id": draft.id, "parent_tool_id": parent}
        for element, partial in draft.elements():
            empty = element.get("type") == "thinking" and not element.get("thinking")
            if not (empty and partial):
                write_block(self.reply, element, partial=partial or None, **extras)
        if draft.done and parent is None:
            self.reply.settle()

    def _sum_messages(self) -> None:
        total: Body = {}
        for message in self._messages.values():
            for key, amount in message.usage.items():
                if key != "raw":
                    total[key] = total.get(key, 0) + amount
        self.reply.note(usage=total or None)


def _elements(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else items(content)


def _again(element: Any, earlier: list[Body], used: set[int]) -> bool:
    """Whether an earlier line of the message has this element; a longer copy replaces it."""
    part = obj(element)
    kind = part.get("type")
    if kind not in ("text", "thinking"):
        return False
    content = text(part.get(kind)) or ""
    for place, block in enumerate(earlier):
        if place in used or block["type"] != kind or not content.startswith(block.get(kind, "")):
            continue
        used.add(place)
        block[kind] = content
        if kind == "thinking" and word(part.get("signature")):
            block["signature"] = part["signature"]
        return True
    return False


def compat(body: Body) -> Iterable[Body] | None:
    """The original's mapping of one line."""
    if body.get("type") != "assistant" or not isinstance(body.get("message"), dict):
        return None
    try:
        return [
            block
            for element in only(body["message"], "content", list, [])
            for block in _compat_block(element)
        ]
    except WrongType:
        return None


def _compat_block(element: Any) -> list[Body]:
    if not isinstance(element, dict):
        raise WrongType
    content, thought = only(element, "text", str, ""), only(element, "thinking", str, "")
    id, name = only(element, "id", str, ""), only(element, "name", str, "")
    input = only(element, "input", dict)
    match only(element, "type", str, ""):
        case "text" if content:
            return [original_block("text", text=content)]
        case "thinking":
            return [
                original_block("thinking", thinking=thought)
                if thought
                else original_block("thinking")
            ]
        case "tool_use":
            return [original_block("tool_use", tool_name=name, tool_id=id, tool_input=input)]
        case _:
            return []


provider = Provider(
    name="claude",
    about="Claude Code, and the Messages API under it.",
    read=ClaudeStreamReader,
    compat=compat,
    programs=("claude",),
    template=("claude", "-p", "{{prompt}}", "--output-format", "stream-json", "--verbose"),
    template_system=("--append-system-prompt", "{{system}}"),
    template_again=("--resume", "{{session}}"),
    opens=lambda body: body.get("type") == "system" and body.get("subtype") == "init",
    prompt=lambda arguments: option(arguments, "-p", "--print"),
)
