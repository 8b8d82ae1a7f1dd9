"""OTLP on the wire: protobuf and JSON, both read into one plain shape, and the bytes of an answer.

The plain shape is OTLP JSON with nothing left to choice: ids in lower-case hex, 64-bit integers as
decimal strings, bytes in padded base64, defaults and unknown keys left out.
So an item has the same bytes, and the same hash, whichever way it came.
"""

import binascii
import json
import math
import re
import struct
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import orjson

Signal = Literal["traces", "logs"]
Message = dict[str, Any]

DEEPEST = 64
"""Levels of values within values; an item that goes deeper is refused."""


class Undecodable(Exception):
    """A body of which nothing can be read."""


class BadItem(Exception):
    """One span or log record that cannot be taken; the others can."""

    def __init__(self, pointer: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.pointer, self.message, self.hint = pointer, message, hint


class Refused(NamedTuple):
    """An item that was not taken, and why."""

    pointer: str
    message: str
    hint: str


class Item(NamedTuple):
    """A span or a log record with its resource and scope, in the plain shape."""

    signal: Signal
    pointer: str
    resource: Message
    """With `schemaUrl` beside `resource`, as OTLP has it."""
    scope: Message
    body: Message

    def document(self) -> Message:
        """The item alone, as an OTLP request of its own."""
        outer, inner, last = KEYS[self.signal]
        return {outer: [{**self.resource, inner: [{**self.scope, last: [self.body]}]}]}

    def raw(self) -> bytes:
        """That request as JSON, keys sorted, compact."""
        return orjson.dumps(self.document(), option=orjson.OPT_SORT_KEYS)


KEYS: Mapping[Signal, tuple[str, str, str]] = {
    "traces": ("resourceSpans", "scopeSpans", "spans"),
    "logs": ("resourceLogs", "scopeLogs", "logRecords"),
}

Field = tuple[str, str, bool]
"""Key in JSON, type, and whether it is repeated; a type with a capital is a message."""


def _shape(*rows: str) -> dict[int, Field]:
    shape = {}
    for row in rows:
        number, key, kind = row.split()
        shape[int(number)] = (key, kind.rstrip("*"), kind.endswith("*"))
    return shape


ENVELOPE = ("3 schemaUrl string",)
SHAPES: Mapping[str, dict[int, Field]] = {
    "Span": _shape(
        "1 traceId id",
        "2 spanId id",
        "3 traceState string",
        "4 parentSpanId id",
        "5 name string",
        "6 kind enum",
        "7 startTimeUnixNano fixed64",
        "8 endTimeUnixNano fixed64",
        "9 attributes KeyValue*",
        "10 droppedAttributesCount uint32",
        "11 events Event*",
        "12 droppedEventsCount uint32",
        "13 links Link*",
        "14 droppedLinksCount uint32",
        "15 status Status",
        "16 flags fixed32",
    ),
    "Event": _shape(
        "1 timeUnixNano fixed64",
        "2 name string",
        "3 attributes KeyValue*",
        "4 droppedAttributesCount uint32",
    ),
    "Link": _shape(
        "1 traceId id",
        "2 spanId id",
        "3 traceState string",
        "4 attributes KeyValue*",
        "5 droppedAttributesCount uint32",
        "6 flags fixed32",
    ),
    "Status": _shape("2 message string", "3 code enum"),
    "LogRecord": _shape(
        "1 timeUnixNano fixed64",
        "2 severityNumber enum",
        "3 severityText string",
        "5 body AnyValue",
        "6 attributes KeyValue*",
        "7 droppedAttributesCount uint32",
        "8 flags fixed32",
        "9 traceId id",
        "10 spanId id",
        "11 observedTimeUnixNano fixed64",
        "12 eventName string",
    ),
    "Resource": _shape(
        "1 attributes KeyValue*", "2 droppedAttributesCount uint32", "3 entityRefs EntityRef*"
    ),
    "EntityRef": _shape(
        "1 schemaUrl string", "2 type string", "3 idKeys string*", "4 descriptionKeys string*"
    ),
    "Scope": _shape(
        "1 name string",
        "2 version string",
        "3 attributes KeyValue*",
        "4 droppedAttributesCount uint32",
    ),
    "KeyValue": _shape("1 key string", "2 value AnyValue"),
    "AnyValue": _shape(
        "1 stringValue string",
        "2 boolValue bool",
        "3 intValue int64",
        "4 doubleValue double",
        "5 arrayValue ArrayValue",
        "6 kvlistValue KeyValueList",
        "7 bytesValue bytes",
    ),
    "ArrayValue": _shape("1 values AnyValue*"),
    "KeyValueList": _shape("1 values KeyValue*"),
}
ITEMS: Mapping[Signal, str] = {"traces": "Span", "logs": "LogRecord"}
WIRE_TYPES = {
    "enum": 0, "uint32": 0, "int64": 0, "bool": 0, "fixed64": 1, "double": 1, "fixed32": 5,
}  # fmt: skip  # one row; whatever has a length is 2
BY_KEY = {
    name: {key: (kind, many) for key, kind, many in shape.values()}
    for name, shape in SHAPES.items()
}
BY_NUMBER = {
    name: {
        number: (key, WIRE_TYPES.get(kind, 2), many, kind if kind[0].isupper() else None, kind)
        for number, (key, kind, many) in shape.items()
    }
    for name, shape in SHAPES.items()
}


# Protobuf.


def from_protobuf(signal: Signal, body: bytes) -> Iterator[Item | Refused]:
    """The items of a request; raises `Undecodable` where the envelope around them is broken."""
    outer, inner, last = KEYS[signal]
    for i, one in enumerate(_pieces(body, 1)):
        resource = _envelope(one, "resource", "Resource")
        for j, group in enumerate(_pieces(one, 2)):
            scope = _envelope(group, "scope", "Scope")
            for k, piece in enumerate(_pieces(group, 2)):
                pointer = f"/{outer}/{i}/{inner}/{j}/{last}/{k}"
                try:
                    found = _decoded(ITEMS[signal], piece, {}, 0)
                    yield Item(signal, pointer, resource, scope, _checked(signal, found))
                except BadItem as bad:
                    yield Refused(pointer + bad.pointer, bad.message, bad.hint)


def _pieces(data: bytes, wanted: int) -> list[bytes]:
    try:
        return [
            value
            for number, kind, value in _fields(data)
            if number == wanted and kind == 2 and isinstance(value, bytes)
        ]
    except BadItem as bad:
        raise Undecodable(bad.message) from None


def _envelope(data: bytes, key: str, shape: str) -> Message:
    """What stands around the items: the resource or the scope, and the URL of its schema."""
    found: Message = {}
    try:
        merged: Message = {}
        for piece in _pieces(data, 1):
            _decoded(shape, piece, merged, 0)
        if merged:
            found[key] = merged
        for piece in _pieces(data, 3):
            if url := _text(piece):
                found["schemaUrl"] = url
    except BadItem as bad:
        raise Undecodable(f"{key}: {bad.message}") from None
    return found


_TORN = ("it ends in the middle of a field", "send it again, whole")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data):
            raise BadItem("", *_TORN)
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift > 63:
            raise BadItem("", "a varint of more than ten bytes", "this is no protobuf")


