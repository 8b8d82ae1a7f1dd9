"""Read one source from an offset on: its lines, and the new offset."""

import os
import tempfile
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import orjson

from tracklog.formats.importers._large_values import Put, Redact, hashed
from tracklog.formats.importers._line_writer import LineWriter
from tracklog.formats.importers._provisional import MOST, Guess, Provisional, guesses
from tracklog.formats.importers._records import (
    DAMAGED,
    TORN,
    Raw,
    document,
    events,
    records,
    text,
)
from tracklog.formats.importers._report import ImportReport
from tracklog.formats.importers._sqlite import MAGIC
from tracklog.model.lines import BOM

if TYPE_CHECKING:
    from tracklog.formats.importers import Importer, Others, Reader

HEAD = 64 << 10
"""Bytes of a file that importers see to recognise it."""
COMPARED = 64 << 10
"""Bytes at the start of a file, and before its offset, that identify it."""
STEP = 1 << 20
"""Bytes of lines that are handed over at a time."""
UNITS = ("document", "text", "store")
"""The forms of sources that are read from their start each time."""
HELD = 256
"""How many records are held until one names the conversation."""


@dataclass(slots=True)
class SourcePosition:
    """How far a source was read; a cache: without it the source is read again, with the same
    result.
    """

    importer: str = ""
    mapping: str = ""
    device: int = 0
    inode: int = 0
    size: int = 0
    modified: int = 0
    """The time of the last change, in nanoseconds."""
    offset: int = 0
    head: str = ""
    """The SHA-256 of the first KiB, or of a shorter file."""
    head_size: int = 0
    tail: str = ""
    """The SHA-256 of the last KiB before the offset."""
    run: str = ""
    state: dict[str, Any] = field(default_factory=dict)
    """The state of the reader."""
    kept: dict[str, Any] = field(default_factory=dict)
    """The state of the line writer."""

    def as_json(self) -> dict[str, Any]:
        """Its parts without copying: the states of the reader and the writer are shared."""
        return {each: getattr(self, each) for each in self.__slots__}

    def copy(self) -> "SourcePosition":
        """A copy that does not change while reading continues."""
        return SourcePosition(**orjson.loads(orjson.dumps(self.as_json())))


class LineBatch(NamedTuple):
    """Some lines of a source, and the place after them."""

    lines: list[bytes]
    place: SourcePosition
    """The place of the reading itself, which continues: copy it to store it."""
    through: int
    """Bytes of the source that were read so far."""
    bodies: Sequence[dict[str, Any] | None] = ()
    """The body of each line, where it can be checked instead of the line."""
    quoted: Sequence[tuple[str, bytes]] = ()
    """Lines that the source carries in another dialect, each with the dialect's name."""


class TornTail(NamedTuple):
    """An incomplete record at the end of a source."""

    line: int
    """The number of its line; 0 for a source that is one document."""
    size: int
    stored: bool
    """Whether its bytes are stored, with a finding on its run."""


class SourceStatus(NamedTuple):
    """What tells whether a source has changed: also for the files that belong to it."""

    device: int
    inode: int
    size: int
    modified: int


def status_of(path: Path, beside: Iterable[Path] = ()) -> SourceStatus:
    """The status of a file and of the files that belong to it; raises if the file is missing."""
    status = path.stat()
    size, modified = status.st_size, status.st_mtime_ns
    for each in beside:
        try:
            other = each.stat()
        except OSError:
            continue
        size, modified = size + other.st_size, max(modified, other.st_mtime_ns)
    return SourceStatus(status.st_dev, status.st_ino, size, modified)


