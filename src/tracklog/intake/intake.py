"""The one way in: lines are checked or refused, duplicates are recognised, the rest is appended.

Whatever arrives, by pipe, by HTTP, from a file or from a host, is admitted here.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from hashlib import sha256
from itertools import count, repeat
from operator import itemgetter
from typing import Literal, NamedTuple

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
    Identities,
    Known,
    Outcome,
    Stretch,
)
from tracklog.journal import offsets
from tracklog.journal.journal import Journal, Mark, Record
from tracklog.journal.offsets import Marks, Place, pack, unpack
from tracklog.journal.refused import Refused
from tracklog.journal.storages import Offsets
from tracklog.model import problems
from tracklog.model.errors import KeyReused, Overtaken, StoreBroken
from tracklog.model.event import Body, Passed, Problem, Refusal
from tracklog.model.lines import CAP, Line

Redact = Callable[[bytes], tuple[bytes, Sequence[str]]]
"""From a line to the line to store, and the names of what was removed; () for nothing."""

STRIPES = 64
_NO_LOCK = nullcontext()
_DIALECT, _RUN, _KIND = itemgetter(0), itemgetter(2), itemgetter(3)


class Verdict(NamedTuple):
    """The verdict on a line: stored under a number, stored before, or refused."""

    verdict: Literal["accepted", "duplicate", "refused"]
    seq: int | None = None
    """Its number in the journal; of a duplicate the number of the first, where it is known."""
    problems: tuple[Problem, ...] = ()
    dialect: str | None = None
    kind: str | None = None
    run: str | None = None


class Verdicts(list[Verdict]):
    """The verdicts of a batch, in the order of its lines."""

    replayed = False
    """Whether they are those of an earlier call with the same key and the same lines."""


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
        refused: Refused | None = None,
        marks: Offsets | None = None,
        redact: Redact | None = None,
        lifecycle: bool = False,
        cap: int = CAP,
    ) -> None:
        self.journal = journal
        self.marks: Offsets = marks or Marks(journal)
        self.cap = cap
        self._refused = refused
        self._redact = redact
        self._lifecycle = lifecycle
        self._dialects = {dialect.name: dialect for dialect in dialects}
        self._checks: dict[str | None, CheckAll] = {
            name: batch_checker(dialect) for name, dialect in self._dialects.items()
        }
        self.recogniser = Recogniser(self._dialects.values())
        self._checks[None] = recognising_checker(self._dialects.values(), self.recogniser)
        self._identities = Identities(journal, self._dialects)
        self._stripes = [threading.Lock() for _ in range(STRIPES)]

    def admit(
        self,
        lines: Iterable[bytes],
        dialect: str | None = None,
        *,
        batch: str | None = None,
        mark: Mark | None = None,
        place: Place | None = None,
        bodies: Sequence[Body | None] | None = None,
        repeated: bool = False,
    ) -> Verdicts:
        """A verdict for every line, in order; all accepted lines are stored, or none.

        Without a dialect each line is recognised. `batch` is a key of the sender: the same key
        with the same lines gets the same answer again, with other lines it is an error. `mark` is
        the offset in the source that these lines reach, and is stored with them; `place` is the
        offset at which they were read. If another writer has moved it since, nothing is stored,
        and `Overtaken` is raised. `bodies` are the objects that the caller wrote the lines from:
        they are checked, and the lines are not parsed again. `repeated` lines were admitted before
        and have a mark: those without an identity are duplicates. On return the accepted lines are
        as durable as the journal promises.
        """
        lines = list(lines)
        key = _Key(f"batch:{batch}", _digest(dialect, lines)) if batch else None
        results = self._judged(lines, self._checks[dialect], bodies)
        redacted = self._redacted(results) if self._redact else {}
        events: list[Passed] = [result for result in results if type(result) is Passed]
        stretches = self._identities.stretches(events)
        work = _Work(lines, results, events, stretches, redacted, key, mark, place)
        with self._alone(stretches, key.source if key else mark and mark.source):
            return self._admit(work, repeated=repeated)

    def close(self) -> None:
        """Close the files of the identities; the journal is closed by its owner."""
        self._identities.close()

    def admit_lines(
        self,
        lines: Sequence[Line],
        dialect: str | None = None,
        *,
        mark: Mark | None = None,
        place: Place | None = None,
        repeated: bool = False,
    ) -> Verdicts:
        """The same for lines that were cut from a file, of which one may be too long to hold."""
        held = [line.data for line in lines if line.size <= self.cap]
        admitted = self.admit(held, dialect, mark=mark, place=place, repeated=repeated)
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
        self, work: "_Work", decided: list[Outcome | None], stored: set[int]
    ) -> dict[int, tuple[bytes, Refusal]]:
        """The refused lines that are not stored yet, by their place in the batch."""
        refused: dict[int, tuple[bytes, Refusal]] = {}
        left = iter(zip(work.events, decided, strict=True))
        for n, result in enumerate(work.results):
            line: bytes = work.lines[n]
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

    def _alone(
        self, stretches: list[Stretch], source: str | None
    ) -> AbstractContextManager[object]:
        """Nobody else admits to the same runs, or from the same source, meanwhile."""
        named = self._identities.named
        names = {key[1:] for key, _ in stretches if key[0] in named}
        if source:
            names.add(("source", source))
        if not names:
            return _NO_LOCK
        numbers = {hash(name) % STRIPES for name in names}
        if len(numbers) == 1:
            return self._stripes[numbers.pop()]
        stack = ExitStack()
        for number in sorted(numbers):
            stack.enter_context(self._stripes[number])
        return stack

    def _admit(self, work: "_Work", *, repeated: bool) -> Verdicts:
        """The part of `admit` that needs the locks of its runs and its key."""
        stored: set[int] = set()
        if repeated:  # what is malformed was refused before
            stored = {n for n, each in enumerate(work.results) if isinstance(each, Refusal)}
        while True:
            known: dict[int, int] = {}
            place = work.place
            if work.key is not None and (place := self.marks.place(work.key.source)):
                if place.sha256:
                    return _replayed(work, place)
                known = self._stored_by_format_1(work.events, place)
            if repeated:
                known = dict.fromkeys(range(len(work.events)), UNNUMBERED)
            try:
                return _verdicts(work.results, self._append(work, known, place, stored))
            except Overtaken as error:
                if work.mark is not None and self.marks.place(work.mark.source) != place:
                    raise
                # Check again, with the records that were appended meanwhile.
                self._identities.catch_up(work.stretches, error.runs)

    def _append(
        self, work: "_Work", known: dict[int, int], place: Place | None, stored: set[int]
    ) -> list[Outcome]:
        """Append the new events; `known` has the numbers of those stored under the same key.

        It stops if the key, or the source of the mark, is not at `place` any more. Refused lines are
        committed with the events; where the store cannot do that, or there are no new events, they
        are stored before, and their places are added to `stored`, so that they are stored once.
        """
        identities, events = self._identities, work.events
        decided, fresh = identities.decide(events, work.stretches)
        try:
            for n, seq in known.items():
                if events[n].dialect not in identities.named:
                    decided[n] = Known(seq)
            entries, taken = _new(events, decided, work.redacted)
            together = None
            if self._refused is not None and len(entries) < len(work.results):
                refused = self._refused_lines(work, decided, stored)
                if refused and entries and self._refused.together:
                    together = self._refused.make(refused.values())
                elif refused:
                    self._refused.keep(refused.values())
                    stored |= refused.keys()
            mark = work.mark
            if work.key is not None:
                mark = self._mark(work, work.key, decided, entries)
            seqs = self.journal.append(
                entries,
                lifecycle=self._lifecycle and self._lives(entries),
                redacted=taken,
                mark=mark,
                expected=identities.expected(fresh),
                guard=self._unmoved(mark.source, place) if mark else None,
                refused=together,
            )
        except BaseException:
            identities.give_up(fresh)
            raise
        self.marks.note(seqs, mark)
        return identities.settle(events, decided, fresh, seqs)

    def _unmoved(self, source: str, place: Place | None) -> Callable[[int], bool]:
        """Whether the source is still at its offset; called when nobody else can append."""
        return lambda first: self.marks.is_at(source, place, first)

    def _mark(
        self, work: "_Work", key: "_Key", decided: list[Outcome | None], entries: list[Passed]
    ) -> Mark:
        """The mark of the batch, which is stored with its first new record."""
        count = len(entries)
        if count == len(work.results):
            return Mark(key.source, count, key.sha256, f"a{count}")
        return Mark(key.source, count, key.sha256, pack(self._outcomes(work, decided)))

    def _outcomes(self, work: "_Work", decided: list[Outcome | None]) -> Iterator[offsets.Outcome]:
        numbers = count()
        relative = [next(numbers) if each is None else each for each in decided]
        left = iter(zip(work.events, relative, strict=True))
        for result in work.results:
            if isinstance(result, Refusal):
                yield "refused", 0
                continue
            event, outcome = next(left)
            if isinstance(outcome, int):
                yield "accepted", 0
            elif isinstance(outcome, Refusal):
                yield "refused", 0
            elif outcome.seq == PENDING:
                yield "inside", self._identities.first(event, work.events, relative)
            else:
                yield "duplicate", outcome.seq

    def _stored_by_format_1(self, events: list[Passed], place: Place) -> dict[int, int]:
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
            raise _reused(place)
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


class _Key(NamedTuple):
    """A sender's name for a batch, and what it stands for."""

    source: str
    sha256: str


