"""`tracklog leaderboard`: who won."""

from pathlib import Path

import click

from tracklog.cli import _home, _table
from tracklog.cli import _terminal as terminal


@click.command(
    epilog="""\b
Examples:
  tracklog leaderboard
  tracklog leaderboard --json""",
)
@_home.read_option
@terminal.wide_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per row.")
def command(home: Path, as_json: bool) -> None:
    """List the contests that were won, the latest first."""
    from tracklog.answers import answers

    with _home.asking(home) as opened:
        rows = answers.leaderboard(opened.index)
        names = _home.names(opened)
    _table.put(
        rows,
        [
            _table.Column("winner", lambda row: row["winner"], cut=16),
            _table.Column("kind", lambda row: row["winner_kind"], rank=4),
            _table.Column("models", lambda row: row["winning_models"], rank=1, cut=16),
            _table.Column("scenario", lambda row: row["scenario"] or None, rank=3, cut=12),
            _table.Column("reason", lambda row: row["reason"], rank=5, cut=12),
            _table.Column(
                "run",
                lambda row: names.of(row["family"], row["run_id"]),
                cut=8,
                least=names.least,
            ),
        ],
        "no contest was won yet; `tracklog runs` shows what was heard",
        as_json=as_json,
    )