class SourceReading:
    """One source being read; call `lines` again when it has grown."""

    def __init__(
        self,
        importer: "Importer",
        path: Path,
        *,
        others: "Others | None" = None,
        put: Put = hashed,
        redact: Redact | None = None,
        path_of: str | None = None,
    ) -> None:
        self.importer = importer
        self.path = path
        self.report = ImportReport()
        self.again = ""
        """The reason why it is read from its start, although it was read before."""
        self.runs: Mapping[str, int] = {}
        """The runs of the source, with their number of lines."""
        self.timeless: Collection[str] = ()
        """The runs of which no line has a time."""
        self.completed: int | None = None
        """The position of a record that was incomplete before and is complete now, if no line is
        from there.
        """
        self.replaced: list[Guess] = []
        """The records that the last reading wrote from the end of the source, and this one did not."""
        self.torn: TornTail | None = None
        """The last record, if it is incomplete."""
        self._others = others
        self._readable = path
        """The file itself, or its decompressed copy while it is read."""
        self._put, self._redact = put, redact
        self._path_of = path_of or _spelled(path)

    def lines(
        self, after: SourcePosition | None = None, *, final: bool = True
    ) -> Iterator[LineBatch]:
        """The lines of the source from a place on.

        With `final` nothing more is expected: pending records are written, yet the place stays
        where reading can resume if more comes.
        """
        status = status_of(self.path, self.importer.beside(self.path))
        with unpacked(self.path) as readable, readable.open("rb") as file:
            self._readable = readable
            head = file.read(HEAD).removeprefix(BOM)
            form = self.importer.form(uncompressed_name(self.path), head)
            place = self._place(file, after, status, form)
            yield from self._lines_of(file, place, status, head, form, final)

    def _place(
        self, file: BinaryIO, after: SourcePosition | None, status: SourceStatus, form: str
    ) -> SourcePosition:
        """The place to resume at; the start for another file, a shorter file or another mapping."""
        fresh = SourcePosition(
            importer=self.importer.name,
            mapping=self.importer.mapping,
            device=status.device,
            inode=status.inode,
        )
        if after is None:
            return fresh
        # What a shorter file holds is new, and so is what it held before when that comes back.
        is_shorter = form in UNITS and status.size < after.size
        if generation := after.kept.get("generation", 0) + is_shorter:
            after = replace(after, kept={**after.kept, "generation": generation})
            fresh.kept["generation"] = generation
        if form == "store" and after.mapping == fresh.mapping and after.importer == fresh.importer:
            return replace(after.copy(), device=status.device, inode=status.inode)
        self.again = _difference(file, after, fresh)
        if self.again:
            return fresh
        if form in ("document", "text"):
            fresh.kept["provisional"] = after.kept.get("provisional", ())
            return fresh
        return replace(after.copy(), device=status.device, inode=status.inode)

    def _lines_of(
        self,
        file: BinaryIO,
        place: SourcePosition,
        status: SourceStatus,
        head: bytes,
        form: str,
        final: bool,
    ) -> Iterator[LineBatch]:
        from tracklog.formats.importers import NoOthers, SourceFile  # noqa: PLC0415  # the folder imports us

        out = LineWriter(
            self.importer.name,
            self.importer.mapping,
            self._path_of,
            put=self._put,
            redact=self._redact,
            report=self.report,
            memory=place.kept,
        )
        out.run, self.runs = place.run, out.runs
        torn = place.kept.pop("torn", None)
        provisional = Provisional(place.kept.pop("provisional", ()))
        read: deque[bytes] = deque(maxlen=MOST)
        """The last lines, of a source that is read as a unit and may be torn."""
        is_unit = form in UNITS and not head.startswith(MAGIC)
        source = SourceFile(uncompressed_name(self.path), head, self._others or NoOthers())
        reader = self.importer.reader(source, out, place.state)
        reader.final = final
        held: list[Raw] = []
        seen, record, end = place.offset, reader.record, out.end_conversation
        for raw in self._records(file, place, form, final):
            if raw.through > seen:
                seen = raw.through
            lines = len(out.lines)
            if not out.run:
                held.append(raw)
                if not self._identified(reader, held):
                    continue
                for each in held:
                    self._read(reader, each, file, form)
                held = []
            elif raw.flaws or raw.value is DAMAGED:
                self._read(reader, raw, file, form)
            else:
                record(raw)
            end()
            if torn is not None and raw.offset >= torn and raw.value is not DAMAGED:
                if not any(_is_behind(line, torn) for line in out.lines[lines:]):
                    self.completed = raw.offset  # no line states it
                torn = None
            place.offset, place.run = raw.through, out.run
            if out.size >= STEP:
                settled = self._settled(file, place, status)
                bodies = out.bodies
                provisional.seen(out.lines)
                read.extend(out.lines if is_unit else ())
                yield LineBatch(out.take(), settled, seen, bodies, out.take_quoted())
        if torn is not None:
            place.kept.setdefault("torn", torn)
        self._settled(file, place, status)
        # Lines from here on are written again, with the same ids, if more comes.
        settled_place = place.copy()
        settled_lines = len(out.lines)
        if provisional and not final and out.run:
            self._look_ahead(reader, provisional)
        if final:
            if held and not out.run:
                out.run = "" if all(map(_is_torn, held)) else reader.unidentified()
                for each in held:
                    self._read(reader, each, file, form)
            if out.run:
                reader.finish()
            end()
        self.timeless = out.timeless - out.timed
        provisional.seen(out.lines)
        self.replaced = provisional.replaced()
        is_torn = is_unit and self.torn is not None
        ends = [*read, *out.lines] if is_torn else out.lines[settled_lines:]
        if ends:
            settled_place.kept["provisional"] = guesses(ends, out.shared)
        bodies = out.bodies
        yield LineBatch(out.take(), settled_place, seen, bodies, out.take_quoted())

    def _look_ahead(self, reader: "Reader", provisional: Provisional) -> None:
        """Take into account what would be written if nothing more came."""
        out = reader.out
        before, report, reader.final = len(out.lines), out.report, True
        out.report = ImportReport()
        reader.finish()
        out.end_conversation()
        provisional.seen(out.lines[before:])
        del out.lines[before:], out.bodies[before:]
        out.report = report

    def _read(self, reader: "Reader", raw: Raw, file: BinaryIO, form: str) -> None:
        """Read a record that may be damaged; of a torn one without a run nothing can be stored."""
        if _is_torn(raw):
            number = 0 if form == "document" else _line_ends(file) + 1
            self.torn = TornTail(number, len(raw.data), stored=bool(reader.out.run))
        if raw.flaws and reader.out.run:
            reader.out.about(raw, lift=False)
            reader.out.flaws(raw)
        if raw.value is not DAMAGED:
            reader.record(raw)

    def _identified(self, reader: "Reader", held: list[Raw]) -> bool:
        """Whether the last held record names the run, or enough were held to give up."""
        run = None if held[-1].value is DAMAGED else reader.identify(held[-1])
        if run is None and len(held) >= HELD:
            run = reader.unidentified()
        reader.out.run = run or ""
        return bool(run)

    def _records(
        self, file: BinaryIO, place: SourcePosition, form: str, final: bool
    ) -> Iterator[Raw]:
        offset = place.offset
        if form == "store" and self.importer.records is not None:
            every = self.importer.records(self._readable, place.state)
            return (raw for raw in every if final or raw.value is not DAMAGED)
        if form == "document":
            return document(file, final=final)
        if form == "text":
            return text(file)
        if form == "sse":
            return events(file, offset, self.importer.fits, final=final)
        return records(file, offset, self.importer.fits, final=final)

    def _settled(
        self, file: BinaryIO, place: SourcePosition, status: SourceStatus
    ) -> SourcePosition:
        """The place with everything that is needed to recognise the file."""
        place.size, place.modified = status.size, status.modified
        there = file.tell()
        place.head_size = min(COMPARED, place.offset)
        place.head = _hash_of(file, 0, place.head_size)
        place.tail = _hash_of(file, max(0, place.offset - COMPARED), min(COMPARED, place.offset))
        file.seek(there)
        return place


