"""Read the objects of one damaged line: NUL bytes, bad UTF-8, objects joined on one line."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import orjson

from tracklog.model.event import Body
from tracklog.recording.transcript.entry import loads, refuse_constant

TRIES = 1000
"""Positions in one damaged line at which an object is looked for."""


class Habit(NamedTuple):
    """The beginning that lines of a file share, to find a line after an incomplete one."""

    starts: re.Pattern[str]
    fits: Callable[[Body], bool]
    """Whether an object with that beginning is a line, and not a part of another."""


class LinePart(NamedTuple):
    """One object of a line."""

    body: Body
    healed: bytes | None = None
    """The text that was parsed, where it is not the line itself."""


class Parsed(NamedTuple):
    """The objects of a line, and its problems: (name, message) each."""

    parts: list[LinePart]
    flaws: list[tuple[str, str]]


def _is_event(body: Body) -> bool:
    return isinstance(body.get("type"), str) and not body.keys().isdisjoint(
        ("seq", "run_id", "timestamp")
    )


EVENTS = Habit(
    re.compile(
        r'\{\s*"(?:seq|run_id|parent_run_id|child_run_id|type|path|iteration|timestamp|payload)"\s*:'
    ),
    _is_event,
)
"""The beginning of lines in transcripts."""


def habit_of(line: bytes) -> Habit:
    """The beginning of lines in a foreign file, from one of its complete lines."""
    key = next(iter(loads(line)), "")
    return Habit(re.compile(r"\{\s*" + re.escape(json.dumps(key)) + r"\s*:"), lambda _: True)


def parse(raw: bytes, habit: Habit = EVENTS) -> Parsed:
    """Every object on a line, also after something incomplete."""
    try:
        value = loads(raw)
    except (ValueError, RecursionError):
        return _heal(raw, habit)
    if not isinstance(value, dict):
        return Parsed([], [("not_object", f"{_kind(value)}, not an object")])
    twice = _repeated_keys(raw, value)
    flaws = [("dup_key", f"the key {key!r} stands twice; the last one counts") for key in twice]
    return Parsed([LinePart(value)], flaws)


def _heal(raw: bytes, habit: Habit) -> Parsed:
    text, flaws = _readable(raw)
    if not text:
        return Parsed([], flaws)
    try:
        value = loads(text)
    except (ValueError, RecursionError) as error:
        parts = [LinePart(body, piece) for body, piece in _glued(text.decode(), habit)]
        if parts:
            objects = "1 whole object" if len(parts) == 1 else f"{len(parts)} whole objects"
            message = f"{objects} on a line that is not one object"
            return Parsed(parts, [*flaws, ("glued", message)])
        return Parsed([], [*flaws, ("syntax", f"not JSON: {_why(error)}")])
    if not isinstance(value, dict):
        return Parsed([], [*flaws, ("not_object", f"{_kind(value)}, not an object")])
    return Parsed([LinePart(value, text)], flaws)


def _why(error: ValueError | RecursionError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg[:1].lower()}{error.msg[1:]} at character {error.pos}"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _bytes(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"


def _readable(raw: bytes) -> tuple[bytes, list[tuple[str, str]]]:
    """The line with NUL bytes and bad UTF-8 made readable."""
    flaws: list[tuple[str, str]] = []
    text = raw
    if b"\0" in raw:
        text = raw.strip(b"\0 \t\r")
        if fill := len(raw) - len(text):
            flaws.append(("nul_fill", f"{_bytes(fill)} of NUL fill"))
        if inner := text.count(b"\0"):
            flaws.append(("nul", f"{_bytes(inner)} of raw NUL, read as escapes"))
            text = text.replace(b"\0", rb"\u0000")
    try:
        text.decode()
    except UnicodeDecodeError as error:
        flaws.append(("utf8", f"bad UTF-8 at byte {error.start}, read as U+FFFD"))
        text = text.decode("utf-8", "replace").encode()
    return text, flaws


def _glued(text: str, habit: Habit) -> Iterator[tuple[Body, bytes]]:
    """The complete objects of a line: those from its start, and those after something incomplete."""
    decode = json.JSONDecoder(parse_constant=refuse_constant).raw_decode
    place, adjacent = 0, True
    for _ in range(TRIES):
        match = habit.starts.search(text, place)
        start = place if adjacent and text.startswith("{", place) else match and match.start()
        if start is None:
            return
        try:
            body, place = decode(text, start)
        except (ValueError, RecursionError):
            place, adjacent = start + 1, False
            continue
        complete = adjacent and isinstance(body, dict)
        if complete or habit.fits(body):
            yield body, text[start:place].encode("utf-8", "surrogatepass")
            adjacent = True
            place += len(text[place:]) - len(text[place:].lstrip())


def _repeated_keys(raw: bytes, body: Body) -> list[str]:
    """Keys that occur twice in one object; an object that encodes to its original text has none."""
    try:
        if orjson.dumps(body) == raw:
            return []
    except TypeError:
        pass  # an integer or a string that only the slow encoder supports
    twice: list[str] = []

    def notice(pairs: list[tuple[str, Any]]) -> Body:
        body = dict(pairs)
        if len(body) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            twice.extend(key for key, count in counts.items() if count > 1)
        return body

    json.loads(raw, object_pairs_hook=notice)
    return twice


def _kind(value: Any) -> str:
    names = {str: "a string", bool: "a boolean", list: "an array", type(None): "null"}
    return names.get(type(value), "a number")
