"""`tracklog audits`: which checkpoints are flaky."""

from pathlib import Path

import click

from tracklog.cli import _home, _table


@click.command(
    epilog="""\b
Examples:
  tracklog audits
  tracklog audits --window 7d""",
)
@_home.home_option
@click.option("--window", type=click.Choice(["24h", "7d", "all"]), default="24h", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per row.")
def command(home: Path, window: str, as_json: bool) -> None:
    """List the audit checkpoints, the most flaky first."""
    from tracklog import answers  # noqa: PLC0415  # slow to import

    with _home.asking(home) as opened:
        rows = answers.audits(opened.index, window, _home.now())
    _table.put(
        rows,
        [
            ("colour", lambda row: row.get("colour")),
            ("flakiness", lambda row: row.get("flakiness")),
            ("checkpoint", lambda row: row.get("checkpoint_id", row.get("checkpoint"))),
        ],
        "no audit in this window; --window all looks at all of them",
        as_json=as_json,
    )
