"""Read transcripts to the end of the file: tolerant of damage, and every problem is reported."""

import io
import json
import logging
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from tracklog.dialects.awf import dialect
from tracklog.dialects.awf.shapes import KINDS
from tracklog.dialects.checking import HALVES, Check, checker
from tracklog.model.errors import InvalidEvent
from tracklog.model.event import Body, Event, Finding, Refusal
from tracklog.model.fact import BLOCK_KEYS
from tracklog.model.lines import Line, split
from tracklog.recording.transcript.damaged_line import LinePart, parse
from tracklog.recording.transcript.entry import is_plain, loads

log = logging.getLogger("tracklog")

PayloadClass = Literal["step", "message", "tool", "blocks", "none", "generic"]
Source = str | Path | bytes | BinaryIO


class Flaw(NamedTuple):
    """A problem with a line and its position; reading continues after it."""

    name: str
    number: int
    """The number of the physical line, from 1."""
    offset: int
    """The position of the line's first byte."""
    message: str
    level: Literal["error", "warning", "info"] = "warning"


class TranscriptEvent(NamedTuple):
    """An event read from a transcript; immutable."""

    seq: int | None
    """Its number; None where its writer gave none."""
    type: str
    """The type as written, known or not; empty where there is none."""
    line: bytes
    """The bytes of the physical line, without the line end."""
    number: int
    """The number of the physical line, from 1."""
    offset: int
    """The position of the line's first byte."""
    known: bool
    """Whether `type` is one of the ten."""
    healed: bytes | None = None
    """The text that was parsed instead of `line`, where `line` is not one JSON object."""

    @property
    def body(self) -> Body:
        """The object, parsed on each call, so the caller may change it."""
        body: Body = loads(self.line if self.healed is None else self.healed)
        return body

    @property
    def event(self) -> Event | Refusal:
        """The event as the intake reads it, with tolerances, or the reasons why it would be
        refused.
        """
        text = self.line if self.healed is None else self.healed
        result = _checker()(text)
        exact = isinstance(result, Event) and HALVES not in result.odd and is_plain(text)
        return result if exact else _exactly(text, result)


class TranscriptReader:
    """The events and the flaws of one transcript, in the order of the file.

    `strict` adds an error for each unknown type of event or block, and raises InvalidEvent on a
    known key with an invalid value; unknown keys never raise.
    """

    def __init__(self, source: Source, *, strict: bool = False, multiline: bool = False) -> None:
        self.source = source
        self.strict = strict
        self.multiline = multiline

    def __iter__(self) -> Iterator[TranscriptEvent | Flaw]:
        with _opened(self.source) as file:
            if self.multiline:
                yield from _read_pretty(file.read(), self.strict)
                return
            for line in split(file, sys.maxsize):
                yield from read_line(line, strict=self.strict)

    def read_all(self) -> tuple[list[TranscriptEvent], list[Flaw]]:
        """All events and all flaws."""
        events: list[TranscriptEvent] = []
        flaws: list[Flaw] = []
        for event in self:
            (events if isinstance(event, TranscriptEvent) else flaws).append(event)  # type: ignore[arg-type]  # sorted by kind
        return events, flaws


def read_line(line: Line, *, strict: bool = False) -> Iterator[TranscriptEvent | Flaw]:
    """The content of one physical line: its flaws first, then its events."""
    number, offset = line.number, line.offset
    if line.bom:
        yield Flaw("bom", number, offset, "a byte order mark was dropped", "info")
    parts, flaws = parse(line.data)
    if not line.whole and parts:
        yield Flaw("unterminated", number, offset, "the last line has no line end")
    elif not line.whole and [name for name, _ in flaws] != ["nul_fill"]:
        yield Flaw("torn", number, offset, "the last line has no line end and is incomplete")
        return
    for name, message in flaws:
        yield Flaw(name, number, offset, message)
    for part in parts:
        yield from _judged(part, line.data, number, offset, strict=strict)


def payload_class(payload: Any) -> PayloadClass:
    """The class of a payload by its keys, for a type that does not determine it."""
    if payload is None:
        return "none"
    if isinstance(payload, list):
        return "blocks"
    if isinstance(payload, dict):
        for key, name in PROBES.items():
            if key in payload:
                return name
    return "generic"


