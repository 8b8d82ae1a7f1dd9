"""The index of a store with several shards: each shard has its own, and answers are merged."""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from heapq import merge
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from tracklog.folds import MARK, Fold, run_of
from tracklog.index.indexer import Hit, Indexer, Progress
from tracklog.index.indexes import NO_FILTER, QueriesShards, QueryResult, RecordFinding, Total
from tracklog.journal.frame import Record, Run
from tracklog.journal.sharding import Ends, ShardedJournal, by_shard, cursor_text, shard_of
from tracklog.model.event import Finding
from tracklog.model.fact import Fact

_KEY = itemgetter(0)


class ShardedCursor:
    """How far the indexes of all shards are: how many records they include."""

    def __init__(self, shards: "Sequence[Indexer]", journal: ShardedJournal) -> None:
        self._shards, self._journal = shards, journal

    @property
    def shared(self) -> bool:
        """Whether other machines use them, too."""
        return all(each.index.shared for each in self._shards)

    @property
    def cursor(self) -> int:
        """How many records are indexed, over all shards."""
        return sum(self.ends)

    @property
    def ends(self) -> Ends:
        """The last indexed record of each shard."""
        numbers = self._journal.numbers
        return tuple(
            of.inner(each.index.cursor) for of, each in zip(numbers, self._shards, strict=True)
        )

    def close(self) -> None:
        """Close the index of every shard."""
        for each in self._shards:
            each.close()


