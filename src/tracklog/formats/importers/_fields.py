"""The fields of a protobuf message whose schema is not known."""

from collections.abc import Iterator

LEAST = 4
"""Bytes of the shortest text that is looked for."""
DEEPEST = 16
"""How deep messages are looked into."""


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The number and the value of each field: an integer, or bytes; ends where it cannot be read."""
    place = 0
    while place < len(data):
        tag, place = _integer(data, place)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, place = _integer(data, place)
            yield number, value
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            yield number, data[place : place + size]
            place += size
        elif kind == 2:
            size, place = _integer(data, place)
            if place + size > len(data):
                return
            yield number, data[place : place + size]
            place += size
        else:
            return


def _integer(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while place < len(data) and shift < 70:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
        shift += 7
    return value, len(data)


def inner(data: int | bytes | None, *path: int) -> int | bytes | None:
    """The first value at a path of field numbers; None where there is none."""
    for number in path:
        if not isinstance(data, bytes):
            return None
        data = next((value for key, value in fields(data) if key == number), None)
    return data


def text_at(data: bytes, *path: int) -> str | None:
    value = inner(data, *path)
    if not isinstance(value, bytes):
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def texts_in(data: bytes, deep: int = 0) -> Iterator[str]:
    """The texts in a message, at any depth: printable bytes of a field that is no message itself."""
    for _, value in fields(data):
        if not isinstance(value, bytes) or len(value) < LEAST:
            continue
        try:
            text = value.decode()
        except UnicodeDecodeError:
            text = ""
        if text and all(each.isprintable() or each in "\r\n\t" for each in text):
            yield text
        elif deep < DEEPEST:
            yield from texts_in(value, deep + 1)


def integer_at(data: bytes, *path: int) -> int | None:
    value = inner(data, *path)
    return value if isinstance(value, int) else None
