"""The one way in: lines are checked or refused, duplicates are recognised, the rest is appended.

Whatever arrives, by pipe, by HTTP, from a file or from a host, is admitted here.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from hashlib import sha256
from itertools import count
from typing import NamedTuple

from tracklog.dialects import Dialect
from tracklog.dialects.checking import (
    CheckAll,
    batch_checker,
    begins_or_ends,
    recognising_checker,
)
from tracklog.dialects.recognition import Recogniser
from tracklog.intake.identities import (
    PENDING,
    UNNUMBERED,
    Fresh,
    Identities,
    Known,
    Outcome,
    Stretch,
)
from tracklog.intake.reserved import Source, without_reserved
from tracklog.intake.verdicts import Verdict, Verdicts, replayed, reused, verdicts_of
from tracklog.journal import offsets
from tracklog.journal.journal import Appending, Journal, Mark, Record
from tracklog.journal.offsets import JournalOffsets, SourceOffset, pack
from tracklog.journal.refused import RefusedLines
from tracklog.journal.storages import Offsets
from tracklog.model import problems
from tracklog.model.errors import Overtaken
from tracklog.model.event import Body, Passed, Refusal
from tracklog.model.lines import CAP, Line
from tracklog.model.own_notes import OWN_FAMILY

Redact = Callable[[bytes], tuple[bytes, Sequence[str]]]
"""From a line to the line to store, and the names of what was removed; () for nothing."""

STRIPES = 64
_NO_LOCK = nullcontext()
_COMPILING = threading.Lock()


def admit(journal: Journal, dialect: Dialect, lines: Iterable[bytes]) -> Verdicts:
    """Admit lines of one dialect to a journal; for more than one call, make an `Intake`."""
    return Intake(journal, [dialect]).admit(lines, dialect.name)


class Intake:
    """Checks and stores the lines for one journal; any number of threads may admit at once."""

    def __init__(
        self,
        journal: Journal,
        dialects: Iterable[Dialect],
        *,
        refused: RefusedLines | None = None,
        offsets: Offsets | None = None,
        redact: Redact | None = None,
        lifecycle: bool = False,
        cap: int = CAP,
    ) -> None:
        self.journal = journal
        self.offsets: Offsets = offsets or JournalOffsets(journal)
        self.cap = cap
        self._refused = refused
        self._redact = redact
        self._lifecycle = lifecycle
        self._dialects = {dialect.name: dialect for dialect in dialects}
        self.dialect_names = tuple(self._dialects)
        self._checks: dict[str | None, CheckAll] = {
            name: batch_checker(dialect, _COMPILING) for name, dialect in self._dialects.items()
        }
        self.recogniser = Recogniser(self._dialects.values())
        self._checks[None] = recognising_checker(
            self._dialects.values(), self.recogniser, _COMPILING
        )
        self._identities = Identities(journal, self._dialects)
        self._stripes = [threading.Lock() for _ in range(STRIPES)]

    def admit(
        self,
        lines: Iterable[bytes],
        dialect: str | None = None,
        *,
        batch: str | None = None,
        mark: Mark | None = None,
        place: SourceOffset | None = None,
        bodies: Sequence[Body | None] | None = None,
        repeated: bool = False,
        source: Source = "tracklog",
    ) -> Verdicts:
        """A verdict for every line, in order; all accepted lines are stored, or none.

        Without a dialect each line is recognised. `batch` is a key of the sender: the same key
        with the same lines gets the same answer again, with other lines it is an error. `mark` is
        the offset in the source that these lines reach, and is stored with them; `place` is the
        offset at which they were read. If another writer has moved it since, nothing is stored,
        and `Overtaken` is raised. `bodies` are the objects that the caller wrote the lines from:
        they are checked, and the lines are not parsed again. `repeated` lines were admitted before
        and have a mark: those without an identity are duplicates. `source` says who wrote the lines:
        what only tracklog itself may write is refused from others. On return the accepted lines are
        as durable as the journal promises.
        """
        checked = self.check(lines, dialect, batch=batch, bodies=bodies, source=source)
        if mark is not None or repeated:
            checked = checked._replace(mark=mark, place=place, repeated=repeated)
        return self.commit_one(checked)

    def check(
        self,
        lines: Iterable[bytes],
        dialect: str | None = None,
        *,
        batch: str | None = None,
        bodies: Sequence[Body | None] | None = None,
        source: Source = "tracklog",
    ) -> "Checked":
        """The first half of `admit`, which needs no lock and stores nothing; `commit` is the other."""
        lines = list(lines)
        key = _BatchKey(f"batch:{batch}", _digest(dialect, lines)) if batch else None
        results = self._judged(lines, self._checks[dialect], bodies)
        if dialect is None or dialect == OWN_FAMILY:  # other lines cannot be tracklog's own
            results = without_reserved(results, source)
        redacted = self._redacted(results) if self._redact else {}
        events: list[Passed] = [result for result in results if type(result) is Passed]
        return Checked(lines, results, events, self._identities.stretches(events), redacted, key)

    def commit_one(self, call: "Checked") -> Verdicts:
        """The second half of `admit`: stores the lines of one call, and returns their verdicts."""
        with self._alone((call,)):
            return self._admit(call)

    def commit(self, calls: "Sequence[Checked]") -> "list[Verdicts | Exception]":
        """Stores the lines of several calls under one sync; for each its verdicts, or its error.

        Calls that share a run or a key are stored one after the other, in their order.
        """
        results: dict[int, Verdicts | Exception] = {}
        with self._alone(calls):
            left = list(range(len(calls)))
            while left:
                apart, left = self._apart(calls, left)
                admitted = self._admit_all([calls[n] for n in apart])
                results.update(zip(apart, admitted, strict=True))
        return [results[n] for n in range(len(calls))]

    def close(self) -> None:
        """Close the files of the identities; the journal is closed by its owner."""
        self._identities.close()

    def admit_lines(
        self,
        lines: Sequence[Line],
        dialect: str | None = None,
        *,
        mark: Mark | None = None,
        place: SourceOffset | None = None,
        repeated: bool = False,
    ) -> Verdicts:
        """The same for lines that were cut from a file, of which one may be too long to hold.

        Any program may have written the file.
        """
        held = [line.data for line in lines if line.size <= self.cap]
        admitted = self.admit(
            held, dialect, mark=mark, place=place, repeated=repeated, source="outside"
        )
        verdicts = iter(admitted)
        return Verdicts(
            next(verdicts) if line.size <= self.cap else self._too_long(line) for line in lines
        )

    def _too_long(self, line: Line) -> Verdict:
        refusal = Refusal((problems.too_long(line.size, self.cap),))
        if self._refused is not None:
            beginning = self._scrubbed(line.data, refusal)
            self._refused.add_beginning(beginning, refusal, line.size, line.sha256)
        return Verdict("refused", None, refusal.problems)

    def _refused_lines(
        self, call: "Checked", decided: list[Outcome | None], stored: set[int]
    ) -> dict[int, tuple[bytes, Refusal]]:
        """The refused lines that are not stored yet, by their place in the batch."""
        refused: dict[int, tuple[bytes, Refusal]] = {}
        left = iter(zip(call.events, decided, strict=True))
        for n, result in enumerate(call.results):
            line: bytes = call.lines[n]
            refusal: object = result
            if isinstance(result, Passed):
                event, refusal = next(left)
                line = event.line
            if isinstance(refusal, Refusal) and n not in stored:
                refused[n] = (self._scrubbed(line, refusal), refusal)
        return refused

    def _scrubbed(self, line: bytes, refusal: Refusal) -> bytes:
        dialect = self._dialects.get(refusal.dialect or "")
        forbidden = dialect is not None and not dialect.policy.redactable
        return line if forbidden or self._redact is None else self._redact(line)[0]

    def _judged(
        self, lines: list[bytes], check: CheckAll, bodies: Sequence[Body | None] | None = None
    ) -> list[Passed | Refusal]:
        cap = self.cap
        if max(map(len, lines), default=0) <= cap:
            return check(lines, bodies)
        fitting = iter(check([line for line in lines if len(line) <= cap]))
        return [
            next(fitting) if len(line) <= cap else Refusal((problems.too_long(len(line), cap),))
            for line in lines
        ]

    def _redacted(self, results: list[Passed | Refusal]) -> dict[int, Sequence[str]]:
        """Puts redacted events in the place of those they were made of; by place, what was taken."""
        assert self._redact is not None
        taken: dict[int, Sequence[str]] = {}
        place = 0
        for n, event in enumerate(results):
            if not isinstance(event, Passed):
                continue
            if self._dialects[event.dialect].policy.redactable:
                line, names = self._redact(event.line)
                if names:
                    (again,) = self._checks[event.dialect]([line])
                    results[n] = again
                    if isinstance(again, Refusal):
                        continue
                    taken[place] = names
            place += 1
        return taken

    def _locked(self, call: "Checked") -> set[object]:
        """The runs that a call adds to, and its source: what nobody else may use meanwhile."""
        named = self._identities.named
        names: set[object] = {key[1:] for key, _ in call.stretches if key[0] in named}
        if call.key is not None:
            names.add(("source", call.key.source))
        elif call.mark is not None:
            names.add(("source", call.mark.source))
        return names

    def _alone(self, calls: "Sequence[Checked]") -> AbstractContextManager[object]:
        """Nobody else admits to the same runs, or from the same source, meanwhile."""
        numbers = {hash(name) % STRIPES for call in calls for name in self._locked(call)}
        if not numbers:
            return _NO_LOCK
        if len(numbers) == 1:
            return self._stripes[numbers.pop()]
        stack = ExitStack()
        for number in sorted(numbers):
            stack.enter_context(self._stripes[number])
        return stack

    def _apart(self, calls: "Sequence[Checked]", left: list[int]) -> tuple[list[int], list[int]]:
        """The calls that share nothing with one before them, and the others."""
        apart: list[int] = []
        rest: list[int] = []
        used: set[object] = set()
        for n in left:
            names = self._locked(calls[n])
            (apart if used.isdisjoint(names) else rest).append(n)
            used |= names
        return apart, rest

    def _admit(self, call: "Checked", decision: "_AppendPlan | None" = None) -> Verdicts:
        """The part of `admit` that needs the locks of its runs and its key."""
        stored = decision.stored if decision else set()
        while True:
            decided = self._decided(call, stored)
            if isinstance(decided, Verdicts):
                return decided
            try:
                (seqs,) = self._append([decided])
                return self._settled(call, decided, seqs)
            except Overtaken as error:
                self._catch_up(call, decided, error)

    def _admit_all(self, calls: "list[Checked]") -> "list[Verdicts | Exception]":
        """The same for several calls that share nothing."""
        decisions: list[_AppendPlan | Verdicts | Exception] = []
        for call in calls:
            try:
                decisions.append(self._decided(call, set()))
            except Exception as error:  # noqa: BLE001  # each caller gets its own
                decisions.append(error)
        numbers = iter(self._append([each for each in decisions if isinstance(each, _AppendPlan)]))
        results: list[Verdicts | Exception] = []
        for call, decision in zip(calls, decisions, strict=True):
            if not isinstance(decision, _AppendPlan):
                results.append(decision)
                continue
            try:
                results.append(self._settled_or_again(call, decision, next(numbers)))
            except Exception as error:  # noqa: BLE001  # each caller gets its own
                results.append(error)
        return results

    def _settled_or_again(
        self, call: "Checked", decision: "_AppendPlan", seqs: range | Exception
    ) -> Verdicts:
        try:
            return self._settled(call, decision, seqs)
        except Overtaken as error:
            self._catch_up(call, decision, error)
            return self._admit(call, decision)

    def _decided(self, call: "Checked", stored: set[int]) -> "_AppendPlan | Verdicts":
        """What is to be appended for a call; its first answer where its key came before.

        Refused lines are committed with the events; where the store cannot do that, or there are
        no new events, they are stored now, and their places are added to `stored`, so that they
        are stored once.
        """
        known: dict[int, int] = {}
        place = call.place
        if call.key is not None and (place := self.offsets.place(call.key.source)):
            if place.sha256:
                return replayed(call.results, call.key.sha256, place)
            known = self._stored_by_format_1(call.events, place)
        if call.repeated:  # what is malformed was refused before
            known = dict.fromkeys(range(len(call.events)), UNNUMBERED)
            stored |= {n for n, each in enumerate(call.results) if isinstance(each, Refusal)}
        identities, events = self._identities, call.events
        decided, fresh = identities.decide(events, call.stretches)
        try:
            for n, seq in known.items():
                if events[n].dialect not in identities.named:
                    decided[n] = Known(seq)
            entries, taken = _new(events, decided, call.redacted)
            together = None
            if self._refused is not None and len(entries) < len(call.results):
                refused = self._refused_lines(call, decided, stored)
                if refused and entries and self._refused.together:
                    together = self._refused.make(refused.values())
                elif refused:
                    self._refused.keep(refused.values())
                    stored |= refused.keys()
            mark = call.mark
            if call.key is not None:
                mark = self._mark(call, call.key, decided, entries)
            asked = Appending(
                entries,
                self._lifecycle and self._lives(entries),
                taken,
                mark,
                identities.expected(fresh),
                self._unmoved(mark.source, place) if mark else None,
                together,
            )
        except BaseException:
            identities.give_up(fresh)
            raise
        return _AppendPlan(decided, fresh, asked, place, stored)

    def _append(self, decisions: "list[_AppendPlan]") -> list[range | Exception]:
        try:
            return self.journal.append_all([each.asked for each in decisions])
        except BaseException:
            for each in decisions:
                self._identities.give_up(each.fresh)
            raise

    def _settled(
        self, call: "Checked", decision: "_AppendPlan", seqs: range | Exception
    ) -> Verdicts:
        """The verdicts, now that the new events have their numbers, or did not get any."""
        if isinstance(seqs, Exception):
            self._identities.give_up(decision.fresh)
            raise seqs
        self.offsets.note(seqs, decision.asked.mark)
        outcomes = self._identities.settle(call.events, decision.decided, decision.fresh, seqs)
        return verdicts_of(call.results, outcomes)

    def _catch_up(self, call: "Checked", decision: "_AppendPlan", error: Overtaken) -> None:
        """Read the records that another process appended meanwhile, so that the call is decided
        again; where it moved the source of the mark, the call is not made again.
        """
        if call.mark is not None and self.offsets.place(call.mark.source) != decision.place:
            raise error
        self._identities.catch_up(call.stretches, error.runs)

    def _unmoved(self, source: str, place: SourceOffset | None) -> Callable[[int], bool]:
        """Whether the source is still at its offset; called when nobody else can append."""
        return lambda first: self.offsets.is_at(source, place, first)

    def _mark(
        self,
        call: "Checked",
        key: "_BatchKey",
        decided: list[Outcome | None],
        entries: list[Passed],
    ) -> Mark:
        """The mark of the batch, which is stored with its first new record."""
        count = len(entries)
        if count == len(call.results):
            return Mark(key.source, count, key.sha256, f"a{count}")
        return Mark(key.source, count, key.sha256, pack(self._outcomes(call, decided)))

    def _outcomes(
        self, call: "Checked", decided: list[Outcome | None]
    ) -> Iterator[offsets.Outcome]:
        numbers = count()
        relative = [next(numbers) if each is None else each for each in decided]
        left = iter(zip(call.events, relative, strict=True))
        for result in call.results:
            if isinstance(result, Refusal):
                yield "refused", 0
                continue
            event, outcome = next(left)
            if isinstance(outcome, int):
                yield "accepted", 0
            elif isinstance(outcome, Refusal):
                yield "refused", 0
            elif outcome.seq == PENDING:
                yield "inside", self._identities.first(event, call.events, relative)
            else:
                yield "duplicate", outcome.seq

    def _stored_by_format_1(self, events: list[Passed], place: SourceOffset) -> dict[int, int]:
        """The stored events of a batch, by position: its mark has their number, not their names.

        In format 1 a part of a batch could be stored under its key; the rest is admitted now.
        """
        places: dict[int, int] = {}
        last = place.seq - 1 + max(1, place.through)
        records = self.journal.records(place.seq - 1, through=last)
        record = next(records, None)
        for n, event in enumerate(events):
            if record is not None and _may_be(record, event):
                places[n] = record.seq
                record = next(records, None)
        if not places:
            raise reused(place)
        return places

    def _lives(self, events: list[Passed]) -> bool:
        """Whether something began or ended in these events."""
        return any(begins_or_ends(self._dialects[each.dialect], each.line) for each in events)


def _may_be(record: Record, event: Passed) -> bool:
    """Whether that is the event's record; of an erased one only its dialect and run are known."""
    if record.erased:
        return (record.dialect, record.run) == (event.dialect, event.run)
    return record.line == event.line


