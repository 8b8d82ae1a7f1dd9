"""Which events were heard before: what each dialect calls an event's identity, run by run."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tracklog.check import understand
from tracklog.dialects import Dialect
from tracklog.event import Event, Problem, Refusal
from tracklog.journal import Journal, Record
from tracklog.lint import digest

KEPT = 1_000_000
"""How many identities are remembered over all runs; a run that went cold is read again."""

Key = tuple[str, str, str]
"""Dialect, family and run."""


class Known(NamedTuple):
    """An event that was heard before."""

    seq: int
    """Its number; 0 for that of an earlier event of the same list."""


Outcome = int | Known | Refusal
"""The number that a new event got, the one that a known event has, or why it is refused."""


class Identities:
    """What is known of a journal's identities, in bounded memory: the runs that spoke last."""

    def __init__(self, journal: Journal, dialects: Mapping[str, Dialect]) -> None:
        self._journal = journal
        self._dialects = dialects
        self._identified = {
            name for name, dialect in dialects.items() if dialect.policy.identity != "none"
        }
        self._mutex = threading.Lock()
        self._runs: OrderedDict[Key, dict[str, int]] = OrderedDict()
        self._count = 0
        self._absorbed = journal.last
        """Up to here, whatever was appended is either ours or was looked at."""

    def decide(self, events: Sequence[Event]) -> list[Outcome | None]:
        """For each event: None when it is new, else that it is known, or why it is refused."""
        if not self._identified:
            return [None] * len(events)
        decided: list[Outcome | None] = []
        fresh: dict[tuple[Key, str], Event] = {}
        for event in events:
            if event.id is None or event.dialect not in self._identified:
                decided.append(None)
                continue
            key = (event.dialect, event.family, event.run)
            before = fresh.get((key, event.id))
            seq = 0 if before else self._run(key).get(event.id)
            if seq is None:
                fresh[key, event.id] = event
                decided.append(None)
            else:
                decided.append(self._compare(event, before, seq))
        return decided

    def settle(
        self, events: Sequence[Event], decided: list[Outcome | None], seqs: range
    ) -> list[Outcome]:
        """The same list with the numbers that the new ones got, which are now known."""
        numbers = iter(seqs)
        settled: list[Outcome] = []
        here: dict[tuple[Key, str], int] = {}
        for event, outcome in zip(events, decided, strict=True):
            key = (event.dialect, event.family, event.run)
            if outcome is None:
                seq = next(numbers)
                settled.append(seq)
                if event.id is not None and event.dialect in self._identified:
                    here.setdefault((key, event.id), seq)
                    self._remember(key, event.id, seq)
            elif outcome == Known(0):
                assert event.id is not None
                settled.append(Known(here[key, event.id]))
            else:
                settled.append(outcome)
        return settled

    def guard(self, entries: Sequence[Event]) -> Callable[[int], bool]:
        """Asked when nobody can append any more: is what was new still new?"""
        asked = [
            (key, event.id)
            for event in entries
            if event.id is not None
            and event.dialect in self._identified
            and event.id not in self._runs.get(key := (event.dialect, event.family, event.run), ())
        ]

        def still_new(first: int) -> bool:
            with self._mutex:
                if first <= self._absorbed:
                    self._absorbed = first - 1  # what was to stand there was taken back
                elif first > self._absorbed + 1:
                    self._absorb(first)
                known = any(id in self._runs.get(key, ()) for key, id in asked)
                if not known:
                    self._absorbed = first + len(entries) - 1
                return not known

        return still_new

    def _compare(self, event: Event, before: Event | None, seq: int) -> Outcome | None:
        dialect = self._dialects[event.dialect]
        if before is None:
            (record,) = self._journal.read(seq - 1, 1)
            if record.erased is not None:
                return Known(seq)  # what was erased is not let in again
            before = understand(dialect, record.line)
        if event.line == before.line or digest(dialect, event.body) == digest(dialect, before.body):
            return Known(seq)
        if dialect.policy.identity == "keep":
            return None
        message = f"{event.id!r} was heard before in this run, with another line"
        hint = "an event cannot be changed: give the new one an identity of its own"
        problem = Problem("", message, hint)
        return Refusal((problem,), event.dialect, event.kind, event.run)

    def _run(self, key: Key) -> dict[str, int]:
        with self._mutex:
            known = self._runs.get(key)
            if known is not None:
                self._runs.move_to_end(key)
                return known
        known = {}
        dialect = self._dialects[key[0]]
        for record in self._journal.records(run=(key[1], key[2])):
            self._note(dialect, record, known)
        with self._mutex:
            known = self._runs.setdefault(key, known)
            self._count += len(known)
            while self._count > KEPT and len(self._runs) > 1:
                self._count -= len(self._runs.popitem(last=False)[1])
        return known

    def _note(self, dialect: Dialect, record: Record, known: dict[str, int]) -> None:
        if record.dialect == dialect.name and record.line:
            id = understand(dialect, record.line).id
            if id is not None:
                known.setdefault(id, record.seq)

    def _remember(self, key: Key, id: str, seq: int) -> None:
        with self._mutex:
            known = self._runs.get(key)
            if known is not None and id not in known:
                known[id] = seq
                self._count += 1

    def _absorb(self, first: int) -> None:
        """Looks at what other processes appended, as far as it concerns a run that is known."""
        for record in self._journal.records(self._absorbed, through=first - 1):
            known = self._runs.get((record.dialect, record.family, record.run))
            if known is not None:
                before = len(known)
                self._note(self._dialects[record.dialect], record, known)
                self._count += len(known) - before
        self._absorbed = first - 1
