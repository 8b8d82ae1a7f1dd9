"""OpenAI over HTTP: chat completions and responses, as objects, as JSON lines and as SSE."""

from collections.abc import Iterable
from typing import Any

from tracklog.formats.providers import (
    Body,
    Provider,
    ReplyBuilder,
    WrongType,
    count,
    input_of,
    items,
    obj,
    only,
    original_block,
    text,
    usage,
    word,
)

ENDINGS = ("response.completed", "response.failed", "response.incomplete")


def tokens(raw: Any) -> Body:
    """A usage of either API in the common keys."""
    amounts = obj(raw)
    asked = obj(amounts.get("prompt_tokens_details")) or obj(amounts.get("input_tokens_details"))
    answered = obj(amounts.get("completion_tokens_details")) or obj(
        amounts.get("output_tokens_details")
    )
    return usage(
        amounts,
        input_tokens=_either(amounts, "prompt_tokens", "input_tokens"),
        cached_tokens=count(asked.get("cached_tokens")),
        output_tokens=_either(amounts, "completion_tokens", "output_tokens"),
        reasoning_tokens=count(answered.get("reasoning_tokens")),
        total_tokens=count(amounts.get("total_tokens")),
    )


def _either(usage: Body, one: str, other: str) -> int | None:
    first = count(usage.get(one))
    return count(usage.get(other)) if first is None else first


def parts_of(content: Any) -> list[tuple[str, Any]]:
    """A message's content as (kind, value): text, refusal, or the complete part."""
    if isinstance(content, str):
        return [("text", content)]
    parts: list[tuple[str, Any]] = []
    for part in items(content):
        fields = obj(part)
        kind = text(fields.get("type")) or ""
        if isinstance(part, str):
            parts.append(("text", part))
        elif kind in ("text", "output_text", "input_text", "summary_text", "reasoning_text"):
            parts.append(("text", fields.get("text")))
        elif kind == "refusal":
            parts.append(("refusal", fields.get("refusal")))
        else:
            parts.append(("other", part))
    return parts


def thought_of(item: Body) -> str | None:
    """The readable text of a reasoning item: its content, else its summary."""
    for key in ("content", "summary"):
        texts = [value for kind, value in parts_of(item.get(key)) if kind == "text" and word(value)]
        if texts:
            return "\n".join(texts)
    return None


def write_item(reply: ReplyBuilder, item: Any, **extras: Any) -> None:
    """One item of a response's output, as blocks."""
    fields = obj(item)
    kind = text(fields.get("type")) or ""
    id = word(fields.get("call_id")) or word(fields.get("id"))
    match kind:
        case "message":
            _write_parts(reply, fields.get("content"), message_id=word(fields.get("id")), **extras)
        case "reasoning":
            thought, opaque = thought_of(fields), fields.get("encrypted_content")
            if thought or opaque is not None:
                reply.thinking(thought, opaque=opaque, message_id=word(fields.get("id")), **extras)
        case "function_call" | "custom_tool_call":
            key = "arguments" if kind == "function_call" else "input"
            reply.call(id, word(fields.get("name")), fields.get(key), **extras)
        case _ if kind.endswith("_call_output"):
            reply.result(id, fields.get("output"), **extras)
        case _ if kind.endswith("_call"):
            _write_built_in(reply, kind, id, fields, extras)
        case _:
            reply.unknown(item, **extras)


def _write_built_in(
    reply: ReplyBuilder, kind: str, id: str | None, fields: Body, extras: Body
) -> None:
    named = word(fields.get("name")) or kind
    used = ("id", "call_id", "type", "status", "result", "output", "results", "error")
    input = fields.get("arguments", {k: v for k, v in fields.items() if k not in used} or None)
    server = word(fields.get("server_label"))
    use = reply.call(id, named, input, tool_server=server, **extras)
    for key in ("result", "output", "results", "error"):
        if fields.get(key) is not None:
            wrong = True if key == "error" else None
            reply.result(use["tool_id"], fields[key], is_error=wrong, **extras)
            break


def _write_parts(reply: ReplyBuilder, content: Any, **extras: Any) -> None:
    for kind, value in parts_of(content):
        if kind == "text":
            reply.text(value, **extras)
        elif kind == "refusal":
            reply.text(value, refusal=True, **extras)
        else:
            reply.unknown(value, **extras)


