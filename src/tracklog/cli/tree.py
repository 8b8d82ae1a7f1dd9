"""`tracklog tree`: which run called which."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracklog.cli import _home, _table
from tracklog.cli import _terminal as terminal

if TYPE_CHECKING:
    from tracklog.folds.tree import Branch


@click.command(
    epilog="""\b
Examples:
  tracklog tree
  tracklog tree agent-coder-1 --json""",
)
@_home.run_argument(required=False)
@_home.home_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per run.")
def command(run: str | None, home: Path, as_json: bool) -> None:
    """Draw the runs below RUN, or all of them, with their sub-runs at any depth."""
    from tracklog import answers  # noqa: PLC0415  # slow to import

    with _home.asking(home) as opened:
        root = ":".join(opened.run(run)) if run else None
        branches = answers.tree(opened.index, root)
        rows = [] if as_json else answers.runs(opened.index, _home.now(), None)
        names = _home.names(opened)
    known = {f"{row['family']}:{row['run']}": row for row in rows}
    for branch in branches:
        if as_json:
            terminal.put_json(asdict(branch))
        else:
            _put(branch, known.get(branch.key), names)
    if not branches and not as_json:
        click.echo("no runs yet; `tracklog import` or `tracklog record` brings the first")


def _put(branch: "Branch", row: dict[str, Any] | None, names: "_table.Names") -> None:
    """A run at its depth, how it is, and the handoffs in it; each on one line that fits."""
    width = terminal.width()
    indent = "   " * branch.depth + ("└─ " if branch.depth else "")
    family, _, run = branch.key.partition(":")
    notes = [branch.kind] if branch.kind else []
    notes += ["nothing heard of it"] if branch.missing else []
    notes += ["shown above"] if branch.again else []
    if row is not None:
        notes.append(_table.cell(row["title"]) if row["title"] else "")
    status = row["status"] if row is not None else "-"
    name = names.of(family, run) if row is not None else branch.key
    head = terminal.plain(f"{indent}{name}")
    said = terminal.plain("  ".join(filter(None, notes)))
    if width is not None:
        head = terminal.fitted(head, min(terminal.cells(head), max(8, width - 10)))
        room = width - terminal.cells(head) - len(status) - 4
        said = terminal.fitted(said, room).rstrip() if room > 4 else ""
    shown = click.style(status, fg=_table.COLOURS.get(status))
    click.echo(f"{head}  {shown}  {click.style(said, dim=True)}" if said else f"{head}  {shown}")
    for handoff in branch.handoffs:
        between = " → ".join(_table.cell(end) for end in handoff[1:3])
        line = terminal.plain(f"{'   ' * (branch.depth + 1)}{handoff[0]} {between}")
        click.secho(line if width is None else terminal.fitted(line, width).rstrip(), dim=True)
