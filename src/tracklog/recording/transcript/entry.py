"""One event of a transcript: the bytes of its line, and its body, parsed on request."""

import json
import re
from typing import Any, NamedTuple, NoReturn

import orjson

from tracklog.model.event import Body

_LONG_NUMBER = re.compile(rb"[0-9]{19}")


class Entry(NamedTuple):
    """An event of a transcript; immutable."""

    seq: int | None
    """Its number; None where a foreign writer gave none."""
    type: str
    """The type as written, known or not; empty where there is none."""
    raw: bytes
    """The bytes on disk, with the line end."""

    @property
    def line(self) -> bytes:
        """The bytes on disk, without the line end."""
        return self.raw.removesuffix(b"\n")

    @property
    def body(self) -> Body:
        """The object, parsed on each call, so the caller may change it."""
        body: Body = loads(self.raw)
        return body


def loads(text: bytes) -> Any:
    """JSON with exact integers of any size, and lone surrogates as they were escaped."""
    if is_plain(text):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            pass  # a lone surrogate or a deep nesting, which the standard library can read
    return json.loads(text.decode(), parse_constant=refuse_constant)


def is_plain(text: bytes) -> bool:
    """Whether the fast parser reads every number in it exactly."""
    return _LONG_NUMBER.search(text) is None


def refuse_constant(word: str) -> NoReturn:
    """Refuse NaN and the infinities, which the standard library accepts."""
    raise ValueError(f"{word} is not JSON")