class _Work(NamedTuple):
    """One call of `admit`."""

    lines: list[bytes]
    results: list[Passed | Refusal]
    events: list[Passed]
    stretches: list[Stretch]
    redacted: dict[int, Sequence[str]]
    key: _Key | None
    mark: Mark | None
    place: Place | None


def _digest(dialect: str | None, lines: list[bytes]) -> str:
    """SHA-256 of the dialect and the lines as they were received."""
    return sha256(b"\n".join([(dialect or "").encode(), *lines])).hexdigest()


def _reused(place: Place) -> KeyReused:
    return KeyReused(
        f"this batch key was used before, for other lines: see record {place.seq}",
        "give every new batch a key of its own; nothing of this one was kept",
    )


def _replayed(work: _Work, place: Place) -> Verdicts:
    """The answer that the batch got the first time."""
    if work.key is None or place.sha256 != work.key.sha256:
        raise _reused(place)
    number = count(place.seq)
    outcomes = list(unpack(place.verdicts))
    if len(outcomes) != len(work.results):
        raise StoreBroken(
            f"record {place.seq}, which says what became of this batch, is damaged",
            "run `tracklog verify`; to record these lines again, send them under another key",
        )
    verdicts = Verdicts()
    for result, (fate, seq) in zip(work.results, outcomes, strict=True):
        what = (result.dialect, result.kind, result.run)
        if fate == "refused":
            why = result.problems if isinstance(result, Refusal) else (_REFUSED_BEFORE,)
            verdicts.append(Verdict("refused", None, why, *what))
        elif fate == "accepted":
            verdicts.append(Verdict("accepted", next(number), (), *what))
        else:
            known = place.seq + seq if fate == "inside" else seq
            verdicts.append(Verdict("duplicate", known, (), *what))
    verdicts.replayed = True
    return verdicts


_REFUSED_BEFORE = Problem(
    "",
    "this line was refused when its batch was first sent",
    "send it in a batch of its own, under another key",
)


def _verdicts(results: Sequence[Passed | Refusal], outcomes: list[Outcome]) -> Verdicts:
    """The verdict of each line; many lines that are all new, the common case, take no loop."""
    if 1 < len(outcomes) == len(results) and set(map(type, outcomes)) <= {int}:
        what = (map(part, results) for part in (_DIALECT, _KIND, _RUN))
        rows = zip(repeat("accepted"), outcomes, repeat(()), *what)
        return Verdicts(map(tuple.__new__, repeat(Verdict), rows))
    left = iter(outcomes)
    return Verdicts(
        _verdict(each, next(left) if isinstance(each, Passed) else each) for each in results
    )


def _verdict(result: Passed | Refusal, outcome: Outcome) -> Verdict:
    what = (result.dialect, result.kind, result.run)
    if isinstance(outcome, Refusal):
        return Verdict("refused", None, outcome.problems, *what)
    if isinstance(outcome, Known):
        return Verdict("duplicate", outcome.seq if outcome.seq > 0 else None, (), *what)
    return Verdict("accepted", outcome, (), *what)
