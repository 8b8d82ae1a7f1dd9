"""`tracklog query`: a question in SQL, which can change nothing."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from tracklog.cli import _home, _table
from tracklog.cli import _terminal as terminal

LEAST = 6
"""Columns that a value keeps."""


@click.command(
    epilog="""\b
Examples:
  tracklog query "SELECT run, outcome FROM runs WHERE passed = 0"
  tracklog query "SELECT name, count(*) AS n FROM findings GROUP BY name ORDER BY n DESC"
  tracklog query "SELECT name FROM sqlite_schema WHERE type = 'view'"     (what can be asked)
  tracklog query "SELECT * FROM tools" --json | jq""",
)
@click.argument("sql")
@_home.read_option
@click.option("--limit", type=click.IntRange(min=1), default=1000, show_default=True)
@click.option("--seconds", type=click.FloatRange(min=0.1), default=10, show_default=True)
@terminal.wide_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per row.")
def command(sql: str, home: Path, limit: int, seconds: float, as_json: bool) -> None:
    """Answer SQL from the index; each fold is a table, its state's fields are the columns.

    Only one SELECT is answered: the index is opened so that nothing can be changed.
    """
    from tracklog.answers import answers

    with _home.asking(home) as opened:
        answer = answers.query(opened.index, sql, limit, seconds)
    if as_json:
        for row in answer.rows:
            terminal.put_json(dict(zip(answer.columns, map(_json, row), strict=True)))
        sys.stdout.flush()
    else:
        _rows(answer.columns, answer.rows)
    if answer.cut:
        click.echo(f"only the first {limit:,} rows are shown; --limit shows more", err=True)


def _json(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value


def _rows(columns: list[str], rows: list[tuple[Any, ...]]) -> None:
    """A table in which every column may be cut, where it has to fit; no column is left out."""
    if not rows:
        tables = "SELECT name FROM sqlite_schema WHERE type = 'view'"
        click.echo(f'no rows; `tracklog query "{tables}"` lists what can be asked', err=True)
        return
    shown = [
        _table.Column(terminal.plain(name), _nth(n), cut=LEAST) for n, name in enumerate(columns)
    ]
    _table.put([{"row": row} for row in rows], shown, "", as_json=False)


def _nth(n: int) -> Callable[[dict[str, Any]], str]:
    return lambda row: _text(row["row"][n])


def _text(value: Any) -> str:
    return "" if value is None else " ".join(str(_json(value)).split())
