"""A span or a log record as it is read: its attributes, its times, its place in the trace."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from tracklog.formats.importers.otlp.attrs import OS_THREAD, RUN_KEYS, Attrs, text
from tracklog.formats.importers.otlp.shape import Envelope, Item, any_value

AGENTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "claude": ("claude_code.", ("claude-code", "claude_code")),
    "codex": ("codex.", ("codex",)),
    "gemini": ("gemini_cli.", ("gemini-cli", "gemini_cli")),
    "copilot": ("copilot.", ("github-copilot", "copilot")),
    "opencode": ("opencode.", ("opencode",)),
}
"""The agents that are recognised by the names of their events or services."""
_BY_EVENT = {prefix: tool for tool, (prefix, _) in AGENTS.items()}
NO_SPAN = "0" * 16
DROPPED = ("droppedAttributesCount", "droppedEventsCount", "droppedLinksCount")
INFO = 9
"""The severity from which on a log record is more than a debug record."""

_HEALTH = re.compile(r"/(health|healthz|livez|readyz|metrics)(/|\?|$)")
_PLUMBING = ("raw_gen_ai_request", "self", "auth", "router", "proxy_pre_call")
_MANAGER = re.compile(r"_([0-9a-f-]{36})$")
_AUTOGEN = re.compile(r"autogen [a-z]+ .*\.\(([0-9a-f-]{36})\)-[AT]", re.DOTALL)
"""AutoGen gives every message a trace of its own; the name of the span has the id of the chat."""


@dataclass(slots=True)
class SpanEvent:
    """An event of a span."""

    name: str
    at: str | None
    attrs: Attrs


class Source:
    """The program that sent some items: what their resource and their scope say of it."""

    def __init__(self, envelope: Envelope) -> None:
        resource, scope = envelope.resource.get("resource", {}), envelope.scope.get("scope", {})
        self.attrs = attrs = Attrs.read(resource.get("attributes"))
        self.scope = scope.get("name")
        self.dropped: int = sum(part.get("droppedAttributesCount", 0) for part in (resource, scope))
        """How many attributes of the resource and of the scope were dropped."""
        name = text(attrs.get("service.name"))
        self.tool = _tool(name or "")
        self.service = None if name is None or name.startswith("unknown_service") else name
        """The name of the service, where it has one."""
        self.host = text(attrs.get("service.instance.id")) or text(attrs.get("host.name"))

    @property
    def software(self) -> dict[str, Any] | None:
        if self.service is None:
            return None
        version = text(self.attrs.get("service.version"))
        return {"name": self.service} | ({"version": version} if version else {})


class View:
    """The fields that spans and log records share."""

    name: str
    keys: Sequence[tuple[str, str]] = ()
    """The possible names of the run, by attribute, the strongest first."""

    def __init__(self, item: Item, source: Source, trace: str) -> None:
        self.item, self.source = item, source
        self.attrs = attrs = Attrs.read(item.body.get("attributes"))
        self.trace = trace
        """The trace; empty for a log record outside of any trace."""
        self.service = source.service
        self.tool = source.tool
        """The source system; an importer's name where the agent is known."""
        if attrs.names.run_keys or source.attrs.names.run_keys:
            self._find_keys()

    def _find_tool(self) -> None:
        named = text(self.attrs.get("event.name"))
        self.tool = (named and _agent(named)) or _agent(self.name) or self.tool

    def _find_keys(self) -> None:
        found = []
        for key in RUN_KEYS:
            value = self.attrs.get(key, self.source.attrs.get(key))
            if isinstance(value, int) and not isinstance(value, bool) and key != OS_THREAD:
                value = str(value)
            if isinstance(value, str) and value:
                found.append((key, value))
        self.keys = found

    @property
    def is_of_the_program(self) -> bool:
        """Whether OpenCode reports its own inside: everything but its model calls."""
        names = self.attrs.names
        return self.tool == "opencode" and not (names.is_marked or names.has("gen_ai."))


