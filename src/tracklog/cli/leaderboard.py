"""`tracklog leaderboard`: who won."""

from pathlib import Path

import click

from tracklog.cli import _home, _table


@click.command(
    epilog="""\b
Examples:
  tracklog leaderboard
  tracklog leaderboard --json""",
)
@_home.home_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per row.")
def command(home: Path, as_json: bool) -> None:
    """List the contests that were won, the latest first."""
    from tracklog import answers  # noqa: PLC0415  # slow to import

    with _home.asking(home) as opened:
        rows = answers.leaderboard(opened.index)
    _table.put(
        rows,
        [
            ("run", lambda row: row["run_id"]),
            ("winner", lambda row: row["winner"]),
            ("kind", lambda row: row["winner_kind"]),
            ("models", lambda row: row["winning_models"]),
        ],
        "no contest was won yet",
        as_json=as_json,
    )
