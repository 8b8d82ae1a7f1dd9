"""How far an archive is, noted beside the journal: so that its state can be told without the archive."""

import contextlib
import time
from dataclasses import asdict, dataclass

import orjson

from tracklog.journal.disk import Disk, write_file
from tracklog.journal.frame import stamp
from tracklog.journal.sharding import OneOfShards
from tracklog.journal.storages import SharesSettings, Storage
from tracklog.model.errors import TracklogError

FILE = "archived.json"
"""Its name in the folder of a record."""


@dataclass(frozen=True, slots=True)
class ArchiveNote:
    """The archive of a record, as its last archiver left it."""

    place: str
    through: int
    """The last record that it has."""
    at: str
    """When that was archived."""


def note(storage: Storage, place: str, through: int) -> None:
    """Note how far an archive is; where nothing can be written, it is left out."""
    content = orjson.dumps(asdict(ArchiveNote(place, through, stamp(time.time()))))
    with contextlib.suppress(OSError, TracklogError):
        if isinstance(storage, SharesSettings):
            storage.set_setting(_setting(storage), content)
        else:
            write_file(Disk(), storage.folder / FILE, content + b"\n")


def noted(storage: Storage) -> ArchiveNote | None:
    """The archive that was written last; None where there is none, or its note cannot be read."""
    try:
        if isinstance(storage, SharesSettings):
            return parsed(storage.setting(_setting(storage)))
        return parsed((storage.folder / FILE).read_bytes())
    except OSError:
        return None


def parsed(content: bytes | None) -> ArchiveNote | None:
    """A note as it is stored."""
    try:
        return None if content is None else ArchiveNote(**orjson.loads(content))
    except (ValueError, TypeError):
        return None


def setting_of(shard: int | None) -> str:
    """The name of the note in a database, where each shard has its own archive."""
    return "archive" if shard is None else f"archive {shard}"


def _setting(storage: Storage) -> str:
    numbers = storage.numbers if isinstance(storage, OneOfShards) else None
    return setting_of(None if numbers is None else numbers.shard)
