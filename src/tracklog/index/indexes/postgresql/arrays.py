"""Columns of rows as arrays in PostgreSQL's binary form, packed at once and not value by value."""

import struct
from collections.abc import Callable, Sequence
from itertools import chain, repeat
from typing import Any

import psycopg
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format

_OIDS = {"bytea": 17, "bigint": 20, "text": 25}
_HEAD = struct.Struct("!iiIii")  # dimensions, whether there are nulls, type, length, first index


class PackedArray:
    """An array that is packed already."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class _PackedDumper(Dumper):
    """Sends it as it is; its type is that of the cast in the statement."""

    format = Format.BINARY

    def dump(self, obj: PackedArray) -> Buffer:
        return obj.data


psycopg.adapters.register_dumper(PackedArray, _PackedDumper)


def packed(type: str, values: Sequence[Any]) -> PackedArray | list[Any]:
    """Values as an array of this type (`bigint[]`); as they are where it is another one, one of them
    is None, or a number is too large.
    """
    of = type.removesuffix("[]")
    if of not in _OIDS or None in values or not values:
        return list(values)
    try:
        return PackedArray(_HEAD.pack(1, 0, _OIDS[of], len(values), 1) + _PACKERS[of](values))
    except struct.error:
        return list(values)  # the server says what is wrong


def _integers(values: Sequence[int]) -> bytes:
    return b"".join(map(_INTEGER.pack, repeat(8), values))


def _bytes(values: Sequence[bytes]) -> bytes:
    lengths = map(_LENGTH.pack, map(len, values))
    return b"".join(chain.from_iterable(zip(lengths, values, strict=True)))


def _texts(values: Sequence[str]) -> bytes:
    return _bytes([each.encode() for each in values])


_LENGTH = struct.Struct("!i")
_INTEGER = struct.Struct("!iq")  # with its length; a format of a whole column would stay in memory
_PACKERS: dict[str, Callable[[Sequence[Any]], bytes]] = {
    "bytea": _bytes,
    "bigint": _integers,
    "text": _texts,
}
