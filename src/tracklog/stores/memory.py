"""A journal in memory: for tests, and for what need not outlive its process."""

import threading

from tracklog.errors import StoreBroken
from tracklog.event import Finding
from tracklog.frame import run_of
from tracklog.stores import Make, Run


class MemoryStore:
    """Keeps frames until it is closed; `sync` means nothing here, and says so in `durable`."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._frames: list[bytes] = []
        self._runs: dict[Run, list[int]] = {}
        self._grew = threading.Condition()
        self._closed = False

    first = 1
    durable = 0

    @property
    def last(self) -> int:
        return len(self._frames)

    def append(self, make: Make, *, lifecycle: bool = False) -> int:
        del lifecycle
        with self._grew:
            if self._closed:
                raise StoreBroken("the store is closed", "open it again to append")
            first = len(self._frames) + 1
            frames = list(make(first))
            for seq, frame in enumerate(frames, first):
                run = run_of(frame)
                if run is not None:
                    self._runs.setdefault(run, []).append(seq)
            self._frames += frames
            self._grew.notify_all()
            return first

    def read(self, after: int, limit: int, run: Run | None = None) -> list[bytes]:
        after, limit = max(0, after), max(0, limit)
        if run is None:
            return self._frames[after : after + limit]
        with self._grew:
            places = [seq for seq in self._runs.get(run, ()) if seq > after][:limit]
        return [self._frames[seq - 1] for seq in places]

    def runs(self) -> set[Run]:
        with self._grew:
            return set(self._runs)

    def wait(self, after: int, timeout: float | None = None) -> bool:
        with self._grew:
            return self._grew.wait_for(lambda: len(self._frames) > after, timeout)

    def sync(self) -> None:
        """Nothing to do: memory is all there is."""

    def close(self) -> None:
        self._closed = True


def store(place: str = "") -> MemoryStore:
    """An empty store; `memory:` has no place."""
    del place
    return MemoryStore()