def _fields(data: bytes) -> list[tuple[int, int, int | bytes]]:
    """Number, wire type and value of each field, in order; a varint of one byte is read here."""
    found: list[tuple[int, int, int | bytes]] = []
    at, end = 0, len(data)
    while at < end:
        tag = data[at]
        at += 1
        if tag > 127:
            tag, at = _varint(data, at - 1)
        number, kind = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise BadItem("", f"{number} is no number of a field", "this is no protobuf")
        if kind == 0:
            value, at = _varint(data, at)
            found.append((number, kind, value))
            continue
        if kind == 2:
            size = data[at] if at < end else 128
            at += 1
            if size > 127:
                size, at = _varint(data, at - 1)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise BadItem("", f"wire type {kind} is not known here", "groups are not taken")
        if at + size > end:
            raise BadItem("", *_TORN)
        found.append((number, kind, data[at : at + size]))
        at += size
    return found


def _decoded(name: str, data: bytes, found: Message, depth: int) -> Message:
    """A message, merged into what was found of it before."""
    is_any = name == "AnyValue"
    if is_any and (depth := depth + 1) > DEEPEST:
        raise _too_deep()
    shape = BY_NUMBER[name]
    for number, kind, value in _fields(data):
        field = shape.get(number)
        if field is None or field[1] != kind:
            continue  # unknown, and skipped by its wire type
        key, _, many, message, of = field
        if message is not None:
            assert isinstance(value, bytes)
            before = {} if many or key not in found else found[key]
            part: Any = _decoded(message, value, before, depth)
        else:
            part = _text(value) if of == "string" else _scalar(of, value)  # type: ignore[arg-type]  # bytes, as its wire type says
        if many:
            found.setdefault(key, []).append(part)
        elif is_any:
            found.clear()  # one of several: the last one wins
            found[key] = part
        elif part:
            found[key] = part
        else:
            found.pop(key, None)  # a default says nothing
    return found


