"""The way in to a store with several shards: each line goes to the shard of its run."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from tracklog.dialects import Dialect
from tracklog.intake.intake import Checked, Intake
from tracklog.intake.verdicts import Verdict, Verdicts, reused
from tracklog.journal.frame import Mark
from tracklog.journal.journal import Journal
from tracklog.journal.offsets import SourceOffset
from tracklog.journal.sharding import Numbers, ShardedJournal, ShardedOffsets, shard_of
from tracklog.journal.storages import Storage
from tracklog.journal.stores import overtaken
from tracklog.model.event import Passed
from tracklog.model.lines import Line

_PART = "#part"
"""Behind the name of a source: its offset in a shard whose part is stored before the others."""


class _ShardPart(NamedTuple):
    """What one shard gets of a call, and the places of these lines in it."""

    shard: int
    call: Checked
    places: list[int]


class ShardedIntake(Intake):
    """Checks lines once, and stores them shard by shard, the shards at the same time.

    A call is acknowledged when all its shards have stored their lines. What one shard gets of a
    call is stored completely or not at all; so after a failure a part may be there, and the same
    call completes it.
    """

    def __init__(
        self,
        journal: ShardedJournal,
        storages: Sequence[Storage],
        claim: Callable[[str, str], str],
        dialects: Sequence[Dialect],
        clock: Callable[[], float],
        **options: Any,
    ) -> None:
        super().__init__(
            journal, dialects, offsets=ShardedOffsets(self._place_of, self._sources), **options
        )
        self._claim = claim
        self._numbers = [Numbers(n, len(storages)) for n in range(len(storages))]
        own = [Journal(each.store, clock) for each in storages]
        self.shards = [
            Intake(journal, dialects, offsets=storage.offsets(journal), **options)
            for journal, storage in zip(own, storages, strict=True)
        ]
        self._pool = ThreadPoolExecutor(len(storages), "shard")

    def commit_one(self, call: Checked) -> Verdicts:
        (result,) = self.commit([call])
        if isinstance(result, Exception):
            raise result
        return result

    def commit(self, calls: Sequence[Checked]) -> list[Verdicts | Exception]:
        parts: list[list[_ShardPart] | Exception] = []
        for call in calls:
            try:
                parts.append(self._claimed(call))
            except Exception as error:  # noqa: BLE001  # each caller gets its own
                parts.append(error)
        asked: dict[int, list[_ShardPart]] = {}
        for each in parts:
            for part in each if isinstance(each, list) else ():
                asked.setdefault(part.shard, []).append(part)
        done = {
            id(part): result
            for result_of in [
                self._pool.submit(self._stored, shard, of) for shard, of in asked.items()
            ]
            for part, result in result_of.result()
        }
        return [
            each
            if isinstance(each, Exception)
            else self._together(call, each, [done[id(part)] for part in each])
            for call, each in zip(calls, parts, strict=True)
        ]

    def admit_lines(
        self,
        lines: Sequence[Line],
        dialect: str | None = None,
        *,
        mark: Mark | None = None,
        place: SourceOffset | None = None,
        repeated: bool = False,
    ) -> Verdicts:
        if mark is None:
            return super().admit_lines(lines, dialect, repeated=repeated)
        held = [line.data for line in lines if line.size <= self.cap]
        checked = self.check(held, dialect, source="outside")
        admitted = iter(self._admit_marked(checked, mark, place))
        return Verdicts(
            next(admitted) if line.size <= self.cap else self._too_long(line) for line in lines
        )

    def _admit_marked(self, call: Checked, mark: Mark, place: SourceOffset | None) -> Verdicts:
        """Store the lines of a source shard after shard; the last one gets the offset of the source.

        The others note the offset under another name. A part that is there already, because a
        process was killed before the last one, is recognised by it.
        """
        if self.offsets.place(mark.source) != place:
            raise overtaken({})
        parts = self._split(call)
        results: list[Verdicts | Exception] = []
        for n, part in enumerate(parts, 1):
            intake = self.shards[part.shard]
            named = mark if n == len(parts) else mark._replace(source=mark.source + _PART)
            known = intake.offsets.place(named.source)
            there = known is not None and known[::2] == (mark.through, mark.sha256)
            marked = part.call._replace(mark=None if there else named, place=known, repeated=there)
            results.append(intake.commit_one(marked))
        return _raised(self._together(call, parts, results))

    def close(self) -> None:
        self._pool.shutdown()
        super().close()
        for each in self.shards:
            each.close()

    def _claimed(self, call: Checked) -> list[_ShardPart]:
        """The parts of a call; its key is claimed first, so that it stands for one batch only."""
        if call.key is not None:
            claimed = self._claim(call.key.source, call.key.sha256)
            if claimed != call.key.sha256:
                place = self.offsets.place(call.key.source)
                raise reused(place or SourceOffset(0, 0, claimed, ""))
        return self._split(call)

    def _split(self, call: Checked) -> list[_ShardPart]:
        """What each shard gets; a refused line goes with the first line that is stored."""
        count = len(self.shards)
        of = [shard_of(event[1:3], count) for event in call.events]
        first = of[0] if of else 0
        left, places = iter(of), dict[int, list[int]]()
        for n, result in enumerate(call.results):
            shard = next(left) if isinstance(result, Passed) else first
            places.setdefault(shard, []).append(n)
        return [
            _ShardPart(shard, self._part(call, of, shard, at), at) for shard, at in places.items()
        ]

    def _part(self, call: Checked, of: list[int], shard: int, places: list[int]) -> Checked:
        mine = [n for n, each in enumerate(of) if each == shard]
        events = [call.events[n] for n in mine]
        redacted = {at: call.redacted[n] for at, n in enumerate(mine) if n in call.redacted}
        return call._replace(
            lines=[call.lines[n] for n in places],
            results=[call.results[n] for n in places],
            events=events,
            stretches=self._identities.stretches(events),
            redacted=redacted,
        )

    def _stored(
        self, shard: int, parts: list[_ShardPart]
    ) -> list[tuple[_ShardPart, Verdicts | Exception]]:
        try:
            results = self.shards[shard].commit([part.call for part in parts])
        except Exception as error:  # noqa: BLE001  # every caller gets it
            return [(part, error) for part in parts]
        return list(zip(parts, results, strict=True))

    def _together(
        self, call: Checked, parts: list[_ShardPart], results: Sequence[Verdicts | Exception]
    ) -> Verdicts | Exception:
        verdicts: dict[int, Verdict] = {}
        for part, result in zip(parts, results, strict=True):
            if isinstance(result, Exception):
                return result
            numbers = self._numbers[part.shard]
            for n, each in zip(part.places, result, strict=True):
                verdicts[n] = each if not each.seq else each._replace(seq=numbers.outer(each.seq))
        whole = Verdicts(verdicts[n] for n in range(len(call.results)))
        whole.replayed = bool(results) and all(
            isinstance(each, Verdicts) and each.replayed for each in results
        )
        return whole

    def _place_of(self, source: str) -> SourceOffset | None:
        """How far a source was recorded in the shard that has most of it."""
        found = [
            place._replace(seq=numbers.outer(place.seq))
            for numbers, shard in zip(self._numbers, self.shards, strict=True)
            if (place := shard.offsets.place(source)) is not None
        ]
        return max(found, default=None, key=lambda place: place.through)

    def _sources(self) -> list[str]:
        names = dict.fromkeys(name for shard in self.shards for name in shard.offsets.sources())
        return [name for name in names if not name.endswith(_PART)]


def _raised(result: Verdicts | Exception) -> Verdicts:
    if isinstance(result, Exception):
        raise result
    return result
