"""Write fields of protobuf messages, without generated classes."""

import struct


def varint(number: int) -> bytes:
    """An integer of 64 bits; a negative one as its two's complement."""
    number &= 2**64 - 1
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def bytes_field(key: int, value: bytes) -> bytes:
    """Bytes, or a message, under the number of their field."""
    return varint(key << 3 | 2) + varint(len(value)) + value


def text_field(key: int, value: str) -> bytes:
    return bytes_field(key, value.encode("utf-8", "replace"))


def integer_field(key: int, value: int) -> bytes:
    return varint(key << 3) + varint(value)


def fixed_field(key: int, value: int) -> bytes:
    """An unsigned integer in eight bytes."""
    return varint(key << 3 | 1) + struct.pack("<Q", value)


def double_field(key: int, value: float) -> bytes:
    return varint(key << 3 | 1) + struct.pack("<d", value)
