"""`tracklog costs`: what was spent."""

from pathlib import Path

import click

from tracklog.cli import _home, _table
from tracklog.cli import _terminal as terminal


@click.command(
    epilog="""\b
Examples:
  tracklog costs
  tracklog costs --by model

\b
"""
    + _table.MONEY
    + """

\b
A model's price may be set in prices.json in the home: see docs/how-to.""",
)
@_home.read_option
@click.option(
    "--by",
    type=click.Choice(["run", "agent", "model", "provider", "all"]),
    default="run",
    show_default=True,
)
@terminal.wide_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per row.")
def command(home: Path, by: str, as_json: bool) -> None:
    """List tokens and money, the most expensive first."""
    from tracklog.answers import (
        answers,
        prices,
    )

    with _home.asking(home) as opened:
        known = prices.load(home)
        rows = answers.costs(opened.index, by, known)
        names = _home.names(opened)
    _table.put(
        rows,
        [
            _table.Column("cost", _table.cost, right=True),
            _table.Column("tokens", lambda row: row["total_tokens"], right=True),
            _table.Column("in", lambda row: row["input_tokens"], rank=2, right=True),
            _table.Column("out", lambda row: row["output_tokens"], rank=1, right=True),
            _table.Column("cached", lambda row: row["cached_tokens"], rank=3, right=True),
            _of(by, names),
        ],
        "nobody said what was spent; `tracklog runs` shows what was heard",
        as_json=as_json,
    )
    if not as_json and any(row["computed_usd"] is not None for row in rows):
        click.echo(f"~ computed, by the list prices of {known.as_of}", err=True)
    unpriced = sorted({model for row in rows for model in row["unpriced_models"]})
    if not as_json and unpriced:
        some = ", ".join(map(terminal.plain, unpriced[:5])) + (", …" if len(unpriced) > 5 else "")
        place = terminal.plain(str(home / prices.OWN))
        click.echo(f"no price is known of {some}; set one in {place}", err=True)


def _of(by: str, names: _table.Names) -> _table.Column:
    """Whose money it is; a run by the name that it can be asked for by."""
    if by != "run":
        return _table.Column("of" if by == "all" else by, lambda row: row["of"], cut=24)
    return _table.Column(
        "run", lambda row: names.of(*row["of"].split(":", 1)), cut=8, least=names.least
    )
