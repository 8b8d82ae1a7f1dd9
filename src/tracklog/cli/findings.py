"""`tracklog findings`: what was surprising, and kept."""

import sys
from pathlib import Path

import click

from tracklog.cli import _home, _table
from tracklog.cli import _terminal as terminal


@click.command(
    epilog="""\b
Examples:
  tracklog findings
  tracklog findings agent-coder-1
  tracklog findings --json | jq -r .name | sort | uniq -c""",
)
@_home.run_argument(required=False)
@_home.read_option
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True)
@_home.lost_option
@terminal.wide_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per finding.")
def command(run: str | None, home: Path, limit: int, lost_after: float, as_json: bool) -> None:
    """Print what was surprising in RUN, or in all runs, the newest first.

    Nothing here was refused: what is found is kept, and this says what it was.
    Of a run that is over or lost, what it left open is told, too.
    """
    from tracklog.answers import answers

    with _home.asking(home) as opened:
        asked = None if run is None else opened.run(run)
        rows = answers.findings(opened.index, _home.now(), asked, limit + 1, lost_after)
        _home.tell(opened.journal.findings)
        names = _home.names(opened)
    if rows:
        _table.put(
            rows[:limit],
            [
                _table.Column("seq", lambda row: str(row["seq"]), right=True),
                _table.Column("level", lambda row: row["level"], rank=2),
                names.column(rank=1),
                _table.Column("finding", lambda row: row["name"]),
                _table.Column("what it is", lambda row: row["message"], cut=24),
            ],
            "",
            as_json=as_json,
        )
    sys.stdout.flush()
    if len(rows) > limit:
        click.echo(f"only the newest {limit:,} are shown; --limit shows more", err=True)
    if not rows:
        hint = _home.same_record("`tracklog runs` shows what was heard")
        click.echo(f"nothing surprising was found; {hint}", err=True)