def _new(
    events: list[Passed], decided: list[Outcome | None], redacted: dict[int, Sequence[str]]
) -> tuple[list[Passed], dict[int, Sequence[str]]]:
    """The events that are to be appended, and what was taken out of which of them."""
    if not any(decided):
        return events, redacted
    new = [n for n, known in enumerate(decided) if known is None]
    taken = {place: redacted[n] for place, n in enumerate(new) if n in redacted}
    return [events[n] for n in new], taken


class _BatchKey(NamedTuple):
    """A sender's name for a batch, and what it stands for."""

    source: str
    sha256: str


class Checked(NamedTuple):
    """The lines of one call, checked and not stored yet."""

    lines: list[bytes]
    results: list[Passed | Refusal]
    events: list[Passed]
    stretches: list[Stretch]
    redacted: dict[int, Sequence[str]]
    key: _BatchKey | None = None
    mark: Mark | None = None
    place: SourceOffset | None = None
    repeated: bool = False


class _AppendPlan(NamedTuple):
    """What is to be appended for a call, and what became of its other lines."""

    decided: list[Outcome | None]
    fresh: Fresh
    asked: Appending
    place: SourceOffset | None
    stored: set[int]


def _digest(dialect: str | None, lines: list[bytes]) -> str:
    """SHA-256 of the dialect and the lines as they were received."""
    return sha256(b"\n".join([(dialect or "").encode(), *lines])).hexdigest()
