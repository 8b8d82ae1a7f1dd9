"""OTLP on the wire: both encodings of a request, and the bytes of a response."""

import binascii
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from tracklog.formats.importers.otlp.protobuf import from_protobuf, metrics_of
from tracklog.formats.importers.otlp.shape import (
    BY_KEY,
    DEEPEST,
    ITEMS,
    KEYS,
    BadItem,
    Envelope,
    Item,
    Message,
    RefusedItem,
    Signal,
    Undecodable,
    any_value,
    attributes,
    checked,
    double,
    not_numbers,
    too_deep,
)
from tracklog.formats.protobuf_fields import bytes_field, integer_field, text_field

__all__ = [
    "DEEPEST",
    "KEYS",
    "Item",
    "RefusedItem",
    "Signal",
    "Undecodable",
    "advice",
    "any_value",
    "attributes",
    "from_document",
    "from_protobuf",
    "not_numbers",
    "parsed",
    "partial_success",
    "points",
    "status",
]  # fmt: skip  # what the others read by


def parsed(body: bytes) -> Any:
    """Any JSON; lone surrogates, which programs leave when they cut a text, are read as U+FFFD."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        why = str(error)
    try:
        return _repaired(json.loads(body))
    except (ValueError, RecursionError):
        raise Undecodable(f"the body is no JSON: {why}") from None


def _repaired(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_repaired(key): _repaired(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_repaired(each) for each in value]
    return value


def from_document(signal: Signal, document: Any) -> Iterator[Item | RefusedItem]:
    """The items of a parsed request."""
    if not isinstance(document, dict):
        raise Undecodable("the body is no JSON object")
    outer, inner, last = KEYS[signal]
    for i, one in _members(document, outer, ""):
        where = f"/{outer}/{i}"
        resource = _around(one, "resource", "Resource", where)
        for j, group in _members(one, inner, where):
            within = f"{where}/{inner}/{j}"
            envelope = Envelope(signal, resource, _around(group, "scope", "Scope", within))
            for k, body in _members(group, last, within):
                pointer = f"{within}/{last}/{k}"
                try:
                    found = _normal(ITEMS[signal], body, "", 0)
                    yield Item(envelope, pointer, checked(signal, found))
                except BadItem as bad:
                    yield RefusedItem(pointer + bad.pointer, bad.message, bad.hint)


def points(body: bytes, as_json: bool) -> int:
    """How many data points a request for metrics holds; raises `Undecodable`."""
    found = _metrics_in(parsed(body)) if as_json else metrics_of(body)
    return sum(
        len(kind.get("dataPoints", ()))
        for resource in found.get("resourceMetrics", ())
        for scope in resource.get("scopeMetrics", ())
        for metric in scope.get("metrics", ())
        for kind in metric.values()
    )


def _metrics_in(document: Any) -> Message:
    if not isinstance(document, dict):
        raise Undecodable("the body is no JSON object")
    try:
        return _normal("Metrics", document, "", 0)
    except BadItem as bad:
        raise Undecodable(f"{bad.pointer}: {bad.message}; {bad.hint}") from None


def _members(holder: Any, key: str, where: str) -> list[tuple[int, Any]]:
    found = holder.get(key)
    if found is None:
        return []
    if not isinstance(found, list):
        raise Undecodable(f"{where}/{key} is no array")
    outermost = key in ("spans", "logRecords")
    for n, each in enumerate(found):
        if not outermost and not isinstance(each, dict):
            raise Undecodable(f"{where}/{key}/{n} is no object")
    return list(enumerate(found))


def _around(holder: Message, key: str, shape: str, where: str) -> Message:
    found: Message = {}
    try:
        if inner := _normal(shape, holder.get(key), f"/{key}", 0):
            found[key] = inner
        if url := _read("string", holder.get("schemaUrl"), "/schemaUrl"):
            found["schemaUrl"] = url
    except BadItem as bad:
        raise Undecodable(f"{where}{bad.pointer}: {bad.message}; {bad.hint}") from None
    return found


def _normal(name: str, given: Any, where: str, depth: int) -> Message:
    """A message in the plain shape."""
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise BadItem(where, "it is no object", f"send a {name} as OTLP JSON has it")
    if name == "AnyValue" and (depth := depth + 1) > DEEPEST:
        raise too_deep(where)
    found: Message = {}
    for key, (kind, many) in BY_KEY[name].items():
        value = given.get(key)
        if value is None:
            continue
        place = f"{where}/{key}"
        if many:
            if not isinstance(value, list):
                raise BadItem(place, "it is no array", "send an array")
            part: Any = [
                each
                if kind == "KeyValue" and not depth and _is_text(each)
                else _part(kind, each, f"{place}/{n}", depth)
                for n, each in enumerate(value)
            ]
        else:
            part = _part(kind, value, place, depth)
        if name == "AnyValue" and found:
            raise BadItem(place, "a value of two kinds at once", "send one of them")
        if part or name == "AnyValue":
            found[key] = part
    return found


def _is_text(pair: Any) -> bool:
    """Whether an attribute, as most of them, has a name and a text, and so is in the plain shape."""
    if type(pair) is not dict or len(pair) != 2:
        return False
    key, value = pair.get("key"), pair.get("value")
    if not key or type(key) is not str or type(value) is not dict or len(value) != 1:
        return False
    return type(value.get("stringValue")) is str


def _part(kind: str, value: Any, where: str, depth: int) -> Any:
    return _normal(kind, value, where, depth) if kind[0].isupper() else _read(kind, value, where)


def _read(kind: str, value: Any, where: str) -> Any:
    """One scalar; a default value is empty."""
    match kind:
        case "string":
            if value is None or isinstance(value, str):
                return value or ""
            raise BadItem(where, "it is no text", "send a string")
        case "id":
            return _hex(value, where)
        case "bytes":
            return _base64(value, where)
        case "bool":
            if isinstance(value, bool):
                return value
            raise BadItem(where, "it is neither true nor false", "send a boolean")
        case "enum":
            if isinstance(value, str):
                hint = "enums are integers in OTLP JSON: SPAN_KIND_CLIENT is 3"
                raise BadItem(where, f"{value[:80]!r} is the name of an enum's value", hint)
            return _whole(value, where, -(1 << 31), (1 << 31) - 1)
        case "uint32" | "fixed32":
            return _whole(value, where, 0, (1 << 32) - 1)
        case "fixed64":
            found = _whole(value, where, 0, (1 << 64) - 1)
            return str(found) if found else ""
        case "int64":
            return str(_whole(value, where, -(1 << 63), (1 << 63) - 1))
    return _number(value, where)


def _hex(value: Any, where: str) -> str:
    if value is None or value == "":
        return ""
    if isinstance(value, str) and re.fullmatch("(?:[0-9a-fA-F]{2})*", value):
        return value.lower()
    raise BadItem(where, "an id that is no even number of hex digits", "ids are hex in OTLP JSON")


def _base64(value: Any, where: str) -> str:
    if isinstance(value, str):
        text = value.replace("-", "+").replace("_", "/").rstrip("=")
        try:
            return b64encode(b64decode(text + "=" * (-len(text) % 4), validate=True)).decode()
        except (binascii.Error, ValueError):
            pass
    raise BadItem(where, "bytes that are no base64", "send bytes as base64")


def _whole(value: Any, where: str, least: int, most: int) -> int:
    found: int | None = None
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,20}", value, re.ASCII):
        found = int(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        found = value
    elif isinstance(value, float) and value.is_integer():
        found = int(value)
    if found is None or not least <= found <= most:
        raise BadItem(where, "it is no integer of this size", f"send one from {least} to {most}")
    return found


def _number(value: Any, where: str) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return double(float(value))
        except OverflowError:
            pass
    elif isinstance(value, str):
        try:
            return double(float(value.replace("Infinity", "inf")))
        except ValueError:
            pass
    raise BadItem(where, "it is no number", 'send a number, or "NaN", "Infinity", "-Infinity"')


def advice(signal: Signal, document: Any) -> str:
    """A hint for a sender of JSON in which nothing was found; empty when there is none."""
    if not isinstance(document, dict) or not document:
        return ""
    outer = KEYS[signal][0]
    if outer in document:
        return _snakes(document[outer])
    for other, keys in KEYS.items():
        if keys[0] in document:
            return f"nothing was read: {keys[0]} belong to /v1/{other}"
    return _snakes(document) or f"nothing was read: there is no {outer} in it"


def _snakes(value: Any) -> str:
    """Keys are lowerCamelCase; another spelling is read as empty."""
    ahead = [value]
    while ahead:
        found = ahead.pop()
        if isinstance(found, list):
            ahead += found[:8]
        elif isinstance(found, dict):
            for key, each in found.items():
                if key in _SNAKES:
                    return f"nothing was read: write {_SNAKES[key]}, not {key}: keys are camelCase"
                if key in ("resource", "scope", "attributes"):
                    continue
                ahead.append(each)
    return ""


_SNAKES = {
    re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", key): key
    for keys in KEYS.values()
    for key in keys
    if key != key.lower()
}


REJECTED: Mapping[Signal, str] = {"traces": "rejectedSpans", "logs": "rejectedLogRecords"}


def partial_success(signal: Signal, rejected: int, message: str, *, as_json: bool) -> bytes:
    """The body of a 200 response; empty when there is nothing to report."""
    if as_json:
        success: Message = {}
        if rejected:
            success[REJECTED[signal]] = str(rejected)
        if message:
            success["errorMessage"] = message
        return orjson.dumps({"partialSuccess": success} if success else {})
    inner = (integer_field(1, rejected) if rejected else b"") + _message_field(message)
    return bytes_field(1, inner) if inner else b""


def status(code: int, message: str, *, as_json: bool) -> bytes:
    """A google.rpc.Status."""
    if as_json:
        return orjson.dumps({"code": code, "message": message})
    return integer_field(1, code) + _message_field(message)


def _message_field(message: str) -> bytes:
    return text_field(2, message) if message else b""
