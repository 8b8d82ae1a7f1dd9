"""Map a log record: an event of an agent or of a model call, or a note."""

from typing import Any

from tracklog.formats.importers.otlp import genai, messages
from tracklog.formats.importers.otlp.agents import copied_key, write_event
from tracklog.formats.importers.otlp.attrs import Attrs, text
from tracklog.formats.importers.otlp.inference import DETAILS, KEYS, cut_short, write_details
from tracklog.formats.importers.otlp.item_writer import ItemWriter
from tracklog.formats.importers.otlp.judging import decided
from tracklog.formats.importers.otlp.spans import write_dropped
from tracklog.formats.importers.otlp.view import LogView
from tracklog.formats.importers.otlp.wire import not_numbers
from tracklog.model.fact import Noted

ERROR = 17
"""The severity from which on a record is an error."""
RAISED = ("exception.type", "exception.message", "exception.stacktrace")


def record_of(log: LogView) -> str | None:
    """The record's own key at its source, where it has one."""
    if log.tool == "codex":
        return copied_key(log.name, log.attrs)
    sequence = log.attrs.get("event.sequence")
    session = log.attrs.get("session.id")
    if log.tool == "claude" and session and sequence is not None:
        return f"{session}/{sequence}"
    return None


def write_log(writer: ItemWriter, log: LogView) -> None:
    """Map a log record."""
    attrs = log.attrs
    agent = genai.pick(attrs, "agent") or log.service
    writer.name(agent, genai.pick(attrs, "node"))
    if log.name in genai.OLD_EVENTS:
        _old(writer, log)
    elif log.name == DETAILS:
        whole = Attrs({**(log.body if isinstance(log.body, dict) else {}), **attrs})
        write_details(writer, whole, log.at, log.clock)
    elif log.name == "gen_ai.evaluation.result":
        decided(writer, attrs, log.cause, log.at, log.clock)
    elif log.name == "gen_ai.client.operation.exception":
        writer.write(_noted(writer, log, "error"), at=log.at, clock=log.clock)
    elif not write_event(
        writer, log.name, attrs, log.at, log.cause, log.clock, severe=log.severity >= ERROR
    ):
        label = "error" if log.severity >= ERROR else log.name or "log"
        writer.write(_noted(writer, log, label), at=log.at, clock=log.clock)
    write_dropped(writer, log.at)
    if not_numbers(writer.content):
        writer.find("not-a-number", "a number that JSON has none for is kept as its name", log.at)


def _noted(writer: ItemWriter, log: LogView, label: str) -> Noted:
    """A note under its own name, with all its attributes."""
    attributes = writer.rest(KEYS)
    data: dict[str, Any] = {key: attributes.pop(key) for key in RAISED if key in attributes}
    if log.body is not None:
        data["body"] = writer.lifted(log.body)
    if attributes:
        data["attributes"] = attributes
    if severity := text(log.item.body.get("severityText")):
        data["severity"] = severity
    words = text(log.attrs.get("exception.message")) or text(log.body)
    kind = log.name or text(log.attrs.get("exception.type"))
    return Noted(label=label, kind=kind, text=words[:10_000] if words else None, data=data)


def _old(writer: ItemWriter, log: LogView) -> None:
    """One message of generation A; the complete history is repeated with every call."""
    cut: list[str] = []
    message = messages.old_message(log.name, log.attrs, log.body, cut)
    if message is None:
        writer.write(_noted(writer, log, log.name), at=log.at, clock=log.clock)
    elif log.name == "gen_ai.choice":
        index = log.body.get("index") if isinstance(log.body, dict) else None
        key = log.cause or writer.raw[:32]
        writer.output([message], f"{key}/{index}" if index else key, log.at, clock=log.clock)
    else:
        writer.again([message], log.at, genai.OLD_EVENTS[log.name], log.clock)
    cut_short(writer, cut, log.at)
