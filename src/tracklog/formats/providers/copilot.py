"""Copilot CLI: the output of `copilot -p --output-format=json`; its files have the same events."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from tracklog.formats.providers import (
    Body,
    Provider,
    ReplyBuilder,
    added,
    count,
    is_text,
    items,
    obj,
    option,
    original_block,
    text,
    usage,
    word,
)

COUNTED = ("session.", "hook.", "permission.", "model.", "assistant.turn_", "user.message")
"""Events that have no place in a transcript, or repeat others: counted, not stored."""


def tokens(raw: Any) -> Body:
    """The usage of one model in the common keys."""
    amounts = obj(raw)
    return usage(
        amounts,
        input_tokens=count(amounts.get("inputTokens")),
        cached_tokens=count(amounts.get("cacheReadTokens")),
        cache_write_tokens=count(amounts.get("cacheWriteTokens")),
        output_tokens=count(amounts.get("outputTokens")),
        reasoning_tokens=count(amounts.get("reasoningTokens")),
    )


def token_details(raw: Any) -> Body:
    """The usage of one model by the kinds of tokens that are billed apart."""
    amounts = {
        str(kind).lower().replace("_", ""): count(obj(each).get("tokenCount"))
        for kind, each in obj(raw).items()
    }
    cached, written = amounts.get("cacheread"), amounts.get("cachewrite")
    given = [each for each in (amounts.get("input"), cached, written) if each is not None]
    return usage(
        {},
        input_tokens=sum(given) if given else None,
        cached_tokens=cached,
        cache_write_tokens=written,
        output_tokens=amounts.get("output"),
        reasoning_tokens=amounts.get("reasoning"),
    )


class CopilotResult(NamedTuple):
    """The result of a tool; a failure may still have an output."""

    output: Any
    error: Any
    wrong: bool | None
    """Whether it failed, where that is stated."""
    exit_code: int | None = None
    """Of a command; Copilot calls every command that ran a success."""


def return_of(data: Body) -> CopilotResult:
    """The result of a call, as streams and files have it."""
    result, error, success = data.get("result"), data.get("error"), data.get("success")
    output = result.get("content") if isinstance(result, dict) else result
    error = error.get("message", error) if isinstance(error, dict) else error
    code = obj(data.get("shellExecution")).get("exitCode")
    if not isinstance(code, int) or isinstance(code, bool):
        code = None
    wrong = not success if isinstance(success, bool) else None
    return CopilotResult(output, error, True if code else wrong, code)


def thought_of(data: Body) -> Body | None:
    """The reasoning of a message, as a block; None where there is none."""
    thought = data.get("reasoningText")
    opaque, content = data.get("reasoningOpaque"), data.get("encryptedContent")
    block: Body = {"type": "thinking"}
    if is_text(thought) and thought:
        block["thinking"] = thought
    if opaque is not None:
        block["opaque"] = opaque
        if content is not None:
            block["encryptedContent"] = content
    elif content is not None:
        block["opaque"] = content
    return block if len(block) > 1 else None


class CopilotStreamReader:
    """Reads the events of one session."""

    def __init__(self, reply: ReplyBuilder) -> None:
        self.reply = reply
        self._drafts: dict[str, tuple[str, str]] = {}
        """Incomplete messages and thoughts, by id: their type and text so far."""
        self._thoughts: dict[str, Body] = {}
        self._texts: dict[str, Body] = {}
        self._output: dict[str, int] = {}
        self._shutdowns: Body = {}
        self._premium: int | float | None = None

    def feed(self, body: Body) -> bool:
        kind, data = text(body.get("type")) or "", obj(body.get("data"))
        match kind:
            case "session.start":
                self._begin(data)
            case "assistant.message":
                self._message(data)
            case "assistant.reasoning":
                self._reason(data)
            case "assistant.message_delta" | "assistant.reasoning_delta":
                self._grow(kind, data)
            case "assistant.turn_start":
                self.reply.settle()
                self.reply.turn += bool(self.reply.blocks)
            case "tool.execution_start":
                self._call(data, word(data.get("toolName")))
            case "tool.execution_complete":
                back = return_of(data)
                content = back.error if back.output is None else back.output
                parent = word(data.get("parentToolCallId"))
                id = word(data.get("toolCallId"))
                self.reply.result(id, content, is_error=back.wrong, parent_tool_id=parent)
            case "tool.execution_partial_result":
                self.reply.partial(body, kind)
            case "session.error":
                self.reply.fail(data.get("message") or data.get("errorType") or "error")
            case "abort":
                self.reply.fail(text(data.get("reason")) or "aborted", "killed")
            case "session.shutdown":
                self._shut_down(data)
            case "result":
                self._conclude(body)
            case _:
                return body.get("ephemeral") is True or kind.startswith(COUNTED)
        return True

    def end(self) -> None:
        for kind, content in self._drafts.values():
            if kind == "assistant.message_delta":
                self.reply.text(content, partial=True)
            elif content:
                self.reply.thinking(content, partial=True)
        self._drafts.clear()
        shutdowns = self._shutdowns
        if not shutdowns and self._output:
            shutdowns = usage(None, output_tokens=sum(self._output.values()))
        if self._premium is not None:
            shutdowns = {**shutdowns, "premium_requests": self._premium}
        self.reply.note(usage=shutdowns or None)

    def _begin(self, data: Body) -> None:
        self.reply.note(
            provider_session_id=word(data.get("sessionId")),
            provider_version=word(data.get("copilotVersion")),
            model=word(data.get("selectedModel")),
        )

    def _message(self, data: Body) -> None:
        id = word(data.get("messageId"))
        extras = {"message_id": id, "parent_tool_id": word(data.get("parentToolCallId"))}
        self._drafts.pop(id or "", None)
        self.reply.note(model=word(data.get("model")))
        output = count(data.get("outputTokens"))
        if output is not None:
            key = id or f"#{len(self._output)}"
            self._output[key] = max(output, self._output.get(key, 0))
        self._think(data, extras)
        content = text(data.get("content")) or ""
        known = self._texts.get(id or "")
        if known is not None and count(data.get("chunkIndex")) and self.reply.holds(known):
            known["text"] += content
        else:
            block = self.reply.text(content, **extras)
            if id and block is not None:
                self._texts[id] = block
        for request in items(data.get("toolRequests")):
            self._call(obj(request), word(obj(request).get("name")), **extras)

    def _think(self, data: Body, extras: Body) -> None:
        block = thought_of(data) or {}
        thought = word(block.get("thinking"))
        sealed = {key: block[key] for key in ("opaque", "encryptedContent") if key in block}
        known = self._thoughts.get(thought) if thought else None
        if known is not None:  # reported by an event of its own
            for key, value in sealed.items():
                known.setdefault(key, value)
        elif block:
            reported = self.reply.thinking(thought, **sealed, **extras)
            if thought:
                self._thoughts[thought] = reported

    def _reason(self, data: Body) -> None:
        self._drafts.pop(word(data.get("reasoningId")) or "", None)
        thought = word(data.get("content"))
        if thought and thought not in self._thoughts:
            id = word(data.get("reasoningId"))
            self._thoughts[thought] = self.reply.thinking(thought, message_id=id)

    def _grow(self, kind: str, data: Body) -> None:
        self.reply.partial({"type": kind, "data": data}, kind)
        id = word(data.get("messageId")) or word(data.get("reasoningId")) or ""
        before = self._drafts.get(id, (kind, ""))[1]
        self._drafts[id] = (kind, before + (text(data.get("deltaContent")) or ""))

    def _call(self, data: Body, name: str | None, **extras: Any) -> None:
        id, server = word(data.get("toolCallId")), word(data.get("mcpServerName"))
        extras["parent_tool_id"] = word(data.get("parentToolCallId")) or extras.get(
            "parent_tool_id"
        )
        self.reply.call(id, name, data.get("arguments"), tool_server=server, **extras)

    def _shut_down(self, data: Body) -> None:
        """Add the totals of a segment: segments are added up, messages are not."""
        for model in obj(data.get("modelMetrics")).values():
            known = tokens(obj(model).get("usage"))
            known.pop("raw", None)
            self._shutdowns = added(self._shutdowns, known)
        self._credit(data.get("totalPremiumRequests"))

    def _conclude(self, body: Body) -> None:
        data = body if "sessionId" in body or "usage" in body else obj(body.get("data"))
        spent = obj(data.get("usage"))
        self.reply.note(
            provider_session_id=word(data.get("sessionId")),
            duration_ms=count(spent.get("sessionDurationMs")),
        )
        self._credit(spent.get("premiumRequests"))

    def _credit(self, credits: Any) -> None:
        if isinstance(credits, int | float) and not isinstance(credits, bool):
            self._premium = credits


def compat(body: Body) -> Iterable[Body] | None:
    """The original's mapping of one line."""
    data = obj(body.get("data"))
    match body.get("type"):
        case "assistant.message":
            content = word(data.get("content"))
            return [original_block("text", text=content)] if content else []
        case "tool.execution_start":
            return [original_block("tool_use", tool_name=text(data.get("toolName")) or "")]
        case _:
            return None


provider = Provider(
    name="copilot",
    about="Copilot CLI.",
    read=CopilotStreamReader,
    compat=compat,
    aliases=("github_copilot",),
    programs=("copilot",),
    template=("copilot", "-p", "{{prompt}}", "--output-format=json", "--silent"),
    opens=lambda body: body.get("type") == "session.start",
    prompt=lambda arguments: option(arguments, "-p", "--prompt"),
)
