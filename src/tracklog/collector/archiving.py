"""Copy the records of a collector to an archive, seconds after they are stored."""

import threading
import time
from typing import TYPE_CHECKING

from tracklog.journal.archive.objects import open_objects
from tracklog.journal.archive.shipping import NAME, Archiver
from tracklog.model.errors import Overtaken, TracklogError
from tracklog.web import logs

if TYPE_CHECKING:
    from tracklog.home.home import Home

_EVERY = 2.0  # seconds between two shipments: small ones cost as much as large ones
_PAUSE = 5.0  # seconds until it is tried again, where another process archives or the place fails


class ArchiveWorker:
    """A thread that ships what is new; of many collectors on one store, one does so."""

    def __init__(self, home: "Home", place: str) -> None:
        self._home, self._objects = home, open_objects(place)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="archive", daemon=True)
        self._archiver: Archiver | None = None

    @property
    def behind(self) -> int | None:
        """How many records are not archived yet; None where another process archives them."""
        archiver = self._archiver
        return None if archiver is None else archiver.behind()

    def start(self) -> None:
        """Begin to ship."""
        self._thread.start()

    def close(self) -> None:
        """Ship what is left, and stop."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._ship_all()
            except Overtaken:
                pass  # something was erased meanwhile, or another process was quicker
            except TracklogError as error:
                logs.log("error", f"records are not archived: {error.message}", hint=error.hint)
            except Exception as error:  # noqa: BLE001  # the log has the place; it is tried again
                logs.log_failure("records are not archived", error)
            self._archiver = None
            self._stopped.wait(_PAUSE)

    def _ship_all(self) -> None:
        with self._home.storage.leases() as leases:
            if not leases.take(NAME):
                return
            self._archiver = archiver = Archiver(self._home.storage, self._objects)
            while True:
                last = self._stopped.is_set()
                archiver.ship()
                if last:
                    return
                shipped = time.monotonic()
                while not self._stopped.is_set() and not self._home.journal.wait(
                    archiver.head.through, 1.0
                ):
                    pass
                self._stopped.wait(max(0, shipped + _EVERY - time.monotonic()))
