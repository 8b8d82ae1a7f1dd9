"""`tracklog outcomes`: how the runs of the last 24 hours went."""

from pathlib import Path

import click

from tracklog.cli import _home, _table
from tracklog.cli import _terminal as terminal


@click.command(
    epilog="""\b
Examples:
  tracklog outcomes
  tracklog outcomes --json""",
)
@_home.read_option
@terminal.wide_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(home: Path, as_json: bool) -> None:
    """Fold the outcomes of the last 24 hours to a pass rate, with flakes and KILN means."""
    from tracklog.answers import answers

    with _home.asking(home) as opened:
        row = answers.outcomes(opened.index, _home.now())
    if as_json:
        terminal.put_json(row)
        return
    _table.put(
        [row] if any(row.values()) else [],
        [
            _table.Column("pass rate", lambda row: _rate(row["pass_rate"])),
            _table.Column("passed", lambda row: row["passed"], right=True),
            _table.Column("failed", lambda row: row["failed"], right=True),
            _table.Column("in flight", lambda row: row["in_flight"], right=True),
            _table.Column("flakes", lambda row: row["flakes"], rank=2, right=True),
            _table.Column("convergence", lambda row: row["convergence_mean"], 1, right=True),
        ],
        "no run began or ended in the last 24 hours; `tracklog runs` shows those before",
        as_json=False,
    )


def _rate(share: float | None) -> str | None:
    return None if share is None else f"{share:.0%}"
