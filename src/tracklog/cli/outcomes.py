"""`tracklog outcomes`: the outcomes of the runs of the last 24 hours."""

from dataclasses import astuple
from typing import TYPE_CHECKING

from tracklog.cli import _question, _table

if TYPE_CHECKING:
    from tracklog.answers.outcomes import OutcomesAnswer


def _show(answer: "OutcomesAnswer", _asked: _question.QuestionCall) -> None:
    columns = [
        _table.Column("pass rate", lambda row: _rate(row.pass_rate)),
        _table.Column("passed", lambda row: row.passed, right=True),
        _table.Column("failed", lambda row: row.failed, right=True),
        _table.Column("in flight", lambda row: row.in_flight, right=True),
        _table.Column("flakes", lambda row: row.flakes, rank=2, right=True),
        _table.Column("convergence", lambda row: row.convergence_mean, 1, right=True),
    ]
    empty = "no run began or ended in the last 24 hours; `tracklog runs` shows earlier ones"
    _table.put([answer] if any(astuple(answer)) else [], columns, empty)


def _rate(share: float | None) -> str | None:
    return None if share is None else f"{share:.0%}"


command = _question.verb("outcomes", _show)
