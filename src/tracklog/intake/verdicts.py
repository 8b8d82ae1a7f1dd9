"""What becomes of each line of a call: accepted, duplicate or refused."""

from collections.abc import Sequence
from itertools import count, repeat
from operator import itemgetter
from typing import Literal, NamedTuple

from tracklog.intake.identities import Outcome
from tracklog.journal.offsets import SourceOffset, unpack
from tracklog.model.errors import KeyReused, StoreBroken
from tracklog.model.event import Passed, Problem, Refusal

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


def reused(place: SourceOffset) -> KeyReused:
    """The error of a key that stands for other lines."""
    return KeyReused(
        f"this batch key was used before, for another batch: see record {place.seq}",
        "give every new batch a key of its own; no line of this one was recorded",
    )


def replayed(results: Sequence[Passed | Refusal], sha256: str, place: SourceOffset) -> Verdicts:
    """The answer that the batch got the first time."""
    if place.sha256 != sha256:
        raise reused(place)
    number = count(place.seq)
    outcomes = list(unpack(place.verdicts))
    if len(outcomes) != len(results):
        raise StoreBroken(
            f"record {place.seq}, which says what became of this batch, is damaged",
            "run `tracklog verify`; to record these lines again, send them under another key",
        )
    verdicts = Verdicts()
    for result, (outcome, seq) in zip(results, outcomes, strict=True):
        what = (result.dialect, result.kind, result.run)
        if outcome == "refused":
            why = result.problems if isinstance(result, Refusal) else (_REFUSED_BEFORE,)
            verdicts.append(Verdict("refused", None, why, *what))
        elif outcome == "accepted":
            verdicts.append(Verdict("accepted", next(number), (), *what))
        else:
            known = place.seq + seq if outcome == "inside" else seq
            verdicts.append(Verdict("duplicate", known, (), *what))
    verdicts.replayed = True
    return verdicts


_REFUSED_BEFORE = Problem(
    "",
    "this line was refused when its batch was first sent",
    "send it in a batch of its own, under another key",
    "refused-before",
)


def verdicts_of(results: Sequence[Passed | Refusal], outcomes: list[Outcome]) -> Verdicts:
    """The verdict of each line; many lines that are all new, the common case, take no loop."""
    if 1 < len(outcomes) == len(results) and set(map(type, outcomes)) <= {int}:
        what = (map(part, results) for part in (_DIALECT, _KIND, _RUN))
        rows = zip(repeat("accepted"), outcomes, repeat(()), *what)
        return Verdicts(map(tuple.__new__, repeat(Verdict), rows))
    left = iter(outcomes)
    return Verdicts(
        [_verdict(each, next(left) if isinstance(each, Passed) else each) for each in results]
    )


def _verdict(result: Passed | Refusal, outcome: Outcome) -> Verdict:
    what = (result.dialect, result.kind, result.run)
    if isinstance(outcome, int):
        return Verdict("accepted", outcome, (), *what)
    if isinstance(outcome, Refusal):
        return Verdict("refused", None, outcome.problems, *what)
    return Verdict("duplicate", outcome.seq if outcome.seq > 0 else None, (), *what)
