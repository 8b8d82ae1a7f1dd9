"""`tracklog findings`: rule violations and oddities in stored events."""

import sys
from typing import TYPE_CHECKING

import click

from tracklog.cli import _home, _question, _table

if TYPE_CHECKING:
    from tracklog.answers.findings import FindingRow


def _show(rows: "list[FindingRow]", call: _question.QuestionCall) -> None:
    _home.report(call.home.journal.findings)
    columns = [
        _table.Column("seq", lambda row: str(row.seq), right=True),
        _table.Column("level", lambda row: row.level, rank=2),
        call.names.column(rank=1),
        _table.Column("finding", lambda row: row.name),
        _table.Column("what it is", lambda row: row.message, cut=24),
    ]
    limit = call.parameters["limit"]
    if not rows:
        hint = _home.same_record("`tracklog runs` shows what was recorded")
        click.echo(f"no findings; {hint}", err=True)
        return
    _table.put(rows, columns, "")
    sys.stdout.flush()
    if len(rows) == limit and len(call.answer(limit=limit + 1)) > limit:
        click.echo(f"only the newest {limit:,} are shown; --limit shows more", err=True)


command = _question.verb("findings", _show)
