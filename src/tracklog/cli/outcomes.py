"""`tracklog outcomes`: how the runs of the last 24 hours went."""

from pathlib import Path

import click

from tracklog.cli import _home, _table


@click.command(
    epilog="""\b
Examples:
  tracklog outcomes
  tracklog outcomes --json""",
)
@_home.home_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per row.")
def command(home: Path, as_json: bool) -> None:
    """Fold the outcomes of the last 24 hours to a pass rate, with flakes and KILN means."""
    from tracklog import answers  # noqa: PLC0415  # slow to import

    with _home.asking(home) as opened:
        rows = [answers.outcomes(opened.index, _home.now())]
    _table.put(
        rows,
        [
            ("pass rate", lambda row: row["pass_rate"]),
            ("passed", lambda row: row.get("passed", row.get("pass"))),
            ("failed", lambda row: row.get("failed", row.get("fail"))),
            ("in flight", lambda row: row["in_flight"]),
        ],
        "",
        as_json=as_json,
    )
