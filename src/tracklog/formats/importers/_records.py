"""Split a foreign file into records, whatever its damage: nothing raises, nothing is lost.

The classes of damage: an incomplete end, NUL bytes, bad UTF-8, lone surrogates, a complete record
after an incomplete one, a record over several lines, a line too long to hold, text that is no JSON.
"""

import json
import re
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, BinaryIO, Final, NamedTuple

import orjson

from tracklog.model.event import Body
from tracklog.model.lines import BOM, Line, groups

CAP = 64 << 20
"""The longest record that is held, in bytes."""
DOCUMENT = 512 << 20
"""The longest document that is held, in bytes."""
JOINED = 100
"""How many lines may be one record whose strings contain line ends."""
JOINED_BYTES = 1 << 20


class _Damaged:
    def __repr__(self) -> str:
        return "DAMAGED"


DAMAGED: Final = _Damaged()
"""The value of a record that cannot be read; its bytes are stored separately."""


TORN = "torn-tail"
"""The name of the flaw of a last record that is incomplete."""


class Raw(NamedTuple):
    """One record of a source, as it was read."""

    offset: int
    """The position of its first byte in the file."""
    data: bytes
    """Its bytes, without the line end; of a record that is too long, only the beginning."""
    value: Any
    """Any JSON value, or DAMAGED."""
    flaws: tuple[tuple[str, str], ...] = ()
    """The problems: class and message."""
    exact: bool = True
    """Whether the value was read without any repair."""
    through: int = 0
    """The position after it in the file."""


Fits = Callable[[Body], bool]


def records(
    file: BinaryIO, offset: int, fits: Fits, *, final: bool, cap: int = CAP
) -> Iterator[Raw]:
    """The records from an offset on, one per line; a last line without a line end is left for
    later.

    With `final`, a complete object at the end is read, and anything else is incomplete; its
    position in the file stays before it.
    """
    file.seek(offset)
    ahead: deque[Line] = deque()
    coming = chain.from_iterable(groups(file, cap))
    loads, new = orjson.loads, tuple.__new__

    def peek(n: int) -> Line | None:
        while len(ahead) <= n and (line := next(coming, None)) is not None:
            ahead.append(line)
        return ahead[n] if n < len(ahead) else None

    while (line := ahead.popleft() if ahead else next(coming, None)) is not None:
        place = offset + line.offset
        through = place + (size := line.size) + line.whole
        if size > cap:
            flaw = ("oversized", f"{size} bytes in one line, of which the beginning is held")
            yield Raw(place, line.data, DAMAGED, (flaw,), exact=False, through=through)
            continue
        try:
            value = loads(line.data)
        except orjson.JSONDecodeError:
            pass
        else:
            if line.whole and not line.bom:
                yield new(Raw, (place, line.data, value, (), True, through))
            elif line.whole or (final and isinstance(value, dict)):
                yield Raw(place, line.data, value, _BOM if line.bom else (), True, through)
            elif final:
                yield _torn(place, line.data)
            continue
        if not line.whole and not final:
            return
        joined = _joined(line, peek) if line.whole else None
        if joined is not None:
            value, data, more = joined
            for _ in range(more):
                line = ahead.popleft()
            through = offset + line.offset + line.size + line.whole
            flaw = ("newline-in-string", f"one record over {more + 1} lines")
            yield Raw(place, data, value, (flaw,), exact=False, through=through)
            continue
        yield from _repaired(place, through, line, fits)


_BOM = (("bom", "a byte order mark in front"),)


def _torn(place: int, data: bytes) -> Raw:
    flaw = (TORN, f"{len(data)} bytes without a line end at the end of the file")
    return Raw(place, data, DAMAGED, (flaw,), exact=False, through=place)


