"""`s3://bucket/prefix`: the object `checkpoint` there, and one for each size. Needs `tracklog[s3]`."""

from tracklog.collector.publishers import check_continued
from tracklog.journal.archive.objects import open_objects
from tracklog.journal.checkpoints.checkpoint import Checkpoint, Checkpoints
from tracklog.journal.checkpoints.notes import Note, Signature


class S3Publisher:
    """Puts checkpoints into a bucket."""

    def __init__(self, place: str) -> None:
        self._objects = open_objects(f"s3:{place}")

    def publish(self, note: Note, checkpoints: Checkpoints) -> list[Signature]:
        old = self._objects.get("checkpoint") if self._objects.has("checkpoint") else None
        check_continued(f"{self._objects.url}/checkpoint", old, note, checkpoints)
        content, size = str(note).encode(), Checkpoint.of(note.text).size
        self._objects.create(f"checkpoints/{size:020d}", content)  # a bucket may refuse to replace
        self._objects.put("checkpoint", content)
        return []


publisher = S3Publisher
