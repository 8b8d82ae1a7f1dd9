"""One foreign format per file: logs that agents and applications leave on disk, as native lines.

To add one: a file here named after the format, with a `Reader` (subclass it: `identify` returns the
conversation of a file, `record` maps one record, `finish` writes what is still pending) and at its
end `importer = Importer(...)`. A reader is a pure function of the bytes: the same prefix of a
source gives the same lines. Everything it remembers between records is in `self.state`, a dict of
JSON values, so that it can resume later. Nothing raises: a field of a wrong type is ignored, an
unknown record is stored as `Noted`. A generated call id is unique in its run and is flagged. The
folder is the registry; an outside package offers its `Importer` under `tracklog.importers`. Code
that several formats share is in the files that begin with an underscore.
"""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, Protocol

from tracklog.formats.importers._large_values import Lift, hashed
from tracklog.formats.importers._line_writer import LineWriter, in_seconds, utc_time
from tracklog.formats.importers._memory import LONG, remember
from tracklog.formats.importers._reading import (
    HEAD,
    LineBatch,
    SourcePosition,
    SourceReading,
    head_of,
    opened,
    status_of,
    uncompressed_name,
    unpacked,
)
from tracklog.formats.importers._recognition import (
    ANY,
    Beginning,
    Signs,
    beginning,
    by_signs,
    has_tables,
    score,
)
from tracklog.formats.importers._records import DAMAGED, Raw, opening, unquoted
from tracklog.formats.importers._report import ImportReport
from tracklog.formats.providers import count, word
from tracklog.model.event import Body

__all__ = [
    "ANY",
    "DAMAGED",
    "HEAD",
    "LONG",
    "Beginning",
    "Form",
    "ImportReport",
    "Importer",
    "Lift",
    "LineBatch",
    "LineWriter",
    "NoOthers",
    "Others",
    "Raw",
    "Reader",
    "Signs",
    "SourceFile",
    "SourcePosition",
    "SourceReading",
    "beginning",
    "by_signs",
    "count",
    "has_tables",
    "hashed",
    "head_of",
    "in_seconds",
    "inside",
    "opened",
    "opening",
    "remember",
    "run_id",
    "score",
    "status_of",
    "uncompressed_name",
    "unpacked",
    "unquoted",
    "utc_time",
    "word",
]

Form = Literal["lines", "document", "sse", "text", "store"]
"""How a file is split into records: at LF, not at all, as server-sent events, as one text that is
no JSON, or by the importer's own `records`.
"""


def run_id(tool: str, native: str, agent: str = "") -> str:
    """The run of a conversation: its own id where that is a UUID v4, else one derived from it."""
    if not agent and _is_uuid4(native):
        return native.lower()
    digest = sha256(f"{tool}\n{native}\n{agent}".encode("utf-8", "replace")).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))


def _is_uuid4(text: str) -> bool:
    try:
        parsed = uuid.UUID(text)
    except ValueError:
        return False
    return parsed.version == 4 and str(parsed) == text.lower()


class Others(Protocol):
    """The other sources of the same importer."""

    def named(self, part: str) -> Path | None:
        """An existing source with this in its name."""

    def keyed(self, key: str) -> tuple[Path, str] | None:
        """The source with this key that was read first, and its run."""


class NoOthers:
    """No other sources."""

    def named(self, part: str) -> Path | None:  # noqa: ARG002  # the shape
        return None

    def keyed(self, key: str) -> tuple[Path, str] | None:  # noqa: ARG002  # the shape
        return None


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to read."""

    path: Path
    head: bytes = b""
    """Its beginning."""
    others: Others = field(default_factory=NoOthers)


class Reader(ABC):
    """Reads one source, record by record; subclass it and map the records."""

    def __init__(self, source: SourceFile, out: LineWriter, state: dict[str, Any]) -> None:
        self.source = source
        self.out = out
        self.state = state
        """Everything it remembers: JSON values."""
        self.final = True
        """Whether nothing more is expected: unfinished records are written as they are."""

    @abstractmethod
    def identify(self, raw: Raw) -> str | None:
        """The run of this source, as far as this record names it; None: try the next record.

        Records are held until one names the run, and then read in order.
        """

    def unidentified(self) -> str:
        """The run of a source in which no record names it."""
        return run_id(self.out.writer, self.source.path.stem)

    @abstractmethod
    def record(self, raw: Raw) -> None:
        """Map one record, and count it in `self.out.report`."""

    def finish(self) -> None:  # noqa: B027  # most have nothing waiting
        """Write what waited for records that did not come; nothing is read after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Importer:
    """An importer."""

    name: str
    about: str
    mapping: str
    """The version of its mapping: another version maps every record again."""
    reader: Callable[[SourceFile, LineWriter, dict[str, Any]], Reader]
    recognise: Callable[[Path, bytes], float]
    """The confidence, from 0 to 1, that a file with that name and beginning has this format."""
    find: Callable[[Path, Mapping[str, str]], Iterable[Path]] = lambda _home, _environment: ()
    """The files in the usual places of a user, from the home folder and the environment."""
    form: Callable[[Path, bytes], Form] = lambda _path, _head: "lines"
    fits: Callable[[Body], bool] = lambda body: "type" in body
    """Whether an object is a record; used after an incomplete record."""
    companion: Callable[[Path, bytes], bool] = lambda _path, _head: False
    """Whether a file only belongs to a conversation that is read from another file."""
    beside: Callable[[Path], Iterable[Path]] = lambda _path: ()
    """The files that belong to a file, existing or not: when one changes, it is read again."""
    records: Callable[[Path, dict[str, Any]], Iterator[Raw]] | None = None
    """The records of a file of the form `store`, from its path and the state of its reader."""
    proven: str = ""
    """The versions of the program whose files were tested, and where those files come from."""
    conversations: tuple[str, ...] = ()
    """The systems of aliases that name the conversation of a run, the strongest first."""

    def read(
        self, path: Path, after: SourcePosition | None = None, *, others: Others | None = None
    ) -> Iterator[bytes]:
        """The lines of a file from an offset on; nothing is stored."""
        for batch in SourceReading(self, path, others=others).lines(after):
            yield from batch.lines


def inside(folder: Path, *patterns: str) -> Iterator[Path]:
    """The files below a folder that match, in order; nothing where there is no such folder."""
    if folder.is_dir():
        paths = {path for pattern in patterns for path in folder.glob(pattern)}
        yield from sorted(path for path in paths if path.is_file())
