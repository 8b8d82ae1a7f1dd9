"""Read the journal for what the hosts of this home wrote: open runs and answered requests."""

import contextlib
import threading
import time
from collections.abc import Callable

import orjson

from tracklog import Log, Record, write_file
from tracklog.hosts.openwop.own_lines import OwnLines
from tracklog.hosts.openwop.requests import Requests
from tracklog.hosts.openwop.runlog import FAMILY, NOTES, REQUEST, TERMINAL
from tracklog.web import logs

LISTEN = 0.1
"""Seconds that a stop waits for the listener, at most."""


class JournalReader:
    """Reads new records; its position and what it knows are saved for the next process."""

    def __init__(self, journal: Log, instance: str, own: OwnLines, requests: Requests) -> None:
        self.open: set[str] = set()
        """Runs of ours that have not ended."""
        self._journal, self._instance, self._requests = journal, instance, requests
        self._own = own
        self._cache = journal.folder() / "openwop.cache"
        self._cursor = 0
        self._reading = threading.Lock()
        self._own_only = self._stopping = False
        self._listener: threading.Thread | None = None

    def skip(self) -> None:
        """Start at the end of the journal and ignore the runs that others begin."""
        self._own_only = True
        self._cursor = self._journal.last

    def listen(self, notify: Callable[[set[str]], None]) -> None:
        """Call `notify` with the runs that have new records, from a thread of its own."""
        self._listener = threading.Thread(
            target=self._listen, args=(notify,), name="openwop", daemon=True
        )
        self._listener.start()

    def stop(self) -> None:
        self._stopping = True
        if self._listener is not None:
            self._listener.join(5)

    def load(self) -> None:
        try:
            body = orjson.loads(self._cache.read_bytes())
            if body["instance"] == self._instance and body["cursor"] <= self._journal.last:
                self._cursor, self.open = body["cursor"], set(body["open"])
                self._requests.load(body["requests"])
        except (OSError, ValueError, KeyError, TypeError):
            self._cursor, self.open = 0, set()  # a cache: it is made again from the journal

    def save(self) -> None:
        if self._own_only:
            return
        data = {"instance": self._instance, "cursor": self._cursor, "open": sorted(self.open)}
        data["requests"] = self._requests.dump()
        with contextlib.suppress(OSError):
            write_file(self._cache, orjson.dumps(data))

    def catch_up(self) -> set[str]:
        """Read the new records; the runs that they belong to."""
        runs: set[str] = set()
        with self._reading:
            for record in self._journal.read(self._cursor):
                if record.family == FAMILY and record.line:
                    runs.add(record.run)
                    self._take_in(record)
                self._cursor = record.seq
        return runs

    def _take_in(self, record: Record) -> None:
        line = record.line
        if record.dialect == FAMILY:
            if b'"type":"run.' not in line:
                return
            event = orjson.loads(line)
            if not self._own.has_event(record, event):
                return
            if event["type"] == "run.started":
                if not self._own_only and event.get("host", {}).get("instance") == self._instance:
                    self.open.add(record.run)
            elif event["type"] in TERMINAL:
                self.open.discard(record.run)
        elif record.dialect == NOTES and REQUEST.encode() in line:
            for fact in self._journal.facts_in(record):
                self._requests.add(fact)

    def _listen(self, notify: Callable[[set[str]], None]) -> None:
        while not self._stopping:
            try:
                if not self._journal.wait(self._cursor, LISTEN):
                    continue
                runs = self.catch_up()
            except Exception as error:  # noqa: BLE001  # logged, and tried again
                if not self._stopping:
                    logs.log_failure("the journal could not be read", error)
                    time.sleep(1)
                continue
            if runs and not self._stopping:
                notify(runs)
