"""Remove secrets before anything is written, sent or logged; a marker takes their place."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

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

Span = tuple[int, int, str]


class Redactor:
    """Knows the registered secrets of a host, or of one run of it."""

    def __init__(self, secrets: Mapping[str, str] | None = None) -> None:
        self.secrets = {
            name: value for name, value in (secrets or {}).items() if len(value) >= SHORTEST
        }

    def also(self, secrets: Mapping[str, str]) -> "Redactor":
        """A redactor of the same secrets and some more."""
        return Redactor({**self.secrets, **secrets}) if secrets else self

    def clean(self, value: Any) -> Any:
        """Any JSON value without secrets; the value itself is not touched."""
        match value:
            case str():
                return self.text(value)
            case dict():
                return {
                    self.text(name): f"[REDACTED:{name}]"
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
        longest = max(map(len, self.secrets.values()), default=1)
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
        for name, secret in self.secrets.items():
            at = text.find(secret)
            while at >= 0:
                found.append((at, at + len(secret), f"[REDACTED:{name}]"))
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


@lru_cache(1024)
def _is_secret(name: str) -> bool:
    return name.replace("-", "").replace("_", "").lower() in NAMES


def _replaced(text: str, spans: list[Span]) -> str:
    parts, at = [], 0
    for start, stop, marker in spans:
        parts += [text[at:start], marker]
        at = stop
    return "".join([*parts, text[at:]])
