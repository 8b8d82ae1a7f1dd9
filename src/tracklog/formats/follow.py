"""Read growing files into a journal: transcripts, kahn archives, any JSONL of a dialect."""

import os
import stat
from collections import defaultdict
from collections.abc import Iterator, Sequence
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from tracklog.dialects.checking import is_object
from tracklog.intake.intake import Intake
from tracklog.intake.resuming import feed, recorded_names
from tracklog.intake.verdicts import Verdict
from tracklog.journal.frame import Mark
from tracklog.journal.offsets import SourceOffset
from tracklog.model.errors import Overtaken
from tracklog.model.lines import Line, split

if TYPE_CHECKING:
    from hashlib import _Hash as HASH

STEP = 4 << 20
"""Bytes of a file that are admitted at a time, at least one line."""

FIRST = 1 << 16
"""How many bytes of its first line identify a file."""

LAST = 1 << 12
"""Bytes before the offset that are compared whenever a file has changed."""


class LinesRead(NamedTuple):
    """The result for some lines of a file."""

    path: Path
    lines: list[Line]
    verdicts: list[Verdict]


class UnreadableFile(NamedTuple):
    """A file that cannot be read; reported once, and tried again."""

    path: Path
    why: str


class TornLine(NamedTuple):
    """A last line that has no line end and is no complete JSON object."""

    path: Path
    number: int
    """0 for a file that is one document."""
    size: int
    stored: bool = False
    """Whether its bytes are stored, with a finding on its run, as of the log of an agent."""

    @property
    def place(self) -> str:
        return f"{self.path}, line {self.number}" if self.number else str(self.path)


class SkippedLink(NamedTuple):
    """A link that leads out of the watched folder; reported once."""

    path: Path


FileRead = LinesRead | TornLine | UnreadableFile | SkippedLink


class _Behind(NamedTuple):
    """The part of a file that was read, by which the file is recognised."""

    through: int
    made: "HASH"
    """The hash of the bytes up to the offset."""
    last: bytes
    """The last bytes before the offset."""
    inode: int

    @property
    def place(self) -> SourceOffset:
        return SourceOffset(self.through, 0, self.made.hexdigest())


