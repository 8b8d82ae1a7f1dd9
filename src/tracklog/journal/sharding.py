"""Shards: a store whose runs are divided over several journals, for several processes to work on.

A shard is a journal as any other: its own numbers from 1 on, its own chain, its own index. A run is
in one shard, which a hash of its name selects. A record of a store with shards has the number
`(seq - 1) * shards + shard + 1`, which tells both; with one shard that is `seq`.
"""

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from hashlib import sha256
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import Protocol, runtime_checkable

from tracklog.journal.comparing import RecordFault, Report
from tracklog.journal.frame import Mark, Record, Run, seq_of
from tracklog.journal.frame import records as records_of
from tracklog.journal.journal import Journal
from tracklog.journal.leases import Leases
from tracklog.journal.merkle import NOTHING, Head, Link
from tracklog.journal.offsets import SourceOffset
from tracklog.journal.storages import Blobs, SharesSettings, Storage
from tracklog.journal.stores import Durability, Erasure, Make, Pruning, Store
from tracklog.model.errors import TracklogError
from tracklog.model.event import Finding

_LOOK = 0.05  # seconds between two looks at the ends of the shards
_START = len(b'{"seq":')

Ends = tuple[int, ...]
"""A position in a store with shards: of each shard the number of its last record, as the shard
counts."""


def shard_of(run: Run, shards: int) -> int:
    """The shard of a run: the first 8 bytes of the SHA-256 of its family and name."""
    if shards == 1:
        return 0
    text = "\0".join(run).encode("utf-8", "surrogatepass")
    return int.from_bytes(sha256(text).digest()[:8]) % shards


def cursor_text(ends: Ends) -> str:
    """A position as the cursor that clients get: `0.118,3.97`; shards without records are left out."""
    return ",".join(f"{n}.{end}" for n, end in enumerate(ends) if end) or "0.0"


def ends_of(text: str, shards: int) -> Ends | None:
    """The position that a cursor names; None for a text that is no such cursor."""
    ends = [0] * shards
    for part in text.split(","):
        shard, dot, end = part.partition(".")
        if not (dot and shard.isdecimal() and end.isdecimal() and len(part) <= 24):
            return None
        if int(shard) >= shards:
            return None
        ends[int(shard)] = int(end)
    return tuple(ends)


