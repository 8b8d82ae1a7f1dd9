"""Copy the records of a collector to an archive, seconds after they are stored."""

import time
from typing import TYPE_CHECKING

from tracklog.collector.worker import Worker
from tracklog.journal.archive.objects import open_objects
from tracklog.journal.archive.shipping import NAME, Archiver
from tracklog.journal.frame import stamp
from tracklog.journal.sharding import Sharded
from tracklog.model.errors import Overtaken
from tracklog.web import logs

if TYPE_CHECKING:
    from tracklog.journal.storages import Storage

_EVERY = 2.0  # seconds between two shipments: small ones cost as much as large ones
_MOVES = 600.0  # seconds between two times that old records are moved
_PAUSE = 5.0  # seconds until it is tried again, where another process archives or the place fails


class ArchiveWorker(Worker):
    """A thread that ships what is new; of many collectors on one store, one does so."""

    def __init__(self, storage: "Storage", place: str, hot: float | None = None) -> None:
        super().__init__("archive", failure="records are not archived", pause=_PAUSE)
        self._storage, self._objects = storage, open_objects(place)
        self._hot = hot
        """Seconds after which records are moved to the archive; None for never."""
        self._archiver: Archiver | None = None

    @property
    def behind(self) -> int | None:
        """How many records are not archived yet; None where another process archives them."""
        archiver = self._archiver
        return None if archiver is None else archiver.behind()

    def work(self) -> None:
        """Ship until the end; what is left when it is stopped is shipped before it returns."""
        try:
            self._ship_all()
        except Overtaken:
            pass  # something was erased meanwhile, or another process was quicker
        finally:
            self._archiver = None

    def _ship_all(self) -> None:
        with self._storage.leases() as leases:
            if not leases.take(NAME):
                return
            self._archiver = archiver = Archiver(self._storage, self._objects)
            for what in archiver.lost():  # what is new is archived all the same
                logs.log("error", f"the archive is damaged: {what}")
            moved = -_MOVES
            while True:
                last = self.stopped.is_set()
                archiver.ship()
                if last:
                    return
                shipped = time.monotonic()
                if self._hot is not None and shipped - moved >= _MOVES:
                    archiver.move_old(stamp(time.time() - self._hot))
                    moved = shipped
                while not self.stopped.is_set() and not self._storage.store.wait(
                    archiver.head.through, 1.0
                ):
                    pass
                self.stopped.wait(max(0, shipped + _EVERY - time.monotonic()))


def workers(storage: "Storage", place: str, hot: float | None) -> list[ArchiveWorker]:
    """A worker for the record; for one with several shards one for each, in a folder of its own."""
    if not isinstance(storage, Sharded):
        return [ArchiveWorker(storage, place, hot)]
    root = place.rstrip("/")
    return [ArchiveWorker(part, f"{root}/{n}", hot) for n, part in enumerate(storage.parts)]
