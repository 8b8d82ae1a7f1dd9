"""Wake-ups by LISTEN: a thread that notes the last record which any process announced."""

import os
import select
import threading

import psycopg

from tracklog.journal.postgres.connections import Connection, Database

_POLL = 1.0  # seconds after which a waiting reader looks by itself
_PAUSE = 0.2  # seconds before a lost connection is made again


class NotificationListener:
    """One connection that listens on one channel, and a number that grows."""

    def __init__(self, database: Database, channel: str) -> None:
        self.last = 0
        self.grew = threading.Condition()
        self._database, self._channel = database, channel
        self._ready = threading.Event()
        self._closed = False
        self._wake, self._end = os.pipe()
        self._thread = threading.Thread(target=self._run, daemon=True, name="listener")
        self._thread.start()
        self._ready.wait(_POLL)

    def note(self, last: int) -> None:
        """There are records up to this number."""
        with self.grew:
            if last > self.last:
                self.last = last
                self.grew.notify_all()

    def wait(self, after: int, seconds: float) -> bool:
        """Whether a record behind `after` was announced within that time, or a second at most."""
        with self.grew:
            return self.grew.wait_for(
                lambda: self.last > after or self._closed, min(seconds, _POLL)
            )

    def close(self) -> None:
        """Stop the thread, and close its connection."""
        with self.grew:
            if self._closed:
                return
            self._closed = True
            self.grew.notify_all()
        os.write(self._end, b".")
        self._thread.join()
        os.close(self._end)
        os.close(self._wake)

    def _run(self) -> None:
        while not self._closed:
            try:
                with self._database.connect() as connection:
                    self._listen(connection)
            except (psycopg.Error, OSError):
                pass  # it is made again; readers look by themselves meanwhile
            if not self._closed:
                _wait([self._wake], _PAUSE)

    def _listen(self, connection: Connection) -> None:
        connection.execute(f"LISTEN {self._channel}".encode())
        self._ready.set()
        while True:
            _wait([connection.fileno(), self._wake])
            if self._closed:
                return
            for notice in connection.notifies(timeout=0):
                if notice.payload.isdigit():
                    self.note(int(notice.payload))


def _wait(files: list[int], seconds: float | None = None) -> None:
    """Wait until one of them can be read; by `poll`, because `select` takes none above 1023."""
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    poll.poll(None if seconds is None else seconds * 1000)
