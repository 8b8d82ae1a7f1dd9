"""`tracklog tree`: runs and their sub-runs."""

import sys
from collections.abc import Sequence

import click

from tracklog.answers.tree import TreeRow, with_runs
from tracklog.cli import _question, _table
from tracklog.cli import _terminal as terminal


def _show(rows: list[TreeRow], call: _question.QuestionCall) -> None:
    run, all_shown = call.parameters["run"], call.parameters["all"]
    branches = rows if call.parameters["around"] else with_runs(call.home, rows)
    alone = set() if all_shown or run else _alone(branches)
    visible = [branch for n, branch in enumerate(branches) if n not in alone]
    for branch, (bars, below) in zip(visible, _drawn(visible), strict=True):
        _put(branch, bars, below, call.names)
    if not branches:
        click.echo("no runs yet; `tracklog import` or `tracklog record` adds the first")
    elif alone:
        sys.stdout.flush()
        words = terminal.count(len(alone), "run")
        click.echo(f"and {words} without sub-runs; --all shows all", err=True)
    newest = call.parameters["newest"]
    if run is None and not all_shown and len(branches) >= newest:
        sys.stdout.flush()
        click.echo(
            f"only the trees of the {newest:,} runs recorded last are here; --all shows all",
            err=True,
        )


def _alone(branches: Sequence[TreeRow]) -> set[int]:
    """The positions of the runs that have neither a parent nor a child nor a handoff."""
    after = [branch.depth for branch in branches[1:]] + [0]
    return {
        n for n, branch in enumerate(branches) if not (branch.depth or after[n] or branch.handoffs)
    }


def _drawn(branches: Sequence[TreeRow]) -> list[tuple[str, str]]:
    """The prefix of each branch, and of its further lines."""
    drawn: list[tuple[str, str]] = []
    going_on: list[bool] = []  # by depth: whether a sibling follows
    for branch in reversed(branches):
        depth = branch.depth
        going_on += [False] * (depth + 1 - len(going_on))
        children = len(going_on) > depth + 1 and going_on[depth + 1]
        above = "".join("│  " if going_on[n] else "   " for n in range(1, depth))
        corner = ("├─ " if going_on[depth] else "└─ ") if depth else ""
        own = ("│  " if going_on[depth] else "   ") if depth else ""
        drawn.append((above + corner, above + own + ("│  " if children else "   ")))
        del going_on[depth + 1 :]
        going_on[depth] = True
    return drawn[::-1]


def _put(branch: TreeRow, bars: str, below: str, names: _table.RunNames) -> None:
    """A run at its depth, its state, and its handoffs; each on one line that fits."""
    width, row = terminal.width(), branch.run
    family, _, run = branch.key.partition(":")
    notes = [branch.kind] if branch.kind else []
    notes += ["no events"] if branch.missing else []
    notes += ["shown above"] if branch.again else []
    if row is not None:
        notes.append(_table.cell(row.title) if row.title else "")
    status = row.status if row is not None else "-"
    name = names.of(family, run) if row is not None else branch.key
    head = terminal.printable(f"{bars}{name}")
    text = terminal.printable("  ".join(filter(None, notes)))
    if width is not None:
        head = terminal.fitted(head, min(terminal.cells(head), max(8, width - 10)))
        room = width - terminal.cells(head) - len(status) - 4
        text = terminal.fitted(text, room).rstrip() if room > 4 else ""
    label = click.style(status, fg=_table.COLOURS.get(status))
    click.echo(f"{head}  {label}  {click.style(text, dim=True)}" if text else f"{head}  {label}")
    for handoff in branch.handoffs:
        between = " → ".join(_table.cell(end) for end in handoff[1:3])
        line = terminal.printable(f"{below}{handoff[0]} {between}")
        click.secho(line if width is None else terminal.fitted(line, width).rstrip(), dim=True)


command = _question.verb(
    "tree",
    _show,
    click.option(
        "--all",
        is_flag=True,
        help="Show every run, also those without sub-runs; --json always has these.",
    ),
)
