"""Reads OTLP requests in protobuf."""

import struct
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

from tracklog.importers.otlp.shape import (
    BY_NUMBER,
    DEEPEST,
    ITEMS,
    KEYS,
    BadItem,
    Item,
    Message,
    Refused,
    Signal,
    Undecodable,
    checked,
    double,
    too_deep,
)


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
                    yield Item(signal, pointer, resource, scope, checked(signal, found))
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
        raise too_deep()
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
    return double(struct.unpack("<d", value)[0])


def _text(value: bytes) -> str:
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError:
        raise BadItem("", "a text that is no UTF-8", "send text as UTF-8") from None
