"""`file:/mnt/elsewhere/checkpoint`, or only the path: a file that is replaced by what continues it."""

from pathlib import Path

from tracklog.collector.publishers import check_continued
from tracklog.journal.archive.objects import FolderObjects
from tracklog.journal.checkpoints.checkpoint import Checkpoints
from tracklog.journal.checkpoints.notes import Note, Signature


class FilePublisher:
    """Writes the last checkpoint to a file."""

    def __init__(self, place: str) -> None:
        self._path = Path(place).expanduser()

    def publish(self, note: Note, checkpoints: Checkpoints) -> list[Signature]:
        old = self._path.read_bytes() if self._path.is_file() else None
        check_continued(str(self._path), old, note, checkpoints)
        FolderObjects(self._path.parent).put(self._path.name, str(note).encode())
        return []


publisher = FilePublisher
