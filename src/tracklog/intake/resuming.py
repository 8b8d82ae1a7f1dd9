"""Admits a stream of lines so that a retry of the same stream goes on where the last one stopped."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from tracklog.intake.intake import Intake, Verdicts
from tracklog.journal.frame import Mark
from tracklog.journal.offsets import Place
from tracklog.model.errors import KeyReused
from tracklog.model.lines import Line, Source, groups

_BLOCK = 1 << 20


def admit_stream(
    intake: Intake, stream: Source, source: str | None, dialect: str | None = None
) -> Iterator[tuple[list[Line], Verdicts]]:
    """Admits the lines of a stream as they come; each group leaves its place in the journal.

    `source` names the stream; its place is how many bytes were admitted, with their SHA-256. The
    same bytes under the same name are duplicates, other bytes raise `KeyReused`. A stream without
    a name has no place: lines without an identity are kept again when it is sent again.
    """
    place = intake.marks.place(source) if source else None
    hashed = _Hashed(stream)
    for group in groups(hashed, intake.cap):
        known = [line for line in group if place and _end(line) <= place.through]
        if known:
            yield known, intake.admit_lines(known, dialect, repeated=True)
        new = group[len(known) :]
        if not new:
            continue
        if place is not None:
            _compare(hashed, place)
            place = None
        last = new[-1]
        end = last.offset + last.size + last.whole
        mark = Mark(source, end, hashed.through(end)) if source else None
        yield new, intake.admit_lines(new, dialect, mark=mark)
    if place is not None:
        _compare(hashed, place)


def starts_alike(path: Path, place: Place) -> bool:
    """Whether a file still begins with the bytes that were admitted from it."""
    made, left = sha256(), place.through
    with path.open("rb") as file:
        while left and (block := file.read(min(_BLOCK, left))):
            made.update(block)
            left -= len(block)
    return not left and made.hexdigest() == place.sha256


def _end(line: Line) -> int:
    """The offset behind a line's own bytes: its line end may have arrived later."""
    held = len(line.data) + (3 if line.bom else 0)
    return line.offset + (line.size if line.size > held + 1 else held)


def _compare(hashed: "_Hashed", place: Place) -> None:
    if hashed.through(place.through) != place.sha256:
        raise KeyReused(
            f"this key was used before, for other lines: see record {place.seq}",
            "give a new stream a key of its own",
        )


class _Hashed:
    """A stream whose bytes are hashed as far as asked, whatever was read ahead."""

    def __init__(self, stream: Source) -> None:
        self._stream = stream
        self._ahead = bytearray()
        self._hash, self._done = sha256(), 0

    def read(self, size: int, /) -> bytes:
        block = self._stream.read(size)
        self._ahead += block
        return block

    def through(self, end: int) -> str:
        """The SHA-256 of the first `end` bytes; of fewer, where the stream has no more."""
        count = max(0, end - self._done)
        block = bytes(self._ahead[:count])
        del self._ahead[:count]
        self._hash.update(block)
        self._done += len(block)
        return self._hash.hexdigest()
