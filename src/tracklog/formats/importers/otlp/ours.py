"""Read our own exports: their spans carry the facts they were made from."""

from typing import Any

from tracklog.formats.importers._carried import carried
from tracklog.formats.importers.otlp import genai
from tracklog.formats.importers.otlp.item_writer import ItemWriter
from tracklog.formats.importers.otlp.view import SpanView

FACTS = "tracklog.facts"


def write_ours(writer: ItemWriter, span: SpanView, facts: list[Any]) -> str | None:
    """Write the facts again; returns the tool call of the span, if it is one."""
    for place, each in enumerate(facts):
        found = carried(writer.lifted(genai.parse(each)))
        if found is None:
            text = f"{FACTS} {place} is no fact that can be told again"
            writer.find("cut-attribute", text, span.began, attribute=FACTS, fact=each)
        else:
            writer.write(found.body, at=found.at, fidelity=found.fidelity)
    return genai.pick(span.attrs, "call")
