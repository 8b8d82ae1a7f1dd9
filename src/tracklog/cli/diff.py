"""`tracklog diff`: compare two runs."""

from typing import TYPE_CHECKING, Any

import click

from tracklog.cli import _question, _table
from tracklog.cli import _terminal as terminal

if TYPE_CHECKING:
    from tracklog.answers.diff import DiffAnswer, DiffDelta, DiffRow

SHOWN = 40
"""How many differences are shown without --all."""
SIGNS = {"changed": ("~", "yellow"), "only_a": ("-", "red"), "only_b": ("+", "green")}
UNITS = {"cost_usd": "cost", "tokens_in": "tokens in", "tokens_out": "tokens out"}
UNITS |= {"tokens_cached": "tokens cached", "tool_calls": "tool calls"}
UNITS |= {"tool_failures": "failed calls"}


def _show(answer: "DiffAnswer", call: _question.QuestionCall) -> None:
    _DiffPrinter().put(answer, all=call.parameters["all"], exact=call.parameters["exact"])


class _DiffPrinter:
    """The answer for a person."""

    def __init__(self) -> None:
        self.width = terminal.width()

    def put(self, answer: "DiffAnswer", *, all: bool, exact: bool) -> None:
        self.echo(f"--- {answer.a}", fg="red")
        self.echo(f"+++ {answer.b}", fg="green")
        counts = answer.counts
        if answer.same:
            apart = "" if exact else "; ids and times were not compared"
            self.echo(f"the same: {terminal.count(counts.same, 'step')}{apart}")
        else:
            words = [f"{counts.same:,} the same", f"{counts.changed:,} changed"]
            words += [f"{counts.only_a:,} only in the first"]
            words += [f"{counts.only_b:,} only in the second"]
            self.echo(", ".join(words))
            at = answer.at + 1
            self.echo(f"they differ from step {at:,}", bold=True)
        rows = answer.rows if all else answer.rows[:SHOWN]
        for row in rows:
            self.row(row)
        if len(answer.rows) > len(rows):
            left = terminal.count(len(answer.rows) - len(rows), "more difference")
            self.echo(f"… {left}; --all shows them", dim=True)
        self.deltas(answer.deltas)

    def row(self, row: "DiffRow") -> None:
        sign, colour = SIGNS[row.kind]
        for step in (row.a, row.b) if row.kind != "changed" else (row.a,):
            if step is not None:
                who = f"{step.agent}: " if step.agent else ""
                self.echo(f"{sign} {step.seq:>7}  {step.fact:<9} {who}{step.words}", fg=colour)
        if row.kind != "changed" or row.b is None:
            return
        self.echo(f"  {row.b.seq:>7}  in the second run", dim=True)
        for change in row.changes:
            place = f"{'':11}{change.pointer or 'all of it'}"
            self.echo(place, bold=True)
            self.echo(f"{'':11}- {_short(change.a)}", fg="red")
            self.echo(f"{'':11}+ {_short(change.b)}", fg="green")
        if row.more:
            self.echo(f"{'':11}… {terminal.count(row.more, 'more change')}", dim=True)

    def deltas(self, deltas: "dict[str, DiffDelta]") -> None:
        rows = [(name, each) for name, each in deltas.items() if each.a or each.b]
        if not rows:
            return
        click.echo()
        columns = [
            _table.Column("", lambda row: UNITS.get(row[0], row[0])),
            _table.Column("first", lambda row: _amount(row[0], row[1].a), right=True),
            _table.Column("second", lambda row: _amount(row[0], row[1].b), right=True),
            _table.Column("more", lambda row: _more(*row), right=True),
        ]
        _table.put(rows, columns, "")

    def echo(self, text: str, **look: Any) -> None:
        text = terminal.printable(text)
        if self.width is not None:
            text = terminal.fitted(text, self.width).rstrip()
        click.secho(text, **look)


def _amount(name: str, value: float | None) -> str | float | None:
    return _table.money(value) if name == "cost_usd" else value


def _more(name: str, delta: "DiffDelta") -> str | None:
    """How much more than the first run the second has."""
    more = delta.delta
    if name == "cost_usd":
        sign = "+" if more and more > 0 else "-" if more else ""
        return _table.money(None if more is None else abs(more), sign)
    if more is None:
        return None
    return f"+{_table.cell(more)}" if more > 0 else _table.cell(more)


def _short(value: Any) -> str:
    from tracklog.folds import short

    return "nothing" if value is None else " ".join((short(value, 300) or "").split())


command = _question.verb(
    "diff",
    _show,
    click.option("--all", is_flag=True, help="Show every difference, however many."),
    notes="Exit code: 0 the same steps, 1 they differ, 2 usage or I/O.",
    exit_code=lambda answer: 0 if answer.same else 1,
)
