"""A journal in memory, for tests and for data that may end with its process."""

import threading
from collections.abc import Collection, Iterator

from tracklog.journal import merkle
from tracklog.journal.frame import Run
from tracklog.journal.merkle import Link
from tracklog.journal.stores import Make, overtaken
from tracklog.model.errors import StoreBroken
from tracklog.model.event import Finding


class MemoryStore:
    """Keeps frames until it is closed; `sync` means nothing here, and says so in `durable`."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._frames: list[bytes] = []
        self._groups: list[int] = []
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
            group = make(first)
            lasts = {run: self._runs[run][-1] for run in group.expected if run in self._runs}
            moved = {run: last for run, last in lasts.items() if last > group.expected[run]}
            if moved:
                raise overtaken(moved)
            seq = first
            for run, count in group.runs:
                self._runs.setdefault(run, []).extend(range(seq, seq + count))
                seq += count
            self._frames += group.frames
            if group.frames:
                self._groups.append(len(self._frames))
            self._grew.notify_all()
            return first

    def read(self, after: int, limit: int, run: Run | None = None) -> list[bytes]:
        after, limit = max(0, after), max(0, limit)
        if run is None:
            return self._frames[after : after + limit]
        with self._grew:
            places = [seq for seq in self._runs.get(run, ()) if seq > after][:limit]
        return [self._frames[seq - 1] for seq in places]

    def links(self, after: int = 0) -> Iterator[Link]:
        before, start = merkle.ORIGIN, 0
        for through in self._groups[:]:
            line, before = merkle.group(before, through, merkle.leaves(self._frames[start:through]))
            link = merkle.read(line[:-1])
            if link is not None and through > after:
                yield link
            start = through

    def last_of(self, runs: Collection[Run]) -> dict[Run, int]:
        with self._grew:
            return {run: self._runs[run][-1] for run in runs if run in self._runs}

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
