"""Cuts a stream of bytes into lines: one object per line, whatever the size of the file."""

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from hashlib import _Hash as HASH

CAP = 16 * 1024 * 1024
"""The longest line that the door takes, in bytes, unless configured."""

CHUNK = 1 << 18
BEGINNING = 64 << 10
BOM = b"\xef\xbb\xbf"

_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
"""One escaped character of a JSON text; in the group, half of one."""


class Source(Protocol):
    """Anything that bytes can be read from."""

    def read(self, size: int, /) -> bytes: ...


class Line(NamedTuple):
    """One line of a file, without its line end."""

    number: int
    """Counted from 1, blank lines included."""
    offset: int
    """Of its first byte in the file."""
    data: bytes
    """Of a line that is longer than the cap, only the beginning."""
    size: int
    """In bytes, also when it is longer than the cap."""
    whole: bool = True
    """False for a last line without a line end."""
    bom: bool = False
    """Whether a byte order mark was dropped in front of it."""
    sha256: str = ""
    """Of all the bytes of a line that is longer than the cap."""


def split(source: Source, cap: int = CAP) -> Iterator[Line]:
    """The lines that are not blank, cut at LF; one CR before it is transport.

    A line longer than the cap is counted and passed over; only its beginning is held.
    """
    for group in groups(source, cap):
        yield from group


def groups(source: Source, cap: int = CAP) -> Iterator[list[Line]]:
    """The same lines, as many at a time as one read of the source completes."""
    number, offset, size = 1, 0, 0
    held: list[bytes] = []
    passed = None  # the hash of a line that is too long to be held
    new = tuple.__new__

    def line(last: bytes, whole: bool) -> list[Line]:
        total, name = size + len(last), ""
        if total > cap:
            over = passed or _hash(held)
            over.update(last)
            name = over.hexdigest()
        data = b"".join([*held, last]) if held else last
        data = data if total <= cap else data[:BEGINNING]
        bom = number == 1 and data.startswith(BOM)
        data = data[3:] if bom else data
        data = data.removesuffix(b"\r")
        held.clear()
        if not data.strip() and total <= cap:
            return []
        return [Line(number, offset, data, total, whole, bom, name)]

    while chunk := source.read(CHUNK):
        *pieces, rest = chunk.split(b"\n")
        group: list[Line] = []
        for piece in pieces:
            # The common line is quick: it came in one read, and nothing has to be taken off it.
            if size or number == 1 or piece[-1:] in b"\r" or piece.isspace() or len(piece) > cap:
                group += line(piece, whole=True)
            else:
                group.append(new(Line, (number, offset, piece, len(piece), True, False, "")))
            number, offset, size, passed = number + 1, offset + size + len(piece) + 1, 0, None
        size += len(rest)
        if size > cap and rest:
            passed = passed or _hash(held)
            passed.update(rest)
        if rest and (size <= cap or not held):
            held.append(rest)
        elif len(held) > 1:
            held[:] = [_beginning(held)]
        if group:
            yield group
    if size and (last := line(b"", whole=False)):
        yield last


def _hash(pieces: list[bytes]) -> "HASH":
    """That of what these make together, without making it."""
    made = sha256()
    for piece in pieces:
        made.update(piece)
    return made


def _beginning(pieces: list[bytes]) -> bytes:
    """The first bytes of what these make together, without making it."""
    found = b""
    for piece in pieces:
        found += piece[: BEGINNING - len(found)]
        if len(found) == BEGINNING:
            break
    return found


def mended(line: bytes) -> bytes:
    """The line, as long as before, with U+FFFD for each half of a surrogate pair that is escaped.

    Programs leave such halves when they cut a text; JSON allows them, and no UTF-8 can hold them.
    """
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found[1] else found[0], line)
