"""Brings files into a journal as they grow: transcripts, kahn archives, any JSONL of a dialect."""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from tracklog.intake import Intake, Verdict
from tracklog.lines import Line, split

STEP = 4 << 20
"""Bytes of a file that are admitted at a time, at least a line."""


class Heard(NamedTuple):
    """What became of some lines of a file."""

    path: Path
    lines: list[Line]
    verdicts: list[Verdict]


class Follower:
    """Watches folders and files; each file's place stands in the journal with its records.

    A file is known by its path and its first line: one that was replaced is read from its start.
    """

    def __init__(self, intake: Intake, paths: Sequence[Path], dialect: str | None = None) -> None:
        self._intake = intake
        self._paths = paths
        self._dialect = dialect
        self._places: dict[str, int] = {}
        self._sizes: dict[Path, int] = {}

    def poll(self) -> Iterator[Heard]:
        """Whatever is new and whole since the last time; a line without its end is waited for."""
        for path in self._files():
            try:
                size = path.stat().st_size
                if self._sizes.get(path) != size:
                    yield from self._read(path, size)
                    self._sizes[path] = size
            except FileNotFoundError:
                self._sizes.pop(path, None)  # gone: what was heard of it stays

    def _files(self) -> list[Path]:
        found: list[Path] = []
        for path in self._paths:
            found += sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]
        return found

    def _read(self, path: Path, size: int) -> Iterator[Heard]:
        with path.open("rb") as file:
            first = file.readline(1 << 16)
            if not first.endswith(b"\n") and len(first) < 1 << 16:
                return  # its first line is still being written
            source = f"file:{path.resolve()}#{sha256(first).hexdigest()[:16]}"
            place = self._place(source)
            if place > size:
                place = 0  # cut back: what is there now is read again
            while place < size:
                file.seek(place)
                block = file.read(min(STEP, size - place))
                while b"\n" not in block and place + len(block) < size:
                    block += file.read(STEP)
                whole = block.rfind(b"\n") + 1
                if not whole:
                    return
                yield self._admit(path, source, place, block[:whole])
                place += whole
                self._places[source] = place

    def _admit(self, path: Path, source: str, place: int, block: bytes) -> Heard:
        lines = list(split(BytesIO(block), self._intake.cap))
        mark = (source, place + len(block))
        return Heard(path, lines, self._intake.admit_lines(lines, self._dialect, mark=mark))

    def _place(self, source: str) -> int:
        if source not in self._places:
            known = self._intake.marks.place(source)
            self._places[source] = known.through if known else 0
        return self._places[source]