class SpanView(View):
    """A span; a pending one announces the real one at its start."""

    failed = succeeded = False
    """Whether the span itself is marked as one that failed, or that was successful."""
    status_message = ""
    own: str | None = None
    """The key of the span itself, where it stands for another one: for its parent."""
    happenings: Sequence[SpanEvent] = ()
    facts: list[Any] | None = None
    """The facts that it carries, each as JSON; only spans of our own exporter carry some."""

    def __init__(self, item: Item, source: Source) -> None:
        body = item.body
        super().__init__(item, source, body["traceId"])
        self.name = body.get("name", "")
        if "." in self.name or "event.name" in self.attrs:
            self._find_tool()
        self.id: str = body["spanId"]
        self.parent: str = body.get("parentSpanId", "")
        self.start = int(body.get("startTimeUnixNano", 0))
        """In nanoseconds since 1970; 0 where it is not known."""
        self.end = int(body.get("endTimeUnixNano", 0))
        self.began = spelled(self.start)
        """The same in the form of a line."""
        self.ended = spelled(self.end)
        self.pending = not self.end
        if "status" in body:
            status = body["status"]
            code = status.get("code")
            self.failed, self.succeeded = code == 2, code == 1
            self.status_message = status.get("message", "")
        if "events" in body:
            self.happenings = [_happening(each) for each in body["events"]]
        if self.attrs.names.is_marked:
            self._read_marks()
        if not self.keys and self.name.startswith("autogen "):
            sender = text(self.attrs.get("sender_agent_type")) or ""
            if chat := _AUTOGEN.fullmatch(self.name) or _MANAGER.search(sender):
                self.keys = [("autogen.chat", chat[1])]
        if not self.parent and not self.keys and self.service and self._is_health_check:
            self.keys = [("service.name", self.service)]
        self.record = f"{self.trace}/{self.id}"
        """The key of the span."""
        self.cause = f"{self.trace}/{self.parent}" if self.parent else None
        """The key of its parent."""

    def _read_marks(self) -> None:
        """The marks of our own exporter, and those of Logfire."""
        attrs = self.attrs
        if attrs.get("tracklog.unfinished") is True or attrs.get("tracklog.dangling") is True:
            self.pending = True  # it has an end because others need one
        if "tracklog.facts" in attrs:
            # The facts that it carries have their own times, or none.
            self.began = self.ended = None
            found = attrs["tracklog.facts"]
            self.facts = found if isinstance(found, list) else None
        if attrs.get("logfire.span_type") == "pending_span" and self.parent:
            # It stands for the span that is its parent; that span's parent is given separately.
            above = text(attrs.get("logfire.pending_parent_id")) or NO_SPAN
            self.own = f"{self.trace}/{self.id}" if self.id != self.parent else None
            self.id, self.parent = self.parent, "" if above == NO_SPAN else above
            self.pending = True

    @property
    def _is_health_check(self) -> bool:
        """Whether it answers a probe, which is no run: all those of a service are one."""
        attrs = self.attrs
        path = attrs.get("http.route") or attrs.get("url.path") or attrs.get("http.target")
        return isinstance(path, str) and _HEALTH.match(path) is not None

    @property
    def is_side_call(self) -> bool:
        """Whether it is a model call of OpenCode outside of the conversation, as for a title."""
        names = self.attrs.names
        return self.tool == "opencode" and names.has("ai.") and "ai.prompt.tools" not in names.all

    @property
    def is_plumbing(self) -> bool:
        """Whether it reports a part of the proxy of LiteLLM, or of its web server."""
        scope = self.source.scope
        if scope == "litellm":
            return self.name in _PLUMBING or ("service" in self.attrs and "call_type" in self.attrs)
        return scope == "fastapi" and self.name.startswith("fastapi.")

    @property
    def wraps_model(self) -> bool:
        """Whether it reports a function of LlamaIndex around a model call, with its arguments."""
        if self.source.scope != "openinference.instrumentation.llama_index":
            return False
        given = str(self.attrs.get("input.value") or "{").lstrip()
        return given.startswith("{") and not any(name.startswith(_MODEL) for name in self.attrs)

    @property
    def seconds(self) -> float | None:
        return (self.end - self.start) / 1e9 if self.end >= self.start > 0 else None


