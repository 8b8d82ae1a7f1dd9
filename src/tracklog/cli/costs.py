"""`tracklog costs`: what was spent."""

from pathlib import Path
from typing import Any

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
            _table.Column("usd", _cost, right=True),
            _table.Column("tokens", lambda row: row["total_tokens"], right=True),
            _table.Column("in", lambda row: row["input_tokens"], rank=2, right=True),
            _table.Column("out", lambda row: row["output_tokens"], rank=1, right=True),
            _table.Column("cached", lambda row: row["cached_tokens"], rank=3, right=True),
            _table.Column(by if by != "all" else "of", lambda row: row["of"], cut=24),
        ],
        "nobody said what was spent; `tracklog runs` shows what was heard",
        as_json=as_json,
    )


def _cost(row: dict[str, Any]) -> str:
    """Money, and whether it is known to be more or less than that."""
    sign = "≥" if row["lower_bound"] else "≤" if row["upper_bound"] else ""
    return f"{sign}{_table.money(row['cost_usd'])}"
