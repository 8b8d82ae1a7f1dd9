"""A thread of the collector that repeats one job until the collector stops."""

import threading
from abc import ABC, abstractmethod

from tracklog.model.errors import TracklogError
from tracklog.web import logs


class Worker(ABC):
    """Repeats `work` in a thread. What it raises is logged, and it is tried again after a pause."""

    def __init__(self, name: str, *, failure: str, pause: float) -> None:
        self.stopped = threading.Event()
        self._failure, self._pause = failure, pause
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @abstractmethod
    def work(self) -> None:
        """Do the job, and return soon after `stopped` is set."""

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def close(self) -> None:
        """Stop, and wait until the job has ended."""
        self.stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self.stopped.is_set():
            try:
                self.work()
            except TracklogError as error:
                logs.log("error", f"{self._failure}: {error.message}", hint=error.hint)
            except Exception as error:  # noqa: BLE001  # the log has the place; it is tried again
                logs.log_failure(self._failure, error)
            self.stopped.wait(self._pause)
