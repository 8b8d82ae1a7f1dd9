"""Stores: where a journal's bytes are, one kind of store per file.

To write another: copy `memory.py`, implement the methods of `Store` with their promises, and pass
`tracklog.testing.StoreSuite`. A storage (see `tracklog.journal.storages`) opens it by URL.

Of a frame a store needs only what `tracklog.journal.frame` reads from it: its number and its run.
"""

import base64
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from tracklog.journal.frame import Mark, Run
from tracklog.journal.merkle import Head, Link
from tracklog.model.errors import Overtaken
from tracklog.model.event import Finding

Durability = Literal["sync", "interval", "lifecycle", "os"]
"""What an acknowledgement promises.

- `sync`: the group is on disk; it survives the loss of power.
- `interval`: it survives the death of the process, and a loss of power a short time later.
- `lifecycle`: as `sync` for groups in which something began or ended, else as `os`.
- `os`: the operating system has it; it survives the death of the process.
"""


class Group(NamedTuple):
    """Frames that are committed together: all of them are there after a crash, or none."""

    frames: Sequence[bytes]
    runs: Sequence[tuple[Run, int]]
    """The run of the frames in order, and how many of them follow each other in it."""
    marks: Mapping[int, Mark]
    """The marks of the batches in it, by the place of the frame that carries each."""
    expected: Mapping[Run, int] = {}
    """For each run that was judged, the record up to which it was known."""
    refused: "Sequence[Make]" = ()
    """Refused lines of the same batches: what makes their groups in the journal of refused lines.
    Only given to a store that commits both together."""

    def lasts(self, first: int) -> dict[Run, int]:
        """The last record of each run, when `first` is the number of the first frame."""
        lasts: dict[Run, int] = {}
        seq = first - 1
        for run, count in self.runs:
            seq += count
            lasts[run] = seq
        return lasts


class Erasure(NamedTuple):
    """One record that was erased."""

    seq: int
    run: Run
    leaf: str
    """SHA-256 of the frame that is gone."""
    also: tuple[str, ...]
    """Other places of the home from which the same bytes were taken."""


class Pruning(NamedTuple):
    """What was dropped."""

    through: int
    """The last record that is gone; 0 when nothing was dropped."""
    records: int
    bytes: int
    whole: tuple[Run, ...]
    """Runs of which nothing is left."""
    part: tuple[Run, ...]
    """Runs of which the beginning is gone."""


REFUSED_BYTES = 64 << 10
"""Bytes of a refused line that are stored, in base64; its size and hash are of the complete line."""


def refused_needle(line: bytes) -> bytes:
    """What of a line stands in its refusal, if it was refused before; empty for a short line."""
    size = min(len(line), REFUSED_BYTES) // 3 * 3
    return base64.b64encode(line[:size])


Make = Callable[[int], Group]
"""Builds a group, given the number of its first frame."""


def overtaken(runs: Mapping[Run, int]) -> Overtaken:
    """What a store raises when runs have records behind what a group expected."""
    names = ", ".join(sorted(run for _, run in runs)[:3])
    return Overtaken(f"another writer appended to {names}", "judge the lines again", runs)


class Readable(Protocol):
    """What verifying and copying read of a journal: its records and its chain."""

    @property
    def last(self) -> int:
        """The number of the last frame; 0 when there never was one."""

    def read(self, after: int, limit: int, run: Run | None = None) -> list[bytes]:
        """The frames behind `after`, in order, at most `limit`, of one run if asked."""

    def head(self) -> Head:
        """The end of the chain."""

    def origin(self) -> Head:
        """What the first link is chained to."""

    def links(self, after: int = 0) -> Iterator[Link]:
        """The chain, from the group that holds `after + 1`."""


@runtime_checkable
class Sealing(Protocol):
    """A store that drops records file by file."""

    def seal(self, before: str) -> None:
        """Begin a new file if all records of the last one were received before that time."""


class Store(Protocol):
    """A numbered list of frames that only grows at its end; safe to use from many threads."""

    durability: Durability
    """What an acknowledgement promises."""
    findings: list[Finding]
    """The findings when it was opened or repaired."""

    @property
    def first(self) -> int:
        """The number of the first stored frame; `last + 1` where there is none."""

    @property
    def last(self) -> int:
        """The number of the last frame; 0 when there never was one."""

    @property
    def durable(self) -> int:
        """The last frame that is known to survive the loss of power."""

    def append(self, make: Make, *, lifecycle: bool = False) -> int:
        """Keep the frames of one group, all or none; the number of the first.

        The first becomes `last + 1`, whoever else appends. On return the group is as durable as
        was chosen; when it raises, the group was not acknowledged. `make` is called while nobody
        else can append, so what it reads of the store is all that comes before the group. When a
        run has a record behind what the group expected of it, `Overtaken` is raised with all such
        runs. A store that cannot be sure of a run may name it, too.
        `lifecycle` marks a group in which something began or ended.
        """

    def read(self, after: int, limit: int, run: Run | None = None) -> list[bytes]:
        """The frames behind `after`, in order, at most `limit`, of one run if asked.

        An empty list means the end. Fewer than `limit` may come while there are more.
        """

    def head(self) -> Head:
        """The end of the chain; on return it is as durable as this store can make it."""

    def origin(self) -> Head:
        """What the first link is chained to: the end of what was pruned, else nothing."""

    def links(self, after: int = 0) -> Iterator[Link]:
        """The chain: a link for each group, the first of them the one that holds `after + 1`,
        and the erasures between them.
        """

    def last_of(self, runs: Collection[Run]) -> dict[Run, int]:
        """For each run that may have records a number behind which it has none; a run that is left
        out has no record.
        """

    def runs(self) -> set[Run]:
        """Every run that has a frame."""

    def wait(self, after: int, timeout: float | None = None) -> bool:
        """Whether there is a frame behind `after`, as soon as there is or when time is up."""

    def erase(self, seq: int, *, reason: str, by: str, at: str, id: str | None = None) -> Erasure:
        """Replace one record with a tombstone, and take its bytes out of every other place.

        The identity of its event, if given, stays on the tombstone. The chain says that it was
        erased. The caller records who asked for it.
        """

    def prune(
        self,
        before: str,
        *,
        at: str,
        is_open: Callable[[Run], bool] | None = None,
        dry: bool = False,
    ) -> Pruning:
        """Drop the oldest records, if all of a stretch were received before that time.

        It stops before a run that `is_open` calls open. With `dry` nothing is dropped.
        """

    def sync(self) -> None:
        """On return, everything appended before is as durable as this store can make it."""

    def close(self) -> None:
        """Lets go of everything; may be called twice."""
