"""The runs whose events are in memory: a bounded cache over the journal."""

from collections import OrderedDict
from collections.abc import Callable

from tracklog import Log
from tracklog.hosts.openwop.own_lines import OwnLines
from tracklog.hosts.openwop.runlog import RunLog

MOST = 2000
"""The most runs whose events are in memory, without those that are in use."""


class RunCache:
    """Reads the events of a run when it is first asked for, and drops those least recently used."""

    def __init__(self, journal: Log, own: OwnLines, is_running: Callable[[str], bool]) -> None:
        self._journal, self._own, self._is_running = journal, own, is_running
        self._logs: OrderedDict[str, RunLog] = OrderedDict()

    def get(self, name: str) -> RunLog | None:
        """A run, if it is in memory."""
        return self._logs.get(name)

    def read(self, name: str) -> RunLog:
        """A run by its name; it may be empty."""
        log = self._logs.get(name)
        if log is None:
            log = RunLog(name, self._own)
            log.refresh(self._journal)
            self.add(log)
        else:
            self._logs.move_to_end(name)
        return log

    def add(self, log: RunLog) -> None:
        """Remember a run."""
        self._logs[log.name] = log
        self._logs.move_to_end(log.name)
        if len(self._logs) > MOST:
            self._forget()

    def drop(self, name: str) -> None:
        """Forget a run that was not begun after all."""
        self._logs.pop(name, None)

    def wake(self) -> None:
        """Wake everybody who waits for a run."""
        for log in self._logs.values():
            log.wake()

    def _forget(self) -> None:
        for name, log in list(self._logs.items())[: len(self._logs) - MOST]:
            if not self._is_running(name) and not log.is_waited_for:
                del self._logs[name]
