"""Repair a JSONL file line by line: restore lines, set the others aside, and report both."""

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from tracklog.journal.disk import Disk, write_all
from tracklog.model.errors import TracklogError, TranscriptLocked
from tracklog.model.lines import Line, split
from tracklog.model.problems import is_utf16
from tracklog.recording.transcript.damaged_line import EVENTS, Habit, habit_of, parse
from tracklog.recording.transcript.entry import loads
from tracklog.recording.transcript.state import is_locked

DISK = Disk()
NO_CAP = 1 << 62
SPLITTERS = {"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}
"""Characters that JSON allows raw in a string and at which a simple reader splits a line."""
MESSAGES = {
    "bom": "a byte order mark was dropped",
    "crlf": "its line end was CRLF",
    "unterminated": "its line end was missing",
    "splitter": "characters at which some readers split a line were escaped",
}
"""The message of a flaw that has none of its own."""
JOINED = 100
"""How many physical lines a line with raw line breaks in its strings may span."""
JOINED_BYTES = 1 << 22


class RepairedLine(NamedTuple):
    """The result for one physical line, or for several that belong together."""

    number: int
    """The number of the first physical line, from 1."""
    offset: int
    """The position of its first byte."""
    action: Literal["kept", "healed", "set aside"]
    flaws: tuple[str, ...]
    """Names: bom, crlf, splitter, nul, nul_fill, utf8, glued, newline, unterminated, torn, syntax."""
    message: str
    lines: tuple[bytes, ...]
    """The lines that replace it, without line ends; none where it was set aside."""


class RepairReport(NamedTuple):
    """The result of a repair, or of a dry run."""

    path: Path
    lines: int
    """Lines in the repaired file."""
    changes: tuple[RepairedLine, ...]
    """Every line that was changed or set aside."""
    original: Path | None = None
    """The path of the untouched original; None where nothing was written."""


def repaired_lines(lines: Iterable[Line], habit: Habit = EVENTS) -> Iterator[RepairedLine]:
    """The result for each line; pure."""
    waiting: list[Line] = []
    source = iter(lines)
    while True:
        line = waiting.pop(0) if waiting else next(source, None)
        if line is None:
            return
        repaired = _repair_line(line, habit)
        if repaired.action == "set aside" and repaired.flaws[-1:] == ("syntax",) and line.whole:
            waiting += islice(source, JOINED - len(waiting))
            joined, used = _join(line, waiting)
            if joined is not None:
                repaired, waiting = joined, waiting[used:]
        if repaired.lines and habit is EVENTS:
            habit = _learned(repaired.lines[0])
        yield repaired


def examine(path: str | Path) -> RepairReport:
    """The report of a repair; the file is only read."""
    path = Path(path)
    with path.open("rb") as file:
        if is_utf16(file.readline(1 << 16)):
            raise TracklogError(
                f"{path} is UTF-16, which cannot be repaired line by line",
                f"convert it first: iconv -f UTF-16 -t UTF-8 {path}",
            )
        file.seek(0)
        count, changes = 0, []
        for repaired in repaired_lines(split(file, NO_CAP)):
            count += len(repaired.lines)
            if repaired.action != "kept":
                changes.append(repaired)
    return RepairReport(path, count, tuple(changes))


def repair(path: str | Path, disk: Disk = DISK) -> RepairReport:
    """Repair the file in place, and keep the original beside it; a sound file is not touched.

    The repaired file is complete before it replaces the original.
    """
    report = examine(path)
    path = report.path
    if not report.changes:
        return report
    if is_locked(path):
        raise TranscriptLocked(f"a writer has {path}", "close its recorder, then repair it")
    original = _free_name(path)
    temporary = path.with_name(f"{path.name}.mending")
    mode = path.stat().st_mode & 0o777
    fd = disk.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with path.open("rb") as file:
            for repaired in repaired_lines(split(file, NO_CAP)):
                write_all(disk, fd, b"".join(line + b"\n" for line in repaired.lines))
        os.fchmod(fd, mode)
        disk.sync(fd)
    finally:
        disk.close(fd)
    os.link(path, original)  # both names exist until the new file has replaced the old one
    disk.rename(temporary, path)
    disk.sync_folder(path.parent)
    return report._replace(original=original)


def _repair_line(line: Line, habit: Habit) -> RepairedLine:
    parts, flaws = parse(line.data, habit)
    names = [name for name, _ in flaws if name not in ("dup_key", "not_object")]
    messages = [message for name, message in flaws if name in names]
    if "syntax" in names:
        names[-1] = "syntax" if line.whole else "torn"
        return RepairedLine(line.number, line.offset, "set aside", tuple(names), messages[-1], ())
    texts = [part.healed or line.data for part in parts]
    if not parts and not names:
        texts = [line.data]  # JSON that is no object: not repaired here
    names += _transport(line)
    split_free = [_unsplittable(text) for text in texts]
    if split_free != texts:
        names.append("splitter")
    action: Literal["kept", "healed", "set aside"] = "healed" if names else "kept"
    if names and not split_free:
        action = "set aside"
    return RepairedLine(
        line.number,
        line.offset,
        action,
        tuple(names),
        "; ".join(messages + [MESSAGES[name] for name in names if name in MESSAGES]),
        tuple(split_free),
    )


def _transport(line: Line) -> Iterator[str]:
    if line.bom:
        yield "bom"
    if line.size - len(line.data) > (3 if line.bom else 0):
        yield "crlf"
    if not line.whole:
        yield "unterminated"


def _unsplittable(text: bytes) -> bytes:
    if text.isascii():
        return text
    content = text.decode("utf-8", "surrogatepass")
    for raw, escaped in SPLITTERS.items():
        content = content.replace(raw, escaped)
    return content.encode("utf-8", "surrogatepass")


def _join(line: Line, following: list[Line]) -> tuple[RepairedLine | None, int]:
    """One object whose strings hold raw line breaks, if the next lines complete it."""
    text, number = line.data, line.number
    for used, more in enumerate(following, 1):
        if more.number != number + 1 or len(text) > JOINED_BYTES:
            return None, 0
        text, number = text + rb"\n" + more.data, more.number
        try:
            complete = isinstance(loads(text), dict)
        except (ValueError, RecursionError):
            continue
        if complete:
            message = f"{used + 1} physical lines were one line with raw line breaks"
            place = (line.number, line.offset)
            return RepairedLine(*place, "healed", ("newline",), message, (text,)), used
    return None, 0


def _learned(line: bytes) -> Habit:
    """The beginning of the lines of a file, from its first complete line; transcripts have a fixed
    one.
    """
    try:
        body = loads(line)
        if isinstance(body, dict) and body and not EVENTS.fits(body):
            return habit_of(line)
    except ValueError:
        pass
    return EVENTS


def _free_name(path: Path) -> Path:
    number = 1
    while (name := path.with_name(f"{path.name}.orig-{number}")).exists():
        number += 1
    return name
