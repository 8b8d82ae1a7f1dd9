"""Claude Agent SDK: records a session from the messages that the SDK streams.

    from tracklog.formats.adapters.claude_agent_sdk import recorded

    async for message in recorded(query(prompt=prompt, options=options), prompt):
        …

With a `ClaudeSDKClient`, make one `SessionRecorder` and pass each answer through its `stream`. The
run is that of the session: an import of the session's file, and its telemetry, go to the same run.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any
from uuid import uuid4

from tracklog.formats.adapters._writing import FactWriter, as_json, described, quietly, text_blocks
from tracklog.formats.importers import run_id

AGENT = "claude"


class SessionRecorder(FactWriter):
    """Records the messages of one client; each is passed on unchanged."""

    framework = "claude-agent-sdk"

    def __init__(self, url: str | None = None, emitter: Any = None) -> None:
        super().__init__(url, emitter)
        self._process = uuid4().hex
        """The SDK counts tokens from the start of its process: this names it."""
        self._run: str | None = None
        self._prompt: str | None = None
        self._tools: dict[str, str] = {}

    async def stream(
        self, messages: AsyncIterator[Any], prompt: str | None = None
    ) -> AsyncIterator[Any]:
        """The messages as they come; `prompt` is what the session was asked."""
        self._prompt = prompt if isinstance(prompt, str) else None
        try:
            async for message in messages:
                self._message(message)
                yield message
        except Exception as error:
            self._fail(error)
            raise

    @quietly
    def _message(self, message: Any) -> None:
        kind = type(message).__name__
        if kind == "SystemMessage" and message.subtype == "init":
            self._begin(message.data)
        elif self._run is None:
            return
        elif kind == "AssistantMessage":
            self._assistant(self._run, message)
        elif kind == "UserMessage":
            self._results(self._run, message)
        elif kind == "ResultMessage":
            self._end(self._run, message)

    def _begin(self, data: Mapping[str, Any]) -> None:
        run = self._run = run_id(AGENT, str(data["session_id"]))
        software = {"name": "claude-code", "version": str(data.get("claude_code_version", ""))}
        self.write(
            "Began", run, what="run", task=self._prompt, model=data.get("model"),
            cwd=data.get("cwd"), software=software,
        )  # fmt: skip  # one call
        self.write("Linked", run, kind="alias", system=AGENT, alias=data["session_id"])
        if self._prompt:
            self.write("Said", run, role="user", blocks=text_blocks(self._prompt))
            self._prompt = None

    def _assistant(self, run: str, message: Any) -> None:
        parent, id = message.parent_tool_use_id, message.message_id
        blocks = []
        for block in message.content:
            kind = type(block).__name__
            if kind == "TextBlock":
                blocks += text_blocks(block.text)
            elif kind == "ThinkingBlock" and block.thinking:
                blocks.append({"type": "thinking", "thinking": block.thinking})
            elif kind in ("ToolUseBlock", "ServerToolUseBlock"):
                self._tools[block.id] = block.name
                self.write(
                    "Called", run, tool=block.name, call_id=block.id, input=block.input,
                    parent_call_id=parent, by_provider=kind == "ServerToolUseBlock" or None,
                )  # fmt: skip  # one call
        if blocks:
            message_fields: dict[str, Any] = {
                "blocks": blocks,
                "model": message.model,
                "message_id": id,
            }
            self.write(
                "Said", run, role="assistant", stop_reason=message.stop_reason, **message_fields
            )
        if message.error:
            self.write("Noted", run, label="error", kind="model", text=str(message.error))

    def _results(self, run: str, message: Any) -> None:
        for block in message.content if isinstance(message.content, list) else ():
            if type(block).__name__ == "ToolResultBlock":
                ok, id = not block.is_error, block.tool_use_id
                result = {"output": block.content} if ok else {"error": block.content}
                self.write(
                    "Returned", run, call_id=id, tool=self._tools.pop(id, None), ok=ok, **result
                )

    def _end(self, run: str, message: Any) -> None:
        for model, used in (as_json(message.model_usage) or {}).items():
            self.write(
                "Spent", run, key=f"{self._process}/{model}", provider="anthropic", model=model,
                usage=_usage(used), cost_usd=used.get("costUSD"),
            )  # fmt: skip  # one call
        if not message.model_usage and message.usage:
            self.write(
                "Spent", run, key=self._process, provider="anthropic", usage=_usage(message.usage),
                cost_usd=message.total_cost_usd,
            )  # fmt: skip  # one call
        failed = bool(message.is_error)
        reason = message.result if failed else None
        end: dict[str, Any] = {"outcome": message.subtype, "passed": not failed, "reason": reason}
        self.write("Ended", run, what="run", **end)

    @quietly
    def _fail(self, error: BaseException) -> None:
        if self._run is not None:
            end: dict[str, Any] = {"outcome": "failed", "passed": False, "error": described(error)}
            self.write("Ended", self._run, what="run", **end)


def recorded(
    messages: AsyncIterator[Any],
    prompt: str | None = None,
    *,
    url: str | None = None,
    emitter: Any = None,
) -> AsyncIterator[Any]:
    """The messages of one `query`, recorded as they come; `url` is the collector's."""
    return SessionRecorder(url, emitter).stream(messages, prompt)


def _usage(used: Mapping[str, Any]) -> dict[str, int]:
    """Token counts as tracklog has them: input includes what was read from and put in the cache."""

    def count(camel: str, snake: str) -> int:
        return int(used.get(camel) or used.get(snake) or 0)

    read = count("cacheReadInputTokens", "cache_read_input_tokens")
    put = count("cacheCreationInputTokens", "cache_creation_input_tokens")
    return {
        "input_tokens": count("inputTokens", "input_tokens") + read + put,
        "cached_tokens": read,
        "cache_write_tokens": put,
        "output_tokens": count("outputTokens", "output_tokens"),
    }