class Numbers:
    """The numbers of the records of one shard, in the shard and in the store."""

    def __init__(self, shard: int, shards: int) -> None:
        self.shard, self.shards = shard, shards

    def outer(self, seq: int) -> int:
        """The number that a record of the shard has in the store; 0 for none."""
        return (seq - 1) * self.shards + self.shard + 1 if seq > 0 else 0

    def inner(self, number: int) -> int:
        """The last record of the shard that has this number in the store, or a smaller one."""
        return max(0, (number - 1 - self.shard) // self.shards + 1)


class NumberedStore:
    """The store of one shard, with the numbers of the record; it is read, and not appended to."""

    def __init__(self, store: Store, numbers: Numbers) -> None:
        self.own, self.numbers = store, numbers
        self.durability: Durability = store.durability
        self.findings: list[Finding] = store.findings

    @property
    def first(self) -> int:
        return self.numbers.outer(self.own.first)

    @property
    def last(self) -> int:
        return self.numbers.outer(self.own.last)

    @property
    def durable(self) -> int:
        return self.numbers.outer(self.own.durable)

    def append(self, make: Make, *, lifecycle: bool = False) -> int:  # noqa: ARG002
        raise whole_only("append to")

    def read(self, after: int, limit: int, run: Run | None = None) -> list[bytes]:
        frames = self.own.read(self.numbers.inner(after), limit, run)
        return [renumbered(each, self.numbers) for each in frames]

    def head(self) -> Head:
        return self.own.head()

    def origin(self) -> Head:
        return self.own.origin()

    def links(self, after: int = 0) -> Iterator[Link]:
        return self.own.links(self.numbers.inner(after))

    def last_of(self, runs: Collection[Run]) -> dict[Run, int]:
        return {run: self.numbers.outer(last) for run, last in self.own.last_of(runs).items()}

    def runs(self) -> set[Run]:
        return self.own.runs()

    def wait(self, after: int, timeout: float | None = None) -> bool:
        return self.own.wait(self.numbers.inner(after), timeout)

    def erase(self, seq: int, *, reason: str, by: str, at: str, id: str | None = None) -> Erasure:
        own = self.numbers.inner(seq)
        return self.own.erase(own, reason=reason, by=by, at=at, id=id)._replace(seq=seq)

    def prune(
        self,
        before: str,
        *,
        at: str,
        is_open: Callable[[Run], bool] | None = None,
        dry: bool = False,
    ) -> Pruning:
        done = self.own.prune(before, at=at, is_open=is_open, dry=dry)
        return done._replace(through=self.numbers.outer(done.through))

    def sync(self) -> None:
        self.own.sync()

    def close(self) -> None:
        self.own.close()


def renumbered(frame: bytes, numbers: Numbers) -> bytes:
    """A frame of a shard with its number in the store; a damaged one as it is."""
    end = frame.find(b",", _START)
    digits = frame[_START:end]
    if end < 0 or not digits.isdigit():
        return frame
    return b'{"seq":%d%b' % (numbers.outer(int(digits)), frame[end:])


def whole_only(what: str) -> TracklogError:
    """The error of an act that needs all shards, at the URL of one of them."""
    return TracklogError(
        f"you cannot {what} one shard of a store",
        "leave `shard=` out of the URL: then each line goes to the shard of its run",
    )


def by_shard(what: str) -> TracklogError:
    """The error of an act that is done shard by shard, at the URL of all of them."""
    return TracklogError(
        f"a store with shards has {what} for each shard",
        "add `shard=0` to the query of the URL, and do the same for the other shards",
    )


class ShardedStore:
    """The stores of all shards as one, for reading; positions are numbers of records in all of them.

    `last` is how many records there are, so that it grows with each. Records are read in the order
    of their numbers. New records are followed with `ends` and `read_behind`, because one that is
    appended later may have a smaller number.
    """

    def __init__(self, parts: Sequence[NumberedStore], lasts: Callable[[], Ends]) -> None:
        self.parts, self._lasts = parts, lasts
        self._known: Ends = (0,) * len(parts)
        self._closed = False
        self.durability: Durability = parts[0].durability
        self.findings: list[Finding] = [each for part in parts for each in part.findings]

    def ends(self) -> Ends:
        """The last record of each shard, as the shard counts; of a closed store as it was."""
        if not self._closed:
            self._known = self._lasts()
        return self._known

    def of(self, run: Run) -> NumberedStore:
        """The store of the shard of a run."""
        return self.parts[shard_of(run, len(self.parts))]

    @property
    def first(self) -> int:
        return min(part.first for part in self.parts)

    @property
    def last(self) -> int:
        return sum(self.ends())

    @property
    def durable(self) -> int:
        return sum(part.own.durable for part in self.parts)

    def append(self, make: Make, *, lifecycle: bool = False) -> int:  # noqa: ARG002
        raise by_shard("a journal")

    def read(self, after: int, limit: int, run: Run | None = None) -> list[bytes]:
        if run is not None:
            return self.of(run).read(after, limit, run)
        if limit == 1:  # mostly one record, by its number
            found = self.parts[after % len(self.parts)].read(after, 1)
            if found and seq_of(found[0]) == after + 1:
                return found
        return list(
            islice(merge(*(part.read(after, limit) for part in self.parts), key=seq_of), limit)
        )

    def read_behind(self, ends: Ends, limit: int, run: Run | None = None) -> list[bytes]:
        """Records behind a position, some of each shard that has some; in order within a shard."""
        found: list[bytes] = []
        now = self.ends() if run is None else None
        for n, (part, end) in enumerate(zip(self.parts, ends, strict=True)):
            if run is not None and part is not self.of(run):
                continue
            if now is None or now[n] > end:
                found += part.read(part.numbers.outer(end), limit, run)
        return found

    def moved(self, ends: Ends, frames: Sequence[bytes]) -> Iterator[Ends]:
        """The position behind each of these frames."""
        shards = len(self.parts)
        reached = list(ends)
        for frame in frames:
            number = seq_of(frame)
            reached[(number - 1) % shards] = (number - 1) // shards + 1
            yield tuple(reached)

    def head(self) -> Head:
        raise by_shard("a head")

    def origin(self) -> Head:
        raise by_shard("a chain")

    def links(self, after: int = 0) -> Iterator[Link]:  # noqa: ARG002  # there is none
        raise by_shard("a chain")

    def last_of(self, runs: Collection[Run]) -> dict[Run, int]:
        return {run: last for run in runs for run, last in self.of(run).last_of((run,)).items()}

    def runs(self) -> set[Run]:
        return set[Run]().union(*(part.runs() for part in self.parts))

    def wait(self, after: int, timeout: float | None = None) -> bool:
        until = None if timeout is None else time.monotonic() + timeout
        while self.last <= after:
            left = _LOOK if until is None else until - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(left, _LOOK))
        return True

    def erase(self, seq: int, *, reason: str, by: str, at: str, id: str | None = None) -> Erasure:
        part = self.parts[(seq - 1) % len(self.parts)]
        return part.erase(seq, reason=reason, by=by, at=at, id=id)

    def prune(
        self,
        before: str,
        *,
        at: str,
        is_open: Callable[[Run], bool] | None = None,
        dry: bool = False,
    ) -> Pruning:
        done = [part.prune(before, at=at, is_open=is_open, dry=dry) for part in self.parts]
        return Pruning(
            max(each.through for each in done),
            sum(each.records for each in done),
            sum(each.bytes for each in done),
            tuple(run for each in done for run in each.whole),
            tuple(run for each in done for run in each.part),
        )

    def sync(self) -> None:
        for part in self.parts:
            part.sync()

    def close(self) -> None:
        with contextlib.suppress(TracklogError):
            self.ends()  # whoever stops may still say how far it came
        self._closed = True
        for part in self.parts:
            part.close()


