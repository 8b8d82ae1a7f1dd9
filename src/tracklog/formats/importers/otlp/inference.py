"""Map a model call: its input, its output, its usage."""

from collections.abc import Iterable, Mapping
from typing import Any

from tracklog.formats.importers._fact_bodies import message_fact, spend_fact
from tracklog.formats.importers.otlp import genai, messages
from tracklog.formats.importers.otlp.agents import GEMINI, gemini_key
from tracklog.formats.importers.otlp.attrs import INPUT, OUTPUT, RUN_KEYS, Attrs, Used, text
from tracklog.formats.importers.otlp.item_writer import ItemWriter
from tracklog.formats.importers.otlp.view import SpanView
from tracklog.model.fact import Noted

KEYS = Used(frozenset(RUN_KEYS))
PAYLOAD = Used(frozenset((*INPUT, *OUTPUT)))
USED = KEYS | Used(
    frozenset((
        "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions",
        "gen_ai.operation.name", "gen_ai.response.id", "gen_ai.response.finish_reasons",
        "gen_ai.agent.name", "ai.prompt.messages", "ai.response.text", "ai.response.toolCalls",
        *(name for names in genai.USAGE.values() for name in names),
    )),
    (
        "gen_ai.prompt.", "gen_ai.completion.", "llm.input_messages.", "llm.output_messages.",
        "evaluations.", "annotations.", "trace.evaluations.", "trace.annotations.",
        "session.evaluations.", "session.annotations.",
    ),
)  # fmt: skip  # two rows
"""The attributes that every line made from a span covers."""
CALL = USED | PAYLOAD
EVENT = CALL | Used(frozenset(), ("event.",))


DETAILS = "gen_ai.client.inference.operation.details"
"""The event that has all details of a model call."""


def write_inference(writer: ItemWriter, span: SpanView) -> None:
    """Map a model call: its input, its output, its usage."""
    if span.pending:
        return
    if span.is_side_call:
        spent_in(writer, span)
        return
    start, end = span.began, span.ended
    attrs = _whole(span)
    talk = counted_in(span, attrs)
    talk.input = talk.input or messages.payload(attrs, INPUT, "user")
    talk.output = talk.output or messages.payload(attrs, OUTPUT, "assistant")
    key = genai.pick(attrs, "response") or span.record
    model = genai.model(attrs)
    reasons = genai.finish_reasons(attrs)
    if talk.system:
        writer.again(talk.system, start, "system")
    last = writer.input(talk.input, start)
    # Other attributes of the request are stored with the spend, or with the answer where there is
    # none.
    took, rest = genai.usage(attrs), writer.rest(CALL)
    extra = None if took else rest
    if talk.output:
        writer.output(talk.output, key, end, last, model, reasons, extra=extra)
    else:
        # Most producers withhold the content; the message is written all the same.
        reason = reasons[0] if reasons else None
        message = message_fact("assistant", [], model=model, stop_reason=reason)
        new = not writer.is_answered(key) and span.tool != "gemini"
        writer.write(message, at=end, new=new, known=not span.failed, extra=extra)
    _spent(writer, span, attrs, took, key, model, rest)
    if span.failed:
        fact = Noted(label="error", kind=span.name, text=span.status_message, data=error_of(span))
        writer.write(fact, at=end, cause=span.record)
    if talk.cut:
        cut_short(writer, talk.cut, end)


def _whole(span: SpanView) -> Attrs:
    """The attributes of a call; an event in it with the same attributes fills gaps."""
    if not span.happenings:
        return span.attrs
    found = [each.attrs for each in span.happenings if each.name == DETAILS]
    return Attrs({**found[-1], **span.attrs}) if found else span.attrs


def counted_in(span: SpanView, attrs: Attrs) -> messages.Conversation:
    """The messages in a span, from its attributes or from events of generation A."""
    talk = messages.talk(attrs)
    for each in span.happenings:
        if each.name in genai.OLD_EVENTS:
            message = messages.old_message(each.name, each.attrs, None, talk.cut)
            if message is not None:
                (talk.output if each.name == "gen_ai.choice" else talk.input).append(message)
        elif genai.is_old_event(each.name):
            more = messages.talk(each.attrs)
            talk.input += more.input if not talk.input else []
            talk.output += more.output if not talk.output else []
            talk.cut += more.cut
    return talk


def write_details(
    writer: ItemWriter, attrs: Attrs, at: str | None, clock: str | None = None
) -> None:
    """Map a complete model call that was sent as an event."""
    talk = messages.talk(attrs)
    gemini = writer.view.tool == "gemini"
    known = gemini_key(attrs) if gemini else None
    key = genai.pick(attrs, "response") or known or writer.answer()
    model = genai.model(attrs)
    writer.again(talk.system, at, "system")
    last = writer.input(talk.input, at)
    reasons = genai.finish_reasons(attrs)
    writer.output(talk.output, key, at, last, model, reasons, clock)
    spent(
        writer,
        attrs,
        genai.usage(attrs),
        known or key,
        model,
        at=at,
        clock=clock,
        extra=writer.rest(EVENT, attrs),
        group=GEMINI if gemini else None,
        whole=gemini,
    )
    cut_short(writer, talk.cut, at)


def spent_in(writer: ItemWriter, span: SpanView) -> None:
    """The usage of a span."""
    attrs = span.attrs
    key = genai.pick(attrs, "response") or span.record
    _spent(writer, span, attrs, genai.usage(attrs), key, genai.model(attrs), writer.rest(CALL))


def _spent(
    writer: ItemWriter,
    span: SpanView,
    attrs: Attrs,
    took: genai.Usage,
    key: str,
    model: str | None,
    rest: dict[str, Any],
) -> None:
    # The log events of this agent have the same spends, and more exactly: where they arrive, they
    # replace the spends of its spans.
    group = GEMINI if span.tool == "gemini" else None
    counts = [took.tokens.get("input_tokens", 0), took.tokens.get("output_tokens", 0)]
    if any(counts):
        key = writer.past.wrapped.key(span.record, span.cause, model, counts) or key
    spent(writer, attrs, took, key, model, at=span.ended, group=group, extra=rest)


def spent(
    writer: ItemWriter,
    attrs: Attrs,
    took: genai.Usage,
    key: str,
    model: str | None,
    *,
    at: str | None,
    extra: dict[str, Any],
    clock: str | None = None,
    group: str | None = None,
    whole: bool = False,
) -> None:
    """The usage of a model call, and other attributes of the request."""
    fact = spend_fact(
        key,
        took.tokens or None,
        genai.provider(attrs),
        model,
        took.cost,
        group,
        whole,
    )
    writer.write(fact, at=at, clock=clock, known=bool(took), extra=extra)
    if took.forgot:
        writer.find("cache-not-in-input", f"{took.forgot}; they were added to it", at)


def cut_short(writer: ItemWriter, names: Iterable[str], at: str | None) -> None:
    """Write a finding for attributes whose JSON was cut by a limit."""
    for name in names:
        words = f"{name} is no whole JSON: a limit cut it"
        writer.find("cut-attribute", words, at, attribute=name)


def error_of(span: SpanView) -> dict[str, Any]:
    """The error: its type, and the last exception."""
    raised: Mapping[str, Any] = {}
    for each in span.happenings:
        if each.name in ("exception", "gen_ai.client.operation.exception"):
            raised = each.attrs
    found = {
        "type": text(span.attrs.get("error.type")) or text(raised.get("exception.type")),
        "message": text(raised.get("exception.message")) or text(span.status_message),
        "stacktrace": text(raised.get("exception.stacktrace")),
    }
    return {key: value for key, value in found.items() if value is not None}
