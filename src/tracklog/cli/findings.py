"""`tracklog findings`: what was surprising, and kept."""

import sys
from pathlib import Path

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal

COLORS = {"error": "red", "warning": "yellow", "info": "cyan"}


@click.command(
    epilog="""\b
Examples:
  tracklog findings
  tracklog findings agent-coder-1
  tracklog findings --json | jq -r .name | sort | uniq -c""",
)
@click.argument("run", required=False)
@_home.home_option
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per finding.")
def command(run: str | None, home: Path, limit: int, as_json: bool) -> None:
    """Print what was surprising in RUN, or in all runs, the newest first.

    Nothing here was refused: what is found is kept, and this says what it was.
    """
    with _home.asking(home) as opened:
        asked = None if run is None else opened.run(run)
        found = opened.index.findings(asked, limit + 1)
        _home.tell(opened.journal.findings)
    for seq, family, name, finding in found[:limit]:
        if as_json:
            said = {"seq": seq, "family": family, "run": name, "name": finding.name}
            terminal.put_json({**said, "level": finding.level, "message": finding.message})
        else:
            shown = click.style(f"{finding.name:<24}", fg=COLORS[finding.level])
            click.echo(f"{seq:>8}  {name[:20]:<20}  {shown} {finding.message}")
    sys.stdout.flush()
    if len(found) > limit:
        click.echo(f"only the newest {limit:,} are shown; --limit shows more", err=True)
    if not found:
        click.echo("nothing surprising was found", err=True)