_MODEL = ("llm.input_messages.", "llm.output_messages.", "llm.token_count.", "llm.prompts")
"""The attributes of a model call: its words and its counts."""


class LogView(View):
    """A log record."""

    def __init__(self, item: Item, source: Source) -> None:
        body = item.body
        super().__init__(item, source, body.get("traceId", ""))
        time, observed = (int(body.get(key, 0)) for key in ("timeUnixNano", "observedTimeUnixNano"))
        self.body = any_value(body.get("body"))
        self.name = _event_name(body, self.attrs, self.body)
        """Its event name, from wherever it stands."""
        self._find_tool()
        self.at = spelled(time or observed)
        self.clock = "observed" if observed and not time else None
        """`observed` when that is its only time."""
        self.severity: int = body.get("severityNumber", 0)
        self.span: str = body.get("spanId", "")

    @property
    def is_internal(self) -> bool:
        """Whether an agent's program reports its own inside, outside of any conversation.

        Codex does so with a debug record before it ends. Such a record begins no run.
        """
        alone = not self.keys and not self.trace
        return alone and self.tool in AGENTS and 0 < self.severity < INFO

    @property
    def cause(self) -> str | None:
        return f"{self.trace}/{self.span}" if self.trace and self.span else None


def views_of(items: Iterable[Item]) -> list[SpanView | LogView]:
    """A view of each item; an envelope that many items share is read once."""
    found: list[SpanView | LogView] = []
    last = source = None
    for item in items:
        envelope = item.envelope
        if source is None or envelope is not last:
            last, source = envelope, Source(envelope)
        view = SpanView if envelope.signal == "traces" else LogView
        found.append(view(item, source))
    return found


def _agent(name: str) -> str | None:
    """The agent of an event or a span, by its name."""
    return _BY_EVENT.get(name[: name.find(".") + 1])


def _tool(service: str) -> str:
    service = service.lower()
    return next(
        (tool for tool, (_, services) in AGENTS.items() if service.startswith(services)), "otlp"
    )


def _happening(given: Mapping[str, Any]) -> SpanEvent:
    return SpanEvent(
        given.get("name", ""),
        spelled(int(given.get("timeUnixNano", 0))),
        Attrs.read(given.get("attributes")),
    )


def _event_name(body: dict[str, Any], attrs: dict[str, Any], value: Any) -> str:
    """The event name of field, attribute and body; the body's where it is the longer form.

    A field `event src/file.rs:12` names the line of the program that wrote the record (Rust's
    tracing does so); then the attribute counts.
    """
    field, attribute = text(body.get("eventName")), text(attrs.get("event.name"))
    name = attribute if field and attribute and field.startswith("event ") else field or attribute
    named = value if isinstance(value, str) and _looks_like_a_name(value) else None
    if name is None or (named is not None and named.endswith(f".{name}")):
        return named or name or ""
    return name


def _looks_like_a_name(value: str) -> bool:
    parts = value.split(".")
    return len(value) <= 100 and len(parts) > 1 and all(_is_word(part) for part in parts)


def _is_word(part: str) -> bool:
    return (
        part.isascii() and part.replace("_", "").replace("-", "").isalnum() and part == part.lower()
    )


def spelled(nanoseconds: int) -> str | None:
    """A time in the form of a line, with its precision; None for 0."""
    if not nanoseconds:
        return None
    rest = nanoseconds % 1_000_000_000
    second = _second(nanoseconds // 1_000_000_000)
    return f"{second}.{rest:09}".rstrip("0") + "Z" if rest else f"{second}Z"


@lru_cache(1024)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