class ShardedIndexer(Indexer):
    """Asks the index of every shard, or of the one that has the run, and merges the answers."""

    def __init__(self, journal: ShardedJournal, shards: Sequence[Indexer]) -> None:
        self.journal, self.shards, self._numbers = journal, shards, journal.numbers
        self.dialects, self.folds = shards[0].dialects, shards[0].folds
        self.index: Any = ShardedCursor(shards, journal)
        """What the shards have in common; each has its own tables."""
        self._waits = False

    @property
    def waits(self) -> bool:
        """Whether another process keeps the indexes up to date."""
        return self._waits

    @waits.setter
    def waits(self, waits: bool) -> None:
        self._waits = waits
        for each in self.shards:
            each.waits = waits

    def of(self, run: Run) -> Indexer:
        """The index of the shard of a run."""
        return self.shards[shard_of(run, len(self.shards))]

    def catch_up(self, progress: Progress | None = None, patience: float = 1) -> list[Finding]:
        return [each for shard in self.shards for each in shard.catch_up(progress, patience)]

    def keep_up(self, stop: Callable[[], bool]) -> None:
        failed: list[BaseException] = []

        def keep(shard: Indexer) -> None:
            try:
                shard.keep_up(lambda: stop() or bool(failed))
            except BaseException as error:  # noqa: BLE001  # raised in the thread that waits
                failed.append(error)

        threads = [
            threading.Thread(target=keep, args=(each,), name="index worker", daemon=True)
            for each in self.shards
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]

    def rebuild(self, progress: Progress | None = None, patience: float = 60) -> list[Finding]:
        return [each for shard in self.shards for each in shard.rebuild(progress, patience)]

    def forget(self, patience: float = 10) -> bool:
        return all(list(map(Indexer.forget, self.shards, [patience] * len(self.shards))))

    @property
    def known(self) -> int | None:
        """How many records are indexed; None while an index with records is empty."""
        found = 0
        for n, shard in enumerate(self.shards):
            known = shard.known
            if known is None and shard.journal.last:
                return None
            found += self._numbers[n].inner(known or 0)
        return found or None

    @property
    def cursor_text(self) -> str:
        return cursor_text(self.index.ends)

    def state(self, fold: str, key: str) -> Any:
        plug = self._fold(fold)
        return self.load(fold, [key]).get(key) or plug.State()

    def load(self, fold: str, keys: Iterable[str]) -> dict[str, Any]:
        by: dict[int, list[str]] = {}
        for key in keys:
            run = run_of(key.partition(MARK)[0])  # a row of a run has more names behind it
            by.setdefault(shard_of(run, len(self.shards)), []).append(key)
        states: dict[str, Any] = {}
        for shard, of in by.items():
            states |= self.shards[shard].load(fold, of)
            # The name of a run may itself hold the separator: then it is in any shard.
            if odd := [key for key in of if key not in states and (MARK in key or "\x1b" in key)]:
                for other in self.shards:
                    states |= other.load(fold, odd)
        return states

    def states(self, fold: str, prefix: str = "") -> Iterator[tuple[str, Any]]:
        return merge(*(shard.states(fold, prefix) for shard in self.shards), key=_KEY)

    def keys(self, fold: str, prefix: str, limit: int) -> list[str]:
        return sorted(key for shard in self.shards for key in shard.keys(fold, prefix, limit))[
            :limit
        ]

    def newest(self, fold: str, limit: int = 50) -> list[tuple[str, Any]]:
        found = [each for shard in self.shards for each in shard.newest(fold, limit)]
        return sorted(found, key=lambda pair: _received(pair[1]), reverse=True)[:limit]

    def newest_stored(self, fold: str, limit: int = 50) -> list[tuple[str, bytes]]:
        found = [each for shard in self.shards for each in shard.newest_stored(fold, limit)]
        times = {key: _received(self.thawed(fold, key, state)) for key, state in found}
        return sorted(found, key=lambda pair: times[pair[0]], reverse=True)[:limit]

    def thawed(self, fold: str, key: str, state: bytes) -> Any:
        return self.shards[0].thawed(fold, key, state)

    def sums(
        self, fold: str, after: str = "", prefix: str = "", limit: int | None = None
    ) -> Iterator[tuple[str, dict[str, int]]]:
        every = [shard.sums(fold, after, prefix, limit) for shard in self.shards]
        rows = (
            (key, _all(part for _, part in of))
            for key, of in groupby(merge(*every, key=_KEY), _KEY)
        )
        return islice((each for each in rows if each[1]), limit)

    def largest(self, fold: str, limit: int) -> dict[str, dict[str, int]]:
        keys = {key for shard in self.shards for key in shard.largest(fold, limit)}
        rows, rank = self.summed(fold, keys), self._fold(fold).ranked
        best = sorted(rows, key=lambda key: (rows[key].get(rank, 0), key), reverse=True)
        return {key: rows[key] for key in best[:limit]}

    def shared(self, fold: str) -> Iterator[dict[str, int]]:
        return (row for _, row in self.sums(fold) if len(row) > 1)

    def totals(
        self,
        kind: str,
        spans: Sequence[tuple[int, int]],
        *,
        by: str = "",
        where: Mapping[str, Collection[str]] = NO_FILTER,
    ) -> list[Total]:
        return [
            row for shard in self.shards for row in shard.totals(kind, spans, by=by, where=where)
        ]

    def summed(self, fold: str, keys: Iterable[str]) -> dict[str, dict[str, int]]:
        rows: dict[str, dict[str, int]] = {}
        asked = list(keys)
        for shard in self.shards:
            for key, row in shard.summed(fold, asked).items():
                rows[key] = _added(rows.get(key, {}), row)
        return {key: row for key, row in rows.items() if row}

    def past(self, folds: Sequence[str], run: Run, seq: int) -> tuple[int, dict[str, Any]]:
        return self.of(run).past(folds, run, seq)

    def findings(self, run: Run | None = None, limit: int = 1000) -> list[RecordFinding]:
        if run is not None:
            return self.of(run).findings(run, limit)
        found = [each for shard in self.shards for each in shard.findings(None, limit)]
        return sorted(found, key=itemgetter(0), reverse=True)[:limit]

    def unfinished(self, limit: int = 1000) -> list[Run]:
        runs = [run for shard in self.shards for run in shard.unfinished(limit)]
        states = self.load("runs", (":".join(run) for run in runs)) if "runs" in self.folds else {}
        times = {run: _received(states.get(":".join(run))) for run in runs}
        return sorted(runs, key=lambda run: times[run], reverse=True)[:limit]

    def rest(self, run: Run) -> list[RecordFinding]:
        return self.of(run).rest(run)

    def search(
        self, text: str, limit: int = 50, between: tuple[int, int] | None = None
    ) -> list[Hit]:
        found = [hit for shard in self.shards for hit in shard.search(text, limit, between)]
        return _latest(found, limit)

    def newest_hits(self, limit: int) -> list[Hit]:
        return _latest([hit for shard in self.shards for hit in shard.newest_hits(limit)], limit)

    def silent(self, seqs: Collection[int]) -> set[int]:
        count = len(self.shards)
        found: set[int] = set()
        for n, shard in enumerate(self.shards):
            if mine := [seq for seq in seqs if (seq - 1) % count == n]:
                found |= shard.silent(mine)
        return found

    def query(self, sql: str, *, limit: int = 1000, seconds: float = 10) -> QueryResult:
        indexes = [each.index for each in self.shards]
        first = indexes[0]
        if not isinstance(first, QueriesShards):
            raise by_shard("tables")
        return first.query_all(indexes, sql, limit=limit, seconds=seconds)

    def text(self, record: Record) -> str:
        return self.shards[0].text(record)

    def facts_at(self, seq: int) -> list[Fact]:
        return self.shards[(seq - 1) % len(self.shards)].facts_at(seq) if seq > 0 else []

    def called(self, name: str) -> set[Run]:
        return set[Run]().union(*(shard.called(name) for shard in self.shards))

    def caused_by(self, name: str) -> set[Run]:
        return set[Run]().union(*(shard.caused_by(name) for shard in self.shards))

    def close(self) -> None:
        for each in self.shards:
            each.close()

    def _fold(self, name: str) -> Fold[Any]:
        return self.shards[0]._fold(name)


def _received(state: Any) -> str:
    """When the last record of a run was received; the runs of all shards are ordered by it."""
    return getattr(state, "last_received", None) or ""


def _all(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    return reduce(_added, parts, {})


def _added(row: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    both = {name: row.get(name, 0) + more.get(name, 0) for name in {**row, **more}}
    return {name: amount for name, amount in both.items() if amount}


def _latest(hits: list[Hit], limit: int) -> list[Hit]:
    """The newest first, by when they were received."""
    return sorted(hits, key=lambda hit: (hit.record.received, hit.record.seq), reverse=True)[:limit]
