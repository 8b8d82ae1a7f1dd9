"""The text of an event for the search index; how a query is read, and how a hit is shown."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tracklog.model.fact import (
    Answered,
    Asked,
    Began,
    Called,
    Decided,
    Ended,
    Fact,
    Linked,
    Moved,
    Noted,
    Returned,
    Said,
)

_TEXT_KEYS: Mapping[type[Fact], tuple[str, ...]] = {
    Began: ("task",),
    Ended: ("reason", "error"),
    Moved: ("reason",),
    Called: ("input",),
    Returned: ("output", "error"),
    Said: ("blocks",),
    Decided: ("verdict", "reason", "evidence"),
    Asked: ("text", "options"),
    Answered: ("answer",),
    Linked: ("reason",),
    Noted: ("text",),
}
"""The fields of each fact that can be searched."""
_NAMES = {"type", "fidelity", "tool_id", "tool_name", "provider_type", "media_type"}
"""Keys of a content block that describe it and are not searched."""


def searchable_text(facts: Iterable[Fact]) -> str:
    """The searchable text of these facts."""
    parts: list[str] = []
    for fact in facts:
        for name in _TEXT_KEYS.get(type(fact), ()):
            value = getattr(fact, name)
            if value is None:
                continue
            if type(value) is str:
                parts.append(value)
            else:
                _gather(value, parts)
    return "\n".join(parts)


def _gather(value: Any, parts: list[str]) -> None:
    """The strings in a JSON value, in order, however deep it is."""
    left = [value]
    while left:
        match left.pop():
            case str() as text:
                parts.append(text)
            case Mapping() as pairs:
                left += [pairs[key] for key in reversed(pairs) if key not in _NAMES]
            case list() | tuple() as values:
                left += reversed(values)


def terms(text: str) -> list[str]:
    """The words, and the phrases in quotes, of a query."""
    return [phrase or word for phrase, word in re.findall(r'"([^"]*)"?|([^\s"]+)', text)]


def marked(text: str, wanted: Iterable[str], width: int = 200) -> list[tuple[str, bool]]:
    """An excerpt of a text around the first of the terms, in pieces; True for a piece that is a term."""
    either = "|".join(
        r"\W+".join(map(re.escape, words)) + (r"\w*" if term.endswith("*") else r"\b")
        for term in wanted
        if (words := re.findall(r"\w+", term))
    )
    if not either:
        return [(text[:width], False)]
    pattern = re.compile(rf"\b(?:{either})", re.IGNORECASE)
    first = pattern.search(text)
    begin = max(0, first.start() - width // 4) if first else 0
    excerpt = " ".join(text[begin : begin + width].split())
    pieces, at = [("…" if begin else "", False)], 0
    for match in pattern.finditer(excerpt):
        pieces += [(excerpt[at : match.start()], False), (match[0], True)]
        at = match.end()
    pieces += [(excerpt[at:], False), ("…" if begin + width < len(text) else "", False)]
    return [piece for piece in pieces if piece[0]]
