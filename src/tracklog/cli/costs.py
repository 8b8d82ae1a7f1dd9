"""`tracklog costs`: what was spent."""

from pathlib import Path

import click

from tracklog.cli import _home, _table


@click.command(
    epilog="""\b
Examples:
  tracklog costs
  tracklog costs --by model""",
)
@_home.home_option
@click.option(
    "--by",
    type=click.Choice(["run", "agent", "model", "provider", "all"]),
    default="run",
    show_default=True,
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per row.")
def command(home: Path, by: str, as_json: bool) -> None:
    """List tokens and money, as their sources reported them, the dearest first."""
    from tracklog import answers  # noqa: PLC0415  # slow to import

    with _home.asking(home) as opened:
        rows = answers.costs(opened.index, by)
    _table.put(
        rows,
        [
            ("usd", lambda row: row["cost_usd"]),
            ("tokens", lambda row: row["total_tokens"]),
            ("in", lambda row: row.get("input_tokens")),
            ("out", lambda row: row.get("output_tokens")),
            ("of", lambda row: row["of"]),
        ],
        "nobody said what was spent",
        as_json=as_json,
    )
