"""`tracklog runs`: the current state of every run."""

from typing import TYPE_CHECKING

import click

from tracklog.cli import _question, _table

if TYPE_CHECKING:
    from tracklog.answers.run_list import RunRow

_FILTERS = (
    "status", "project", "branch", "model", "agent", "outcome", "dialect", "since", "until", "text",
)  # fmt: skip  # one list


def _show(rows: "list[RunRow]", call: _question.QuestionCall) -> None:
    columns = [
        _table.Column("status", lambda row: row.status),
        call.names.column(),
        _table.Column("outcome", lambda row: row.outcome, rank=1, cut=9),
        _table.Column("agents", lambda row: len(row.agents), rank=7, right=True),
        _table.Column("calls", lambda row: row.tool_calls, rank=3, right=True),
        _table.Column("failed", lambda row: row.tool_failures, rank=5, right=True),
        _table.Column("tokens", lambda row: row.tokens, rank=6, right=True),
        _table.Column("cost", _table.cost, rank=4, right=True),
        _table.Column("last activity", lambda row: _table.ago(row.silent_seconds), right=True),
        _table.Column("title", lambda row: row.title, rank=2, cut=16),
    ]
    filtered = any(call.parameters[name] for name in _FILTERS) or call.parameters["within"] != "all"
    empty = "no runs yet; `tracklog import` or `tracklog record` adds the first"
    _table.put(
        rows, columns, "no such run; `tracklog runs` lists all of them" if filtered else empty
    )
    _count_rest(len(rows), call)


def _count_rest(rows: int, call: _question.QuestionCall) -> None:
    """Print how many more runs there are, and how to see them."""
    from tracklog.answers.run_params import listed

    limit, newest = call.parameters["limit"], call.parameters["newest"]
    if rows == limit:
        matching = listed(call.home, **{**call.parameters, "after": 0, "limit": 0}).matching
        if matching > limit:
            click.echo(f"and {matching - limit:,} more; --limit {matching} shows all", err=True)
    known = len(call.home.runs())
    if known > newest:
        words = f"only the {newest:,} runs recorded last were searched"
        click.echo(f"{words}; --newest {known} searches all", err=True)


command = _question.verb("runs", _show, notes=_table.MONEY)