def write_message(reply: ReplyBuilder, message: Any, **extras: Any) -> None:
    """One message of a chat completion, as blocks."""
    fields = obj(message)
    if fields.get("role") == "tool":
        reply.result(word(fields.get("tool_call_id")), fields.get("content"), **extras)
        return
    thought = word(fields.get("reasoning_content")) or word(fields.get("reasoning"))
    if thought:
        reply.thinking(thought, **extras)
    _write_parts(reply, fields.get("content"), **extras)
    reply.text(fields.get("refusal"), refusal=True, **extras)
    for call in items(fields.get("tool_calls")):
        id, function = word(obj(call).get("id")), _function(call)
        reply.call(id, word(function.get("name")), function.get("arguments"), **extras)
    legacy = obj(fields.get("function_call"))
    if legacy:
        reply.call(None, word(legacy.get("name")), legacy.get("arguments"), **extras)


def _function(call: Any) -> Body:
    fields = obj(call)
    custom = obj(fields.get("custom"))
    if custom:
        return {"name": custom.get("name"), "arguments": custom.get("input")}
    return obj(fields.get("function"))


class OpenaiStreamReader:
    """Reads the events, the chunks or the one body of a response."""

    def __init__(self, reply: ReplyBuilder) -> None:
        self.reply = reply
        self._text: Body | None = None
        self._thought: Body | None = None
        self._refusal: Body | None = None
        self._calls: dict[Any, Body] = {}
        """Fragments of calls by their index: id, name, and the arguments so far."""
        self._items: dict[Any, Body] = {}
        """Incomplete output items, by their index."""
        self._done: set[Any] = set()
        self._finished = False

    def feed(self, body: Body) -> bool:
        kind = text(body.get("type")) or ""
        if isinstance(body.get("choices"), list):
            self._chat(body)
        elif body.get("object") == "response":
            self._whole(body)
        elif kind in ENDINGS and isinstance(body.get("response"), dict):
            self._whole(body["response"])
        elif kind.startswith("response."):
            return self._event(kind, body)
        elif kind == "error" or "error" in body:
            error = body.get("error")
            self.reply.fail(obj(error).get("message") or body.get("message") or error or "error")
        elif body.get("role") in ("tool", "assistant"):
            write_message(self.reply, body)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            write_item(self.reply, body)
        else:
            return False
        return True

    def end(self) -> None:
        self._flush_calls()
        for index in [*self._items]:
            self._flush_item(index)
        if not self._finished:
            for block in (self._text, self._thought, self._refusal):
                if block is not None:
                    block["partial"] = True
                    self.reply.report.partial += 1

    def _note(self, body: Body) -> None:
        amounts = tokens(body.get("usage"))
        self.reply.note(
            model=word(body.get("model")),
            provider_session_id=word(body.get("id")),
            usage=amounts or None,
        )

    def _chat(self, body: Body) -> None:
        self._note(body)
        choices = body["choices"]
        first = obj(choices[0]) if choices else {}
        delta = obj(first.get("delta"))
        id = word(body.get("id"))
        if delta:
            self._grow(delta, id)
        elif isinstance(first.get("message"), dict):
            write_message(self.reply, first["message"], message_id=id)
        reason = word(first.get("finish_reason"))
        if reason:
            self.reply.note(stop_reason=reason)
            self._flush_calls()
            self._finished = True
        for choice in choices[1:]:
            self.reply.unknown(choice)

    def _grow(self, delta: Body, id: str | None) -> None:
        reply = self.reply
        reply.partial(delta, "delta")
        thought = word(delta.get("reasoning_content")) or word(delta.get("reasoning"))
        if thought and self._thought is not None:
            self._thought["thinking"] += thought
        elif thought:
            self._thought = reply.thinking(thought, message_id=id)
        for kind, value in parts_of(delta.get("content")):
            if kind == "text" and word(value) and self._text is not None:
                self._text["text"] += value
            elif kind == "text":
                self._text = reply.text(value, message_id=id) or self._text
            else:
                reply.unknown(value)
        refusal = word(delta.get("refusal"))
        if refusal and self._refusal is not None:
            self._refusal["text"] += refusal
        elif refusal:
            self._refusal = reply.text(refusal, refusal=True, message_id=id)
        for place, call in enumerate(items(delta.get("tool_calls"))):
            self._fragment(call, place)

    def _fragment(self, call: Any, place: int) -> None:
        fields, function = obj(call), _function(call)
        index = fields.get("index")
        key = index if isinstance(index, int) else place
        known = self._calls.setdefault(key, {"id": None, "name": None, "arguments": ""})
        known["id"] = known["id"] or word(fields.get("id"))
        known["name"] = known["name"] or word(function.get("name"))
        piece = function.get("arguments")
        known["arguments"] += piece if isinstance(piece, str) else ""
        if isinstance(piece, dict):
            known["whole"] = piece

    def _flush_calls(self) -> None:
        for _, call in sorted(self._calls.items()):
            input = call.get("whole", input_of(call["arguments"]) if call["arguments"] else None)
            partial = True if isinstance(input, str) else None
            self.reply.call(call["id"], call["name"], input, partial=partial)
        self._calls.clear()

    def _whole(self, response: Body) -> None:
        self._note(response)
        for place, item in enumerate(items(response.get("output"))):
            if place not in self._done:
                self._done.add(place)
                self._items.pop(place, None)
                write_item(self.reply, item)
        self._finished = True
        status = text(response.get("status"))
        error, why = obj(response.get("error")), obj(response.get("incomplete_details"))
        self.reply.note(stop_reason=word(why.get("reason")) or status)
        if status in ("failed", "incomplete"):
            self.reply.fail(error.get("message") or why.get("reason") or status)

    def _event(self, kind: str, body: Body) -> bool:
        index = body.get("output_index")
        index = index if isinstance(index, int) else word(body.get("item_id"))
        name = kind.removeprefix("response.")
        if name in ("created", "in_progress", "queued"):
            response = obj(body.get("response"))
            self.reply.note(
                model=word(response.get("model")), provider_session_id=word(response.get("id"))
            )
        elif name == "output_item.added":
            self._items[index] = {"item": obj(body.get("item")), "text": ""}
        elif name == "output_item.done":
            self._done.add(index)
            self._items.pop(index, None)
            write_item(self.reply, body.get("item"))
        elif name.endswith(".delta"):
            self.reply.partial(body, kind)
            known = self._items.setdefault(index, {"item": {}, "text": "", "of": name})
            known["of"] = name
            known["text"] += text(body.get("delta")) or ""
        elif name.endswith((".done", ".added")) or "_call." in name or "annotation" in name:
            pass  # comes again, complete, when its item is done
        else:
            return False
        return True

    def _flush_item(self, index: Any) -> None:
        """Write an item that was never completed, from its pieces."""
        known = self._items.pop(index)
        item, content = known["item"], known["text"]
        kind, of = text(item.get("type")) or "", known.get("of", "")
        if kind in ("function_call", "custom_tool_call") or "arguments" in of or "input" in of:
            id = word(item.get("call_id")) or word(item.get("id"))
            self.reply.call(id, word(item.get("name")), content or None, partial=True)
        elif "reasoning" in of and content:
            self.reply.thinking(content, partial=True)
        elif content:
            self.reply.text(content, partial=True, refusal=True if "refusal" in of else None)
        elif kind == "reasoning" and item.get("encrypted_content") is not None:
            self.reply.thinking(None, opaque=item["encrypted_content"], partial=True)