class NumberedJournal(Journal):
    """The journal of one shard, with the numbers of the store."""

    def __init__(self, store: NumberedStore | ShardedStore, clock: Callable[[], float]) -> None:
        super().__init__(store, clock)
        self.step = store.numbers.shards if isinstance(store, NumberedStore) else 1

    def _look_for_gaps(self, after: int, records: list[Record]) -> None:
        """The numbers between two records belong to other shards."""


class ShardedJournal(NumberedJournal):
    """The journals of all shards as one, for reading."""

    def __init__(self, store: ShardedStore, clock: Callable[[], float]) -> None:
        super().__init__(store, clock)
        self.shards = [NumberedJournal(part, clock) for part in store.parts]
        self.numbers = [part.numbers for part in store.parts]
        self._sharded = store

    def of(self, run: Run) -> NumberedJournal:
        """The journal of the shard of a run: there its position is the number of a record."""
        return self.shards[shard_of(run, len(self.shards))]

    def records(
        self, after: int = 0, run: Run | None = None, through: int | None = None
    ) -> Iterator[Record]:
        if run is not None:
            return self.of(run).records(after, run, through)
        return super().records(after, None, through)

    @property
    def highest(self) -> int:
        """A number that no record has passed yet: whoever follows behind it gets what is new."""
        return max(part.last for part in self.shards)

    def newest(self, limit: int) -> list[Record]:
        """The records that were received last, oldest first."""
        found: list[Record] = []
        for each in self.shards:
            found += each.records(max(0, each.last - limit * each.step))
        return sorted(found, key=lambda record: (record.received, record.seq))[-limit:]

    def follow(
        self, after: int = 0, run: Run | None = None, stop: Callable[[], bool] = lambda: False
    ) -> Iterator[Record]:
        if run is not None:
            yield from self.of(run).follow(after, run, stop)
            return
        store = self._sharded
        now = store.ends()
        # A number says nothing about shards that have not reached it: they are followed from now on.
        ends = tuple(
            min(part.numbers.inner(after), end) for part, end in zip(store.parts, now, strict=True)
        )
        while not stop():
            frames = store.read_behind(ends, 1000)
            ends = (ends, *store.moved(ends, frames))[-1]
            yield from records_of(frames)
            if not frames:
                self.store.wait(sum(ends), 0.5)

    def link(self, seq: int) -> str:
        return self.shards[(seq - 1) % len(self.shards)].link(seq) if seq > 0 else ""


