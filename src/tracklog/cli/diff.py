"""`tracklog diff`: where two runs part."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracklog.cli import _home, _table
from tracklog.cli import _terminal as terminal

if TYPE_CHECKING:
    from tracklog.answers.diff import Diff, Row

SHOWN = 40
"""Differences that are shown, unless all are asked for."""
SIGNS = {"changed": ("~", "yellow"), "only_a": ("-", "red"), "only_b": ("+", "green")}
UNITS = {"cost_usd": "cost", "tokens_in": "tokens in", "tokens_out": "tokens out"}
UNITS |= {"tokens_cached": "tokens cached", "tool_calls": "tool calls"}
UNITS |= {"tool_failures": "failed calls"}


@click.command(
    epilog="""\b
Examples:
  tracklog diff agent-coder-1 agent-coder-2
  tracklog diff nightly-41 nightly-42 --json | jq .first
  tracklog diff a b --exact              (ids and times count, too)

\b
Exit code: 0 the same steps, 1 they differ, 2 usage or I/O.""",
)
@_home.run_argument("run_a")
@_home.run_argument("run_b")
@_home.read_option
@click.option("--exact", is_flag=True, help="Ids and times count, too.")
@click.option("--all", "whole", is_flag=True, help="Show every difference, however many.")
@terminal.wide_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(run_a: str, run_b: str, home: Path, exact: bool, whole: bool, as_json: bool) -> None:
    """Lay RUN_A and RUN_B side by side: what was said, called, decided, and what it took.

    Ids and times of the two runs are not compared; what each took, in time, tokens and money, is
    told beside the steps.
    """
    from tracklog.answers.diff import asked

    with _home.asking(home) as opened:
        answer = asked(opened, run_a, run_b, exact)
    if as_json:
        terminal.put_json(answer)
    else:
        _Words().put(answer, whole=whole)
    sys.stdout.flush()
    sys.exit(0 if answer.same else 1)


class _Words:
    """The answer for a person."""

    def __init__(self) -> None:
        self.width = terminal.width()

    def put(self, answer: "Diff", *, whole: bool) -> None:
        self.say(f"--- {answer.a}", fg="red")
        self.say(f"+++ {answer.b}", fg="green")
        counts = answer.counts
        if answer.same:
            self.say(f"the same: {terminal.count(counts['same'], 'step')}, ids and times apart")
        else:
            words = [f"{counts['same']:,} the same", f"{counts['changed']:,} changed"]
            words += [f"{counts['only_a']:,} only in the first"]
            words += [f"{counts['only_b']:,} only in the second"]
            self.say(", ".join(words))
            at = answer.at + 1
            self.say(f"they part at step {at:,}", bold=True)
        rows = answer.rows if whole else answer.rows[:SHOWN]
        for row in rows:
            self.row(row)
        if len(answer.rows) > len(rows):
            left = terminal.count(len(answer.rows) - len(rows), "more difference")
            self.say(f"… {left}; --all shows them", dim=True)
        self.deltas(answer.deltas)

    def row(self, row: "Row") -> None:
        sign, colour = SIGNS[row.kind]
        for step in (row.a, row.b) if row.kind != "changed" else (row.a,):
            if step is not None:
                who = f"{step['agent']}: " if step["agent"] else ""
                self.say(
                    f"{sign} {step['seq']:>7}  {step['fact']:<9} {who}{step['words']}", fg=colour
                )
        if row.kind != "changed" or row.b is None:
            return
        self.say(f"  {row.b['seq']:>7}  in the second run", dim=True)
        for change in row.changes:
            place = f"{'':11}{change.pointer or 'all of it'}"
            self.say(place, bold=True)
            self.say(f"{'':11}- {_short(change.a)}", fg="red")
            self.say(f"{'':11}+ {_short(change.b)}", fg="green")
        if row.more:
            self.say(f"{'':11}… {terminal.count(row.more, 'more change')}", dim=True)

    def deltas(self, deltas: dict[str, dict[str, Any]]) -> None:
        rows = [
            {"what": UNITS.get(name, name), **(_dollars(each) if name == "cost_usd" else each)}
            for name, each in deltas.items()
            if each["a"] or each["b"]
        ]
        if not rows:
            return
        click.echo()
        columns = [
            _table.Column("", lambda row: row["what"]),
            _table.Column("first", lambda row: row["a"], right=True),
            _table.Column("second", lambda row: row["b"], right=True),
            _table.Column("more", lambda row: _signed(row["delta"]), right=True),
        ]
        _table.put(rows, columns, "")

    def say(self, text: str, **look: Any) -> None:
        text = terminal.plain(text)
        if self.width is not None:
            text = terminal.fitted(text, self.width).rstrip()
        click.secho(text, **look)


def _dollars(amounts: dict[str, Any]) -> dict[str, str]:
    """An amount in both runs, and by how much the second is more."""
    more = amounts["delta"]
    sign = "+" if more and more > 0 else "-" if more else ""
    shown = {name: _table.money(amounts[name]) for name in ("a", "b")}
    return {**shown, "delta": _table.money(None if more is None else abs(more), sign)}


def _short(value: Any) -> str:
    from tracklog.folds import short

    return "nothing" if value is None else " ".join((short(value, 300) or "").split())


def _signed(delta: float | str | None) -> str | None:
    if delta is None or isinstance(delta, str):
        return delta
    return f"+{_table.cell(delta)}" if delta > 0 else _table.cell(delta)