def _repaired(place: int, through: int, line: Line, fits: Fits) -> Iterator[Raw]:
    """The readable part of a damaged line, at least its bytes."""
    from tracklog.recording.transcript.damaged_line import Habit, parse  # noqa: PLC0415  # seldom needed

    text = line.data
    flaws: list[tuple[str, str]] = []
    if stripped := len(text) - len(text.rstrip(b"\0")):
        text = text.rstrip(b"\0")
        flaws.append(("nul-tail", f"{stripped} NUL bytes behind the record"))
        if not text.strip(b"\0 \t\r"):
            yield Raw(place, b"", DAMAGED, tuple(flaws), exact=False, through=through)
            return
    parsed = parse(text, Habit(_OBJECT, lambda body: isinstance(body, dict) and fits(body)))
    named = [(_NAMES.get(name, name), words) for name, words in parsed.flaws]
    if not line.whole and (len(parsed.parts) != 1 or "glued" in dict(parsed.flaws)):
        # Objects inside of a line that may still be written are parts of it, and no records.
        yield _torn(place, line.data)
        return
    if not parsed.parts:
        value = _scalar(text)
        if value is not DAMAGED:
            yield Raw(place, line.data, value, tuple(flaws), exact=False, through=through)
        else:
            flaws += named or [("irreparable", "no JSON")]
            yield Raw(place, line.data, DAMAGED, tuple(flaws), exact=False, through=through)
        return
    flaws += named or [("surrogate", "half a character, read as U+FFFD")]
    last = len(parsed.parts) - 1
    if any(name == "glued" for name, _ in flaws):
        # The incomplete part before it is stored with the complete line.
        yield Raw(place, line.data, DAMAGED, tuple(flaws), exact=False, through=place)
        flaws = []
    for n, part in enumerate(parsed.parts):
        data = line.data if flaws else part.healed or line.data
        # A position between two records of one line is before the line.
        behind = through if n == last else place
        yield Raw(place, data, encodable(part.body), tuple(flaws), exact=False, through=behind)


_OBJECT = re.compile(r'\{\s*"')
_NAMES = {"nul": "nul-inside", "nul_fill": "nul-tail", "syntax": "irreparable", "glued": "glued"}
_NAMES |= {"utf8": "bad-utf8", "dup_key": "key-twice"}


