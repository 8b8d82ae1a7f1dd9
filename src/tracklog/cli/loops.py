"""`tracklog loops`: who calls the same tool with the same arguments again and again."""

from pathlib import Path

import click

from tracklog.cli import _home, _table
from tracklog.cli import _terminal as terminal


@click.command(
    epilog="""\b
Examples:
  tracklog loops
  tracklog loops --at-least 10 --json""",
)
@_home.read_option
@click.option("--at-least", type=click.IntRange(min=2), default=3, show_default=True)
@terminal.wide_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per row.")
def command(home: Path, at_least: int, as_json: bool) -> None:
    """List the tools that a run called with the same arguments again and again."""
    from tracklog.answers import answers

    with _home.asking(home) as opened:
        rows = answers.loops(opened.index, at_least)
        names = _home.names(opened)
    _table.put(
        rows,
        [
            _table.Column("times", lambda row: row["times"], right=True),
            names.column(),
            _table.Column("tool", lambda row: row["tool"], cut=16),
            _table.Column("last", lambda row: str(row["last_seq"]), rank=2, right=True),
            _table.Column("agents", lambda row: row["agents"], rank=1, cut=12),
            _table.Column("arguments", lambda row: row["input"], cut=20),
        ],
        "nobody goes round in circles; `tracklog tools` shows what is called",
        as_json=as_json,
    )
