"""Read one source from an offset on: its lines, and the new offset."""

import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import orjson

from tracklog.formats.importers._lifting import Put, Redact, hashed
from tracklog.formats.importers._line_writer import LineWriter
from tracklog.formats.importers._records import DAMAGED, Raw, document, events, records, text
from tracklog.formats.importers._report import ImportReport

if TYPE_CHECKING:
    from tracklog.formats.importers import Importer, Others, Reader

HEAD = 64 << 10
"""Bytes of a file that importers see to recognise it."""
COMPARED = 64 << 10
"""Bytes at the start of a file, and before its offset, that identify it."""
STEP = 1 << 20
"""Bytes of lines that are handed over at a time."""
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


class SourceStatus(NamedTuple):
    """What tells whether a source has changed: also for the files that belong to it."""

    device: int
    inode: int
    size: int
    modified: int


def status_of(path: Path, beside: Iterable[Path] = ()) -> SourceStatus:
    """The status of a file and of the files that belong to it; raises if the file is missing."""
    found = path.stat()
    size, modified = found.st_size, found.st_mtime_ns
    for each in beside:
        try:
            other = each.stat()
        except OSError:
            continue
        size, modified = size + other.st_size, max(modified, other.st_mtime_ns)
    return SourceStatus(found.st_dev, found.st_ino, size, modified)


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
        self._others = others
        self._put, self._redact = put, redact
        self._path_of = path_of or _spelled(path)

    def lines(
        self, after: SourcePosition | None = None, *, final: bool = True
    ) -> Iterator[LineBatch]:
        """The lines of the source from a place on.

        With `final` nothing more is expected: pending records are written, yet the place stays
        where reading can resume if more comes.
        """
        found = status_of(self.path, self.importer.beside(self.path))
        with opened(self.path) as file:
            head = file.read(HEAD)
            form = self.importer.form(plain(self.path), head)
            place = self._place(file, after, found, form)
            yield from self._lines_of(file, place, found, head, form, final)

    def _place(
        self, file: BinaryIO, after: SourcePosition | None, found: SourceStatus, form: str
    ) -> SourcePosition:
        """The place to resume at; the start for another file, a shorter file or another mapping."""
        fresh = SourcePosition(
            importer=self.importer.name,
            mapping=self.importer.mapping,
            device=found.device,
            inode=found.inode,
        )
        if after is None:
            return fresh
        if form == "store" and after.mapping == fresh.mapping and after.importer == fresh.importer:
            return replace(after.copy(), device=found.device, inode=found.inode)
        self.again = _difference(file, after, fresh)
        if self.again or form in ("document", "text"):
            return fresh
        return replace(after.copy(), device=found.device, inode=found.inode)

    def _lines_of(
        self,
        file: BinaryIO,
        place: SourcePosition,
        found: SourceStatus,
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
            kept=place.kept,
        )
        out.run, self.runs = place.run, out.runs
        torn = place.kept.pop("torn", None)
        source = SourceFile(plain(self.path), head, self._others or NoOthers())
        reader = self.importer.reader(source, out, place.state)
        reader.final = final
        held: list[Raw] = []
        seen, record = place.offset, reader.record
        for raw in self._records(file, place, form, final):
            if raw.through > seen:
                seen = raw.through
            lines = len(out.lines)
            if not out.run:
                held.append(raw)
                if not self._identified(reader, held):
                    continue
                for each in held:
                    _read(reader, each)
                held = []
            elif raw.flaws or raw.value is DAMAGED:
                _read(reader, raw)
            else:
                record(raw)
            if torn is not None and raw.offset >= torn and raw.value is not DAMAGED:
                if not any(_is_behind(line, torn) for line in out.lines[lines:]):
                    self.completed = raw.offset  # no line states it
                torn = None
            place.offset, place.run = raw.through, out.run
            if out.size >= STEP:
                settled = self._settled(file, place, found)
                bodies = out.bodies
                yield LineBatch(out.take(), settled, seen, bodies, out.take_quoted())
        if torn is not None:
            place.kept.setdefault("torn", torn)
        self._settled(file, place, found)
        # Lines from here on are written again, with the same ids, if more comes.
        kept = place.copy()
        if final:
            if held and not out.run:
                out.run = reader.unidentified()
                for each in held:
                    _read(reader, each)
            if out.run:
                reader.finish()
        self.timeless = out.timeless - out.timed
        bodies = out.bodies
        yield LineBatch(out.take(), kept, seen, bodies, out.take_quoted())

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
            found = self.importer.records(self.path, place.state)
            return (raw for raw in found if final or raw.value is not DAMAGED)
        if form == "document":
            return document(file, final=final)
        if form == "text":
            return text(file)
        if form == "sse":
            return events(file, offset, self.importer.fits, final=final)
        return records(file, offset, self.importer.fits, final=final)

    def _settled(
        self, file: BinaryIO, place: SourcePosition, found: SourceStatus
    ) -> SourcePosition:
        """The place with everything that is needed to recognise the file."""
        place.size, place.modified = found.size, found.modified
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


def _read(reader: "Reader", raw: Raw) -> None:
    if raw.flaws:
        reader.out.about(raw, lift=False)
        reader.out.flaws(raw)
    if raw.value is not DAMAGED:
        reader.record(raw)


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
    """The beginning of a file, decompressed where needed."""
    with path.open("rb") as file:
        return next(_unpacked(file, path.suffix), b"") if path.suffix in PACKED else file.read(HEAD)


def opened(path: Path) -> BinaryIO:
    """Open a file, decompressed where needed."""
    file = path.open("rb")
    if path.suffix not in PACKED:
        return file
    unpacked = tempfile.TemporaryFile()  # noqa: SIM115  # closed by whoever reads
    with file:
        unpacked.writelines(_unpacked(file, path.suffix))
    unpacked.seek(0)
    return unpacked


PACKED = (".zst", ".gz")


def plain(path: Path) -> Path:
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
