"""OpenAI Agents SDK: a trace processor that records agents, model calls, tools and handoffs.

    from tracklog.formats.adapters.openai_agents import install

    install()              # beside the sending of traces to OpenAI
    install(instead=True)  # instead of it

One trace is one run; traces with one `group_id` are one run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import orjson

from tracklog.formats.adapters._writing import (
    FactWriter,
    as_json,
    library,
    quietly,
    software_of,
    text_blocks,
)

MESSAGES = ("user", "system", "developer")
"""The roles of messages to a model that are recorded when it has answered."""

UNNAMED = "Agent workflow"
"""The name of a trace to which the program gave none."""


@dataclass(slots=True)
class _Place:
    """Where a span stands: its agent, and the call that it is part of."""

    agent: str | None = None
    call: str | None = None


@dataclass(slots=True)
class _Trace:
    """What is known of a trace that has not ended."""

    run: str
    pending: list[tuple[str, str, Any]] = field(default_factory=list)
    """The calls that a model asked for and that did not begin: id, tool, arguments."""
    places: dict[str, _Place] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    """The messages that were recorded."""
    error: Any = None
    """Why the last agent or model call failed."""


class TraceProcessor(FactWriter):
    """The processor: has the methods of `agents.tracing.TracingProcessor`."""

    framework = "openai-agents"

    def __init__(self, url: str | None = None, emitter: Any = None) -> None:
        super().__init__(url, emitter)
        self._traces: dict[str, _Trace] = {}

    @quietly
    def on_trace_start(self, trace: Any) -> None:
        run = str(getattr(trace, "group_id", None) or trace.trace_id)
        self._traces[trace.trace_id] = _Trace(run)
        self.write("Began", run, what="run", software=software_of("openai-agents"))
        if run != trace.trace_id:
            self.write("Linked", run, kind="alias", system="openai", alias=trace.trace_id)
        if trace.name != UNNAMED:
            self.write("Noted", run, label="title", text=trace.name)

    @quietly
    def on_trace_end(self, trace: Any) -> None:
        known = self._traces.pop(trace.trace_id, None)
        if known is None:
            return
        failed = known.error is not None
        outcome = "failed" if failed else "completed"
        end: dict[str, Any] = {"outcome": outcome, "passed": not failed, "error": known.error}
        self.write("Ended", known.run, what="run", **end)

    @quietly
    def on_span_start(self, span: Any) -> None:
        trace = self._traces.get(span.trace_id)
        if trace is None:
            return
        above = trace.places.get(span.parent_id or "", _Place())
        place = trace.places[span.span_id] = _Place(above.agent, above.call)
        kind, data = span.span_data.type, span.span_data
        if kind == "agent":
            place.agent = data.name
            self.write("Began", trace.run, agent=place.agent, what="agent")
        elif kind == "function":
            id, given = _next(trace, data.name, span.span_id)
            place.call = id
            self.write(
                "Called", trace.run, agent=place.agent, tool=data.name, call_id=id,
                input=_parsed(data.input) if given is None else given, parent_call_id=above.call,
                synthetic_id=True if id == span.span_id else None,
            )  # fmt: skip  # one call

    @quietly
    def on_span_end(self, span: Any) -> None:
        trace = self._traces.get(span.trace_id)
        if trace is None:
            return
        place = trace.places.pop(span.span_id, _Place())
        kind, data = span.span_data.type, span.span_data
        if kind == "agent":
            trace.error = _reason(span.error)
            passed, error = span.error is None, _reason(span.error)
            self.write(
                "Ended", trace.run, agent=data.name, what="agent",
                outcome="completed" if passed else "failed", passed=passed, error=error,
            )  # fmt: skip  # one call
        elif kind == "function":
            result = {"output": data.output} if span.error is None else {"error": _failure(span)}
            self.write(
                "Returned", trace.run, agent=place.agent, tool=data.name, call_id=place.call,
                ok=span.error is None, **result,
            )  # fmt: skip  # one call
        elif kind == "handoff":
            to = {"from_": data.from_agent, "to": data.to_agent}
            self.write("Linked", trace.run, agent=data.from_agent, kind="handoff", **to)
        elif kind == "guardrail":
            self.write(
                "Decided", trace.run, agent=place.agent, name=data.name, passed=not data.triggered,
                verdict="triggered" if data.triggered else "passed",
            )  # fmt: skip  # one call
        elif kind in ("response", "generation"):
            self._model_call(trace, place, span)

    def force_flush(self) -> None:
        """Nothing is held back: each fact is handed to the emitter at once."""

    def shutdown(self) -> None:
        """Called when the program ends."""
        self.close()

    def _model_call(self, trace: _Trace, place: _Place, span: Any) -> None:
        data, run, agent = span.span_data, trace.run, place.agent
        trace.error = _reason(span.error)
        response = getattr(data, "response", None)
        asked, items = as_json(data.input), _items(data)
        if response is not None and isinstance(response.instructions, str):
            asked = [{"role": "system", "content": response.instructions}, *_listed(asked)]
        for role, text in _news(_listed(asked)):
            key = sha256(f"{role}\n{text}".encode("utf-8", "replace")).hexdigest()
            if role == "user" or key not in trace.written:
                trace.written.add(key)
                message_fields: dict[str, Any] = {
                    "role": "user" if role == "user" else "system",
                    "blocks": text_blocks(text),
                }
                nested = True if place.call and role == "user" else None
                self.write("Said", run, agent=agent, injected=nested, **message_fields)
        if span.error is not None:
            self.write("Noted", run, agent=agent, label="error", kind="model", text=trace.error)
            return
        model = getattr(response, "model", None) or getattr(data, "model", None)
        for item in items:
            blocks = _blocks(item)
            if blocks:
                id = item.get("id") or span.span_id
                self.write(
                    "Said", run, agent=agent, role="assistant", blocks=blocks, model=model,
                    message_id=id,
                )  # fmt: skip  # one call
            trace.pending += _calls(item)
        used = as_json(getattr(response, "usage", None)) or getattr(data, "usage", None)
        key = getattr(response, "id", None) or span.span_id
        usage = _usage(used)
        self.write("Spent", run, agent=agent, key=key, model=model, usage=usage, calls=1)


def processor(url: str | None = None, *, emitter: Any = None) -> Any:
    """A trace processor, for `agents.add_trace_processor`; `url` is the collector's."""
    base = library("agents.tracing", "openai-agents").TracingProcessor
    return type("TracklogProcessor", (TraceProcessor, base), {})(url, emitter)