def compat(body: Body) -> Iterable[Body] | None:
    """The original's mapping of one line."""
    try:
        if not only(body, "object", str, ""):
            return None
        choices = only(body, "choices", list, [])
        first = only({"first": choices[0]}, "first", dict, {}) if choices else {}
        delta, message = only(first, "delta", dict, {}), only(first, "message", dict, {})
        chosen = delta if _has_text(delta) else message
        content = only(chosen, "content", str, "")
        blocks = [original_block("text", text=content)] if content else []
        return [*blocks, *map(_compat_call, only(chosen, "tool_calls", list, []))]
    except WrongType:
        return None


def _has_text(delta: Body) -> bool:
    return bool(only(delta, "content", str, "") or only(delta, "tool_calls", list, []))


def _compat_call(call: Any) -> Body:
    if not isinstance(call, dict):
        raise WrongType
    id, function = only(call, "id", str, ""), only(call, "function", dict, {})
    name, input = only(function, "name", str, ""), only(function, "arguments", str, "")
    own = {"tool_name": name, "tool_id": id} | ({"tool_input": input} if input else {})
    return original_block("tool_use", **own)


provider = Provider(
    name="openai",
    about="OpenAI and compatible APIs, over HTTP.",
    read=OpenaiStreamReader,
    compat=compat,
    aliases=("openai_compatible",),
    whole=True,
)
