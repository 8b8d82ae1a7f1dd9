"""`tracklog leaderboard`: wins per agent and model."""

from typing import TYPE_CHECKING

from tracklog.cli import _question, _table

if TYPE_CHECKING:
    from tracklog.answers.leaderboard import ContestRow


def _show(rows: "list[ContestRow]", call: _question.QuestionCall) -> None:
    names = call.names
    columns = [
        _table.Column("winner", lambda row: row.winner, cut=16),
        _table.Column("kind", lambda row: row.winner_kind, rank=4),
        _table.Column("models", lambda row: row.winning_models, rank=1, cut=16),
        _table.Column("scenario", lambda row: row.scenario or None, rank=3, cut=12),
        _table.Column("reason", lambda row: row.reason, rank=5, cut=12),
        _table.Column(
            "run",
            lambda row: names.of(row.family, row.run_id),
            cut=8,
            least=names.least,
        ),
    ]
    _table.put(rows, columns, "no contest was won yet; `tracklog runs` shows what was recorded")
    _question.put_more(rows, call)


command = _question.verb("leaderboard", _show, _question.all_option)
