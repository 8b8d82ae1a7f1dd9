"""`tracklog inbox`: questions that wait for a person, oldest first."""

from typing import TYPE_CHECKING

from tracklog.cli import _question, _table

if TYPE_CHECKING:
    from tracklog.answers.inbox import InboxRow


def _show(rows: "list[InboxRow]", call: _question.QuestionCall) -> None:
    columns = [
        _table.Column("state", lambda row: row.state),
        _table.Column("waited", lambda row: _table.age(row.waiting_seconds), right=True),
        call.names.column(),
        _table.Column("agent", lambda row: row.agent, rank=1, cut=8),
        _table.Column("by", lambda row: row.answered_by or None, rank=2, cut=8),
        # The id for `tracklog answer`: always shown, and complete.
        _table.Column("id", lambda row: row.question_id),
        _table.Column("question", _question_of, cut=16, wrap=True),
    ]
    _table.put(rows, columns, "nobody waits for a person; `tracklog runs` shows the current state")


def _question_of(row: "InboxRow") -> str | None:
    if row.answerable or row.state != "open":
        return row.text
    return f"{row.text or row.question_id} (answer in the agent's terminal)"


command = _question.verb("inbox", _show)