def _scalar(text: bytes) -> Any:
    """A value that is no object and that only the slow parser can read."""
    try:
        value = json.loads(text.replace(b"\0", rb"\u0000").decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return DAMAGED
    return DAMAGED if isinstance(value, dict) else encodable(value)


def _joined(line: Line, peek: Callable[[int], Line | None]) -> tuple[Any, bytes, int] | None:
    """A record whose strings contain raw line ends, and how many more lines it took."""
    if not _is_open(line.data):
        return None
    data, more = line.data, 0
    while more < JOINED and len(data) < JOINED_BYTES:
        following = peek(more)
        if following is None or not following.whole or _is_json(following.data):
            return None
        more += 1
        data += rb"\n" + following.data
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError:
            continue
        return (value, data, more) if isinstance(value, dict) else None
    return None


def _is_open(data: bytes) -> bool:
    """Whether a line ends inside a string."""
    try:
        json.loads(data.decode("utf-8", "replace"))
    except json.JSONDecodeError as error:
        return error.msg.startswith("Unterminated string")
    except RecursionError:
        return False
    return False


def _is_json(data: bytes) -> bool:
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return True


def encodable(value: Any) -> Any:
    """A value that can be encoded: lone surrogates and integers beyond 64 bits are replaced."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {encodable(key): encodable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [encodable(each) for each in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return float(value) if abs(value) < 10**300 else str(value)
    return value


def repaired_value(text: bytes) -> Any:
    """The JSON value of a text, with half characters and the like replaced; DAMAGED where there is none."""
    text = text.removeprefix(BOM).strip(b"\0 \t\r\n")
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return _slowly(text)


def document(file: BinaryIO, *, final: bool, cap: int = DOCUMENT) -> Iterator[Raw]:
    """A file that is one JSON value; one that is still being written is left for later."""
    file.seek(0)
    data = file.read(cap + 1)
    if len(data) > cap:
        flaw = ("oversized", f"more than {cap} bytes in one document")
        yield Raw(0, data[: 64 << 10], DAMAGED, (flaw,), exact=False)
        return
    text = data.removeprefix(BOM).strip(b"\0 \t\r\n")
    if not text:
        return
    try:
        yield Raw(0, text, orjson.loads(text), through=len(data))
    except orjson.JSONDecodeError:
        value = _slowly(text)
        if value is not DAMAGED:
            flaw = ("mended", "read with what was damaged in it replaced")
            yield Raw(0, text, value, (flaw,), exact=False, through=len(data))
        elif final:
            yield _torn(0, text)
            value = beginning_of(text)
            if value is not DAMAGED and _says_something(value):
                yield Raw(0, text, value, exact=False)


def _says_something(value: Any) -> bool:
    """Whether there is anything in a value but empty objects and lists."""
    if isinstance(value, dict):
        return any(map(_says_something, value.values()))
    return any(map(_says_something, value)) if isinstance(value, list) else True


def text(file: BinaryIO, *, cap: int = CAP) -> Iterator[Raw]:
    """A file that is one text; nothing for an empty one."""
    file.seek(0)
    data = file.read(cap + 1)
    if len(data) > cap:
        flaw = ("oversized", f"more than {cap} bytes in one text, of which the beginning is held")
        yield Raw(0, data[: 64 << 10], DAMAGED, (flaw,), exact=False)
    elif data:
        plain = data.removeprefix(BOM).decode("utf-8", "replace")
        yield Raw(0, data, plain, exact=False, through=len(data))


def beginning_of(text: bytes) -> Any:
    """A document as far as it can be read: complete elements only, then everything open is closed."""
    decoded = text.replace(b"\0", rb"\u0000").decode("utf-8", "replace")
    try:
        json.loads(decoded, strict=False)
    except json.JSONDecodeError as error:
        wrong = error.pos
    except RecursionError:
        return DAMAGED
    else:
        return DAMAGED
    stack: list[str] = []
    ends: list[int] = []
    """The end of the last complete element of each open array or object."""
    for token in _TOKEN.finditer(decoded, 0, wrong):
        mark = token[0]
        if mark in "[{":
            stack.append(mark)
            ends.append(token.end())
        elif mark in "]}" and stack:
            stack.pop()
            ends.pop()
            ends[-1:] = [token.end()] if ends else []
        elif mark == "," and ends:
            ends[-1] = token.start()
    # Of the outermost list only complete elements count.
    depth = stack.index("[") + 1 if "[" in stack else len(stack)
    if not depth:
        return DAMAGED
    closed = "".join("]" if mark == "[" else "}" for mark in reversed(stack[:depth]))
    try:
        return encodable(json.loads(decoded[: ends[depth - 1]] + closed, strict=False))
    except (ValueError, RecursionError):
        return DAMAGED


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},]', re.DOTALL)


def _slowly(text: bytes) -> Any:
    try:
        decoded = text.replace(b"\0", rb"\u0000").decode("utf-8", "replace")
        return encodable(json.loads(decoded, strict=False))
    except (ValueError, RecursionError):
        return DAMAGED


def events(file: BinaryIO, offset: int, fits: Fits, *, final: bool) -> Iterator[Raw]:
    """The `data:` fields of server-sent events; `[DONE]`, names and comments are ignored."""
    file.seek(offset)
    for line in (line for group in groups(file, CAP) for line in group):
        if not line.whole and not final:
            return
        data = line.data.strip()
        if not data.startswith(b"data:"):
            if not data.startswith((b":", b"event:", b"id:", b"retry:")):
                yield from _sole(offset, line, data, fits)
            continue
        data = data[5:].strip()
        if data and data != b"[DONE]":
            yield from _sole(offset, line, data, fits)


def _sole(offset: int, line: Line, data: bytes, fits: Fits) -> Iterator[Raw]:
    through = offset + line.offset + line.size + line.whole
    place = offset + line.offset
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        yield from _repaired(place, through, line._replace(data=data), fits)
        return
    if line.whole or isinstance(value, dict):
        yield Raw(place, data, value, through=through)
    else:
        yield _torn(place, data)


def opening(head: bytes, most: int = 50) -> list[Any]:
    """The values of the first complete lines of a file, to recognise it."""
    values = []
    for line in head.split(b"\n")[:most]:
        value = repaired_value(line) if line.lstrip()[:1] in (b"{", b"[") else _scalar(line)
        if value is not DAMAGED:
            values.append(value)
    return values


def unquoted(head: bytes) -> bytes:
    """The beginning of a file without JSON quoted in its texts, which is no sign of its format."""
    return _ESCAPED.sub(b"", head)


_ESCAPED = re.compile(rb"\\.", re.DOTALL)
