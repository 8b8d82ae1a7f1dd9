"""Map the messages that the runtime of AutoGen passes between the agents of a chat.

Its spans have no span of a model: each message carries what the model spent on it. A message is
processed by several agents, and counts once, by its id.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tracklog.formats.importers import count, utc_time, word
from tracklog.formats.importers._fact_bodies import spend_fact
from tracklog.formats.importers.otlp import genai, messages
from tracklog.formats.importers.otlp.item_writer import ItemWriter
from tracklog.formats.importers.otlp.view import SpanView
from tracklog.formats.providers import items, obj

PROCESS = "autogen process "
PERSON = "user"
TEXTS = ("TextMessage", "MultiModalMessage", "StopMessage", "HandoffMessage")
"""The types of messages with words; calls of tools have spans of their own."""
KEY = "autogen/"
"""The beginning of the keys of spends."""


def write_messages(writer: ItemWriter, span: SpanView) -> None:
    """Write the messages of a chat that an agent processes in a span, and what they cost."""
    service = writer.who
    for message in _messages(genai.parse(span.attrs.get("message"))):
        id, source = word(message.get("id")), word(message.get("source"))
        if id is None:
            continue
        at = utc_time(message.get("created_at")) or span.began
        if source and source != PERSON:
            writer.name(source, None)
        if message.get("type") in TEXTS:
            role = PERSON if source == PERSON else "assistant"
            words = messages.message_of({"role": role, "content": message.get("content")}, role)
            writer.again([words] if words else [], at, role, clock=None)
        used = obj(message.get("models_usage"))
        tokens = {
            "input_tokens": count(used.get("prompt_tokens")) or 0,
            "output_tokens": count(used.get("completion_tokens")) or 0,
        }
        # Where the calls of the model are reported themselves, they have the same counts.
        amounts, key = list(tokens.values()), f"{KEY}{id}"
        known = any(amounts) and not writer.past.has_spent(amounts, KEY)
        writer.write(spend_fact(key, tokens), at=at, new=key not in writer.past.spends, known=known)
        writer.who = service


def _messages(value: Any) -> Iterator[Mapping[str, Any]]:
    fields = obj(value)
    for each in [fields.get("message"), *items(fields.get("messages"))]:
        if isinstance(each, dict):
            yield each
