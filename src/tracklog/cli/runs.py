"""`tracklog runs`: what every run is doing now."""

from pathlib import Path

import click

from tracklog.cli import _home, _table


@click.command(
    epilog="""\b
Examples:
  tracklog runs
  tracklog runs --limit 200 --json""",
)
@_home.home_option
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per row.")
def command(home: Path, limit: int, as_json: bool) -> None:
    """List the runs, the latest heard first: status, outcome, agents, tools, cost."""
    from tracklog import answers  # noqa: PLC0415  # slow to import

    with _home.asking(home) as opened:
        rows = answers.runs(opened.index, _home.now(), limit)
    _table.put(
        rows,
        [
            ("status", lambda row: row["status"]),
            ("run", lambda row: row["run"]),
            ("outcome", lambda row: row["outcome"]),
            ("agents", lambda row: len(row["agents"])),
            ("calls", lambda row: row["tool_calls"]),
            ("failed", lambda row: row["tool_failures"]),
            ("tokens", lambda row: row["tokens"]),
            ("usd", lambda row: row["cost_usd"]),
            ("silent", lambda row: _table.age(row["silent_seconds"])),
            ("title", lambda row: row["title"]),
        ],
        "no runs yet; `tracklog record` keeps the first",
        as_json=as_json,
    )
