"""A journal in the files of one folder, for one machine and many processes.

`<home>/journal/<20 digits>.jsonl` has the frames, 0600 in a 0700 folder; `.chain` beside it has
one line per commit group; `.runs` says where each run's records are, and can be deleted.
Torn data at opening goes to `<home>/quarantine/`, with an entry in `findings`.
"""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from tracklog.journal import retention, segments
from tracklog.journal.disk import Disk
from tracklog.journal.frame import Run
from tracklog.journal.merkle import Head, Link
from tracklog.journal.retention import Tombstone
from tracklog.journal.segments import FORMAT, check_format, firsts, links, segment_path
from tracklog.journal.segments.reader import SegmentReader
from tracklog.journal.segments.upgrade import upgrade
from tracklog.journal.segments.writer import SegmentWriter
from tracklog.journal.stores import Durability, Erasure, Make, Pruning, overtaken
from tracklog.model.errors import NotAppended, StoreBroken
from tracklog.model.event import Finding

SEGMENT_SIZE = 64 << 20
"""Bytes at which a segment is sealed and the next one begins."""


OWN_RUNS = 100_000
"""Runs whose last record a store remembers, at most."""


class FileStore:
    """Many threads and processes may append to one home; readers take no lock.

    Read-only, it changes nothing on disk, and shows what was committed before.
    """

    def __init__(
        self,
        home: str | Path,
        *,
        durability: Durability = "sync",
        interval: float = 0.2,
        segment_size: int = SEGMENT_SIZE,
        segments: int = 0,
        folder: str = "journal",
        readonly: bool = False,
        disk: Disk | None = None,
    ) -> None:
        self.home = Path(home)
        self.durability = durability
        self.interval = interval
        self._segments = segments
        """How many segments there are at most; 0 for any number."""
        self.reader = SegmentReader(self.home / folder)
        self.writer: SegmentWriter | None = None
        self.findings: list[Finding] = []
        self._before: set[int] | None = None
        """Hashes of the runs that had records when the store was opened, once somebody asked."""
        self._own: dict[int, int] = {}
        """The last record that was appended here to each run, by the run's hash."""
        self._timer: threading.Timer | None = None
        self._failed: Exception | None = None
        if readonly:
            if check_format(self.home) == FORMAT:
                self.reader.complete()
        else:
            self.findings += upgrade(self.home, disk or Disk())
            self.writer = SegmentWriter(self.home, folder, segment_size, disk or Disk())
            self.findings = self.writer.findings = [*self.findings, *self.writer.findings]
            if durability == "sync" and self.writer.recovered:
                self.sync()
        self._opened = self.last
        """The last record when the store was opened."""
        self._through = self._foreign = self._opened
        """The last record that was appended here, and one behind which no other writer appended."""

    @property
    def first(self) -> int:
        return self.reader.first

    @property
    def last(self) -> int:
        return self.reader.last

    @property
    def durable(self) -> int:
        return self.writer.durable if self.writer else 0

    def append(self, make: Make, *, lifecycle: bool = False) -> int:
        writer = self._writing()
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed
        with writer.exclusive():
            if writer.full:
                writer.roll()
                if self._segments:
                    retention.trim(writer, self._segments)
            if writer.through != self._through:
                self._foreign = writer.through
            first = writer.through + 1
            group = make(first)
            if group.expected and (moved := self._moved(writer, group.expected)):
                raise overtaken(moved)
            if group.frames:
                durability, lasts = self.durability, group.lasts(first)
                sync = durability == "sync" or (lifecycle and durability == "lifecycle")
                writer.append(group.frames, lasts, sync)
                for run, last in lasts.items():
                    self._own[hash(run)] = last
                if len(self._own) > OWN_RUNS:  # from here on the table has them
                    self._own, self._foreign = {}, writer.through
            self._through = writer.through
        if self.durability == "interval":
            self._sync_soon()
        self.reader.wake()
        return first

    def _moved(self, writer: SegmentWriter, expected: Mapping[Run, int]) -> dict[Run, int]:
        """The runs with records behind what is expected; the table of other writers' records is
        read only where another writer appended since.
        """
        moved: dict[Run, int] = {}
        foreign: dict[Run, int] = {}
        for run, known in expected.items():
            if (last := self._own.get(hash(run), 0)) > known:
                moved[run] = last
            if known < self._foreign:
                foreign[run] = known
        return moved | writer.moved(foreign) if foreign else moved

    def read(self, after: int, limit: int, run: Run | None = None) -> list[bytes]:
        return self.reader.read(max(0, after), limit, run)

    def head(self) -> Head:
        return segments.head(self.reader.folder)

    def origin(self) -> Head:
        return segments.origin(self.reader.folder)

    def links(self, after: int = 0) -> Iterator[Link]:
        return links(self.reader.folder, after)

    def last_of(self, runs: Collection[Run]) -> dict[Run, int]:
        if self._before is None:
            self._before = set(map(hash, self.runs())) if self._opened else set()
        last, before, own = self.last, self._before, self._own
        if last == self._through and self._foreign == self._opened:  # only this store appended
            wanted = [run for run in runs if (name := hash(run)) in before or name in own]
        else:
            noted = self.writer.lasts(runs) if self.writer else dict.fromkeys(runs, last)
            wanted = [run for run in runs if hash(run) in before or noted[run] > self._opened]
        return dict.fromkeys(wanted, self.last) if wanted else {}

    def runs(self) -> set[Run]:
        return {run for first in firsts(self.reader.folder) for run in self.reader.runs(first)}

    def segment_files(self) -> list[tuple[int, Path]]:
        """The files of the records in order, each with the number of its first record."""
        folder = self.reader.folder
        return [(first, segment_path(folder, first)) for first in firsts(folder)]

    def wait(self, after: int, timeout: float | None = None) -> bool:
        return self.reader.wait(after, timeout)

    def sync(self) -> None:
        writer = self._writing()
        with writer.exclusive():
            writer.sync()

    def erase(self, seq: int, *, reason: str, by: str, at: str, id: str | None = None) -> Erasure:
        """Takes one record's bytes out of every place of this home; a tombstone stays.

        The caller records it: a `Noted erasure` line, through the intake.
        """
        return retention.erase(self._writing(), seq, Tombstone(reason, by, at, id))

    def prune(
        self,
        before: str,
        *,
        at: str,
        is_open: Callable[[Run], bool] | None = None,
        dry: bool = False,
    ) -> Pruning:
        """Delete the segments whose records were all received before that time.

        It stops at the first segment that holds a run which `is_open` says is open. The caller
        records it: a `Noted pruned` line for each run, through the intake. With `dry`
        nothing is dropped.
        """
        return retention.prune(self._writing(), self.reader, before, at, is_open, dry=dry)

    def seal(self, before: str) -> None:
        """Begin a new segment if all records of the last one were received before that time."""
        retention.seal_old(self._writing(), before)

    def close(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        writer, self.writer = self.writer, None
        if writer is not None:
            try:
                if self.durability != "os":
                    with writer.exclusive():
                        writer.sync()
                        writer.sync_chain()
            finally:
                writer.close()
        self.reader.close()

    def _writing(self) -> SegmentWriter:
        if self.writer is None:
            raise StoreBroken("the store is closed or read-only", "open it again to append")
        return self.writer

    def _sync_soon(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(self.interval, self._sync_now)
            self._timer.daemon = True
            self._timer.start()

    def _sync_now(self) -> None:
        self._timer = None
        try:
            if self.writer is not None:
                self.sync()
        except NotAppended as error:
            self._failed = error
