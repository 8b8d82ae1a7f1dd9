"""`tracklog tools`: calls, failures and durations of each tool."""

from typing import TYPE_CHECKING

from tracklog.cli import _question, _table

if TYPE_CHECKING:
    from tracklog.answers.tools import ToolRow

UNKNOWN = "(unknown)"
"""The name of a tool where a result was recorded, and not its call."""


def _show(rows: "list[ToolRow]", call: _question.QuestionCall) -> None:
    columns = [
        _table.Column("tool", lambda row: row.tool or UNKNOWN, cut=24),
        _table.Column("calls", lambda row: row.calls, right=True),
        _table.Column("failed", lambda row: row.failures, right=True),
        _table.Column("rate", lambda row: _rate(row.failure_rate), rank=4, right=True),
        _table.Column("open", lambda row: row.open, rank=3, right=True),
        _table.Column("p50", lambda row: _table.duration_text(row.p50_seconds), 2, right=True),
        _table.Column("p95", lambda row: _table.duration_text(row.p95_seconds), 1, right=True),
        _table.Column("p99", lambda row: _table.duration_text(row.p99_seconds), 5, right=True),
    ]
    window = call.parameters["window"]
    empty = f"no tool was called in {window}; `tracklog tools` shows all calls"
    if window == "all":
        empty = "no tool was called yet; `tracklog runs` shows what was recorded"
    _table.put(rows, columns, empty)


def _rate(share: float | None) -> str | None:
    return None if share is None else f"{share:.0%}"


command = _question.verb("tools", _show)
