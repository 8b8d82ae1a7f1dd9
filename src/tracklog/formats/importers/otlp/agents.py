"""Map the log events that agents send when telemetry is enabled in their environment.

Their numbers and booleans may be text; withheld values are marked as withheld.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any

from tracklog.formats.importers import count, in_seconds
from tracklog.formats.importers.otlp.attrs import PRIVATE, RUN_KEYS, text
from tracklog.formats.importers.otlp.genai import parse
from tracklog.formats.importers.otlp.item_writer import ItemWriter
from tracklog.formats.importers.otlp.messages import ModelMessage
from tracklog.formats.importers.otlp.view import AGENTS
from tracklog.model.fact import Began, Called, Decided, Fact, Noted, Returned, Said, Spent

Attrs = Mapping[str, Any]
COMMON = (
    *RUN_KEYS, *PRIVATE, "event.name", "event.timestamp", "event.sequence", "organization.id",
    "prompt.id", "prompt_id",
)  # fmt: skip  # one row
"""Attributes that every event repeats."""
GEMINI = "telemetry"
"""The group of spends that both its spans and its log events report."""


class AgentLogEvent:
    """One event of an agent."""

    def __init__(
        self,
        writer: ItemWriter,
        name: str,
        attrs: Attrs,
        at: str | None,
        clock: str | None,
        cause: str | None,
    ) -> None:
        self.writer, self.name, self.attrs, self.at, self.clock = writer, name, attrs, at, clock
        self.cause = cause

    def text(self, *keys: str) -> str | None:
        return next((found for key in keys if (found := text(self.attrs.get(key)))), None)

    def count(self, *keys: str) -> int | None:
        found = (count(self.attrs.get(key)) for key in keys)
        return next((each for each in found if each is not None), None)

    def flag(self, key: str) -> bool | None:
        value = self.attrs.get(key)
        if isinstance(value, str):
            return {"true": True, "false": False}.get(value.lower())
        return value if isinstance(value, bool) else None

    def rest(self, *used: str) -> dict[str, Any]:
        return {
            key: self.writer.lifted(value)
            for key, value in self.attrs.items()
            if value is not None and key not in used and not key.startswith(COMMON)
        }

    def write(self, fact: Fact, *used: str) -> None:
        extra = self.rest(*used) if used else None
        self.writer.write(fact, at=self.at, clock=self.clock, cause=self.cause, extra=extra)

    @property
    def seconds(self) -> float | None:
        return in_seconds(self.attrs.get("duration_ms"), 1000)


def write_event(
    writer: ItemWriter,
    name: str,
    attrs: Attrs,
    at: str | None,
    cause: str | None,
    clock: str | None = None,
    *,
    severe: bool = False,
) -> bool:
    """Map an agent's event; False when it is no agent's, or an unknown error."""
    agent = next((each for each, (prefix, _) in AGENTS.items() if name.startswith(prefix)), None)
    if agent is None:
        return False
    short = name.removeprefix(AGENTS[agent][0])
    mapping = EVENTS.get(f"{agent} {short}") or EVENTS.get(short)
    if mapping is None and severe:
        return False
    key = copied_key(name, attrs) if agent == "codex" else None
    # A log and a trace copy of one event both arrive, with the same key.
    if key is None or key not in writer.past.records:
        with writer.under(key) if key else nullcontext():
            (mapping or _noted_as(None))(AgentLogEvent(writer, name, attrs, at, clock, cause))
    return True


def copied_key(name: str, attrs: Attrs) -> str | None:
    """The common key of a log and a trace copy of one event."""
    conversation, time = attrs.get("conversation.id"), attrs.get("event.timestamp")
    if not conversation or not time:
        return None
    parts = [conversation, name, time, attrs.get("call_id", "")]
    if _has_counts(attrs):
        # Two events of one millisecond: only the second has the counts.
        parts.append("counts")
    return "/".join(map(str, parts))


def _has_counts(attrs: Attrs) -> bool:
    return any(key.endswith("_token_count") for key in attrs)


def _began(event: AgentLogEvent) -> None:
    view = event.writer.view
    software = view.source.software or {"name": "codex"}
    version = event.text("app.version")
    fact = Began(
        what="run",
        model=event.text("model", "slug"),
        software={**software, "version": version} if version else software,
        host=view.source.host,
    )
    event.write(fact, "model", "app.version")


def _prompted(event: AgentLogEvent) -> None:
    _message(event, "user", event.text("prompt", "message", "text"), "prompt")


def _responded(event: AgentLogEvent) -> None:
    _message(event, "assistant", event.text("response", "text", "message", "content"), "response")


def _message(event: AgentLogEvent, role: Any, words: str | None, used: str) -> None:
    withheld = words is None or (words.startswith("<") and "REDACTED" in words)
    withheld = withheld or words == "[REDACTED]"
    blocks: tuple[dict[str, Any], ...] = ()
    if not withheld:
        blocks = ({"type": "text", "text": event.writer.lifted(words)},)
    elif role == "assistant":
        # That there was an answer ends the turn, whatever its words are.
        blocks = ({"type": "text", "text": "", "withheld": True},)
    fact = Said(
        role=role,
        blocks=blocks,
        model=event.text("model"),
        step=event.text("prompt.id", "prompt_id"),
    )
    event.write(fact, used, "model")


def _claude_spent(event: AgentLogEvent) -> None:
    given, cached, written = (
        event.count(key) for key in ("input_tokens", "cache_read_tokens", "cache_creation_tokens")
    )
    tokens = _tokens(
        input_tokens=None if given is None else given + (cached or 0) + (written or 0),
        cached_tokens=cached,
        cache_write_tokens=written,
        output_tokens=event.count("output_tokens"),
    )
    cost = in_seconds(event.attrs.get("cost_usd"))
    _spent(event, tokens, cost, "anthropic", event.text("request_id", "message_id", "response_id"))


def _codex_streamed(event: AgentLogEvent) -> None:
    if event.text("event.kind") != "response.completed" or not _has_counts(event.attrs):
        event.write(_noted(event))
        return
    # `tool_token_count` is the total, despite its name.
    tokens = _tokens(
        input_tokens=event.count("input_token_count"),
        cached_tokens=event.count("cached_token_count"),
        cache_write_tokens=event.count("cache_write_token_count"),
        output_tokens=event.count("output_token_count"),
        reasoning_tokens=event.count("reasoning_token_count"),
        total_tokens=event.count("tool_token_count"),
    )
    _spent(event, tokens, None, None, event.text("response_id", "request_id"))


def _gemini_spent(event: AgentLogEvent) -> None:
    thoughts, output = event.count("thoughts_token_count"), event.count("output_token_count")
    tools, given = event.count("tool_token_count"), event.count("input_token_count")
    tokens = _tokens(
        input_tokens=None if given is None else given + (tools or 0),
        cached_tokens=event.count("cached_content_token_count"),
        output_tokens=None if output is None else output + (thoughts or 0),
        reasoning_tokens=thoughts,
        total_tokens=event.count("total_token_count"),
    )
    key = event.text("response_id", "request_id") or gemini_key(event.attrs)
    _spent(event, tokens, None, "gcp.gemini", key, GEMINI)
    if event.text("role") in (None, "main"):  # the others are calls of the program itself
        _gemini_message(event)


def _gemini_message(event: AgentLogEvent) -> None:
    """The words of a response: its text is the JSON of one response, or of the chunks of a stream."""
    given = parse(event.attrs.get("response_text"))
    chunks = [each for each in (given if isinstance(given, list) else [given]) if each]
    words = "".join(word for each in chunks for word in _gemini_words(each))
    if words:
        writer, attrs = event.writer, event.attrs
        ids = (text(each.get("responseId")) for each in chunks if isinstance(each, dict))
        key = next(filter(None, ids), None) or gemini_key(attrs) or writer.answer()
        message = ModelMessage("assistant", [{"type": "text", "content": words}])
        writer.output([message], key, event.at, None, event.text("model"), clock=event.clock)


def _gemini_words(response: Any) -> Iterator[str]:
    """The texts of the first candidate of a response; thoughts are left out."""
    candidates = response.get("candidates") if isinstance(response, dict) else None
    first = candidates[0] if isinstance(candidates, list) and candidates else None
    content = first.get("content") if isinstance(first, dict) else None
    parts = content.get("parts") if isinstance(content, dict) else None
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict) and part.get("thought") is not True:
            yield text(part.get("text")) or ""


def gemini_key(attrs: Attrs) -> str | None:
    """The common key of its own event and the GenAI event of one response: the same time."""
    session, time = attrs.get("session.id"), attrs.get("event.timestamp")
    return f"gemini/{session}/{time}" if session and time else None


def _tokens(**counts: int | None) -> dict[str, int]:
    return {key: value for key, value in counts.items() if value is not None}


def _spent(
    event: AgentLogEvent,
    tokens: dict[str, int],
    cost: float | None,
    provider: str | None,
    key: str | None,
    group: str | None = None,
) -> None:
    writer = event.writer
    fact = Spent(
        key=key or writer.line_id(),
        provider=event.text("provider", "provider_name") or provider,
        model=event.text("model"),
        usage=tokens or None,
        cost_usd=cost,
        calls=1,
        group=group,
        whole=group is not None,
        step=event.text("prompt.id", "prompt_id"),
    )
    event.write(fact, "model", "cost_usd", "response_text", *_COUNTS)


_COUNTS = (
    "input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens",
    "input_token_count", "output_token_count", "cached_token_count", "reasoning_token_count",
    "cache_write_token_count",
    "tool_token_count", "thoughts_token_count", "cached_content_token_count", "total_token_count",
)  # fmt: skip  # one row


def _returned(event: AgentLogEvent) -> None:
    """A tool call and its return: one record has both, at its own time."""
    tool = event.text("tool_name", "function_name", "name") or "unknown"
    id = event.text("tool_use_id", "call_id", "tool_call_id")
    writer = event.writer
    given = next((event.attrs[key] for key in _GIVEN if event.attrs.get(key) is not None), None)
    put = writer.lifted(parse(given))
    call = writer.ids_of(tool, put, id, f"{writer.stored[:16]}/0")
    ok, step = event.flag("success"), event.text("prompt.id", "prompt_id")
    exit_code = _exit_code(event)
    called = Called(
        tool=tool,
        call_id=call.id,
        input=put,
        provider_call_id=call.other,
        tool_server=event.text("mcp_server", "mcp_server_name", "mcp_server_scope"),
        synthetic_id=call.synthetic,
        step=step,
    )
    event.write(called, *_GIVEN, "tool_name", "function_name", "success", "output", "error")
    error = event.attrs.get("error", event.attrs.get("error.message"))
    returned = Returned(
        call_id=call.id,
        tool=tool,
        ok=False if exit_code else ok,
        exit_code=exit_code,
        output=writer.lifted(parse(event.attrs.get("output", event.attrs.get("result")))),
        error=error or None,
        status=event.text("status", "decision"),
        seconds=event.seconds,
        synthetic_id=call.synthetic,
        step=step,
    )
    event.write(returned)


def _exit_code(event: AgentLogEvent) -> int | None:
    """The exit code of a command: Codex and Gemini count it as a success whatever its code is."""
    if event.name.startswith("codex."):
        exited = _EXITED.search(event.text("output") or "")
        return int(exited[1]) if exited else None
    about = parse(event.attrs.get("metadata"))
    return count(about.get("exitCode")) if isinstance(about, dict) else None


_EXITED = re.compile(r"^Process exited with code ([0-9]{1,9})$", re.MULTILINE)
_GIVEN = ("tool_input", "arguments", "function_args", "tool_parameters", "args")


def _decided(event: AgentLogEvent) -> None:
    """A person, or a setting, allowed a tool call or not."""
    verdict = event.text("decision") or "unknown"
    fact = Decided(
        verdict=verdict,
        by=event.text("source", "decision_source"),
        about=event.text("tool_use_id", "call_id"),
        name=event.text("tool_name", "function_name"),
        step=event.text("prompt.id", "prompt_id"),
    )
    event.write(fact, "decision", "source", "tool_name")


def _noted_as(label: str | None) -> Callable[[AgentLogEvent], None]:
    def note(event: AgentLogEvent) -> None:
        event.write(_noted(event, label))

    return note


def _noted(event: AgentLogEvent, label: str | None = None) -> Noted:
    data = event.rest(*_ENDS)
    ends: dict[str, Any] = {}
    if label == "compaction":
        ends = {"before": event.count("tokens_before"), "after": event.count("tokens_after")}
    elif label == "mode-change":
        ends = {"from": event.text("from_mode", "from"), "to": event.text("to_mode", "to", "mode")}
    data = {**data, **{key: end for key, end in ends.items() if end is not None}}
    return Noted(
        label=label or event.name,
        kind=event.name,
        text=event.text("error", "error.message", "message") if label else None,
        data=data,
    )


_ENDS = ("tokens_before", "tokens_after", "from_mode", "to_mode")

EVENTS: Mapping[str, Callable[[AgentLogEvent], None]] = {
    "codex conversation_starts": _began,
    "user_prompt": _prompted,
    "assistant_response": _responded,
    "claude api_request": _claude_spent,
    "codex sse_event": _codex_streamed,
    "gemini api_response": _gemini_spent,
    "tool_result": _returned,
    "gemini tool_call": _returned,
    "tool_decision": _decided,
    "api_error": _noted_as("error"),
    "api_refusal": _noted_as("refusal"),
    "chat_compression": _noted_as("compaction"),
    "compaction": _noted_as("compaction"),
    "permission_mode_changed": _noted_as("mode-change"),
    "codex turn_cost": _noted_as("totals"),
}
"""By event, for one agent or for all of them."""