class ShardedOffsets:
    """Batch keys and offsets over all shards: how far a source was recorded in any of them."""

    def __init__(
        self, place: Callable[[str], SourceOffset | None], sources: Callable[[], list[str]]
    ) -> None:
        self._place, self.sources = place, sources

    def place(self, source: str) -> SourceOffset | None:
        """How far a source was recorded."""
        return self._place(source)

    def is_at(self, source: str, place: SourceOffset | None, before: int) -> bool:  # noqa: ARG002
        """Each shard is asked by its own intake."""
        return self.place(source) == place

    def note(self, seqs: Sequence[int], mark: Mark | None) -> None:
        """Each shard takes over what was appended to it."""

    def save(self) -> None:
        """Nothing to do: each shard has its own."""


@runtime_checkable
class OneOfShards(Protocol):
    """A storage that may be one shard of several."""

    @property
    def numbers(self) -> Numbers | None:
        """How its records are numbered; None where it is the only shard."""


@runtime_checkable
class Sharded(Protocol):
    """A storage with several shards."""

    @property
    def parts(self) -> "Sequence[Storage]":
        """The storages of the shards."""

    def claim(self, source: str, sha256: str) -> str:
        """Claim a batch key for these lines in the shard that the key selects, and return the hash
        of the lines that it was claimed for first.
        """


class ShardedStorage:
    """All shards of a store, and what they share: refused lines, large values, leases."""

    def __init__(
        self,
        parts: Sequence[Storage],
        lasts: Callable[[], Ends],
        claim: Callable[[str, str], str],
    ) -> None:
        self.parts, self.claim = parts, claim
        count = len(parts)
        numbered = [NumberedStore(part.store, Numbers(n, count)) for n, part in enumerate(parts)]
        self.store = ShardedStore(numbered, lasts)
        self.folder: Path = parts[0].folder
        self.refused_together = parts[0].refused_together

    @property
    def index_url(self) -> str:
        """Each shard has its own."""
        return self.parts[0].index_url

    @property
    def refused(self) -> Store:
        return self.parts[0].refused

    @cached_property
    def blobs(self) -> Blobs:
        return self.parts[0].blobs

    def offsets(self, journal: Journal) -> ShardedOffsets:  # noqa: ARG002  # each shard has its own
        raise by_shard("offsets")

    def verify(self, anchor: Head | None = None) -> Report:
        """Verify every shard; the numbers are those of the store, the head of each is in the notes."""
        if anchor is not None:
            raise by_shard("a head")
        whole = Report()
        for n, part in enumerate(self.parts):
            report, numbers = part.verify(), Numbers(n, len(self.parts))
            whole.records += report.records
            whole.groups += report.groups
            whole.erased += map(numbers.outer, report.erased)
            whole.unproven += map(numbers.outer, report.unproven)
            whole.faults += [
                RecordFault(numbers.outer(each.seq), f"shard {n}: {each.why}")
                for each in report.faults
            ]
            whole.notes += [f"shard {n}: {each}" for each in report.notes]
            whole.notes.append(f"shard {n}: head {report.head}")
        whole.head = NOTHING
        return whole

    def leases(self) -> Leases:
        return self.parts[0].leases()

    def setting(self, name: str) -> bytes | None:
        """A setting of all shards."""
        return self._settings.setting(name)

    def set_setting(self, name: str, value: bytes) -> None:
        """Store a setting of all shards."""
        self._settings.set_setting(name, value)

    @property
    def _settings(self) -> SharesSettings:
        first = self.parts[0]
        assert isinstance(first, SharesSettings), "shards are in a database"
        return first

    def close(self) -> None:
        for part in reversed(self.parts):
            part.close()


def stored_in(storage: Storage) -> Store:
    """The records of a storage, with the numbers that they have in the store."""
    numbers = storage.numbers if isinstance(storage, OneOfShards) else None
    return storage.store if numbers is None else NumberedStore(storage.store, numbers)


def journal_on(store: Store, clock: Callable[[], float]) -> Journal:
    """The journal on a store, on that of one shard, or on that of all of them."""
    if isinstance(store, ShardedStore):
        return ShardedJournal(store, clock)
    return (
        NumberedJournal(store, clock) if isinstance(store, NumberedStore) else Journal(store, clock)
    )
