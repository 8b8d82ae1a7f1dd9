"""A journal in memory: for tests, and for what need not outlive its process."""

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator

from tracklog.journal import merkle
from tracklog.journal.frame import Run, record, run_of, seq_of, tombstone
from tracklog.journal.merkle import Head, Link
from tracklog.journal.stores import (
    Durability,
    Erasure,
    Make,
    Pruning,
    overtaken,
    refused_needle,
)
from tracklog.model.errors import NoSuchRecord, StoreBroken
from tracklog.model.event import Finding


class MemoryStore:
    """Holds frames until it is closed; `sync` does nothing here, as `durable` shows."""

    durability: Durability = "os"
    durable = 0

    def __init__(self, *, most: int = 0, refused: "MemoryStore | None" = None) -> None:
        self.findings: list[Finding] = []
        self._most, self._refused = most, refused
        self._frames: list[bytes] = []
        self._links: list[Link] = []
        self._origin = merkle.NOTHING
        self._runs: dict[Run, list[int]] = {}
        self._size = 0
        self._grew = threading.Condition(threading.RLock())
        self._closed = False

    @property
    def first(self) -> int:
        return self._origin.through + 1

    @property
    def last(self) -> int:
        return self._origin.through + len(self._frames)

    def append(self, make: Make, *, lifecycle: bool = False) -> int:
        del lifecycle
        with self._grew:
            self._check_open()
            first = self.last + 1
            group = make(first)
            lasts = {run: self._runs[run][-1] for run in group.expected if run in self._runs}
            moved = {run: last for run, last in lasts.items() if last > group.expected[run]}
            if moved:
                raise overtaken(moved)
            if not group.frames:
                return first
            seq = first
            for run, count in group.runs:
                self._runs.setdefault(run, []).extend(range(seq, seq + count))
                seq += count
            leaves = merkle.leaves(group.frames)
            line, _ = merkle.group(self._chain, first + len(group.frames) - 1, leaves)
            self._chained(line)
            self._frames += group.frames
            self._size += sum(map(len, group.frames))
            while self._most and self._size > self._most and len(self._groups()) > 1:
                self._drop(self._groups()[0])
            self._grew.notify_all()
            return first

    def read(self, after: int, limit: int, run: Run | None = None) -> list[bytes]:
        with self._grew:
            base = self._origin.through
            after, limit = max(base, after), max(0, limit)
            if run is None:
                return self._frames[after - base : after - base + limit]
            seqs = self._runs.get(run, [])
            start = bisect_right(seqs, after)
            return [self._frames[seq - base - 1] for seq in seqs[start : start + limit]]

    def head(self) -> Head:
        with self._grew:
            return Head(self.last, self._chain.hex())

    def origin(self) -> Head:
        return self._origin

    def links(self, after: int = 0) -> Iterator[Link]:
        with self._grew:
            return iter([link for link in self._links if link.through > after])

    def last_of(self, runs: Collection[Run]) -> dict[Run, int]:
        with self._grew:
            return {run: self._runs[run][-1] for run in runs if run in self._runs}

    def runs(self) -> set[Run]:
        with self._grew:
            return set(self._runs)

    def wait(self, after: int, timeout: float | None = None) -> bool:
        with self._grew:
            return self._grew.wait_for(lambda: self.last > after, timeout)

    def erase(self, seq: int, *, reason: str, by: str, at: str, id: str | None = None) -> Erasure:
        with self._grew:
            self._check_open()
            frames = self.read(seq - 1, 1)
            old = record(frames[0]) if frames else None
            if old is None or old.seq != seq:
                raise NoSuchRecord(
                    f"there is no record {seq}", "`tracklog tail` shows the numbers that there are"
                )
            run, also = (old.family, old.run), list[str]()
            if old.erased is not None:
                return Erasure(seq, run, old.erased.leaf, ())
            leaf = merkle.leaf(frames[0])
            put = tombstone(frames[0], leaf, reason, by, at, id)
            line, _ = merkle.erased(self._chain, self.last, seq, leaf, merkle.leaf(put))
            self._chained(line)
            self._frames[seq - self.first] = put
            if self._refused is not None and (needle := refused_needle(old.line)):
                for each in [seq_of(frame) for frame in self._refused._frames if needle in frame]:
                    self._refused.erase(each, reason=reason, by=by, at=at)
                    also.append(f"refused/{each}")
            return Erasure(seq, run, leaf.hex(), tuple(also))

    def prune(
        self,
        before: str,
        *,
        at: str,
        is_open: Callable[[Run], bool] | None = None,
        dry: bool = False,
    ) -> Pruning:
        del at
        with self._grew:
            through, base = self._origin.through, self._origin.through
            gone: set[Run] = set()
            for link in self._groups():
                group = self._frames[through - base : link.through - base]
                runs = {run for frame in group if (run := run_of(frame))}
                newest = record(group[-1])
                if newest is None or newest.received >= before or any(map(is_open or _no, runs)):
                    break
                through, gone = link.through, gone | runs
            if through == base:
                return Pruning(0, 0, 0, (), ())
            size = sum(map(len, self._frames[: through - base]))
            left = {run for run in gone if self._runs[run][-1] > through}
            done = Pruning(
                through, through - base, size, tuple(sorted(gone - left)), tuple(sorted(left))
            )
            if not dry:
                for link in [link for link in self._groups() if link.through <= through]:
                    self._drop(link)
            return done

    def sync(self) -> None:
        """Nothing to do: memory is all there is."""

    def close(self) -> None:
        self._closed = True

    @property
    def _chain(self) -> bytes:
        return self._links[-1].chain if self._links else bytes.fromhex(self._origin.chain)

    def _chained(self, line: bytes) -> None:
        link = merkle.read(line[:-1])
        assert link is not None, "it was written a moment ago"
        self._links.append(link)

    def _groups(self) -> list[Link]:
        return [link for link in self._links if link.kind == "group"]

    def _drop(self, group: Link) -> None:
        """Drops the oldest group, and the erasures that were chained before the next one."""
        count = group.through - self._origin.through
        for frame in self._frames[:count]:
            self._size -= len(frame)
        del self._frames[:count]
        chain = group.chain
        while self._links and self._links[0].through <= group.through:
            chain = self._links.pop(0).chain
        self._origin = Head(group.through, chain.hex())
        for run, seqs in list(self._runs.items()):
            del seqs[: bisect_left(seqs, group.through + 1)]
            if not seqs:
                del self._runs[run]

    def _check_open(self) -> None:
        if self._closed:
            raise StoreBroken("the store is closed", "open it again to append")


def _no(_run: Run) -> bool:
    return False
