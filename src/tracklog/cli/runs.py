"""`tracklog runs`: what every run is doing now."""

from pathlib import Path

import click

from tracklog.cli import _home, _table
from tracklog.cli import _terminal as terminal
from tracklog.folds.runs import STATUSES


@click.command(
    epilog="""\b
Examples:
  tracklog runs
  tracklog runs --status waiting --status failed
  tracklog runs --lost-after 60          (who was silent for a minute)
  tracklog runs --limit 200 --json

\b
"""
    + _table.MONEY,
)
@_home.read_option
@click.option(
    "--status", multiple=True, type=click.Choice(STATUSES), help="Only these; may be given again."
)
@click.option("--agent", metavar="NAME", help="Only those with this agent.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True)
@_home.lost_option
@terminal.wide_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per row.")
def command(
    home: Path,
    status: tuple[str, ...],
    agent: str | None,
    limit: int,
    lost_after: float,
    as_json: bool,
) -> None:
    """List the runs, the latest active first: status, outcome, agents, tools, cost."""
    from tracklog.answers import (
        answers,
        prices,
    )

    with _home.asking(home) as opened:
        most = None if status or agent else limit
        listed = prices.load(home)
        rows = answers.runs(
            opened.index,
            _home.now(),
            most,
            lost_after,
            listed,
            status=status,
            agent=agent,
            by_time=True,
        )
        names = _home.names(opened)
        known = len(rows) if most is None else len(opened.runs())
    rows = rows[:limit]
    _table.put(
        rows,
        [
            _table.Column("status", lambda row: row["status"]),
            names.column(),
            _table.Column("outcome", lambda row: row["outcome"], rank=1, cut=9),
            _table.Column("agents", lambda row: len(row["agents"]), rank=7, right=True),
            _table.Column("calls", lambda row: row["tool_calls"], rank=3, right=True),
            _table.Column("failed", lambda row: row["tool_failures"], rank=5, right=True),
            _table.Column("tokens", lambda row: row["tokens"], rank=6, right=True),
            _table.Column("cost", _table.cost, rank=4, right=True),
            _table.Column("heard", lambda row: _table.ago(row["silent_seconds"]), right=True),
            _table.Column("title", lambda row: row["title"], rank=2, cut=16),
        ],
        "no such run; `tracklog runs` lists all of them"
        if most is None
        else "no runs yet; `tracklog import` or `tracklog record` brings the first",
        as_json=as_json,
    )
    if len(rows) == limit < known and not as_json:
        click.echo(f"and {known - limit:,} more; --limit {known} shows all", err=True)
