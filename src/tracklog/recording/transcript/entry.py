"""One event of a transcript: the bytes of its line, and its body, read exactly when asked for."""

import json
import re
from typing import Any, NamedTuple, NoReturn

import orjson

from tracklog.model.event import Body

_LONG_NUMBER = re.compile(rb"[0-9]{19}")


class Entry(NamedTuple):
    """An event as it stands in a transcript; nothing in it can be changed."""

    seq: int | None
    """Its own number; None where a foreign writer gave none."""
    type: str
    """As written, known or not; empty where there is none."""
    raw: bytes
    """The bytes on disk, with the line end."""

    @property
    def line(self) -> bytes:
        """The bytes on disk, without the line end."""
        return self.raw.removesuffix(b"\n")

    @property
    def body(self) -> Body:
        """The object, parsed anew: what is asked for is the asker's own and may be changed."""
        body: Body = loads(self.raw)
        return body


def loads(text: bytes) -> Any:
    """JSON with integers exact at any size and lone surrogates as they were escaped."""
    if is_plain(text):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            pass  # a lone surrogate or a deep nest, which the standard library can read
    return json.loads(text.decode(), parse_constant=refuse_constant)


def is_plain(text: bytes) -> bool:
    """Whether the quick parser reads every number in it exactly."""
    return _LONG_NUMBER.search(text) is None


def refuse_constant(word: str) -> NoReturn:
    """NaN and the infinities, which the standard library would let in."""
    raise ValueError(f"{word} is not JSON")
