"""Split a stream of bytes into lines, one JSON object per line, whatever the size of the file."""

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from hashlib import _Hash as HASH

CAP = 16 * 1024 * 1024
"""The longest line that is accepted, in bytes, unless configured."""

CHUNK = 1 << 18
BEGINNING = 64 << 10
BOM = b"\xef\xbb\xbf"

_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
"""One escaped character of a JSON text; the group matches half of a surrogate pair."""


class ByteSource(Protocol):
    """Anything that bytes can be read from."""

    def read(self, size: int, /) -> bytes: ...


class Line(NamedTuple):
    """One line of a file, without its line end."""

    number: int
    """Counted from 1, blank lines included."""
    offset: int
    """The position of its first byte in the file."""
    data: bytes
    """The bytes of the line; of a line longer than the cap, only the beginning."""
    size: int
    """The length in bytes, also when the line is longer than the cap."""
    whole: bool = True
    """False for a last line without a line end."""
    bom: bool = False
    """Whether a byte order mark was dropped in front of it."""
    sha256: str = ""
    """The hash of all bytes, for a line that is longer than the cap."""


def split(source: ByteSource, cap: int = CAP) -> Iterator[Line]:
    """The lines that are not blank, split at LF; one CR before the LF is removed.

    Of a line longer than the cap only the size, the hash and the beginning are kept.
    """
    for group in groups(source, cap):
        yield from group


def groups(source: ByteSource, cap: int = CAP) -> Iterator[list[Line]]:
    """The same lines, in groups of as many as one read of the source completes."""
    number, offset, size = 1, 0, 0
    parts: list[bytes] = []
    passed = None  # the running hash of a line that is longer than the cap
    new = tuple.__new__

    def line(last: bytes, complete: bool) -> list[Line]:
        total, name = size + len(last), ""
        if total > cap:
            over = passed or _hash(parts)
            over.update(last)
            name = over.hexdigest()
        data = b"".join([*parts, last]) if parts else last
        data = data if total <= cap else data[:BEGINNING]
        bom = number == 1 and data.startswith(BOM)
        data = data[3:] if bom else data
        data = data.removesuffix(b"\r")
        parts.clear()
        if not data.strip() and total <= cap:
            return []
        return [Line(number, offset, data, total, complete, bom, name)]

    while chunk := source.read(CHUNK):
        *pieces, rest = chunk.split(b"\n")
        group: list[Line] = []
        for piece in pieces:
            # The common line takes the short path: it came in one read, and nothing has to be
            # removed.
            if size or number == 1 or piece[-1:] in b"\r" or piece.isspace() or len(piece) > cap:
                group += line(piece, complete=True)
            else:
                group.append(new(Line, (number, offset, piece, len(piece), True, False, "")))
            number, offset, size, passed = number + 1, offset + size + len(piece) + 1, 0, None
        size += len(rest)
        if size > cap and rest:
            passed = passed or _hash(parts)
            passed.update(rest)
        if rest and (size <= cap or not parts):
            parts.append(rest)
        elif len(parts) > 1:
            parts[:] = [_beginning(parts)]
        if group:
            yield group
    if size and (last := line(b"", complete=False)):
        yield last


def _hash(pieces: list[bytes]) -> "HASH":
    """The hash of the joined pieces, without joining them."""
    digest = sha256()
    for piece in pieces:
        digest.update(piece)
    return digest


def _beginning(pieces: list[bytes]) -> bytes:
    """The first bytes of the joined pieces, without joining them."""
    beginning = b""
    for piece in pieces:
        beginning += piece[: BEGINNING - len(beginning)]
        if len(beginning) == BEGINNING:
            break
    return beginning


def without_half_surrogates(line: bytes) -> bytes:
    """The line, with the same length, with U+FFFD for each escaped half of a surrogate pair.

    Programs leave such halves when they cut a text. JSON allows them; UTF-8 cannot encode them.
    """
    return _ESCAPE.sub(lambda match: rb"\ufffd" if match[1] else match[0], line)
