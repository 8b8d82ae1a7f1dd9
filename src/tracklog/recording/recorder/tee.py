"""Copy the events of a subscription to a second file, in a thread of its own."""

import logging
import os
import threading
from pathlib import Path

from tracklog.journal.disk import write_all
from tracklog.recording.fanout import Gap, Subscription
from tracklog.recording.recorder.appendfile import DISK, FLAGS

log = logging.getLogger("tracklog")

PATIENCE = 2.0
"""Seconds that a closing recorder waits for a copy to finish."""


class Tee:
    """A second copy of a transcript; its failures never affect the first."""

    def __init__(self, path: Path, subscription: Subscription, *, idle: bool = False) -> None:
        self.path = path
        self.error: OSError | None = None
        """The reason why the copy ended early."""
        self._subscription = subscription
        self._thread = threading.Thread(target=self._copy, name=f"tracklog-tee {path}", daemon=True)
        if not idle:
            self._thread.start()

    def join(self, timeout: float = PATIENCE) -> bool:
        """Wait until everything is copied; False on a timeout."""
        if self._thread.ident is None:
            return True  # it was never started
        self._thread.join(timeout)
        if self._thread.is_alive():
            log.warning("the copy %s is not finished after %g s", self.path, timeout)
        return not self._thread.is_alive()

    def _copy(self) -> None:
        try:
            fd = DISK.open(self.path, FLAGS)
        except OSError as error:
            self._fail(error)
            return
        try:
            os.fchmod(fd, 0o600)
            for event in self._subscription:
                if isinstance(event, Gap):
                    log.warning("the copy %s lacks seq %d to %d", self.path, *event.range)
                else:
                    write_all(DISK, fd, event.raw)
        except OSError as error:
            self._fail(error)
        finally:
            os.close(fd)

    def _fail(self, error: OSError) -> None:
        self.error = error
        self._subscription.close()
        log.warning("the copy %s has ended: %s", self.path, error)
