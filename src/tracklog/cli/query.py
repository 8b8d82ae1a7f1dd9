"""`tracklog query`: a read-only SQL query."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from tracklog.cli import _question, _table
from tracklog.cli import _terminal as terminal

if TYPE_CHECKING:
    from tracklog.answers.query import QueryAnswer

LEAST = 6
"""The smallest width of a column."""


def _show(answer: "QueryAnswer", call: _question.QuestionCall) -> None:
    """A table in which every column may be cut to fit; no column is left out."""
    if answer.rows:
        columns = [
            _table.Column(terminal.printable(name), _nth(n), cut=LEAST)
            for n, name in enumerate(answer.columns)
        ]
        _table.put(answer.rows, columns, "")
    else:
        tables = "SELECT name FROM sqlite_schema WHERE type = 'view'"
        click.echo(f'no rows; `tracklog query "{tables}"` lists the tables', err=True)
    _report_cut(answer, call)


def _json(
    answer: "QueryAnswer", call: _question.QuestionCall
) -> list[dict[str, str | int | float | None]]:
    """A row as an object, by the names of its columns."""
    _report_cut(answer, call)
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


def _report_cut(answer: "QueryAnswer", call: _question.QuestionCall) -> None:
    sys.stdout.flush()
    if answer.cut:
        limit = call.parameters["limit"]
        click.echo(f"only the first {limit:,} rows are shown; --limit shows more", err=True)


def _nth(n: int) -> Callable[[Sequence[Any]], str]:
    return lambda row: "" if row[n] is None else " ".join(str(row[n]).split())


command = _question.verb("query", _show, as_json=_json)
