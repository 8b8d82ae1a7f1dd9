"""One foreign format in, per file: what agents and applications leave on disk, as native lines.

To write another: a file here named after the format, with a `Reader` (subclass it: `identify` says
which conversation a file holds, `record` tells what one record means, `finish` what still waited)
and at its end `importer = Importer(...)`.
A reader is a pure function of the bytes: the same prefix of a source gives the same lines.
All it remembers between records stands in `self.state`, a dict of JSON values, so that it can go on
tomorrow where it stopped.
Nothing raises: a field of a wrong type costs that field, an unknown record is kept as `Noted`.
A call id that has to be made up is one that no other call of its run has, and is flagged.
The folder is the registry; an outside package offers its `Importer` under `tracklog.importers`.
What several formats share stands in the files that begin with an underscore.
"""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, Protocol

from tracklog.formats.importers._lifting import Lift, hashed
from tracklog.formats.importers._memory import LONG, remember
from tracklog.formats.importers._reading import HEAD, Batch, Place, Reading, head_of, opened, plain
from tracklog.formats.importers._records import DAMAGED, Raw, opening, unquoted
from tracklog.formats.importers._report import Report
from tracklog.formats.importers._telling import Teller, moment, seconds
from tracklog.formats.providers import count, word
from tracklog.model.event import Body

__all__ = [
    "DAMAGED",
    "HEAD",
    "LONG",
    "Batch",
    "Form",
    "Importer",
    "Lift",
    "NoOthers",
    "Others",
    "Place",
    "Raw",
    "Reader",
    "Reading",
    "Report",
    "Source",
    "Teller",
    "count",
    "hashed",
    "head_of",
    "inside",
    "moment",
    "opened",
    "opening",
    "plain",
    "remember",
    "run_id",
    "seconds",
    "unquoted",
    "word",
]

Form = Literal["lines", "document", "sse", "text"]
"""How a file is cut into records: at LF, not at all, as a stream of server-sent events, or as one
text that is no JSON."""


def run_id(tool: str, native: str, agent: str = "") -> str:
    """The run of a conversation: its own id where that is a UUID v4, else one derived from it."""
    if not agent and _is_uuid4(native):
        return native.lower()
    digest = sha256(f"{tool}\n{native}\n{agent}".encode("utf-8", "replace")).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))


def _is_uuid4(text: str) -> bool:
    try:
        found = uuid.UUID(text)
    except ValueError:
        return False
    return found.version == 4 and str(found) == text.lower()


class Others(Protocol):
    """The other sources of the same importer that are at hand."""

    def named(self, part: str) -> Path | None:
        """One that is there and has this in its name."""

    def keyed(self, key: str) -> tuple[Path, str] | None:
        """The one that was read first of those that told this key, and its run."""


class NoOthers:
    """Nothing else is at hand."""

    def named(self, part: str) -> Path | None:  # noqa: ARG002  # the shape
        return None

    def keyed(self, key: str) -> tuple[Path, str] | None:  # noqa: ARG002  # the shape
        return None


@dataclass(frozen=True, slots=True)
class Source:
    """A file to be read."""

    path: Path
    head: bytes = b""
    """Its beginning."""
    others: Others = field(default_factory=NoOthers)


class Reader(ABC):
    """Reads one source, record by record; subclass it and say what a record tells."""

    def __init__(self, source: Source, tell: Teller, state: dict[str, Any]) -> None:
        self.source = source
        self.tell = tell
        self.state = state
        """All that it remembers: JSON values."""

    @abstractmethod
    def identify(self, raw: Raw) -> str | None:
        """The run that this source holds, as far as this record tells; None: ask the next one.

        Records are held until one tells, and then read in order.
        """

    def unidentified(self) -> str:
        """The run of a source in which no record told."""
        return run_id(self.tell.writer, self.source.path.stem)

    @abstractmethod
    def record(self, raw: Raw) -> None:
        """Tells what one record means, and counts it in `self.tell.report`."""

    def finish(self) -> None:  # noqa: B027  # most have nothing waiting
        """Tells what was waiting for records that did not come; nothing is read after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Importer:
    """The shape of an importer."""

    name: str
    about: str
    mapping: str
    """The version of its mapping: another one tells every record anew."""
    reader: Callable[[Source, Teller, dict[str, Any]], Reader]
    recognise: Callable[[Path, bytes], float]
    """How sure it is, from 0 to 1, that a file with that name and beginning is one of its own."""
    find: Callable[[Path, Mapping[str, str]], Iterable[Path]] = lambda _home, _environment: ()
    """The files in the usual places of a user: their home folder, and their environment."""
    form: Callable[[Path, bytes], Form] = lambda _path, _head: "lines"
    fits: Callable[[Body], bool] = lambda body: "type" in body
    """Whether an object is a record of its own; asked of what stands behind something torn."""
    conversations: tuple[str, ...] = ()
    """The systems of aliases that name what a run is a part of, the strongest first."""

    def read(
        self, path: Path, after: Place | None = None, *, others: Others | None = None
    ) -> Iterator[bytes]:
        """The lines that a file tells from a place on, and nothing kept anywhere."""
        for batch in Reading(self, path, others=others).lines(after):
            yield from batch.lines


def inside(folder: Path, *patterns: str) -> Iterator[Path]:
    """The files below a folder that match, in order; nothing where there is no such folder."""
    if folder.is_dir():
        found = {path for pattern in patterns for path in folder.glob(pattern)}
        yield from sorted(path for path in found if path.is_file())
