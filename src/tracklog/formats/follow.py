"""Brings files into a journal as they grow: transcripts, kahn archives, any JSONL of a dialect."""

import os
import stat
from collections import defaultdict
from collections.abc import Iterator, Sequence
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, NamedTuple

from tracklog.intake.intake import Intake, Verdict
from tracklog.journal.frame import Mark
from tracklog.journal.offsets import Place
from tracklog.model.lines import Line, split

STEP = 4 << 20
"""Bytes of a file that are admitted at a time, at least a line."""

FIRST = 1 << 16
"""Bytes of its first line by which a file is known."""


class Heard(NamedTuple):
    """What became of some lines of a file."""

    path: Path
    lines: list[Line]
    verdicts: list[Verdict]


class Unheard(NamedTuple):
    """A file that cannot be read; it is said once, and tried again."""

    path: Path
    why: str


class Skipped(NamedTuple):
    """A link that leads out of the folder that is watched; it is reported once."""

    path: Path


class Follower:
    """Watches folders and files; each file's place stands in the journal with its records.

    A file is known by its path and its first line: one that was replaced is read from its start,
    and one that was renamed is read on where it was, if what was heard last stands there.
    What lies in `home` is our own, and is never listened to.
    A link in a folder that leads out of it is not read, unless `follow_symlinks`: whoever can
    write to the folder could have any other file read.
    """

    def __init__(
        self,
        intake: Intake,
        paths: Sequence[Path],
        dialect: str | None = None,
        home: Path | None = None,
        *,
        follow_symlinks: bool = False,
    ) -> None:
        self._intake = intake
        self._follow_symlinks = follow_symlinks
        self._skipped: dict[Path, bool] = {}
        """The links that lead out of their folder, and whether they were reported."""
        self._paths = paths
        self._dialect = dialect
        self._home = home and home.resolve()
        self._places: dict[str, int] = {}
        self._alike: defaultdict[str, set[str]] | None = None
        """The sources that ever left a mark, by what tells first lines apart."""
        self._seen: dict[Path, tuple[int, ...]] = {}
        self._counted: dict[str, tuple[int, int]] = {}
        self._unheard: set[Path] = set()

    def poll(self) -> Iterator[Heard | Unheard | Skipped]:
        """Whatever is new and whole since the last time; a line without its end is waited for."""
        for path in self.files():
            try:
                found = path.stat()
                seen = (found.st_size, found.st_ino, found.st_mtime_ns)
                if self._seen.get(path) == seen:
                    continue
                yield from self._read(path, found)
                self._seen[path] = seen
                self._unheard.discard(path)
            except FileNotFoundError:
                self._seen.pop(path, None)  # gone: what was heard of it stays
            except OSError as error:
                if path not in self._unheard:
                    yield Unheard(path, error.strerror or str(error))
                self._unheard.add(path)
        for path, reported in self._skipped.items():
            if not reported:
                self._skipped[path] = True
                yield Skipped(path)

    def files(self) -> list[Path]:
        """The files that it reads: those named, and every `.jsonl` of the folders named."""
        found: list[Path] = []
        for path in self._paths:
            if not path.is_dir():
                found.append(path)
                continue
            inside = sorted(self._inside(path))
            found += [each for each in inside if not self._own(each)] if self._own(path) else inside
        return found

    def _inside(self, folder: Path) -> Iterator[Path]:
        """The files of a folder and of those in it."""
        root = folder.resolve()
        seen: set[Path] = set()
        for place, folders, files in os.walk(folder, followlinks=self._follow_symlinks):
            where = Path(place)
            if self._follow_symlinks:
                if (real := where.resolve()) in seen:
                    folders.clear()  # a link leads back to where we were
                    continue
                seen.add(real)
            for name in (*folders, *files):
                path = where / name
                if not self._follow_symlinks and path.is_symlink() and self._leads_out(path, root):
                    continue
                if name.endswith(".jsonl") and path.is_file():
                    yield path

    def _leads_out(self, path: Path, root: Path) -> bool:
        """Whether a link leads out of the folder; one to what is of interest is reported."""
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError):
            return True  # it leads nowhere
        if real == root or root in real.parents:
            return False
        if path.name.endswith(".jsonl") or real.is_dir():
            self._skipped.setdefault(path, False)
        return True

    def _own(self, path: Path) -> bool:
        """Whether our home and that file or folder lie in one another."""
        home, path = self._home, path.resolve()
        return home is not None and (path == home or home in path.parents or path in home.parents)

    def _read(self, path: Path, found: os.stat_result) -> Iterator[Heard]:
        size = found.st_size
        if not stat.S_ISREG(found.st_mode):
            raise OSError(0, "it is no regular file")  # a pipe would have us wait for its writer
        with path.open("rb") as file:
            first = file.readline(FIRST)
            if not first.endswith(b"\n") and len(first) < FIRST:
                return  # its first line is still being written
            source = _source(path, first)
            place = self._place(source, file)
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
                heard = self._admit(path, source, place, block[:whole])
                if any(verdict.problems for verdict in heard.verdicts):
                    before = self._lines_before(file, source, place)
                    lines = [line._replace(number=line.number + before) for line in heard.lines]
                    heard = heard._replace(lines=lines)
                yield heard
                place += whole
                self._places[source] = place

    def _admit(self, path: Path, source: str, place: int, block: bytes) -> Heard:
        lines = list(split(BytesIO(block), self._intake.cap))
        mark = Mark(source, place + len(block))
        return Heard(path, lines, self._intake.admit_lines(lines, self._dialect, mark=mark))

    def _lines_before(self, file: BinaryIO, source: str, place: int) -> int:
        """How many lines of a file end before that place; only a refusal wants to know."""
        at, count = self._counted.get(source, (0, 0))
        if at > place:
            at, count = 0, 0
        file.seek(at)
        while at < place and (block := file.read(min(STEP, place - at))):
            at, count = at + len(block), count + block.count(b"\n")
        self._counted[source] = at, count
        return count

    def _place(self, source: str, file: BinaryIO) -> int:
        if source not in self._places:
            known = self._intake.marks.place(source) or self._renamed(source, file)
            self._places[source] = known.through if known else 0
        return self._places[source]

    def _renamed(self, source: str, file: BinaryIO) -> Place | None:
        """Where a file got to under another name, which nothing that begins alike has any more."""
        marks = self._intake.marks
        if self._alike is None:
            self._alike = defaultdict(set)
            for each in marks.sources():
                self._alike[each[-BEGUN:]].add(each)
        alike = self._alike[source[-BEGUN:]]
        places = [known for each in alike if not _stands(each) and (known := marks.place(each))]
        alike.add(source)
        return max((known for known in places if self._holds(file, known)), default=None)

    def _holds(self, file: BinaryIO, known: Place) -> bool:
        """Whether the record that said how far a source got stands in this file, before that place.

        Kahn lines have no identity: what is taken for new is counted again, and what is taken
        for known is lost. So the bytes decide.
        """
        record = next(iter(self._intake.journal.read(known.seq - 1, 1)), None)
        if record is None or record.seq != known.seq or not record.line:
            return False
        begin = max(0, known.through - max(STEP, len(record.line) + 2))
        file.seek(begin)
        return record.line in file.read(known.through - begin)


BEGUN = 16
"""Characters of a source's name that tell first lines apart."""


def _source(path: Path, first: bytes) -> str:
    name = os.fsencode(path.resolve()).decode("utf-8", "backslashreplace")
    return f"file:{name}#{sha256(first).hexdigest()[:BEGUN]}"


def _stands(source: str) -> bool:
    """Whether the file of this name still begins as it did, as far as its name can be read."""
    name = source.removeprefix("file:")[: -BEGUN - 1]
    path = Path(name)
    if "\\" in name:
        return True
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return _source(path, file.readline(FIRST)) == source
    except OSError:
        return False
