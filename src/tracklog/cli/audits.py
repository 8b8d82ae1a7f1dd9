"""`tracklog audits`: which checkpoints are flaky."""

from pathlib import Path

import click

from tracklog.cli import _home, _table
from tracklog.cli import _terminal as terminal


@click.command(
    epilog="""\b
Examples:
  tracklog audits
  tracklog audits --window 7d""",
)
@_home.read_option
@click.option("--window", type=click.Choice(["24h", "7d", "all"]), default="24h", show_default=True)
@terminal.wide_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per row.")
def command(home: Path, window: str, as_json: bool) -> None:
    """List the audit checkpoints, the most flaky first."""
    from tracklog.answers import answers

    with _home.asking(home) as opened:
        rows = answers.audits(opened.index, window, _home.now())
    _table.put(
        rows,
        [
            _table.Column("checkpoint", lambda row: row["checkpoint"], cut=24),
            _table.Column("colour", lambda row: row["colour"]),
            _table.Column("flakiness", lambda row: row["flakiness"], right=True),
            _table.Column("pass", lambda row: row["pass"], rank=2, right=True),
            _table.Column("warn", lambda row: row["warn"], rank=3, right=True),
            _table.Column("fail", lambda row: row["fail"], rank=1, right=True),
            _table.Column("last failed in", lambda row: row["last_fail_run_id"], 4, cut=12),
        ],
        "no audit in this window"
        + ("" if window == "all" else "; --window all looks at all of them"),
        as_json=as_json,
    )
