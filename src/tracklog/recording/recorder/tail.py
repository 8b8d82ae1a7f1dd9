"""Read the end of a transcript, and repair it before more is written."""

import os
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from tracklog.model.event import Body
from tracklog.model.lines import CHUNK
from tracklog.recording.recorder import appendfile
from tracklog.recording.recorder.appendfile import AppendFile
from tracklog.recording.transcript.entry import loads

Reason = Literal["reopen", "missing_lf", "torn_tail"]


class Tail(NamedTuple):
    """The state of a transcript before the next line."""

    last_seq: int = 0
    """The highest number in the file; 0 when there is none."""
    finished: bool = False
    """Whether its last event is the end of the run."""
    chain: str = ""
    """The value of the hash chain at its end; empty where there is none."""
    whole: int = 0
    """Bytes up to the last line end."""
    rest: bytes = b""
    """The bytes after the last line end."""


class Seam(NamedTuple):
    """The mark where a transcript was opened again, with the repairs made."""

    after_seq: int
    reason: Reason
    repaired_bytes: int | None = None
    quarantine: str | None = None

    def body(self) -> Body:
        return {key: value for key, value in self._asdict().items() if value is not None}


def read(path: Path, ours: str) -> Tail:
    """Read the tail of the file; `ours` is the beginning of the producer mark in our first lines."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        start = _line_start(file, size)
        file.seek(start)
        rest = file.read(size - start)
        tail = _after(Tail(whole=start, rest=rest), _object(_last_line(file, start)))
        if not tail.last_seq or not _ours(file, ours):
            tail = _scan(file, Tail(whole=start, rest=rest))
    return _after(tail, _object(rest))


def repair(file: AppendFile, tail: Tail) -> Seam | None:
    """Make the file end with a line end, and return what was done; None for an empty file.

    Complete lines are never changed; an incomplete line is first copied to a file beside it.
    """
    if not tail.rest:
        return Seam(tail.last_seq, "reopen") if tail.whole else None
    if _object(tail.rest) is not None:
        file.append(b"\n")
        return Seam(tail.last_seq, "missing_lf")
    copy = quarantine(file, tail.whole, tail.rest)
    file.cut(tail.whole)
    file.sync()
    return Seam(tail.last_seq, "torn_tail", len(tail.rest), copy.name)


def quarantine(file: AppendFile, offset: int, torn: bytes) -> Path:
    """Copy incomplete bytes to a file beside the original, on disk before this returns."""
    path = file.path
    copy = path.with_name(f"{path.stem}.torn-{offset}")
    attempt = 1
    while True:
        try:
            appendfile.create(copy, torn, file.disk)
        except FileExistsError:
            if copy.read_bytes() == torn:
                return copy  # an earlier attempt got this far
            attempt += 1
            copy = path.with_name(f"{path.stem}.torn-{offset}-{attempt}")
        else:
            return copy


def _line_start(file: BinaryIO, end: int) -> int:
    """The position after the last line end before `end`."""
    while end > 0:
        start = max(0, end - CHUNK)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def _last_line(file: BinaryIO, end: int) -> bytes:
    if end == 0:
        return b""
    start = _line_start(file, end - 1)
    file.seek(start)
    return file.read(end - 1 - start)


def _scan(file: BinaryIO, tail: Tail) -> Tail:
    """The tail, found by reading every complete line: a foreign file need not be in order."""
    file.seek(0)
    while file.tell() < tail.whole:
        tail = _after(tail, _object(file.readline()))
    return tail


def _after(tail: Tail, body: Body | None) -> Tail:
    """The tail after one more line."""
    if body is None:
        return tail
    chain = body.get("chain")
    return tail._replace(
        last_seq=max(tail.last_seq, _seq(body)),
        finished=body.get("type") == "run.completed",
        chain=chain if isinstance(chain, str) else tail.chain,
    )


def _ours(file: BinaryIO, ours: str) -> bool:
    file.seek(0)
    first = _object(file.readline()) or {}
    producer = _payload(first).get("producer")
    return isinstance(producer, str) and producer.startswith(ours)


def _object(line: bytes) -> Body | None:
    try:
        body = loads(line)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _payload(body: Body) -> dict[str, Any]:
    payload = body.get("payload")
    return payload if isinstance(payload, dict) else {}


def _seq(body: Body) -> int:
    seq = body.get("seq")
    return seq if isinstance(seq, int) and not isinstance(seq, bool) and seq > 0 else 0
