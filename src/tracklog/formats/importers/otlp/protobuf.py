"""Reads OTLP requests in protobuf."""

import re
import struct
from base64 import b64encode
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from tracklog.formats.importers.otlp.shape import (
    DEEPEST,
    ITEMS,
    KEYS,
    SHAPES,
    BadItem,
    Envelope,
    Item,
    Message,
    RefusedItem,
    Signal,
    Undecodable,
    checked,
    double,
    too_deep,
)


def from_protobuf(signal: Signal, body: bytes) -> Iterator[Item | RefusedItem]:
    """The items of a request; raises `Undecodable` where the envelope around them is damaged."""
    outer, inner, last = KEYS[signal]
    shape = _SHAPES[ITEMS[signal]]
    for i, one in enumerate(_parts(body).around):
        parts = _parts(one)
        resource = _envelope(parts, "resource", "Resource")
        for j, group in enumerate(parts.inner):
            parts = _parts(group)
            envelope = Envelope(signal, resource, _envelope(parts, "scope", "Scope"))
            within = f"/{outer}/{i}/{inner}/{j}/{last}"
            for k, piece in enumerate(parts.inner):
                pointer = f"{within}/{k}"
                try:
                    at, found = _usual(piece) if signal == "traces" else (0, {})
                    _read(shape, piece, at, len(piece), found)
                    yield Item(envelope, pointer, checked(signal, found))
                except BadItem as bad:
                    yield RefusedItem(pointer + bad.pointer, bad.message, bad.hint)


_IDS = re.compile(rb"\x0a\x10(.{16})\x12\x08(.{8})(?:\x22\x08(.{8}))?\x2a([\x01-\x7f])", re.DOTALL)
_TIMES = re.compile(rb"(?:\x30([\x01-\x7f]))?\x39(.{8})\x41(.{8})", re.DOTALL)


def _usual(data: bytes) -> tuple[int, Message]:
    """The first fields of a span where they are as most programs write them, and where they end."""
    ids = _IDS.match(data)
    if ids is None:
        return 0, {}
    trace, span, above, size = ids.groups()
    at = ids.end()
    stop = at + size[0]
    times = _TIMES.match(data, stop)
    if times is None:
        return 0, {}
    kind, start, end = times.groups()
    try:
        found: Message = {
            "traceId": trace.hex(),
            "spanId": span.hex(),
            "name": str(data[at:stop], "utf-8"),
        }
    except UnicodeDecodeError:
        return 0, {}
    if above is not None:
        found["parentSpanId"] = above.hex()
    if kind is not None:
        found["kind"] = kind[0]
    if begun := int.from_bytes(start, "little"):
        found["startTimeUnixNano"] = str(begun)
    if ended := int.from_bytes(end, "little"):
        found["endTimeUnixNano"] = str(ended)
    return times.end(), found


def metrics_of(body: bytes) -> Message:
    """The points of a request for metrics, each empty; raises `Undecodable`."""
    try:
        return _read(_SHAPES["Metrics"], body, 0, len(body), {})
    except BadItem as bad:
        raise Undecodable(bad.message) from None


class _EnvelopeParts(NamedTuple):
    """The parts of a message around items, each as it was sent: the request has only the first."""

    around: list[bytes]
    inner: list[bytes]
    urls: list[bytes]


def _parts(data: bytes) -> _EnvelopeParts:
    try:
        found = _read(_PARTS, data, 0, len(data), {})
    except BadItem as bad:
        raise Undecodable(bad.message) from None
    return _EnvelopeParts(*(found.get(key, []) for key in _EnvelopeParts._fields))


def _envelope(parts: _EnvelopeParts, key: str, shape: str) -> Message:
    """The envelope of the items: the resource or the scope, and the URL of its schema."""
    found: Message = {}
    try:
        merged: Message = {}
        for piece in parts.around:
            _read(_SHAPES[shape], piece, 0, len(piece), merged)
        if merged:
            found[key] = merged
        for piece in parts.urls:
            if url := _text(piece):
                found["schemaUrl"] = url
    except BadItem as bad:
        raise Undecodable(f"{key}: {bad.message}") from None
    return found


class _MessageFields(dict[int, "_Field"]):
    """The fields of a message by their tags: number and wire type as they are encoded."""

    is_any = False
    """Whether only one of its fields counts: the last one."""


class _Field(NamedTuple):
    key: str
    many: bool
    read: Callable[[bytes], Any]
    """The function from its bytes to the value in the plain shape."""
    message: _MessageFields | None = None


_SHORT = 80  # bytes of an attribute
_TORN = ("it ends in the middle of a field", "send it again, complete")