PROBES: dict[str, PayloadClass] = {"role": "message", "call_id": "tool", "kind": "step"}
CLASSES: dict[str, PayloadClass] = {
    "run": "step", "step": "step", "message": "message", "tool": "tool",
}  # fmt: skip  # by the first word of the type


def _judged(
    part: LinePart, line: bytes, number: int, offset: int, *, strict: bool
) -> Iterator[TranscriptEvent | Flaw]:
    body = part.body
    kind = body.get("type")
    if not isinstance(kind, str) or not kind:
        yield Flaw("no_type", number, offset, "no type", "error")
        kind = ""
    known = kind in KINDS
    reading = TranscriptEvent(_seq(body), kind, line, number, offset, known, part.healed)
    for finding in _faults(reading, body):
        if strict and finding.name == "bad_field":
            raise InvalidEvent(
                f"line {number}: {finding.message}", "read it without strict to get it unchecked"
            )
        yield Flaw(finding.name, number, offset, finding.message, finding.level)
    if strict:
        yield from _unknown(kind, body, number, offset)
    yield reading


def _faults(reading: TranscriptEvent, body: Body) -> Iterator[Finding]:
    if not reading.known:
        return
    refusal = reading.event
    if isinstance(refusal, Event):
        return
    expected, actual = CLASSES[reading.type.partition(".")[0]], payload_class(body.get("payload"))
    if actual != expected:
        message = f"the payload of {reading.type} is of class {actual}, not {expected}"
        yield Finding("payload_mismatch", message)
        return
    for problem in refusal.problems:
        yield Finding("bad_field", f"{problem.pointer}: {problem.message}")


def _unknown(kind: str, body: Body, number: int, offset: int) -> Iterator[Flaw]:
    if kind and kind not in KINDS:
        yield Flaw("unknown_type", number, offset, f"the event type {kind!r} is unknown", "error")
    payload = body.get("payload")
    blocks = payload.get("blocks") if isinstance(payload, dict) else payload
    for block in blocks if isinstance(blocks, list) else ():
        name = block.get("type") if isinstance(block, dict) else None
        if not isinstance(name, str) or name not in BLOCK_KEYS:
            message = f"the block type {name!r} is unknown"
            yield Flaw("unknown_block", number, offset, message, "error")


def _exactly(text: bytes, result: Event | Refusal) -> Event | Refusal:
    """The event with values that the checker cannot hold: large integers, lone surrogates, deep
    nesting.
    """
    body = loads(text)
    if isinstance(result, Refusal):
        try:
            result = _checker()(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"))
        except RecursionError:
            return result
    if isinstance(result, Refusal):
        return result
    body, odd = dialect.tolerate(body)
    return result._replace(body=body, line=text, odd=tuple(odd))


def _seq(body: Body) -> int | None:
    seq = body.get("seq")
    return seq if isinstance(seq, int) and not isinstance(seq, bool) else None


@cache
def _checker() -> Check:
    return checker(dialect)


@contextmanager
def _opened(source: Source) -> Iterator[BinaryIO]:
    if isinstance(source, bytes):
        yield io.BytesIO(source)
    elif isinstance(source, str | Path):
        with Path(source).open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & 0o077:
                log.warning("%s has mode %04o: others can read it", source, mode)
            yield file
    else:
        yield source


_OBJECT_AT_LINE_START = re.compile(r"^\{", re.MULTILINE)


def _read_pretty(data: bytes, strict: bool) -> Iterator[TranscriptEvent | Flaw]:
    """Objects that span several lines, one after the other."""
    text = data.decode("utf-8", "replace")
    decode = json.JSONDecoder().raw_decode
    place = 0
    while match := _OBJECT_AT_LINE_START.search(text, place):
        start = match.start()
        number, offset = text.count("\n", 0, start) + 1, len(text[:start].encode())
        try:
            body, place = decode(text, start)
        except ValueError as error:
            yield Flaw("syntax", number, offset, f"not JSON: {error}")
            place = start + 1
            continue
        line = text[start:place].encode()
        yield from _judged(LinePart(body), line, number, offset, strict=strict)
