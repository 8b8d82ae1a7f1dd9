"""A span or a log record as it is read: its attributes, its times, its place in the trace."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from tracklog.formats.importers.otlp.wire import Item, attributes, plain

CONVERSATIONS = ("gen_ai.conversation.id", "session.id", "conversation.id", "thread.id")
OS_THREAD = "thread.id"
"""A number under this name is a thread of the operating system; only a text names a conversation."""
RUN_KEYS = ("tracklog.run.id", *CONVERSATIONS)
"""The attributes that name the run of an item, the strongest first; the trace comes last."""

AGENTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "claude": ("claude_code.", ("claude-code", "claude_code")),
    "codex": ("codex.", ("codex",)),
    "gemini": ("gemini_cli.", ("gemini-cli", "gemini_cli")),
    "copilot": ("copilot.", ("github-copilot", "copilot")),
}
"""The agents that are recognised by the names of their events or services."""
_BY_EVENT = {prefix: tool for tool, (prefix, _) in AGENTS.items()}
_RUN_KEYS = frozenset(RUN_KEYS)

NO_SPAN = "0" * 16

_AUTOGEN = re.compile(r"autogen [a-z]+ .*\.\(([0-9a-f-]{36})\)-[AT]", re.DOTALL)
"""AutoGen gives every message a trace of its own; the name of the span has the id of the chat."""


class Attrs(dict[str, Any]):
    """Attributes by name, with a search for a common prefix."""

    __slots__ = ("names",)

    def __init__(self, given: Mapping[str, Any]) -> None:
        super().__init__(given)
        self.names = "\n".join(("", *self))
        """All names, each after a newline."""

    def has(self, prefix: str) -> bool:
        """Whether a name begins with this prefix."""
        return f"\n{prefix}" in self.names


@dataclass(slots=True)
class SpanEvent:
    """An event of a span."""

    name: str
    at: str | None
    attrs: Attrs


@dataclass(slots=True)
class View:
    """The fields that spans and log records share."""

    item: Item
    attrs: Attrs
    resource: Mapping[str, Any]
    trace: str
    """The trace; empty for a log record outside of any trace."""
    tool: str = "otlp"
    """The source system; an importer's name where the agent is known."""
    keys: list[tuple[str, str]] = field(init=False)
    """The possible names of the run, by attribute, the strongest first."""

    def __post_init__(self) -> None:
        self.keys = []
        if _RUN_KEYS.isdisjoint(self.attrs) and _RUN_KEYS.isdisjoint(self.resource):
            return
        for key in RUN_KEYS:
            value = self.attrs.get(key, self.resource.get(key))
            if isinstance(value, int) and not isinstance(value, bool) and key != OS_THREAD:
                value = str(value)
            if isinstance(value, str) and value:
                self.keys.append((key, value))

    @property
    def service(self) -> str | None:
        """The name of the service, where it has one."""
        name = text(self.resource.get("service.name"))
        return None if name is None or name.startswith("unknown_service") else name

    @property
    def host(self) -> str | None:
        return text(self.resource.get("service.instance.id")) or text(
            self.resource.get("host.name")
        )

    @property
    def software(self) -> dict[str, Any] | None:
        if self.service is None:
            return None
        version = text(self.resource.get("service.version"))
        return {"name": self.service} | ({"version": version} if version else {})


@dataclass(slots=True)
class SpanView(View):
    """A span; a pending one announces the real one at its start."""

    name: str = ""
    id: str = ""
    parent: str = ""
    start: int = 0
    """In nanoseconds since 1970; 0 where it is not known."""
    end: int = 0
    began: str | None = None
    ended: str | None = None
    """The same in the form of a line."""
    pending: bool = False
    failed: bool = False
    succeeded: bool = False
    """Whether the span itself is marked as successful."""
    status_message: str = ""
    happenings: list[SpanEvent] = field(default_factory=list)
    record: str = field(init=False)
    """The key of the span."""
    cause: str | None = field(init=False)
    """The key of its parent."""

    def __post_init__(self) -> None:
        View.__post_init__(self)
        if self.attrs.get("logfire.span_type") == "pending_span" and self.parent:
            # It stands for the span that is its parent; that span's parent is given separately.
            above = text(self.attrs.get("logfire.pending_parent_id")) or NO_SPAN
            self.id, self.parent = self.parent, "" if above == NO_SPAN else above
            self.pending = True
        if not self.keys and (chat := _AUTOGEN.fullmatch(self.name)):
            self.keys.append(("autogen.chat", chat[1]))
        self.record = f"{self.trace}/{self.id}"
        self.cause = f"{self.trace}/{self.parent}" if self.parent else None

    @property
    def seconds(self) -> float | None:
        return (self.end - self.start) / 1e9 if self.end >= self.start > 0 else None


