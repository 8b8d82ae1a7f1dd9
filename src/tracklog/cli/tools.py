"""`tracklog tools`: how often each tool is called, fails, and how long it takes."""

from pathlib import Path

import click

from tracklog.cli import _home, _table
from tracklog.cli import _terminal as terminal

WINDOWS = {"24h": 24 * 3600, "7d": 7 * 24 * 3600, "all": None}
UNKNOWN = "(unknown)"
"""In the place of a tool's name where a result was heard, and nothing of its call."""


@click.command(
    epilog="""\b
Examples:
  tracklog tools
  tracklog tools --window 24h
  tracklog tools --json""",
)
@_home.read_option
@click.option(
    "--window",
    type=click.Choice(list(WINDOWS)),
    default="all",
    show_default=True,
    help="The hours back from now in which the calls were made.",
)
@terminal.wide_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per row.")
def command(home: Path, window: str, as_json: bool) -> None:
    """List the tools, the most called first; each call counts once, however often it is told."""
    from tracklog.answers import answers

    with _home.asking(home) as opened:
        rows = answers.tools(opened.index, _home.ago(WINDOWS[window]))
    _table.put(
        rows,
        [
            _table.Column("tool", lambda row: row["tool"] or UNKNOWN, cut=24),
            _table.Column("calls", lambda row: row["calls"], right=True),
            _table.Column("failed", lambda row: row["failures"], right=True),
            _table.Column("rate", lambda row: _rate(row["failure_rate"]), rank=4, right=True),
            _table.Column("open", lambda row: row["open"], rank=3, right=True),
            _table.Column("p50", lambda row: _table.seconds(row["p50_seconds"]), 2, right=True),
            _table.Column("p95", lambda row: _table.seconds(row["p95_seconds"]), 1, right=True),
            _table.Column("p99", lambda row: _table.seconds(row["p99_seconds"]), 5, right=True),
        ],
        "no tool was called yet; `tracklog runs` shows what was heard"
        if window == "all"
        else f"no tool was called in {window}; `tracklog tools` shows all of the time",
        as_json=as_json,
    )


def _rate(share: float | None) -> str | None:
    return None if share is None else f"{share:.0%}"