class Follower:
    """Watches folders and files; the offset of each file is stored in the journal with its records.

    A file is identified by its path and its first line. Reading resumes at the offset if the bytes
    before it are unchanged; if not, it is another file and is read from its start. All bytes before
    the offset are compared when a file is first seen or has another inode, the last bytes whenever
    it has changed. A renamed file resumes at its offset. Files inside `home` are never read. A link
    in a folder that leads out of the folder is not read, unless `follow_symlinks`: otherwise
    anybody who can write to the folder could have any other file read.
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
        self._behind: dict[str, _Behind] = {}
        self._marked: dict[str, SourceOffset | None] = {}
        """The last offset of each source that is known here; a different one was written by another
        process.
        """
        self._alike: defaultdict[str, set[str]] | None = None
        """The sources that ever had an offset, by the beginning of their name."""
        self._seen: dict[Path, tuple[int, ...]] = {}
        self._counted: dict[str, tuple[int, int]] = {}
        self._unread: set[Path] = set()

    def poll(self, *, final: bool = False) -> Iterator[FileRead]:
        """Read the new complete lines; a line without a line end is left until it is complete.

        With `final` nothing more is expected: a last line without a line end is read if it is a
        complete JSON object, and reported if it is not. If the file grows all the same, reading
        resumes behind that line.
        """
        for path in self.files():
            try:
                status = path.stat()
                seen = (status.st_size, status.st_ino, status.st_mtime_ns)
                if self._seen.get(path) == seen:
                    continue
                yield from self._read(path, status, final=final)
                self._seen[path] = seen
                self._unread.discard(path)
            except FileNotFoundError:
                self._seen.pop(path, None)  # deleted: its records stay
            except OSError as error:
                if path not in self._unread:
                    yield UnreadableFile(path, error.strerror or str(error))
                self._unread.add(path)
        for path, reported in self._skipped.items():
            if not reported:
                self._skipped[path] = True
                yield SkippedLink(path)

    def files(self) -> list[Path]:
        """The files to read: those named, and every `.jsonl` in the named folders."""
        files: list[Path] = []
        for path in self._paths:
            if not path.is_dir():
                files.append(path)
                continue
            inside = sorted(self._inside(path))
            files += [each for each in inside if not self._own(each)] if self._own(path) else inside
        return files

    def _inside(self, folder: Path) -> Iterator[Path]:
        """The files of a folder and its subfolders."""
        root = folder.resolve()
        seen: set[Path] = set()
        for place, folders, files in os.walk(folder, followlinks=self._follow_symlinks):
            where = Path(place)
            if self._follow_symlinks:
                if (real := where.resolve()) in seen:
                    folders.clear()  # a link leads back to a parent folder
                    continue
                seen.add(real)
            for name in (*folders, *files):
                path = where / name
                if not self._follow_symlinks and path.is_symlink() and self._leads_out(path, root):
                    continue
                if name.endswith(".jsonl") and path.is_file():
                    yield path

    def _leads_out(self, path: Path, root: Path) -> bool:
        """Whether a link leads out of the folder; one to a file that would be read is reported."""
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError):
            return True  # a broken link
        if real == root or root in real.parents:
            return False
        if path.name.endswith(".jsonl") or real.is_dir():
            self._skipped.setdefault(path, False)
        return True

    def _own(self, path: Path) -> bool:
        """Whether our home and that file or folder contain one another."""
        home, path = self._home, path.resolve()
        return home is not None and (path == home or home in path.parents or path in home.parents)

    def _read(
        self, path: Path, status: os.stat_result, *, final: bool
    ) -> Iterator[LinesRead | TornLine]:
        size = status.st_size
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is no regular file")  # reading a pipe would wait for its writer
        with path.open("rb") as file:
            first = file.readline(FIRST)
            if not (final or first.endswith(b"\n")) and len(first) < FIRST:
                return  # its first line is not complete yet
            source = _source(path, first)
            behind = self._resume(path, source, file, status.st_ino, len(first))
            while (behind := self._moved(source, file, behind)).through < size:
                if _is_extended(file, behind, size):
                    behind = _before_line(file, behind)
                place = behind.through
                file.seek(place)
                block = file.read(min(STEP, size - place))
                while b"\n" not in block and place + len(block) < size:
                    block += file.read(STEP)
                whole = block.rfind(b"\n") + 1
                if final and place + len(block) >= size and self._is_complete(block[whole:]):
                    whole = len(block)
                if not whole:
                    if final and block:
                        yield TornLine(
                            path, self._lines_before(file, source, place) + 1, len(block)
                        )
                    return
                read = _read_on(behind, block[:whole])
                result = self._admit(path, source, read, block[:whole])
                if result is None:
                    continue
                if any(verdict.problems for verdict in result.verdicts):
                    before = self._lines_before(file, source, place)
                    lines = [line._replace(number=line.number + before) for line in result.lines]
                    result = result._replace(lines=lines)
                yield result
                self._behind[source] = behind = read

    def _is_complete(self, rest: bytes) -> bool:
        """Whether the bytes behind the last line end are a complete line, or blank."""
        lines = list(split(BytesIO(rest), self._intake.cap))
        return all(line.size <= self._intake.cap and is_object(line.data) for line in lines)

    def _admit(self, path: Path, source: str, read: _Behind, block: bytes) -> LinesRead | None:
        """Admit a piece of a file; None if another process was faster."""
        lines = list(split(BytesIO(block), self._intake.cap))
        mark, known = Mark(source, read.through, read.place.sha256), self._marked[source]
        try:
            verdicts = self._intake.admit_lines(lines, self._dialect, mark=mark, place=known)
        except Overtaken:
            return None
        first = next((each.seq for each in verdicts if each.verdict == "accepted"), None)
        if first is not None:
            self._marked[source] = SourceOffset(mark.through, first, mark.sha256)
        return LinesRead(path, lines, verdicts)

    def _moved(self, source: str, file: BinaryIO, behind: _Behind) -> _Behind:
        """The offset to resume at: after the part that another process has read meanwhile."""
        known, before = self._intake.offsets.place(source), self._marked[source]
        self._marked[source] = known
        if known is not None and known != before:
            behind = self._behind[source] = self._farthest(file, [known], behind.inode)
        return behind

    def _lines_before(self, file: BinaryIO, source: str, place: int) -> int:
        """How many lines of a file end before that offset; needed only for a refusal."""
        at, count = self._counted.get(source, (0, 0))
        if at > place:
            at, count = 0, 0
        file.seek(at)
        while at < place and (block := file.read(min(STEP, place - at))):
            at, count = at + len(block), count + block.count(b"\n")
        self._counted[source] = at, count
        return count

    def _resume(self, path: Path, source: str, file: BinaryIO, inode: int, first: int) -> _Behind:
        """The offset to resume at: after the part that was read, if it is unchanged."""
        behind = self._behind.get(source)
        if behind is None:
            known = self._marked[source] = self._intake.offsets.place(source)
            places = [known] if known else self._renamed(source, first)
            named = self._intake.dialect_names if self._dialect is None else (self._dialect,)
            for dialect in (None, *named):
                for name in recorded_names(path, dialect):
                    if (recorded := self._intake.offsets.place(name)) is None:
                        break
                    places.append(recorded)
            behind = self._farthest(file, places, inode)
        elif behind.inode != inode:
            behind = self._farthest(file, [behind.place], inode)
        elif _last_of(file, behind.through) != behind.last:
            behind = _nothing_of(inode)
        self._behind[source] = behind
        return behind

    def _renamed(self, source: str, first: int) -> list[SourceOffset]:
        """The offsets of files with the same beginning whose paths no longer hold such a file, and
        the offsets in this file inside its first line, which had another end then.
        """
        offsets = self._intake.offsets
        if self._alike is None:
            self._alike = defaultdict(set)
            for each in filter(_is_file, offsets.sources()):
                self._alike[each[-BEGUN:]].add(each)
                self._alike[_file_of(each)].add(each)
        alike = self._alike[source[-BEGUN:]]
        places = [known for each in alike if not _stands(each) and (known := offsets.place(each))]
        begun = filter(None, map(offsets.place, self._alike[_file_of(source)]))
        places += [known for known in begun if known.sha256 and known.through <= first]
        alike.add(source)
        return places

    def _farthest(self, file: BinaryIO, places: list[SourceOffset], inode: int) -> _Behind:
        """The last of these offsets before which the file has the bytes that were read."""
        farthest, made, at = _nothing_of(inode), sha256(), 0
        for known in sorted(places):
            at += feed(made, file, at, known.through - at)
            if at < known.through:
                break  # the file is shorter than the part that was read
            stands = known.sha256 == made.hexdigest() if known.sha256 else self._holds(file, known)
            if stands:
                farthest = _Behind(at, made.copy(), _last_of(file, at), inode)
        return farthest

    def _holds(self, file: BinaryIO, known: SourceOffset) -> bool:
        """Whether the record that stored the offset of a source is in this file, before that
        offset.

        For offsets without a hash, as written by earlier versions.
        """
        record = next(iter(self._intake.journal.read(known.seq - 1, 1)), None)
        if record is None or record.seq != known.seq or not record.line:
            return False
        begin = max(0, known.through - max(STEP, len(record.line) + 2))
        file.seek(begin)
        return record.line in file.read(known.through - begin)


def _nothing_of(inode: int) -> _Behind:
    return _Behind(0, sha256(), b"", inode)


def _last_of(file: BinaryIO, end: int) -> bytes:
    begin = max(0, end - LAST)
    file.seek(begin)
    return file.read(end - begin)


def _is_extended(file: BinaryIO, behind: _Behind, size: int) -> bool:
    """Whether the line before the offset had no line end when it was read, and has more text now."""
    if behind.last[-1:] in (b"", b"\n"):
        return False
    file.seek(behind.through)
    return bool(file.readline(size - behind.through).strip())


def _before_line(file: BinaryIO, behind: _Behind) -> _Behind:
    """The offset at the beginning of the line that ends at this offset."""
    end, begin = behind.through, 0
    while end and not begin:
        start = max(0, end - STEP)
        file.seek(start)
        end_of_line = file.read(end - start).rfind(b"\n")
        end, begin = start, start + end_of_line + 1 if end_of_line >= 0 else 0
    made = sha256()
    feed(made, file, 0, begin)
    return _Behind(begin, made, _last_of(file, begin), behind.inode)


def _read_on(behind: _Behind, block: bytes) -> _Behind:
    made = behind.made.copy()
    made.update(block)
    last = (behind.last + block[-LAST:])[-LAST:]
    return _Behind(behind.through + len(block), made, last, behind.inode)


BEGUN = 16
"""Characters of a source's name that distinguish first lines."""


def source_of(path: Path) -> str:
    """The name under which the offset of a file is stored, as far as the file goes now."""
    with path.open("rb") as file:
        return _source(path, file.readline(FIRST))


def _source(path: Path, first: bytes) -> str:
    """The name of a file: its path and its first line, whose line end may be missing."""
    if len(first) < FIRST:
        first = first.removesuffix(b"\n") + b"\n"
    name = os.fsencode(path.resolve()).decode("utf-8", "backslashreplace")
    return f"file:{name}#{sha256(first).hexdigest()[:BEGUN]}"


def _is_file(source: str) -> bool:
    return source.startswith("file:")


def _file_of(source: str) -> str:
    """The part of a source's name that is the path."""
    return source[: -BEGUN - 1]


def _stands(source: str) -> bool:
    """Whether the file with this name still begins the same way, as far as its name can be decoded."""
    name = _file_of(source).removeprefix("file:")
    path = Path(name)
    if "\\" in name:
        return True
    if not path.is_file():
        return False
    try:
        return source_of(path) == source
    except OSError:
        return False