def _read(
    shape: _MessageFields, data: bytes, at: int, end: int, found: Message, depth: int = 0
) -> Message:
    """The message between two positions, merged into the earlier part."""
    is_any = shape.is_any
    if is_any and (depth := depth + 1) > DEEPEST:
        raise too_deep()
    while at < end:
        # The frequent forms are read inline.
        tag = data[at]
        at += 1
        if tag > 127:
            tag, at = _varint(data, at - 1, end)
        wire = tag & 7
        if wire == 2:
            size = data[at] if at < end else 128
            at += 1
            if size > 127:
                size, at = _varint(data, at - 1, end)
        elif wire == 1:
            size = 8
        else:
            size = _width(data, wire, at, end)
        stop = at + size
        if stop > end:
            raise BadItem("", *_TORN)
        field = shape.get(tag)
        if field is None:
            if not 7 < tag < 1 << 32:
                raise BadItem("", f"{tag >> 3} is no number of a field", "this is no protobuf")
            at = stop
            continue
        key, many, read, message = field
        if message is _PAIR and not depth:
            pairs = found.get(key)
            if pairs is None:
                pairs = found[key] = []
            pairs.append(_short(data[at:stop]) if size < _SHORT else _pair(data[at:stop]))
            at = stop
            # Others follow it.
            last = end - 2
            while at < last and data[at] == tag:
                at += 2
                size = data[at - 1]
                if size < _SHORT:
                    stop = at + size
                    pairs.append(_short(data[at:stop]))
                else:
                    size, at = _varint(data, at - 1, end)
                    stop = at + size
                    pairs.append(_pair(data[at:stop]))
                at = stop
            if at > end:
                raise BadItem("", *_TORN)
            continue
        if message is not None:
            before = {} if many or key not in found else found[key]
            part = _read(message, data, at, stop, before, depth)
        else:
            part = read(data[at:stop])
        at = stop
        if many:
            if key in found:
                found[key].append(part)
            else:
                found[key] = [part]
        elif is_any:
            found.clear()
            found[key] = part
        elif part:
            found[key] = part
        else:
            found.pop(key, None)  # a default value is left out
    return found


def _pair(data: bytes) -> Message:
    """An attribute: a name and then a text is read here, anything else as any message is."""
    try:
        end, at = len(data), 2 + data[1]
        if data[0] == 0x0A and 0 < data[1] < 128 and data[at] == 0x12:
            size, text = data[at + 1], at + 2
            if size > 127:
                size, text = _varint(data, at + 1, end)
            if text + size == end and data[text] == 0x0A:
                size, text = data[text + 1], text + 2
                if size > 127:
                    size, text = _varint(data, text - 1, end)
                if text + size == end:
                    return {
                        "key": str(data[2:at], "utf-8"),
                        "value": {"stringValue": str(data[text:], "utf-8")},
                    }
    except (IndexError, UnicodeDecodeError, BadItem):
        pass  # the general reader says what is wrong
    return _read(_PAIR, data, 0, len(data), {})


_short = lru_cache(4096)(_pair)
"""A short attribute: most of them are the same on many spans, and are read once."""


def _width(data: bytes, wire: int, at: int, end: int) -> int:
    """How many bytes a number takes."""
    match wire:
        case 0:
            return _varint(data, at, end)[1] - at
        case 5:
            return 4
    raise BadItem("", f"wire type {wire} is not known here", "groups are not supported")


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    if at + 1 < end and (second := data[at + 1]) < 128 <= (first := data[at]):
        return first - 128 + (second << 7), at + 2  # two bytes
    value = shift = 0
    while True:
        if at >= end:
            raise BadItem("", *_TORN)
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift > 63:
            raise BadItem("", "a varint of more than ten bytes", "this is no protobuf")


def _text(value: bytes) -> str:
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError:
        raise BadItem("", "a text that is no UTF-8", "send text as UTF-8") from None


def _number(value: bytes) -> int:
    return value[0] if len(value) == 1 else _varint(value, 0, len(value))[0]


def _signed(value: bytes) -> str:
    found = _number(value)
    return str(found - (1 << 64) if found >> 63 else found)


def _enum(value: bytes) -> int:
    low = _number(value) & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low


def _time(value: bytes) -> str:
    found = int.from_bytes(value, "little")
    return str(found) if found else ""


_KINDS: dict[str, tuple[int, Callable[[bytes], Any]]] = {
    "string": (2, _text),
    "id": (2, bytes.hex),
    "bytes": (2, lambda value: b64encode(value).decode()),
    "bool": (0, lambda value: bool(_number(value))),
    "int64": (0, _signed),
    "uint32": (0, lambda value: _number(value) & 0xFFFFFFFF),
    "enum": (0, _enum),
    "fixed64": (1, _time),
    "fixed32": (5, lambda value: int.from_bytes(value, "little")),
    "double": (1, lambda value: double(struct.unpack("<d", value)[0])),
}
"""The wire type of each kind of scalar, and how it is read."""


def _shaped() -> dict[str, _MessageFields]:
    shapes = {name: _MessageFields() for name in SHAPES}
    shapes["AnyValue"].is_any = True
    for name, fields in SHAPES.items():
        for number, (key, kind, many) in fields.items():
            wire, read = _KINDS.get(kind, (2, bytes))
            shapes[name][number << 3 | wire] = _Field(key, many, read, shapes.get(kind))
    return shapes


_SHAPES = _shaped()
_PAIR = _SHAPES["KeyValue"]
_PARTS = _MessageFields(
    {
        n << 3 | 2: _Field(key, many=True, read=bytes)
        for n, key in enumerate(_EnvelopeParts._fields, 1)
    }
)
