"""Read values of a provider's JSON: a field of a wrong type is ignored."""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import orjson

Body = dict[str, Any]
CHUNK = 64 << 10
"""How many bytes of a line that was not understood are stored."""
DIGITS = bytes(48 if chr(byte) in "0123456789" else 32 for byte in range(256))
LONG_NUMBER = b"0" * 19
"""A pattern for integers that orjson might round and the standard library does not; digits read as
0.
"""


def text(value: Any) -> str | None:
    """A string; None for anything else."""
    return value if isinstance(value, str) else None


def word(value: Any) -> str | None:
    """A string that is not empty."""
    return value if isinstance(value, str) and value else None


def obj(value: Any) -> Body:
    """An object; anything else is an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """A list; anything else is an empty one."""
    return value if isinstance(value, list) else []


def count(value: Any) -> int | None:
    """An integer that is not negative and within the range JSON readers agree on; also from a
    string.
    """
    if type(value) is int:
        return value if 0 <= value < 2**53 else None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        return count(int(value))
    return count(int(value)) if isinstance(value, float) and value.is_integer() else None


def is_text(value: Any) -> bool:
    """Whether a value is text, inline or stored as a blob."""
    return isinstance(value, str) or (isinstance(value, dict) and "$blob" in value)


def foreign(kind: str, value: Any) -> Body:
    """An element of an unknown type as a block: complete, under the source's own word."""
    return {"type": "stream", "provider_type": kind, "chunk": value}


def input_of(value: Any) -> Any:
    """A tool's input in one form: an object where there is one, also inside a string."""
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        parsed = parse(value.encode("utf-8", "surrogatepass"))
        return parsed if isinstance(parsed, dict) else value
    return value


def usage(raw: Any, **counts: int | None) -> Body:
    """The common keys of a usage, without unknown ones; the provider's own under `raw`."""
    known: Body = {key: value for key, value in counts.items() if value is not None}
    if "total_tokens" not in known and known.keys() & {"input_tokens", "output_tokens"}:
        known["total_tokens"] = known.get("input_tokens", 0) + known.get("output_tokens", 0)
    return known | {"raw": raw} if known and raw else known


def added(one: Body, other: Body) -> Body:
    """The sum of two usages."""
    both = {**one, **other}
    for key in one.keys() & other.keys() - {"raw"}:
        both[key] = one[key] + other[key]
    return both


def parse(line: bytes) -> Any:
    """The JSON value of a line, exact; `BROKEN` where there is none."""
    try:
        if LONG_NUMBER not in line.translate(DIGITS):
            return orjson.loads(line)
    except orjson.JSONDecodeError:
        pass  # orjson refuses a lone surrogate; the standard library reads it
    try:
        return json.loads(line.decode("utf-8", "strict"), parse_constant=str)
    except (ValueError, RecursionError):
        return BROKEN


BROKEN = object()


def raw_chunk(line: bytes) -> Body:
    """The beginning of a line that was not understood, and the size of the rest."""
    if len(line) <= CHUNK:
        return {"chunk": line.decode("utf-8", "replace")}
    mark = {"key": "chunk", "bytes": len(line), "sha256": sha256(line).hexdigest()}
    return {"chunk": line[:CHUNK].decode("utf-8", "ignore"), "truncated": mark}


def dumped(value: Any) -> bytes:
    """A value as JSON, whatever it holds."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value).encode()


def type_of(element: Any) -> str:
    """The type of an object."""
    return (word(element.get("type")) if isinstance(element, dict) else None) or "untyped"


class WrongType(Exception):
    """A known field does not have the type that the original reads."""


def only(body: Mapping[str, Any], key: str, kind: type, default: Any = None) -> Any:
    """A field as the original reads it: null is absent, another type drops the line."""
    value = body.get(key)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise WrongType(key)
    return value


def original_block(type: str, **own: Any) -> Body:
    """A block as the original writes it: no extras."""
    return {"type": type, "fidelity": "agent_emitted", **own}


def option(arguments: Sequence[str], *names: str) -> str | None:
    """The value after one of some options."""
    for place, word in enumerate(arguments):
        name, equals, value = word.partition("=")
        if name in names and equals:
            return value
        following = arguments[place + 1 : place + 2]
        if word in names and following and not following[0].startswith("-"):
            return following[0]
    return None
