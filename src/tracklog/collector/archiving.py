"""Copy the records of a collector to an archive, seconds after they are stored."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tracklog.collector.worker import Worker
from tracklog.home.home import act
from tracklog.journal.archive.objects import open_objects
from tracklog.journal.archive.shipping import NAME, Archiver
from tracklog.journal.frame import stamp
from tracklog.journal.sharding import Sharded
from tracklog.model.errors import Overtaken, TracklogError
from tracklog.web import logs

if TYPE_CHECKING:
    from tracklog.home.home import Home
    from tracklog.journal.storages import Storage

RecordAct = Callable[[str, int, str | None], None]
"""Records that so many records are archived at a place, and those before a time moved there."""

_EVERY = 2.0  # seconds between two shipments: small ones cost as much as large ones
_MOVES = 600.0  # seconds between two times that old records are moved
_PAUSE = 5.0  # seconds until it is tried again, where another process archives or the place fails


class ArchiveWorker(Worker):
    """A thread that ships what is new; of many collectors on one store, one does so."""

    def __init__(
        self,
        storage: "Storage",
        place: str,
        hot: float | None = None,
        record: "RecordAct | None" = None,
    ) -> None:
        super().__init__("archive", failure="records are not archived", pause=_PAUSE)
        self._storage, self._objects = storage, open_objects(place)
        self._place, self._record_act = place, record
        self._begun = False
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
            if not self._begun:
                self._begun = True
                self._record(archiver.behind())
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
                    before = stamp(time.time() - self._hot)
                    if count := archiver.move_old(before).records:
                        self._record(count, before)
                    moved = shipped
                while not self.stopped.is_set() and not self._storage.store.wait(
                    archiver.head.through, 1.0
                ):
                    pass
                self.stopped.wait(max(0, shipped + _EVERY - time.monotonic()))

    def _record(self, records: int, moved_before: str | None = None) -> None:
        """Record who archives; where that fails, it is archived all the same."""
        try:
            if self._record_act is not None:
                self._record_act(self._place, records, moved_before)
        except (TracklogError, OSError) as error:
            logs.log("warning", f"it is not recorded who archives: {error}")


def workers(home: "Home", place: str, hot: float | None, by: str) -> list[ArchiveWorker]:
    """A worker for the journal; for a store with several shards one for each, in a folder of its own."""
    storage = home.storage

    def record(target: str, records: int, moved_before: str | None) -> None:
        note = act("archive", by, target=target, records=records, moved_before=moved_before)
        home.record_act(note, writer="collector")

    if not isinstance(storage, Sharded):
        return [ArchiveWorker(storage, place, hot, record)]
    root = place.rstrip("/")
    return [ArchiveWorker(part, f"{root}/{n}", hot, record) for n, part in enumerate(storage.parts)]
