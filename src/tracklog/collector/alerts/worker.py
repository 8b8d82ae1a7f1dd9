"""Evaluate the rules of alerts while the collector runs."""

from pathlib import Path
from typing import TYPE_CHECKING

from tracklog.collector.alerts.delivery import check_targets, deliver
from tracklog.collector.alerts.evaluator import Evaluator
from tracklog.collector.alerts.rules import load
from tracklog.collector.alerts.tables import FIELDS
from tracklog.collector.worker import Worker

if TYPE_CHECKING:
    from tracklog.home.home import Home

EVERY = 15.0
"""Seconds between two looks."""
LEASE = "alerts"


class AlertWorker(Worker):
    """A thread that evaluates the rules; of many collectors on one store, one does so."""

    def __init__(self, home: "Home", path: Path, console: str | None, every: float = EVERY) -> None:
        super().__init__("alerts", failure="an alert was not sent", pause=every)
        self.rules = load(path, FIELDS)
        check_targets(self.rules)  # a fault is reported before the server starts
        self._home, self._path, self._console = home, path, console
        self.evaluator: Evaluator | None = None
        """The one that looks at the rules, where this collector does."""

    def work(self) -> None:
        """Look until it is stopped, or a message cannot be sent; the state is in the journal."""
        with self._home.storage.leases() as leases:
            if not leases.take(LEASE):
                return
            self.evaluator = Evaluator(
                self._home,
                self._path,
                lambda change, name, target: deliver(change, name, target, self._console),
            )
            while not self.stopped.is_set():
                self.evaluator.look()
                self.stopped.wait(self._pause)