def _is_behind(line: bytes, offset: int) -> bool:
    """Whether a line was read from that position or after it; parts of a stream stand at its start."""
    there = orjson.loads(line)["origin"].get("offset")
    return isinstance(there, int) and there >= offset


def _is_torn(raw: Raw) -> bool:
    return any(name == TORN for name, _ in raw.flaws)


def _line_ends(file: BinaryIO) -> int:
    """How many line ends a file has; its position stays."""
    there = file.tell()
    file.seek(0)
    count = sum(block.count(b"\n") for block in iter(lambda: file.read(STEP), b""))
    file.seek(there)
    return count


def _difference(file: BinaryIO, after: SourcePosition, fresh: SourcePosition) -> str:
    if (after.importer, after.mapping) != (fresh.importer, fresh.mapping):
        return "mapping"
    if file.seek(0, os.SEEK_END) < after.offset:
        return "truncated"
    if _hash_of(file, 0, after.head_size) != after.head:
        return "replaced"
    if _hash_of(file, max(0, after.offset - COMPARED), min(COMPARED, after.offset)) != after.tail:
        return "rewritten"
    return ""


def _hash_of(file: BinaryIO, start: int, size: int) -> str:
    file.seek(start)
    return sha256(file.read(size)).hexdigest()


def _spelled(path: Path) -> str:
    return os.fsencode(path.absolute()).decode("utf-8", "backslashreplace")


def head_of(path: Path) -> bytes:
    """The beginning of a file, decompressed where needed, without a byte order mark."""
    with path.open("rb") as file:
        packed = path.suffix in PACKED
        head = next(_unpacked(file, path.suffix), b"") if packed else file.read(HEAD)
    return head.removeprefix(BOM)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file, decompressed where needed."""
    with unpacked(path) as readable, readable.open("rb") as file:
        yield file


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """A file, or a decompressed copy of it under its plain name that is removed afterwards."""
    if path.suffix not in PACKED:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="tracklog-") as folder:
        copy = Path(folder) / uncompressed_name(path).name
        with path.open("rb") as file, copy.open("wb") as out:
            out.writelines(_unpacked(file, path.suffix))
        yield copy


PACKED = (".zst", ".gz")


def uncompressed_name(path: Path) -> Path:
    """The name of a file without the suffix of its compression."""
    return path.with_suffix("") if path.suffix in PACKED else path


def _unpacked(file: BinaryIO, suffix: str) -> Iterator[bytes]:
    """The decompressed content, as far as possible; the last record of a damaged file is
    incomplete.
    """
    import zlib  # noqa: PLC0415  # seldom needed

    import zstandard  # noqa: PLC0415

    try:
        if suffix == ".gz":
            yield from _inflated(file)
        else:
            stream = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
            yield from iter(lambda: stream.read(HEAD), b"")
    except (zstandard.ZstdError, zlib.error):
        return


def _inflated(file: BinaryIO) -> Iterator[bytes]:
    """The content of a gzip file, up to its end or the damage."""
    import zlib  # noqa: PLC0415

    member = zlib.decompressobj(wbits=31)
    while piece := file.read(HEAD):
        while piece:
            yield member.decompress(piece)
            piece = member.unused_data
            if member.eof:
                member = zlib.decompressobj(wbits=31)