@dataclass(slots=True)
class LogView(View):
    """A log record."""

    name: str = ""
    """Its event name, from wherever it stands."""
    at: str | None = None
    clock: str | None = None
    """`observed` when that is its only time."""
    severity: int = 0
    span: str = ""
    body: Any = None

    @property
    def cause(self) -> str | None:
        return f"{self.trace}/{self.span}" if self.trace and self.span else None


def views_of(items: Iterable[Item]) -> list[SpanView | LogView]:
    """A view of each item; a resource that many items share is read once."""
    found: list[SpanView | LogView] = []
    last: Mapping[str, Any] | None = None
    resource: Mapping[str, Any] = {}
    tool = "otlp"
    for item in items:
        if item.resource is not last:
            last = item.resource
            resource = attributes(last.get("resource", {}).get("attributes"))
            tool = _tool(resource)
        each = span(item, resource) if item.signal == "traces" else log(item, resource)
        named = text(each.attrs.get("event.name")) or each.name
        each.tool = _agent(named) or _agent(each.name) or tool
        found.append(each)
    return found


def _agent(name: str) -> str | None:
    """The agent of an event or a span, by its name."""
    return _BY_EVENT.get(name[: name.find(".") + 1])


def _tool(resource: Mapping[str, Any]) -> str:
    service = (text(resource.get("service.name")) or "").lower()
    return next(
        (tool for tool, (_, services) in AGENTS.items() if service.startswith(services)), "otlp"
    )


def span(item: Item, resource: Mapping[str, Any]) -> SpanView:
    body = item.body
    attrs = Attrs(attributes(body.get("attributes")))
    status = body.get("status", {})
    start, end = int(body.get("startTimeUnixNano", 0)), int(body.get("endTimeUnixNano", 0))
    # Our own exporter gives open spans an end, because others need one, and marks it.
    is_open = attrs.get("tracklog.unfinished") is True or attrs.get("tracklog.dangling") is True
    # The facts that it carries have their own times, or none.
    is_timed = "tracklog.facts" not in attrs
    return SpanView(
        item,
        attrs,
        resource,
        body["traceId"],
        name=body.get("name", ""),
        id=body["spanId"],
        parent=body.get("parentSpanId", ""),
        start=start,
        end=end,
        began=spelled(start) if is_timed else None,
        ended=spelled(end) if is_timed else None,
        pending=not end or is_open,
        failed=status.get("code") == 2,
        succeeded=status.get("code") == 1,
        status_message=status.get("message", ""),
        happenings=[_happening(each) for each in body.get("events", ())],
    )


def _happening(given: Mapping[str, Any]) -> SpanEvent:
    return SpanEvent(
        given.get("name", ""),
        spelled(int(given.get("timeUnixNano", 0))),
        Attrs(attributes(given.get("attributes"))),
    )


def log(item: Item, resource: Mapping[str, Any]) -> LogView:
    body = item.body
    attrs = Attrs(attributes(body.get("attributes")))
    time, observed = (int(body.get(key, 0)) for key in ("timeUnixNano", "observedTimeUnixNano"))
    value = plain(body.get("body"))
    return LogView(
        item,
        attrs,
        resource,
        body.get("traceId", ""),
        name=_event_name(body, attrs, value),
        at=spelled(time or observed),
        clock="observed" if observed and not time else None,
        severity=body.get("severityNumber", 0),
        span=body.get("spanId", ""),
        body=value,
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
    whole, rest = divmod(nanoseconds, 10**9)
    fraction = f".{rest:09}".rstrip("0").rstrip(".")
    return f"{_second(whole)}{fraction}Z"


@lru_cache(1024)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def text(value: Any) -> str | None:
    """A text that is not empty; None for anything else."""
    return value if isinstance(value, str) and value else None
