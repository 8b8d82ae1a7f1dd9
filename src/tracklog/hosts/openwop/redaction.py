"""Remove secrets before anything is written, sent or logged; a marker takes their place."""

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus

import orjson

NAMES = frozenset(
    """apikey authorization password passwd secret clientsecret accesstoken refreshtoken bearertoken
    privatekey credential credentialref cookie token sessiontoken secretkey""".split()  # noqa: SIM905  # a list of words
)
"""Members of objects whose values are secret, in lower case and without - and _."""

SHAPES = re.compile(
    r"\bsk-[A-Za-z0-9_-]{16,}|\bAIza[0-9A-Za-z_-]{20,}"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}|Bearer\s+\S{8,}"
)
_HINTS = ("sk-", "AIza", "eyJ", "Bearer")
_OPEN = re.compile(r"(?:Bearer\s+\S*|[\w.-]*)\Z")
"""The end of a text in which the shape of a secret may just begin."""
_WITHIN = re.compile(r"[\w.-]")
"""The characters that the shape of a secret can have."""
SHORTEST = 4
"""A registered secret that is shorter would blacken half of the log."""
OWN = frozenset(
    """action agentId answeredBy argsHash attempt callId cancelledBy channel childRunId childWorkflowId
    decidedBy fromAgentId interruptId key kind messageId nodeId parentRunId principal resolvedAt
    resolvedBy runId sourceRunId status toAgentId toolId toolName transport typeId
    workflowId""".split()  # noqa: SIM905  # a list of words
)
"""Members of a payload that the host writes itself: ids, names and words of the protocol."""
WORDS = """accept reject refine edit-accept timeout approval clarification external-event low-confidence
rejected votes-are-split drain-current-node immediate"""
"""Words of the protocol, which are no secrets."""
_RUN = re.compile(r"run-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The id of a run, in which four digits are found easily."""
_MARK = re.compile(r"\[REDACTED:[^\]]*\]")

Span = tuple[int, int, str]


def mark(name: str) -> str:
    """What stands in the place of a secret."""
    return f"[REDACTED:{name}]"


def masked(values: Mapping[str, Any], hidden: Mapping[str, str]) -> dict[str, Any]:
    """Values without those that are hidden, each with the name that its mark has."""
    return {k: mark(hidden[k]) if k in hidden else value for k, value in values.items()}


def is_mark(value: Any) -> bool:
    """Whether a value is gone: only its mark was recorded."""
    return isinstance(value, str) and _MARK.fullmatch(value) is not None


class Redactor:
    """Knows the registered secrets of a host, or of one run of it."""

    def __init__(self, secrets: Mapping[str, str] | None = None) -> None:
        self.secrets = {
            spelled: name
            for name, value in (secrets or {}).items()
            if len(value) >= SHORTEST
            for spelled in _spellings(value)
        }
        """The names of secret texts."""
        self.values: dict[bytes, str] = {}
        """The names of secret numbers, lists and objects, by their JSON."""

    def also(self, secrets: Mapping[str, Any], known: str = "") -> "Redactor":
        """A redactor of the same secrets and some more: JSON values, with all that is in them.

        A text that occurs in `known`, which everybody can read, is no secret.
        """
        found = Redactor()
        found.secrets, found.values = dict(self.secrets), dict(self.values)
        for name, value in secrets.items():
            found._learn(name, value, known)
        return found

    def _learn(self, name: str, value: Any, known: str) -> bool:
        """Whether there is something to hide in a value."""
        match value:
            case bool() | None:
                return False
            case str() | int() | float():
                text = value if isinstance(value, str) else orjson.dumps(value).decode()
                if len(text) < SHORTEST or text in known or text in WORDS or is_mark(text):
                    return False
                for spelled in _spellings(text):
                    self.secrets.setdefault(spelled, name)
                if not isinstance(value, str):
                    self.values.setdefault(_json(value), name)
                return True
            case dict() | list():
                members = value.values() if isinstance(value, dict) else value
                worthy = [self._learn(name, each, known) for each in members]
                if any(worthy):
                    self.values.setdefault(_json(value), name)
                    self.secrets.setdefault(
                        orjson.dumps(value).decode(), name
                    )  # as prompts have it
                    return True
        return False

    def payload(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """The payload of an event without secrets; what the host itself wrote there stays."""
        given = {name: each for name, each in payload.items() if not _is_own(name, each)}
        cleaned: dict[str, Any] = self.clean(given)
        return {name: payload[name] if _is_own(name, payload[name]) else cleaned[name]
                for name in payload}  # fmt: skip

    def clean(self, value: Any) -> Any:
        """Any JSON value without secrets; the value itself is not touched."""
        if self.values and not isinstance(value, str | bool | None) and _json(value) in self.values:
            return mark(self.values[_json(value)])
        match value:
            case str():
                is_id = value not in self.secrets and _RUN.fullmatch(value)
                return value if is_id else self.text(value)
            case dict():
                return {
                    self.text(name): mark(name)
                    if _is_secret(name) and member not in (None, "")
                    else self.clean(member)
                    for name, member in value.items()
                }
            case list():
                return [self.clean(each) for each in value]
            case _:
                return value

    def text(self, text: str) -> str:
        spans = self.spans(text)
        return _replaced(text, spans) if spans else text

    def pieces(self, pieces: Iterable[str]) -> list[str]:
        """Each piece of one text without the secrets of the full text, wherever it was cut.

        A marker stands in the piece where the secret begins.
        """
        pieces = list(pieces)
        spans = self.spans("".join(pieces))
        cleaned, at = [], 0
        for piece in pieces:
            end, left = at + len(piece), ""
            here = at
            for start, stop, marker in spans:
                if stop <= at or start >= end:
                    continue
                left += piece[here - at : max(start, at) - at]
                left += marker if start >= at else ""
                here = min(stop, end)
            cleaned.append(left + piece[here - at :])
            at = end
        return cleaned

    def settled(self, text: str) -> int:
        """The length of the text in which every secret is complete, whatever follows."""
        longest = max(map(len, self.secrets), default=1)
        tail = _OPEN.search(text)
        end = min(tail.start() if tail else len(text), len(text) - longest + 1)
        while end > 0 and _WITHIN.match(text[end - 1]):
            end -= 1  # between words: what is behind it reads the same without what is before
        for start, stop, _ in self.spans(text):
            if start < end < stop:
                end = start
        return max(end, 0)

    def spans(self, text: str) -> list[Span]:
        """The places of the secrets: in order, and none inside another."""
        found: list[Span] = []
        for secret, name in self.secrets.items():
            at = text.find(secret)
            while at >= 0:
                found.append((at, at + len(secret), mark(name)))
                at = text.find(secret, at + len(secret))
        if any(map(text.__contains__, _HINTS)):
            found += [(hit.start(), hit.end(), "[REDACTED:key]") for hit in SHAPES.finditer(text)]
        if not found:
            return found
        found.sort(key=lambda span: (span[0], -span[1]))
        rows: list[Span] = []
        for start, stop, marker in found:
            if rows and start < rows[-1][1]:
                rows[-1] = (rows[-1][0], max(rows[-1][1], stop), rows[-1][2])
            else:
                rows.append((start, stop, marker))
        return rows


def _json(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _spellings(text: str) -> set[str]:
    """A text as it is, and as JSON (also JSON inside JSON), Python and URLs spell it."""
    if text.isalnum() and text.isascii():
        return {text}
    written = {json.dumps(text, ensure_ascii=ascii)[1:-1] for ascii in (True, False)}
    written |= {each.replace("/", "\\/") for each in written}
    twice = {json.dumps(each, ensure_ascii=False)[1:-1] for each in written}
    twice |= {each.replace("\\", "\\\\") for each in written}
    in_urls = {quote(text, safe=safe, errors="replace") for safe in ("", "/")}
    return {
        text,
        repr(text)[1:-1],
        quote_plus(text, errors="replace"),
        *in_urls,
        *written,
        *twice,
    }


def _is_own(name: str, value: Any) -> bool:
    return name in OWN and isinstance(value, str | int)


@lru_cache(1024)
def _is_secret(name: str) -> bool:
    return name.replace("-", "").replace("_", "").lower() in NAMES


def _replaced(text: str, spans: list[Span]) -> str:
    parts, at = [], 0
    for start, stop, marker in spans:
        parts += [text[at:start], marker]
        at = stop
    return "".join([*parts, text[at:]])
