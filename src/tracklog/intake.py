"""The one way in: lines are checked, recognised if they were heard before, and kept.

Whatever arrives, by pipe, by HTTP, from a file or from a host, is admitted here.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from itertools import repeat
from operator import itemgetter
from typing import Literal, NamedTuple

from tracklog import problems
from tracklog.check import CheckAll, batch_checker, door_for, passed, understand
from tracklog.dialects import Dialect
from tracklog.errors import KeyReused, Overtaken
from tracklog.event import Body, Passed, Problem, Refusal
from tracklog.fact import Began, Ended
from tracklog.identities import Identities, Known, Outcome, Stretch
from tracklog.journal import Journal, Mark
from tracklog.lines import CAP, Line
from tracklog.marks import Marks
from tracklog.refused import Refused

Redact = Callable[[bytes], tuple[bytes, Sequence[str]]]
"""From a line to what may be kept of it, and the names of what was taken out; () for nothing."""

STRIPES = 64
_DIALECT, _RUN, _KIND = itemgetter(0), itemgetter(2), itemgetter(3)


class Verdict(NamedTuple):
    """What became of a line: kept under a number, known under one, or refused."""

    verdict: Literal["accepted", "duplicate", "refused"]
    seq: int | None = None
    """Its place in the journal; a duplicate's is the one it had before."""
    problems: tuple[Problem, ...] = ()
    dialect: str | None = None
    kind: str | None = None
    run: str | None = None


def admit(journal: Journal, dialect: Dialect, lines: Iterable[bytes]) -> list[Verdict]:
    """Admits lines of one dialect to a journal; for more than one call, keep an `Intake`."""
    return Intake(journal, [dialect]).admit(lines, dialect.name)


class Intake:
    """The door of one journal; any number of threads may admit at once."""

    def __init__(
        self,
        journal: Journal,
        dialects: Iterable[Dialect],
        *,
        refused: Refused | None = None,
        marks: Marks | None = None,
        redact: Redact | None = None,
        lifecycle: bool = False,
        cap: int = CAP,
    ) -> None:
        self.journal = journal
        self.marks = marks or Marks(journal)
        self.cap = cap
        self._refused = refused
        self._redact = redact
        self._lifecycle = lifecycle
        self._dialects = {dialect.name: dialect for dialect in dialects}
        self._checks: dict[str | None, CheckAll] = {
            name: batch_checker(dialect) for name, dialect in self._dialects.items()
        }
        any_of_them = door_for(self._dialects.values())
        self._checks[None] = lambda lines, _bodies=None, /: [
            passed(any_of_them(line)) for line in lines
        ]
        self._identities = Identities(journal, self._dialects, journal.runs)
        self._stripes = [threading.Lock() for _ in range(STRIPES)]

    def admit(
        self,
        lines: Iterable[bytes],
        dialect: str | None = None,
        *,
        batch: str | None = None,
        mark: Mark | None = None,
        bodies: Sequence[Body | None] | None = None,
    ) -> list[Verdict]:
        """A verdict for every line, in order; what is accepted is kept, all of it or nothing.

        Without a dialect each line is recognised. A `batch` is a key of the sender's: the same
        key again is the same batch again, and nothing is kept twice. A `mark` says how far into
        which source these lines go, and is kept with them. `bodies` are what lines were written
        from, by whoever wrote them a moment ago: they are judged, and the lines not read again.
        On return what was accepted is as durable as the journal promises.
        """
        lines = list(lines)
        results = self._judged(lines, self._checks[dialect], bodies)
        redacted = self._redacted(results) if self._redact else {}
        events: list[Passed] = [result for result in results if type(result) is Passed]
        if len(events) < len(results):
            self._put_aside(zip(lines, results, strict=True))
        stretches = self._identities.stretches(events)
        with self._alone(stretches, batch):
            kept = self._keep(events, stretches, redacted, batch, mark)
        return _verdicts(results, kept)

    def close(self) -> None:
        """Close what was opened to remember identities; the journal is its owner's."""
        self._identities.close()

    def admit_lines(
        self, lines: Sequence[Line], dialect: str | None = None, *, mark: Mark | None = None
    ) -> list[Verdict]:
        """The same for lines that were cut from a file, of which one may be too long to hold."""
        held = [line.data for line in lines if line.size <= self.cap]
        verdicts = iter(self.admit(held, dialect, mark=mark))
        return [next(verdicts) if line.size <= self.cap else self._too_long(line) for line in lines]

    def _too_long(self, line: Line) -> Verdict:
        refusal = Refusal((problems.too_long(line.size, self.cap),))
        if self._refused is not None:
            beginning = self._scrubbed(line.data, refusal)
            self._refused.keep_beginning(beginning, refusal, line.size, line.sha256)
        return Verdict("refused", None, refusal.problems)

    def _put_aside(self, judged: Iterable[tuple[bytes, object]]) -> None:
        """Keeps what is refused of these lines; before the good ones, so that all may be retried."""
        if self._refused is None:
            return
        refused = [(line, each) for line, each in judged if isinstance(each, Refusal)]
        if self._redact is not None:
            refused = [(self._scrubbed(line, refusal), refusal) for line, refusal in refused]
        if refused:
            self._refused.keep(refused)

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

    def _alone(self, stretches: list[Stretch], batch: str | None) -> ExitStack:
        """Nobody else admits to the same runs, or under the same key, meanwhile."""
        named = self._identities.named
        names = {key[1:] for key, _ in stretches if key[0] in named}
        if batch:
            names.add(("batch", batch))
        stack = ExitStack()
        for number in sorted({hash(name) % STRIPES for name in names}):
            stack.enter_context(self._stripes[number])
        return stack

    def _keep(
        self,
        events: list[Passed],
        stretches: list[Stretch],
        redacted: dict[int, Sequence[str]],
        batch: str | None,
        mark: Mark | None,
    ) -> list[Outcome]:
        told: set[int] = set()
        while True:
            if batch is not None and (known := self.marks.place(_named(batch))):
                return _again(known.through, known.seq, len(events), batch)
            decided, fresh = self._identities.decide(events, stretches)
            entries, taken = _new(events, decided, redacted)
            sent = (_named(batch), len(entries)) if batch else mark
            try:
                if len(entries) < len(events):
                    self._put_aside(
                        (events[n].line, outcome)
                        for n, outcome in enumerate(decided)
                        if n not in told
                    )
                    told.update(range(len(events)))
                seqs = self.journal.append(
                    entries,
                    lifecycle=self._lifecycle and self._lives(entries),
                    redacted=taken,
                    mark=sent,
                    guard=self._identities.guard(fresh, len(entries)),
                )
            except Overtaken:
                self._identities.give_up(fresh)
                continue  # another process was quicker: judge again, knowing what it wrote
            except BaseException:
                self._identities.give_up(fresh)
                raise
            return self._identities.settle(events, decided, fresh, seqs)

    def _lives(self, events: list[Passed]) -> bool:
        """Whether something began or ended in these events."""
        return any(
            isinstance(fact, Began | Ended)
            for event in events
            for dialect in (self._dialects[event.dialect],)
            for fact in dialect.facts(understand(dialect, event.line))
        )


