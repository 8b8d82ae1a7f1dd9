"""`tracklog tools`: how often each tool is called, fails, and how long it takes."""

from pathlib import Path

import click

from tracklog.cli import _home, _table


@click.command(
    epilog="""\b
Examples:
  tracklog tools
  tracklog tools --json""",
)
@_home.home_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per row.")
def command(home: Path, as_json: bool) -> None:
    """List the tools, the most called first; each call counts once, however often it is told."""
    from tracklog import answers  # noqa: PLC0415  # slow to import

    with _home.asking(home) as opened:
        rows = answers.tools(opened.index)
    _table.put(
        rows,
        [
            ("calls", lambda row: row["calls"]),
            ("failed", lambda row: row["failures"]),
            ("open", lambda row: row["open"]),
            ("p50 s", lambda row: row["p50_seconds"]),
            ("p95 s", lambda row: row["p95_seconds"]),
            ("p99 s", lambda row: row["p99_seconds"]),
            ("tool", lambda row: row["tool"]),
        ],
        "no tool was called yet",
        as_json=as_json,
    )
