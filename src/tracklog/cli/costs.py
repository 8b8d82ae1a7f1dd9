"""`tracklog costs`: tokens and money by model, day, agent or run."""

import sys
from typing import TYPE_CHECKING

import click

from tracklog.answers import prices
from tracklog.answers.costs import BUCKETS
from tracklog.cli import _question, _table
from tracklog.cli import _terminal as terminal

if TYPE_CHECKING:
    from tracklog.answers.costs import CostRow

_WIDTH = 20  # columns of a bar


def _show(rows: "list[CostRow]", call: _question.QuestionCall) -> None:
    by = call.parameters["by"] or ("run",)
    highest = max((_spent(row) for row in rows), default=0)
    when = [_table.Column("begin", lambda row: row.begin)]
    bars = [_table.Column("", lambda row: _bar(_spent(row), highest), rank=4)]
    names = [each for each in by if each not in BUCKETS]
    columns = [
        *(when if len(names) < len(by) else ()),
        _table.Column("cost", _table.cost, right=True),
        *(bars if len(names) < len(by) else ()),
        _table.Column("tokens", lambda row: row.total_tokens, right=True),
        _table.Column("in", lambda row: row.input_tokens, rank=2, right=True),
        _table.Column("out", lambda row: row.output_tokens, rank=1, right=True),
        _table.Column("cached", lambda row: row.cached_tokens, rank=3, right=True),
        *(_of(each, nth, call.names) for nth, each in enumerate(dict.fromkeys(names))),
    ]
    _table.put(rows, columns, "no spend was recorded; `tracklog runs` shows what was recorded")
    _put_more(rows, call)
    if any(row.computed_usd is not None for row in rows):
        own = call.path / prices.OWN
        before = f"the prices in {terminal.printable(str(own))}, else by " if own.exists() else ""
        listed = prices.load().as_of
        click.echo(f"~ computed, by {before}the list prices of {listed}", err=True)
    unpriced = sorted({model for row in rows for model in row.unpriced_models})
    if unpriced:
        some = ", ".join(map(terminal.printable, unpriced))
        place = terminal.printable(str(call.path / prices.OWN))
        click.echo(f"no price is known for {some}; set one in {place}", err=True)


def _put_more(rows: "list[CostRow]", call: _question.QuestionCall) -> None:
    newest, by = call.parameters["newest"], call.parameters["by"] or ("run",)
    is_bounded = "run" in by and not (call.parameters["all"] or call.parameters["run"])
    if is_bounded and len(call.home.index.newest_stored("runs", newest)) == newest:
        sys.stdout.flush()
        click.echo(f"of the {newest:,} runs recorded last; --all adds up all of them", err=True)
    else:
        _question.put_more(rows, call)


def _spent(row: "CostRow") -> float:
    return (row.cost_usd or 0) + (row.computed_usd or 0)


def _bar(value: float, highest: float) -> str:
    """A bar whose length is the share of the highest."""
    eighths = round(value / highest * _WIDTH * 8) if highest else 0
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _of(by: str, nth: int, names: _table.RunNames) -> _table.Column:
    """A name of the row; a run under the name by which it can be requested."""

    def key(row: "CostRow") -> str | None:
        return row.also_of if nth else row.of

    if by != "run":
        return _table.Column("of" if by == "all" else by, key, cut=24)

    def run(row: "CostRow") -> str | None:
        named = key(row)
        return None if named is None else names.of(*named.split(":", 1))

    return _table.Column("run", run, cut=8, least=names.least)


_NOTES = f"""{_table.MONEY}

\b
Your own prices go into prices.json in the home, in dollars per million tokens:
  {{"models": {{"MODEL": [{{"from": "2026-01-01", "input": 1, "output": 4}}]}}}}"""
command = _question.verb("costs", _show, _question.all_option, notes=_NOTES)
