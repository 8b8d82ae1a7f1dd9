"""`tracklog agents`: the results of each agent over all its runs."""

from typing import TYPE_CHECKING

from tracklog.answers import now_of
from tracklog.cli import _question, _table
from tracklog.folds import silence

if TYPE_CHECKING:
    from tracklog.answers.agents import AgentRow


def _show(rows: "list[AgentRow]", call: _question.QuestionCall) -> None:
    now = now_of(call.home)
    columns = [
        _table.Column("agent", lambda row: row.agent, cut=24),
        _table.Column("runs", lambda row: row.run_count, right=True),
        _table.Column("severity", lambda row: row.severity, rank=3, right=True),
        _table.Column("p50", lambda row: _table.duration_text(row.p50_seconds), 2, right=True),
        _table.Column("p95", lambda row: _table.duration_text(row.p95_seconds), 4, right=True),
        _table.Column("mean score", lambda row: row.mean_score, rank=5, right=True),
        _table.Column("seen", lambda row: _seen(row, now), rank=6),
        _table.Column("outcomes", _outcomes, rank=1, cut=20),
    ]
    _table.put(rows, columns, "no agents yet; `tracklog runs` shows what was recorded")


def _seen(row: "AgentRow", now: str) -> str:
    return _table.ago(silence(row.last_seen or "", now))


def _outcomes(row: "AgentRow") -> dict[str, int]:
    return {name: n for name, n in row.outcomes.items() if n}


command = _question.verb("agents", _show)
