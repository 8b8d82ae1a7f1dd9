"""`tracklog loops`: agents that call the same tool with the same arguments again and again."""

from typing import TYPE_CHECKING

from tracklog.cli import _question, _table

if TYPE_CHECKING:
    from tracklog.answers.loops import LoopRow


def _show(rows: "list[LoopRow]", call: _question.QuestionCall) -> None:
    columns = [
        _table.Column("times", lambda row: row.times, right=True),
        call.names.column(),
        _table.Column("tool", lambda row: row.tool, cut=16),
        _table.Column("last", lambda row: str(row.last_seq), rank=2, right=True),
        _table.Column("agents", lambda row: row.agents, rank=1, cut=12),
        _table.Column("arguments", lambda row: row.input, cut=20),
    ]
    _table.put(rows, columns, "no loops; `tracklog tools` shows all calls")


command = _question.verb("loops", _show)