def _scalar(kind: str, value: Any) -> Any:
    match kind:
        case "id":
            return str(value.hex())
        case "bytes":
            return b64encode(value).decode()
        case "bool":
            return bool(value)
        case "int64":
            return str(value - (1 << 64) if value >> 63 else value)
        case "uint32":
            return value & 0xFFFFFFFF
        case "enum":
            low = value & 0xFFFFFFFF
            return low - (1 << 32) if low >> 31 else low
        case "fixed64":
            found = int.from_bytes(value, "little")
            return str(found) if found else ""
        case "fixed32":
            return int.from_bytes(value, "little")
    return _double(struct.unpack("<d", value)[0])


def _text(value: bytes) -> str:
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError:
        raise BadItem("", "a text that is no UTF-8", "send text as UTF-8") from None


def _double(value: float) -> Any:
    # There is no such number in JSON: OTLP spells it as a text, and so do we.
    if math.isnan(value):
        return "NaN"
    return ("Infinity" if value > 0 else "-Infinity") if math.isinf(value) else value


# JSON.


def from_json(signal: Signal, body: bytes) -> Iterator[Item | Refused]:
    """The items of a request; raises `Undecodable` where the envelope around them is broken."""
    yield from from_document(signal, parsed(body))


def parsed(body: bytes) -> Any:
    """Any JSON; half characters, which programs leave when they cut a text, are read as U+FFFD."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        why = str(error)
    try:
        return _mended(json.loads(body))
    except (ValueError, RecursionError):
        raise Undecodable(f"the body is no JSON: {why}") from None


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_mended(key): _mended(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_mended(each) for each in value]
    return value


def from_document(signal: Signal, document: Any) -> Iterator[Item | Refused]:
    """The same of JSON that was parsed."""
    if not isinstance(document, dict):
        raise Undecodable("the body is no JSON object")
    outer, inner, last = KEYS[signal]
    for i, one in _members(document, outer, ""):
        where = f"/{outer}/{i}"
        resource = _around(one, "resource", "Resource", where)
        for j, group in _members(one, inner, where):
            within = f"{where}/{inner}/{j}"
            scope = _around(group, "scope", "Scope", within)
            for k, body in _members(group, last, within):
                pointer = f"{within}/{last}/{k}"
                try:
                    found = _normal(ITEMS[signal], body, "", 0)
                    yield Item(signal, pointer, resource, scope, _checked(signal, found))
                except BadItem as bad:
                    yield Refused(pointer + bad.pointer, bad.message, bad.hint)


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
    """A message as it is in the plain shape."""
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise BadItem(where, "it is no object", f"send a {name} as OTLP JSON has it")
    if name == "AnyValue" and (depth := depth + 1) > DEEPEST:
        raise _too_deep(where)
    found: Message = {}
    for key, (kind, many) in BY_KEY[name].items():
        value = given.get(key)
        if value is None:
            continue
        place = f"{where}/{key}"
        if many:
            if not isinstance(value, list):
                raise BadItem(place, "it is no array", "send an array")
            part: Any = [_part(kind, each, f"{place}/{n}", depth) for n, each in enumerate(value)]
        else:
            part = _part(kind, value, place, depth)
        if name == "AnyValue" and found:
            raise BadItem(place, "a value of two kinds at once", "send one of them")
        if part or name == "AnyValue":
            found[key] = part
    return found


def _part(kind: str, value: Any, where: str, depth: int) -> Any:
    return _normal(kind, value, where, depth) if kind[0].isupper() else _read(kind, value, where)


def _read(kind: str, value: Any, where: str) -> Any:
    """One scalar; the value of a default is empty."""
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
            return _double(float(value))
        except OverflowError:
            pass
    elif isinstance(value, str):
        try:
            return _double(float(value.replace("Infinity", "inf")))
        except ValueError:
            pass
    raise BadItem(where, "it is no number", 'send a number, or "NaN", "Infinity", "-Infinity"')


def _too_deep(where: str = "") -> BadItem:
    return BadItem(where, f"values within values, more than {DEEPEST} deep", "send it flatter")


def _checked(signal: Signal, body: Message) -> Message:
    """An item whose ids are ids."""
    if signal == "traces":
        _identify(body, "traceId", 32, "")
        _identify(body, "spanId", 16, "")
        _identify(body, "parentSpanId", 16, "", needed=False)
        for n, link in enumerate(body.get("links", ())):
            _identify(link, "traceId", 32, f"/links/{n}")
            _identify(link, "spanId", 16, f"/links/{n}")
    else:
        _identify(body, "traceId", 32, "", needed=False)
        _identify(body, "spanId", 16, "", needed=False)
    return body


def _identify(body: Message, key: str, digits: int, where: str, *, needed: bool = True) -> None:
    found = body.get(key, "")
    if not found and not needed:
        return
    if len(found) != digits or not found.strip("0"):
        what = "it is missing" if not found else "it is no id"
        raise BadItem(f"{where}/{key}", what, f"send {digits} hex digits, not all zero")


# What values mean.


def plain(value: Message | None) -> Any:
    """An AnyValue as a JSON value; bytes stay base64, and no number is NaN: it is that text."""
    if not value:
        return None
    ((key, found),) = value.items()
    match key:
        case "intValue":
            return int(found)
        case "arrayValue":
            return [plain(each) for each in found.get("values", ())]
        case "kvlistValue":
            return attributes(found.get("values", ()))
    return found


def attributes(pairs: Any) -> dict[str, Any]:
    """Attributes by key; of two with one key the last."""
    return {pair.get("key", ""): plain(pair.get("value")) for pair in pairs or ()}


def not_numbers(raw: bytes) -> bool:
    """Whether a double in an item, as it is kept, is one that JSON has no number for."""
    return b'"doubleValue":"' in raw  # in a text its quotes would be escaped


def advice(signal: Signal, document: Any) -> str:
    """A word for who sent JSON in which nothing was found; empty when there is none."""
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
    """Keys are lowerCamelCase; what is spelled otherwise reads as empty."""
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


# Answers.


REJECTED: Mapping[Signal, str] = {"traces": "rejectedSpans", "logs": "rejectedLogRecords"}


def partial_success(signal: Signal, rejected: int, message: str, *, as_json: bool) -> bytes:
    """The body of a 200; empty when there is nothing to say."""
    if as_json:
        said: Message = {}
        if rejected:
            said[REJECTED[signal]] = str(rejected)
        if message:
            said["errorMessage"] = message
        return orjson.dumps({"partialSuccess": said} if said else {})
    inner = (b"\x08" + _encoded(rejected) if rejected else b"") + _sized(b"\x12", message.encode())
    return _sized(b"\x0a", inner)


def status(code: int, message: str, *, as_json: bool) -> bytes:
    """A google.rpc.Status."""
    if as_json:
        return orjson.dumps({"code": code, "message": message})
    return b"\x08" + _encoded(code) + _sized(b"\x12", message.encode())


def _sized(tag: bytes, content: bytes) -> bytes:
    return tag + _encoded(len(content)) + content if content else b""


def _encoded(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
