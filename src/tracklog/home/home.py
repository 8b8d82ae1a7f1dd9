"""A home: the folder that holds one journal and everything that belongs to it."""

import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Self, TypeVar, get_args

from tracklog.dialects import Dialect
from tracklog.dialects import tracklog as native
from tracklog.folds import MARK, Fold, run_of
from tracklog.home import registry
from tracklog.index.indexer import Indexer
from tracklog.index.sharded import ShardedIndexer
from tracklog.intake.intake import Intake, Redact
from tracklog.intake.sharded import ShardedIntake
from tracklog.journal.frame import Record, Run, stamp
from tracklog.journal.journal import Journal
from tracklog.journal.refused import RefusedLines
from tracklog.journal.sharding import (
    NumberedStore,
    Sharded,
    ShardedJournal,
    journal_on,
    shard_of,
    stored_in,
    whole_only,
)
from tracklog.journal.storages import Blobs, Storage
from tracklog.journal.stores import Durability, Erasure, Pruning, Sealing
from tracklog.model.errors import IndexUnwritable, NoSuchRecord, NoSuchRun, NotAppended
from tracklog.model.event import Event
from tracklog.model.fact import Began, Ended, Fact, Noted
from tracklog.model.lines import CAP
from tracklog.model.own_notes import PRUNE, PRUNED
from tracklog.reading.record import event_of
from tracklog.reading.walk import facts_in, walk

T = TypeVar("T")

OPERATIONS: Run = ("tracklog", "operations")
"""The run in which it is recorded what operators did to the record as a whole."""

_BLOB = re.compile(rb'"(?:sha256|raw)": ?"([0-9a-f]{64})"')
"""Where a line speaks of a blob: in the place of what was lifted out, or as its own origin."""


def act(label: str, by: str, **data: object) -> Noted:
    """What an operator did, as a note that says in its text who it was, and with what."""
    words = [f"by {by}", *(f"{name} {value}" for name, value in data.items() if value is not None)]
    return Noted(label=label, text=", ".join(words), data={**data, "by": by})


