"""Record people's marks: lines of the dialect `tracklog` that change nothing about a run."""

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tracklog.answers import key_of
from tracklog.answers.run_marks import marks_in
from tracklog.dialects import tracklog as native
from tracklog.folds import marks as marks_fold
from tracklog.folds import run_of
from tracklog.home.home import Home
from tracklog.journal.frame import stamp
from tracklog.model.errors import NoSuchMark
from tracklog.model.fact import Marked


@dataclass(frozen=True, slots=True)
class RecordedMark:
    """A mark as it was recorded."""

    family: str
    run: str
    mark: str
    """Its id, by which it can be withdrawn."""
    seq: int
    """Its record."""


def mark(home: Home, marks: Iterable[tuple[str, Marked]], *, writer: str) -> list[RecordedMark]:
    """Make marks, each on its run: all of them are recorded, or none."""
    home.index.catch_up(patience=10)
    keyed = [(key_of(home, run), fact) for run, fact in marks]
    facts = [(key, each) for key, fact in keyed for each in _apart(fact)]
    for key, fact in facts:
        if fact.record is not None:
            home.record(key, fact.record)
        if fact.withdraws is not None:
            _check_mark(home, key, fact.withdraws)
    ids = [uuid.uuid4().hex for _ in facts]
    at = stamp(home.clock())
    lines = [_line(key, fact, id, at, writer) for (key, fact), id in zip(facts, ids, strict=True)]
    verdicts = home.intake.admit(lines, native.dialect.name)
    return [
        RecordedMark(*run_of(key), id, verdict.seq or 0)
        for (key, _), id, verdict in zip(facts, ids, verdicts, strict=True)
    ]


def _apart(mark: Marked) -> Iterator[Marked]:
    """A tag, a score, a note and what was seen as marks of their own: each can be withdrawn alone."""
    blank = replace(mark, tag=None, score=None, note=None, seen=None, withdraws=None)
    for name in ("tag", "score", "note", "seen", "withdraws"):
        value = getattr(mark, name)
        if value is not None:
            yield replace(blank, **{name: value})


def without_tag(home: Home, run: str, tag: str, by: Marked) -> list[Marked]:
    """The marks that take a tag away from a run, or from the record that `by` names."""
    home.index.catch_up(patience=10)
    held = [
        each.mark
        for each in marks_in(home, key_of(home, run))
        if marks_fold.holds(each) and (each.tag, each.record) == (tag, by.record)
    ]
    if not held:
        raise NoSuchMark(f"{run} has no tag {tag!r}", "`tracklog marks --run …` lists its marks")
    return [replace(by, withdraws=each, record=None) for each in held]


def _check_mark(home: Home, key: str, id: str) -> None:
    if not any(each.mark == id and marks_fold.holds(each) for each in marks_in(home, key)):
        raise NoSuchMark(
            f"{key} has no mark {id!r}", "`tracklog marks --run …` (or GET /api/marks) lists them"
        )


def _line(key: str, fact: Marked, id: str, at: str, writer: str) -> bytes:
    family, run = run_of(key)
    return native.line(
        fact,
        id=id,
        run=run,
        at=at,
        family=None if family == native.dialect.family else family,
        origin={"writer": writer, "fidelity": "observed"},
    )
