"""`tracklog tree`: which run called which."""

from dataclasses import asdict
from pathlib import Path

import click

from tracklog.cli import _home, _table
from tracklog.cli import _terminal as terminal


@click.command(
    epilog="""\b
Examples:
  tracklog tree
  tracklog tree agent-coder-1 --json""",
)
@click.argument("run", required=False)
@_home.home_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per run.")
def command(run: str | None, home: Path, as_json: bool) -> None:
    """Draw the runs below RUN, or all of them, with their sub-runs at any depth."""
    from tracklog import answers  # noqa: PLC0415  # slow to import

    with _home.asking(home) as opened:
        root = ":".join(opened.run(run)) if run else None
        branches = answers.tree(opened.index, root)
    for branch in branches:
        if as_json:
            terminal.put_json(asdict(branch))
            continue
        notes = [branch.kind] if branch.kind else []
        notes += ["nothing heard of it"] if branch.missing else []
        notes += ["shown above"] if branch.again else []
        note = click.style(f"  ({', '.join(notes)})", dim=True) if notes else ""
        click.echo(
            f"{'   ' * branch.depth}{'└─ ' if branch.depth else ''}{_table.cell(branch.key)}{note}"
        )
        for handoff in branch.handoffs:
            between = " -> ".join(str(end) for end in handoff[:2])
            click.echo(f"{'   ' * (branch.depth + 1)}{click.style(f'handoff {between}', dim=True)}")
    if not branches and not as_json:
        click.echo("no runs yet; `tracklog record` keeps the first")
