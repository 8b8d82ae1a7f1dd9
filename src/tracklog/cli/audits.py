"""`tracklog audits`: which checkpoints are flaky."""

from typing import TYPE_CHECKING

from tracklog.cli import _question, _table

if TYPE_CHECKING:
    from tracklog.answers.audits import AuditRow


def _show(rows: "list[AuditRow]", call: _question.QuestionCall) -> None:
    columns = [
        _table.Column("checkpoint", lambda row: row.checkpoint, cut=24),
        _table.Column("colour", lambda row: row.colour),
        _table.Column("flakiness", lambda row: row.flakiness, right=True),
        _table.Column("pass", lambda row: row.passed, rank=2, right=True),
        _table.Column("warn", lambda row: row.warned, rank=3, right=True),
        _table.Column("fail", lambda row: row.failed, rank=1, right=True),
        _table.Column("last failed in", lambda row: row.last_fail_run_id, 4, cut=12),
    ]
    more = "" if call.parameters["window"] == "all" else "; --window all looks at all of them"
    _table.put(rows, columns, f"no audit in this window{more}")


command = _question.verb("audits", _show)