class Home:
    """Opens what is there and makes what is not; read-only, it changes nothing but its cache."""

    def __init__(
        self,
        place: str | Path,
        *,
        durability: Durability = "sync",
        readonly: bool = False,
        dialects: Iterable[Dialect] | None = None,
        redact: Redact | None = None,
        cap: int = CAP,
        segment_size: int | None = None,
        clock: Callable[[], float] = time.time,
        folds: Iterable[Fold[Any]] | None = None,
        index: str | None = None,
        folders: Path | None = None,
    ) -> None:
        if durability not in get_args(Durability):  # a store would sync nothing
            words = ", ".join(get_args(Durability))
            raise ValueError(f"durability is {durability!r}; use one of {words}")
        options: dict[str, Any] = {"durability": durability, "readonly": readonly}
        if segment_size is not None:
            options["segment_size"] = segment_size
        if folders is not None:
            options["folders"] = folders
        self.storage = registry.storage(place, **options)
        self.store, self.path = stored_in(self.storage), self.storage.folder
        self._folds, self._given_index = folds, index
        self.dialects = {each.name: each for each in dialects or registry.dialects()}
        self.clock = clock
        self.redact, self._cap = redact, cap
        self._lifecycle = durability == "lifecycle"
        self._caches: dict[Callable[[Home], Any], Any] = {}
        self.journal = journal_on(self.store, clock)

    @cached_property
    def intake(self) -> Intake:
        """The intake: the one way in for lines."""
        options: dict[str, Any] = {"refused": self.refused, "redact": self.redact}
        options |= {"lifecycle": self._lifecycle, "cap": self._cap}
        dialects = list(self.dialects.values())
        storage, journal = self.storage, self.journal
        if isinstance(storage, Sharded) and isinstance(journal, ShardedJournal):
            claim, parts = storage.claim, storage.parts
            return ShardedIntake(journal, parts, claim, dialects, self.clock, **options)
        if isinstance(self.store, NumberedStore):
            raise whole_only("append to")
        return Intake(journal, dialects, offsets=storage.offsets(journal), **options)

    def journal_of(self, run: Run) -> Journal:
        """The journal that has a run; there is only one, unless the store has shards."""
        return self.journal.of(run) if isinstance(self.journal, ShardedJournal) else self.journal

    def newest(self, limit: int) -> list[Record]:
        """The records that were recorded last, oldest first."""
        journal = self.journal
        if isinstance(journal, ShardedJournal):
            return journal.newest(limit)
        return list(journal.records(max(journal.first - 1, journal.last - limit, 0)))

    def storage_of(self, run: Run) -> Storage:
        """The storage that has a run, with the numbers of its own."""
        parts = self.storage.parts if isinstance(self.storage, Sharded) else (self.storage,)
        return parts[shard_of(run, len(parts))]

    @cached_property
    def refused(self) -> RefusedLines:
        """The lines that the intake refused."""
        return RefusedLines(self.storage.refused, together=self.storage.refused_together)

    @cached_property
    def blobs(self) -> Blobs:
        """Large values that were taken out of lines and are stored apart."""
        return self.storage.blobs

    @cached_property
    def _index_url(self) -> str:
        return self._given_index or self.storage.index_url

    @property
    def shares_index(self) -> bool:
        """Whether the index is one that other machines use, too."""
        return not self._index_url.startswith("sqlite:") and self.index.index.shared

    @cached_property
    def index(self) -> Indexer:
        """The index: the states of the folds, a cache. It is in memory where no file can be written."""
        if isinstance(self.storage, Sharded) and isinstance(self.journal, ShardedJournal):
            urls = [part.index_url for part in self.storage.parts]
            return ShardedIndexer(self.journal, list(map(self._indexer, self.journal.shards, urls)))
        return self._indexer(self.journal, self._index_url)

    def _indexer(self, journal: Journal, url: str) -> Indexer:
        try:
            opened = registry.index(url)
        except IndexUnwritable:
            opened = registry.index("sqlite::memory:")
        folds = registry.folds() if self._folds is None else self._folds
        return Indexer(journal, opened, self.dialects.values(), folds)

    def cache(self, make: "Callable[[Home], T]") -> T:
        """A value that an answer caches between questions: `make` is called once for each home."""
        if make not in self._caches:
            self._caches.setdefault(make, make(self))  # of two threads the first counts
        value: T = self._caches[make]
        return value

    def runs(self) -> set[Run]:
        """Every run that has a record."""
        return set(self.journal.runs())

    def run(self, name: str) -> Run:
        """The run that is meant: `family:run`, a run id, a name that another system has for it,
        or the beginning of one of these.
        """
        family, _, own = name.partition(":")
        if own and self.journal.read(0, 1, (family, own)):
            return family, own  # the complete name: the other runs need not be read
        runs = self.runs()
        matching = {run for run in runs if name in (run[1], ":".join(run))}
        if not matching:
            aliases = self._aliases(name)
            matching = aliases.get(name, set()) or {
                run
                for known, named in [*self._names(runs), *aliases.items()]
                if known.startswith(name)
                for run in named
            }
        if len(matching) == 1:
            return next(iter(matching))
        if not matching and name.endswith("…"):  # copied from a table that cut it
            return self.run(name.rstrip("…"))
        if matching:
            names = ", ".join(sorted(":".join(run) for run in matching)[:5])
            raise NoSuchRun(f"{name!r} could be {len(matching)} runs", f"say which: {names}")
        every = [*(run[1] for run in runs), *self._aliases()]
        near = get_close_matches(name, every, n=3, cutoff=0.4)
        hint = f"did you mean {', '.join(near)}?" if near else "`tracklog runs` lists what is there"
        raise NoSuchRun(f"there is no run {name!r} here", hint)

    @staticmethod
    def _names(runs: Iterable[Run]) -> Iterator[tuple[str, set[Run]]]:
        for run in runs:
            yield run[1], {run}
            yield ":".join(run), {run}

    def _aliases(self, begun: str = "") -> dict[str, set[Run]]:
        """The runs by each name that another system has for them, those that begin so."""
        if "aliases" not in self.index.folds:
            return {}
        self.index.catch_up()
        aliases: dict[str, set[Run]] = {}
        for key, row in self.index.sums("aliases", prefix=begun):
            aliases.setdefault(key.rpartition(MARK)[0], set()).update(map(run_of, row))
        return aliases

    def event(self, record: Record) -> Event | None:
        """The event of a record; None when it was erased or damaged, or its dialect is not here."""
        return event_of(record, self.dialects)

    def facts_in(self, record: Record) -> Sequence[Fact]:
        """The facts of a record by itself, whether it counts or not; none where it has no event."""
        return facts_in(record, self.dialects)

    def erase(self, name: str, seq: int, *, reason: str, by: str) -> Erasure:
        """Remove the bytes of one record from every place of this home, and record that."""
        record = self.record(name, seq)
        event = self.event(record)
        erasure = self.store.erase(
            seq, reason=reason, by=by, at=self._now(), id=event.id if event else None
        )
        data = {"seq": seq, "reason": reason, "by": by}
        self.record_fact((record.family, record.run), Noted(label="erasure", data=data))
        self.index.forget()
        self._forget_sources(record.run)
        return erasure._replace(also=(*erasure.also, *self._drop_blobs(record.line)))

    def record(self, name: str, seq: int) -> Record:
        """Record `seq`, which must be of the run of this name."""
        family, run = self.run(name)
        record = next(iter(self.journal.read(seq - 1, 1)), None)
        if record is None or (record.seq, record.family, record.run) != (seq, family, run):
            raise NoSuchRecord(
                f"record {seq} is not of run {run!r}", f"`tracklog events {run}` shows its records"
            )
        return record

    def _forget_sources(self, run: str) -> None:
        """Delete the import states of a run, which may hold text of it; its sources are read again."""
        for place in (self.path / "sources").glob("*.json"):
            if run.encode() in place.read_bytes():
                place.unlink(missing_ok=True)

    def _drop_blobs(self, line: bytes) -> list[str]:
        """Remove the blobs that only this line named; nothing refers to them any more."""
        own = {name for name in self.blobs.list() if name.encode() in line}
        own -= self._named_blobs() if own else set()
        self.blobs.collect(lambda name: name not in own)
        return [f"blobs/{name}" for name in sorted(own)]

    def prune(
        self,
        older_than: float,
        *,
        open_too: bool = False,
        dry: bool = False,
        by: str | None = None,
    ) -> Pruning:
        """Record that complete segments older than that many seconds are deleted, and delete them.

        It stops before a run that has not ended and has newer records, unless `open_too`.
        Blobs that no record names any more are deleted, too.
        """
        before = stamp(self.clock() - older_than)
        is_open = None if open_too else self._open_since(before).__contains__
        planned = self.store.prune(before, at=self._now(), is_open=is_open, dry=True)
        if dry or not planned.records:
            return planned
        note = act(PRUNE, by or "a program", through=planned.through, records=planned.records)
        is_noted = self._note_before(note, before)
        done = self.store.prune(before, at=self._now(), is_open=is_open)
        if not is_noted:
            self.record_act(note)
        for run in (*done.whole, *done.part):
            data: dict[str, Any] = {"through": done.through, "whole": run in done.whole}
            data |= {"by": by} if by is not None else {}
            self.record_fact(run, Noted(label=PRUNED, data=data))
        gone = {run for _, run in (*done.whole, *done.part)}
        for transcript in (self.path / "transcripts").glob("*.jsonl"):
            if transcript.stem in gone:
                transcript.unlink()
                shutil.rmtree(transcript.with_suffix(".raw"), ignore_errors=True)
        self.refused.journal.store.prune(before, at=self._now())
        named = self._named_blobs()
        # What was put in the last hour may belong to a line that is still on its way.
        self.blobs.collect(lambda name: name in named, older_than=time.time() - 3600)
        return done

    def _note_before(self, note: Noted, before: str) -> bool:
        """Record that records are about to be deleted; False where the disk has no room for it."""
        try:
            if isinstance(self.store, Sealing):
                self.store.seal(before)  # else the note would keep the last segment from being old
            self.record_act(note)
        except (NotAppended, OSError):
            return False
        return True

    def close(self) -> None:
        if "intake" in self.__dict__:
            self.intake.offsets.save()
            self.intake.close()
        if "refused" in self.__dict__:
            self.refused.close()
        if "index" in self.__dict__:
            self.index.close()
        self.journal.close()
        self.storage.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _now(self) -> str:
        return stamp(self.clock())

    def record_fact(self, run: Run, fact: Fact, *, writer: str = "cli") -> None:
        """Record a fact that has no line of its own, such as an act of an operator, as a native line."""
        self.intake.admit([self.fact_line(run, fact, writer=writer)], native.dialect.name)

    def record_act(self, note: Noted, *, writer: str = "cli") -> None:
        """Record what an operator does to the record as a whole: an `act`."""
        self.record_fact(OPERATIONS, note, writer=writer)

    def fact_line(self, run: Run, fact: Fact, *, writer: str, at: str | None = None) -> bytes:
        """A fact about a run as a native line; the time is now if none is given."""
        family, name = run
        return native.line(
            fact,
            id=uuid.uuid4().hex,
            run=name,
            at=at or self._now(),
            family=None if family == native.dialect.family else family,
            origin={"writer": writer, "fidelity": "observed"},
        )

    def _open_since(self, time: str) -> set[Run]:
        """The runs with records since that time in which something began and did not end."""
        active = {
            (record.family, record.run)
            for record in self.journal.records()
            if record.received >= time
        }
        return {run for run in active if self._is_open(run)}

    def _is_open(self, run: Run) -> bool:
        begun: set[tuple[str, str | None]] = set()
        readings = walk(lambda: self.journal.records(run=run), self.dialects)
        for fact in chain.from_iterable(each.facts for each in readings if each.counts):
            if isinstance(fact, Began) and fact.what != "step":
                begun.add((fact.what, fact.agent))
            elif isinstance(fact, Ended):
                begun.discard((fact.what, fact.agent))
        return bool(begun)

    def _named_blobs(self) -> set[str]:
        """The blobs that some record names."""
        names: set[str] = set()
        for record in self.journal.records():
            if b'"$blob"' in record.line or b'"raw"' in record.line:
                names |= {name.decode() for name in _BLOB.findall(record.line)}
        return names & set(self.blobs.list())
