"""Reads our own exports: a span of theirs carries the facts that it was made of."""

from typing import Any

from tracklog.formats.importers._carried import carried
from tracklog.formats.importers.otlp import genai
from tracklog.formats.importers.otlp.account import Account
from tracklog.formats.importers.otlp.view import Span

FACTS = "tracklog.facts"


def facts_in(span: Span) -> list[Any] | None:
    """What a span says that it was made of, each as JSON; None for the spans of others."""
    found = span.attrs.get(FACTS)
    return found if isinstance(found, list) else None


def tell_ours(account: Account, span: Span, facts: list[Any]) -> str | None:
    """Tells the facts again; the tool call that the span is, if it is one."""
    for place, each in enumerate(facts):
        found = carried(account.lifted(genai.parse(each)))
        if found is None:
            text = f"{FACTS} {place} is no fact that can be told again"
            account.find("cut-attribute", text, span.began, attribute=FACTS, fact=each)
        else:
            account.say(found.body, at=found.at, fidelity=found.fidelity)
    return genai.pick(span.attrs, "call")
