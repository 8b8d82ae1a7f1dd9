"""Admit a stream of lines so that a retry of the stream continues where the last one stopped."""

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from tracklog.intake.intake import Intake
from tracklog.intake.verdicts import Verdicts
from tracklog.journal.frame import Mark
from tracklog.journal.offsets import SourceOffset
from tracklog.model.errors import KeyReused, Overtaken
from tracklog.model.lines import ByteSource, Line, groups

if TYPE_CHECKING:
    from hashlib import _Hash as HASH

    from tracklog.journal.storages import Offsets

_BLOCK = 1 << 20


def admit_stream(
    intake: Intake,
    stream: ByteSource,
    source: str | None,
    dialect: str | None = None,
    *,
    compared: bool = False,
) -> Iterator[tuple[list[Line], Verdicts]]:
    """Admits the lines of a stream as they come; each group leaves its place in the journal.

    `source` names the stream; its place is how many bytes were admitted, with their SHA-256. The
    same bytes under the same name are duplicates, other bytes raise `KeyReused`. No line is called
    a duplicate before all bytes up to the place were compared, here or, if `compared`, before. A
    stream without a name has no offset: lines without an identity are stored again when it is sent
    again.
    """
    resumed = _Resumed(intake, stream, source, dialect, compared=compared)
    for group in groups(resumed, intake.cap):
        yield from resumed.admit(group)
    yield from resumed.compare()


def recorded_names(path: Path, dialect: str | None) -> Iterator[str]:
    """The names under which `record` stores the offsets of files that were ever at that path.

    Each dialect that was named has its own, and so has none.
    """
    full_name = os.fsencode(path.resolve()).decode("utf-8", "backslashreplace")
    name = f"record:{dialect or ''}:{full_name}"
    while True:
        yield name
        name += "+"


def moved_names(offsets: "Offsets", path: Path) -> list[str]:
    """The names under which `record` stored the offsets of files that are now at this path: it
    begins with their bytes, and their own paths no longer do.
    """
    recorded = [each for each in offsets.sources() if each.startswith("record:")]
    places = [(place, name) for name in recorded if (place := offsets.place(name))]
    found, made, at = [], sha256(), 0
    with path.open("rb") as file:
        for place, name in sorted(places):
            at += feed(made, file, at, place.through - at)
            if at < place.through:
                break
            if at and made.hexdigest() == place.sha256:
                former = Path(name.split(":", 2)[2].rstrip("+"))
                if not (former.is_file() and starts_alike(former, place)):
                    found.append(name)
    return found


def starts_alike(path: Path, place: SourceOffset) -> bool:
    """Whether a file still begins with the bytes that were admitted from it."""
    made = sha256()
    with path.open("rb") as file:
        count = feed(made, file, 0, place.through)
    return count == place.through and made.hexdigest() == place.sha256


def feed(made: "HASH", file: BinaryIO, start: int, count: int) -> int:
    """Hashes so many bytes of a file from an offset on; how many there were."""
    file.seek(start)
    left = count
    while left and (block := file.read(min(_BLOCK, left))):
        made.update(block)
        left -= len(block)
    return count - left


def _behind(line: Line) -> int:
    """The offset behind a line and its line end."""
    return line.offset + line.size + line.whole


def _end(line: Line) -> int:
    """The offset behind a line's own bytes: its line end may have arrived later."""
    held = len(line.data) + (3 if line.bom else 0)
    return line.offset + (line.size if line.size > held + 1 else held)


class _Resumed:
    """A stream that is read and hashed, and the place up to which the journal has it."""

    def __init__(
        self,
        intake: Intake,
        stream: ByteSource,
        source: str | None,
        dialect: str | None,
        *,
        compared: bool,
    ) -> None:
        self._intake, self._stream = intake, stream
        self._source, self._dialect = source, dialect
        self._place = intake.offsets.place(source) if source else None
        self._is_other = self._place is not None
        """Whether another call left the place, of bytes that were not compared yet."""
        self._waits = not compared
        self._waiting: list[tuple[list[Line], Verdicts]] = []
        """The results of lines before the place, until they are compared; without their bytes."""
        self._ahead = bytearray()
        self._hash, self._done = sha256(), 0

    def read(self, size: int, /) -> bytes:
        block = self._stream.read(size)
        self._ahead += block
        return block

    def admit(self, lines: list[Line]) -> Iterator[tuple[list[Line], Verdicts]]:
        """Admits the next lines: those before the place as repeated, the others as new."""
        while lines:
            place = self._place
            known = [line for line in lines if place and _end(line) <= place.through]
            if known and place:
                verdicts = self._intake.admit_lines(known, self._dialect, repeated=True)
                if self._is_other and self._waits:
                    self._waiting.append(([line._replace(data=b"") for line in known], verdicts))
                else:
                    yield known, verdicts
                lines = lines[len(known) :]
                self._pass(min(_behind(known[-1]), place.through))
                continue
            yield from self.compare()
            if (new := self._admit_new(lines)) is not None:
                yield lines, new
                return

    def compare(self) -> Iterator[tuple[list[Line], Verdicts]]:
        """The results that waited for the comparison with what was admitted before.

        Raises `KeyReused` if the stream does not begin with that.
        """
        place = self._place
        if place is not None and self._is_other and self._through(place.through) != place.sha256:
            raise KeyReused(
                f"this key was used before, for {place.through:,} bytes that this stream does not "
                f"begin with: see record {place.seq}",
                "give a new stream a key of its own",
            )
        self._is_other = False
        waiting, self._waiting = self._waiting, []
        yield from waiting

    def _admit_new(self, lines: list[Line]) -> Verdicts | None:
        """Admits lines behind the place; None if another process has moved it meanwhile."""
        end, source = _behind(lines[-1]), self._source
        if source is None:
            return self._intake.admit_lines(lines, self._dialect)
        mark = Mark(source, end, self._through(end))
        try:
            verdicts = self._intake.admit_lines(lines, self._dialect, mark=mark, place=self._place)
        except Overtaken:
            verdicts = None
        self._place = self._intake.offsets.place(source)
        if verdicts is None:
            self._is_other = self._place is not None
            return None
        self._is_other = self._place is not None and self._place.through > end
        self._pass(end)
        return verdicts

    def _through(self, end: int) -> str:
        """The SHA-256 of the first `end` bytes; of fewer, where the stream has no more."""
        made = self._hash.copy()
        made.update(self._ahead[: max(0, end - self._done)])
        return made.hexdigest()

    def _pass(self, end: int) -> None:
        """Nobody will ask for the hash of fewer bytes than these."""
        count = max(0, end - self._done)
        self._hash.update(self._ahead[:count])
        self._done += min(count, len(self._ahead))
        del self._ahead[:count]