def _new(
    events: list[Passed], decided: list[Outcome | None], redacted: dict[int, Sequence[str]]
) -> tuple[list[Passed], dict[int, Sequence[str]]]:
    """The events that are to be appended, and what was taken out of which of them."""
    if not any(decided):
        return events, redacted
    new = [n for n, known in enumerate(decided) if known is None]
    taken = {place: redacted[n] for place, n in enumerate(new) if n in redacted}
    return [events[n] for n in new], taken


def _named(batch: str) -> str:
    return f"batch:{batch}"


def _again(count: int, first: int, now: int, batch: str) -> list[Outcome]:
    if count != now:
        raise KeyReused(
            f"the batch {batch!r} was admitted before with {count} good lines, and has {now} now",
            "give every new batch a key of its own",
        )
    return [Known(seq) for seq in range(first, first + count)]


def _verdicts(results: Sequence[Passed | Refusal], kept: list[Outcome]) -> list[Verdict]:
    """What is told of each line; the case that all are new is the common one, and is quick."""
    if len(kept) == len(results) and set(map(type, kept)) <= {int}:
        what = (map(part, results) for part in (_DIALECT, _KIND, _RUN))
        told = zip(repeat("accepted"), kept, repeat(()), *what)
        return list(map(tuple.__new__, repeat(Verdict), told))
    left = iter(kept)
    return [_verdict(each, next(left) if isinstance(each, Passed) else each) for each in results]


def _verdict(heard: Passed | Refusal, outcome: Outcome) -> Verdict:
    what = (heard.dialect, heard.kind, heard.run)
    if isinstance(outcome, Refusal):
        return Verdict("refused", None, outcome.problems, *what)
    if isinstance(outcome, Known):
        return Verdict("duplicate", outcome.seq, (), *what)
    return Verdict("accepted", outcome, (), *what)
