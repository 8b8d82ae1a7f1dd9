"""Map the log events that agents send when telemetry is enabled in their environment.

Their numbers and booleans may be text; withheld values are marked as withheld.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

from tracklog.formats.importers import count, seconds
from tracklog.formats.importers.otlp.account import PRIVATE, Account
from tracklog.formats.importers.otlp.genai import parse
from tracklog.formats.importers.otlp.view import AGENTS, RUN_KEYS, text
from tracklog.model.fact import Began, Called, Decided, Fact, Noted, Returned, Said, Spent

Attrs = Mapping[str, Any]
COMMON = (
    *RUN_KEYS, *PRIVATE, "event.name", "event.timestamp", "event.sequence", "organization.id",
    "prompt.id", "prompt_id",
)  # fmt: skip  # one row
"""Attributes that every event repeats."""
GEMINI = "telemetry"
"""The group of spends that both its spans and its log events report."""


class AgentEvent:
    """One event of an agent."""

    def __init__(
        self,
        account: Account,
        name: str,
        attrs: Attrs,
        at: str | None,
        clock: str | None,
        cause: str | None,
    ) -> None:
        self.account, self.name, self.attrs, self.at, self.clock = account, name, attrs, at, clock
        self.cause = cause

    def text(self, *keys: str) -> str | None:
        return next((found for key in keys if (found := text(self.attrs.get(key)))), None)

    def count(self, *keys: str) -> int | None:
        found = (count(self.attrs.get(key)) for key in keys)
        return next((each for each in found if each is not None), None)

    def flag(self, key: str) -> bool | None:
        said = self.attrs.get(key)
        if isinstance(said, str):
            return {"true": True, "false": False}.get(said.lower())
        return said if isinstance(said, bool) else None

    def rest(self, *used: str) -> dict[str, Any]:
        return {
            key: self.account.lifted(value)
            for key, value in self.attrs.items()
            if value is not None and key not in used and not key.startswith(COMMON)
        }

    def say(self, fact: Fact, *used: str) -> None:
        extra = self.rest(*used) if used else None
        self.account.say(fact, at=self.at, clock=self.clock, cause=self.cause, extra=extra)

    @property
    def seconds(self) -> float | None:
        return seconds(self.attrs.get("duration_ms"), 1000)


def tell_event(
    account: Account,
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
    told = EVENTS.get(f"{agent} {short}") or EVENTS.get(short)
    if told is None and severe:
        return False
    key = copied_key(name, attrs) if agent == "codex" else None
    # A log and a trace copy of one event both arrive, with the same key.
    if key is None or key not in account.past.records:
        with account.under(key) if key else nullcontext():
            (told or _noted_as(None))(AgentEvent(account, name, attrs, at, clock, cause))
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


def _began(heard: AgentEvent) -> None:
    view = heard.account.view
    software = view.software or {"name": "codex"}
    version = heard.text("app.version")
    fact = Began(
        what="run",
        model=heard.text("model", "slug"),
        software={**software, "version": version} if version else software,
        host=view.host,
    )
    heard.say(fact, "model", "app.version")


def _prompted(heard: AgentEvent) -> None:
    _said(heard, "user", heard.text("prompt", "message", "text"), "prompt")


def _responded(heard: AgentEvent) -> None:
    _said(heard, "assistant", heard.text("response", "text", "message", "content"), "response")


def _said(heard: AgentEvent, role: Any, words: str | None, used: str) -> None:
    withheld = words is None or (words.startswith("<") and "REDACTED" in words)
    withheld = withheld or words == "[REDACTED]"
    blocks: tuple[dict[str, Any], ...] = ()
    if not withheld:
        blocks = ({"type": "text", "text": heard.account.lifted(words)},)
    elif role == "assistant":
        # That there was an answer ends the turn, whatever its words are.
        blocks = ({"type": "text", "text": "", "withheld": True},)
    fact = Said(
        role=role,
        blocks=blocks,
        model=heard.text("model"),
        step=heard.text("prompt.id", "prompt_id"),
    )
    heard.say(fact, used, "model")


def _claude_spent(heard: AgentEvent) -> None:
    given, cached, written = (
        heard.count(key) for key in ("input_tokens", "cache_read_tokens", "cache_creation_tokens")
    )
    tokens = _tokens(
        input_tokens=None if given is None else given + (cached or 0) + (written or 0),
        cached_tokens=cached,
        cache_write_tokens=written,
        output_tokens=heard.count("output_tokens"),
    )
    cost = seconds(heard.attrs.get("cost_usd"))
    _spent(heard, tokens, cost, "anthropic", heard.text("request_id", "message_id", "response_id"))


def _codex_streamed(heard: AgentEvent) -> None:
    if heard.text("event.kind") != "response.completed" or not _has_counts(heard.attrs):
        heard.say(_noted(heard))
        return
    # `tool_token_count` is the total, despite its name.
    tokens = _tokens(
        input_tokens=heard.count("input_token_count"),
        cached_tokens=heard.count("cached_token_count"),
        cache_write_tokens=heard.count("cache_write_token_count"),
        output_tokens=heard.count("output_token_count"),
        reasoning_tokens=heard.count("reasoning_token_count"),
        total_tokens=heard.count("tool_token_count"),
    )
    _spent(heard, tokens, None, None, heard.text("response_id", "request_id"))


def _gemini_spent(heard: AgentEvent) -> None:
    thoughts, output = heard.count("thoughts_token_count"), heard.count("output_token_count")
    tools, given = heard.count("tool_token_count"), heard.count("input_token_count")
    tokens = _tokens(
        input_tokens=None if given is None else given + (tools or 0),
        cached_tokens=heard.count("cached_content_token_count"),
        output_tokens=None if output is None else output + (thoughts or 0),
        reasoning_tokens=thoughts,
        total_tokens=heard.count("total_token_count"),
    )
    key = heard.text("response_id", "request_id") or gemini_key(heard.attrs)
    _spent(heard, tokens, None, "gcp.gemini", key, GEMINI)


def gemini_key(attrs: Attrs) -> str | None:
    """The common key of its own event and the GenAI event of one response: the same time."""
    session, time = attrs.get("session.id"), attrs.get("event.timestamp")
    return f"gemini/{session}/{time}" if session and time else None


def _tokens(**counts: int | None) -> dict[str, int]:
    return {key: value for key, value in counts.items() if value is not None}


def _spent(
    heard: AgentEvent,
    tokens: dict[str, int],
    cost: float | None,
    provider: str | None,
    key: str | None,
    group: str | None = None,
) -> None:
    account = heard.account
    fact = Spent(
        key=key or account.line_id(),
        provider=heard.text("provider", "provider_name") or provider,
        model=heard.text("model"),
        usage=tokens or None,
        cost_usd=cost,
        calls=1,
        group=group,
        whole=group is not None,
        step=heard.text("prompt.id", "prompt_id"),
    )
    heard.say(fact, "model", "cost_usd", *_COUNTS)


_COUNTS = (
    "input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens",
    "input_token_count", "output_token_count", "cached_token_count", "reasoning_token_count",
    "cache_write_token_count",
    "tool_token_count", "thoughts_token_count", "cached_content_token_count", "total_token_count",
)  # fmt: skip  # one row


def _returned(heard: AgentEvent) -> None:
    """A tool call and its return: one record has both, at its own time."""
    tool = heard.text("tool_name", "function_name", "name") or "unknown"
    id = heard.text("tool_use_id", "call_id", "tool_call_id")
    account = heard.account
    given = next((heard.attrs[key] for key in _GIVEN if heard.attrs.get(key) is not None), None)
    put = account.lifted(parse(given))
    call = account.ids_of(tool, put, id, f"{account.kept[:16]}/0")
    ok, step = heard.flag("success"), heard.text("prompt.id", "prompt_id")
    exit_code = _exit_code(heard)
    called = Called(
        tool=tool,
        call_id=call.id,
        input=put,
        provider_call_id=call.other,
        tool_server=heard.text("mcp_server", "mcp_server_name", "mcp_server_scope"),
        synthetic_id=call.synthetic,
        step=step,
    )
    heard.say(called, *_GIVEN, "tool_name", "function_name", "success", "output", "error")
    error = heard.attrs.get("error", heard.attrs.get("error.message"))
    returned = Returned(
        call_id=call.id,
        tool=tool,
        ok=False if exit_code else ok,
        exit_code=exit_code,
        output=account.lifted(parse(heard.attrs.get("output", heard.attrs.get("result")))),
        error=error or None,
        status=heard.text("status", "decision"),
        seconds=heard.seconds,
        synthetic_id=call.synthetic,
        step=step,
    )
    heard.say(returned)


def _exit_code(heard: AgentEvent) -> int | None:
    """The exit code of a command: Codex and Gemini count it as a success whatever its code is."""
    if heard.name.startswith("codex."):
        exited = _EXITED.search(heard.text("output") or "")
        return int(exited[1]) if exited else None
    about = parse(heard.attrs.get("metadata"))
    return count(about.get("exitCode")) if isinstance(about, dict) else None


_EXITED = re.compile(r"^Process exited with code ([0-9]{1,9})$", re.MULTILINE)
_GIVEN = ("tool_input", "arguments", "function_args", "tool_parameters", "args")


def _decided(heard: AgentEvent) -> None:
    """A person, or a setting, allowed a tool call or not."""
    verdict = heard.text("decision") or "unknown"
    fact = Decided(
        verdict=verdict,
        by=heard.text("source", "decision_source"),
        about=heard.text("tool_use_id", "call_id"),
        name=heard.text("tool_name", "function_name"),
        step=heard.text("prompt.id", "prompt_id"),
    )
    heard.say(fact, "decision", "source", "tool_name")


def _noted_as(label: str | None) -> Callable[[AgentEvent], None]:
    def note(heard: AgentEvent) -> None:
        heard.say(_noted(heard, label))

    return note


def _noted(heard: AgentEvent, label: str | None = None) -> Noted:
    data = heard.rest(*_ENDS)
    ends: dict[str, Any] = {}
    if label == "compaction":
        ends = {"before": heard.count("tokens_before"), "after": heard.count("tokens_after")}
    elif label == "mode-change":
        ends = {"from": heard.text("from_mode", "from"), "to": heard.text("to_mode", "to", "mode")}
    data = {**data, **{key: end for key, end in ends.items() if end is not None}}
    return Noted(
        label=label or heard.name,
        kind=heard.name,
        text=heard.text("error", "error.message", "message") if label else None,
        data=data,
    )


_ENDS = ("tokens_before", "tokens_after", "from_mode", "to_mode")

EVENTS: Mapping[str, Callable[[AgentEvent], None]] = {
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