def install(url: str | None = None, *, instead: bool = False, emitter: Any = None) -> Any:
    """Record every run of this process; with `instead`, traces are not sent to OpenAI any more."""
    tracing = library("agents.tracing", "openai-agents")
    made = processor(url, emitter=emitter)
    if instead:
        tracing.set_trace_processors([made])
    else:
        tracing.add_trace_processor(made)
    return made


def _next(trace: _Trace, tool: str, span: str) -> tuple[str, Any]:
    """The first pending call of a tool; the span's own id where no model asked for it."""
    for each in trace.pending:
        if each[1] == tool:
            trace.pending.remove(each)
            return each[0], each[2]
    return span, None


def _items(data: Any) -> list[Mapping[str, Any]]:
    """What a model answered: the items of a response, or the messages of a chat completion."""
    response = getattr(data, "response", None)
    output = as_json(response.output if response is not None else getattr(data, "output", None))
    return [each for each in output or () if isinstance(each, Mapping)]


def _calls(item: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    if item.get("type") == "function_call":
        yield str(item.get("call_id")), str(item.get("name")), _parsed(item.get("arguments"))
    for call in item.get("tool_calls") or ():
        function = call.get("function") or {}
        yield str(call.get("id")), str(function.get("name")), _parsed(function.get("arguments"))


def _blocks(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    if item.get("type") == "reasoning":
        thoughts = [each.get("text") for each in item.get("summary") or () if each.get("text")]
        return [{"type": "thinking", "thinking": each} for each in thoughts]
    text = _text(item.get("content"))
    return text_blocks(text) if text else []


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return "\n".join(
        str(each.get("text") or each.get("refusal"))
        for each in parts
        if isinstance(each, Mapping) and (each.get("text") or each.get("refusal"))
    )


def _listed(asked: Any) -> list[Any]:
    if isinstance(asked, str):
        return [{"role": "user", "content": asked}]
    return asked if isinstance(asked, list) else []


def _news(asked: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """The instructions, and what a person said since the model's last answer."""
    roles = [each.get("role") if isinstance(each, Mapping) else None for each in asked]
    last = max((n for n, role in enumerate(roles) if role not in MESSAGES), default=-1)
    for place, (role, message) in enumerate(zip(roles, asked, strict=True)):
        if role in MESSAGES and (role != "user" or place > last):
            text = _text(message.get("content"))
            if text:
                yield role, text


def _usage(used: Any) -> dict[str, Any] | None:
    if not isinstance(used, Mapping):
        return None
    read = used.get("input_tokens_details") or used.get("prompt_tokens_details") or {}
    written = used.get("output_tokens_details") or used.get("completion_tokens_details") or {}
    usage = {
        "input_tokens": used.get("input_tokens", used.get("prompt_tokens")),
        "cached_tokens": read.get("cached_tokens"),
        "output_tokens": used.get("output_tokens", used.get("completion_tokens")),
        "reasoning_tokens": written.get("reasoning_tokens"),
    }
    return {key: value for key, value in usage.items() if value is not None}


def _parsed(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments
    try:
        return orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return arguments


def _reason(error: Any) -> str | None:
    """The text of a span's error, with what the SDK says of its cause."""
    if error is None:
        return None
    data = error.get("data") or {}
    cause = data.get("error") or data.get("name")
    return f"{error.get('message')}: {cause}" if cause else str(error.get("message"))


def _failure(span: Any) -> Any:
    """Why a tool failed: what the model was told, if the SDK hides the cause."""
    return span.span_data.output or _reason(span.error)
