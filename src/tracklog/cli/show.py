"""`tracklog show`: one run at a glance."""

from pathlib import Path

import click

from tracklog.cli import _home, _table
from tracklog.cli import _terminal as terminal


@click.command(
    epilog="""\b
Examples:
  tracklog show agent-coder-1
  tracklog show agent-coder-1 --at 120       (as it was at record 120)
  tracklog show agent-coder-1 --json""",
)
@click.argument("run")
@_home.home_option
@click.option("--at", type=click.IntRange(min=1), metavar="SEQ", help="As it was at this record.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(run: str, home: Path, at: int | None, as_json: bool) -> None:
    """Tell what is known of RUN: status, outcome, agents, tools, tokens, cost, loops."""
    from tracklog import answers  # noqa: PLC0415  # slow to import

    if at is not None:
        with _home.reading(home) as opened:
            row = answers.show_at(opened, ":".join(opened.run(run)), at)
    else:
        with _home.asking(home) as opened:
            row = answers.show(opened.index, ":".join(opened.run(run)), _home.now())
    if as_json:
        terminal.put_json(row)
        return
    for name, value in row.items():
        if value not in (None, [], {}, 0, ""):
            click.echo(f"{click.style(f'{name:<18}', bold=True)} {_table.cell(value)}")
