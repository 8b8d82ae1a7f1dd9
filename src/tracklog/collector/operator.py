"""Questions to a person: find a question, answer it once, and hand the answer over.

The state is in the journal. An answer is a line of the native dialect whose identity is derived
from the question's, so that the intake itself accepts only the first one, also when another process
answers at the same time.
"""

from typing import Any, NamedTuple

import orjson

from tracklog import Log, hosts
from tracklog.answers.inbox import InboxRow, inbox
from tracklog.dialects import tracklog as native
from tracklog.folds import inbox as inbox_fold
from tracklog.folds import rows_of
from tracklog.folds import runs as runs_fold
from tracklog.formats.hooks import TERMINAL
from tracklog.home.home import Home
from tracklog.journal.frame import stamp
from tracklog.model.errors import (
    AlreadyAnswered,
    AmbiguousQuestion,
    NoSuchQuestion,
    NotAnswered,
    TooLate,
)
from tracklog.model.fact import Answered


class OperatorAnswer(NamedTuple):
    """An answer as it is stored in the journal."""

    answer: Any
    by: str | None
    at: str
    seq: int


def question(home: Home, id: str, run: str | None = None) -> InboxRow:
    """The question of that id; `run` (an id, or `family:run`) selects one, where several have it."""
    home.index.catch_up(patience=10)
    rows = [
        row
        for row in _questions(home, run)
        if row.question_id == id
        and row.state != "unasked"
        and run in (None, row.run, f"{row.family}:{row.run}")
    ]
    live = [row for row in rows if row.state == "open"] or rows
    if len(live) == 1:
        return live[0]
    if live:
        runs = [f"{row.family}:{row.run}" for row in live]
        hint = f"name one with --run (or ?run=): {', '.join(runs[:5])}"
        raise AmbiguousQuestion(f"{len(runs)} runs ask {id!r}", hint, runs=runs)
    where = f" in run {run!r}" if run else ""
    raise NoSuchQuestion(
        f"nobody asks {id!r}{where}", "`tracklog inbox` (or GET /api/inbox) lists the questions"
    )


def _questions(home: Home, run: str | None) -> list[InboxRow]:
    """The questions of one run, where it is named in full, or of all."""
    now, (family, colon, name) = stamp(home.clock()), (run or "").partition(":")
    if colon and family in {dialect.family for dialect in home.dialects.values()}:
        states = [state for _, state in home.index.states("inbox", rows_of(family, name))]
        over = runs_fold.is_over(home.index.state("runs", f"{family}:{name}"))
        if states:
            rows = inbox_fold.answer(states, now, {(family, name)} if over else ())
            return [InboxRow(**row) for row in rows]
    return inbox(home, now=now)


def give(
    home: Home, id: str, answer: Any, *, by: str, run: str | None = None, writer: str = "collector"
) -> tuple[InboxRow, OperatorAnswer]:
    """Record the answer to a question, unless it was answered or can no longer be."""
    row = question(home, id, run)
    if row.state == "answered":
        return row, _same(home, row, answer, by)
    _check_open(row)
    if not row.answerable:
        raise NotAnswered(
            "this question is asked in the agent's own terminal", "answer it in that terminal"
        )
    family, name = row.family, row.run
    _check_host(home, family, name)
    now = stamp(home.clock())
    source = orjson.dumps([family, name, id, row.asked_seq])
    line = native.line(
        Answered(question_id=id, answer=answer, by=by, agent=row.agent),
        id=native.line_id("answer", "1", name, source),
        run=name,
        at=now,
        family=None if family == native.dialect.family else family,
        origin={"writer": writer, "fidelity": "observed"},
    )
    (verdict,) = home.intake.admit([line], native.dialect.name)
    if verdict.verdict == "refused":
        again = question(home, id, f"{family}:{name}")
        return again, _same(home, again, answer, by)
    assert verdict.seq is not None
    return row, _read_answer(home, verdict.seq)


def recorded_answer(home: Home, row: InboxRow) -> OperatorAnswer | None:
    """The complete answer to a question, or None while it can still come; else `TooLate`.

    Only what an operator answered is handed over. That an answer was given may be reported by
    anybody who may write; such a report closes the question, and nobody gets its answer.
    """
    if row.state != "answered":
        _check_open(row)
        return None
    assert row.answered_seq is not None
    answer = _read_answer(home, row.answered_seq)
    if answer.by in (None, TERMINAL):
        raise TooLate(
            f"{row.question_id!r} is closed, and no operator has answered it",
            f"record {answer.seq} reports an answer; it is not handed over",
        )
    return answer


def _check_host(home: Home, family: str, run: str) -> None:
    """Refuse an answer that the host of the run would not accept from here."""
    for host in map(hosts.host, hosts.host_names()):
        if host.family == family and host.answered_elsewhere is not None:
            hint = host.answered_elsewhere(Log(home), run)
            if hint is not None:
                raise NotAnswered("this question is decided by the votes of people with keys", hint)


def _check_open(row: InboxRow) -> None:
    if row.state == "expired":
        raise TooLate(f"{row.question_id!r} has expired", "the agent continued without an answer")
    if row.state == "abandoned":
        raise TooLate(f"the run {row.run!r} has ended", "nobody waits for an answer any more")


def _same(home: Home, row: InboxRow, answer: Any, by: str) -> OperatorAnswer:
    """The answer that won, when it is the same answer again; else `AlreadyAnswered`."""
    if row.state != "answered":
        _check_open(row)
    assert row.answered_seq is not None
    won = _read_answer(home, row.answered_seq)
    if (won.answer, won.by) == (answer, by):
        return won
    who = won.by or "the agent itself"
    raise AlreadyAnswered(
        f"{row.question_id!r} was answered before, by {who}",
        "the first answer counts; the agent has it",
        by=[won.by] if won.by else [],
        seq=won.seq,
    )


def _read_answer(home: Home, seq: int) -> OperatorAnswer:
    """The answer from the record itself: the fold stores only the beginning of an answer.

    Answers of operators are lines of the native dialect; the others have no `by` here.
    """
    for record in home.journal.read(seq - 1, 1):
        for fact in home.facts_in(record):
            if isinstance(fact, Answered):
                by = fact.by if record.dialect == native.dialect.name else None
                return OperatorAnswer(fact.answer, by, record.received, seq)
        return OperatorAnswer(None, None, record.received, seq)  # erased since
    return OperatorAnswer(None, None, "", seq)
