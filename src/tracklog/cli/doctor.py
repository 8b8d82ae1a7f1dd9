"""`tracklog doctor`: find problems of a home, with the command that fixes each."""

import sys
import time
from pathlib import Path

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal


@click.command(
    epilog="""\b
Examples:
  tracklog doctor
  tracklog doctor --json | jq 'select(.state != "ok")'
  tracklog doctor --accept

\b
Exit code: 0 no problem, 1 something is wrong.""",
)
@_home.read_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per check.")
@click.option(
    "--accept",
    "accepting",
    is_flag=True,
    help="Accept the data that recovery after a crash set aside.",
)
def command(home: Path, as_json: bool, accepting: bool) -> None:
    """Check the home: permissions, free space, the chain, the clock, versions.

    Data that recovery after a crash set aside is reported here and by `verify` until --accept.
    """
    from tracklog.answers.doctor import accept, doctor

    home = _home.local(home, "`tracklog store status URL` looks at a database")
    wrong = False
    if accepting:
        for path in accept(home, time.time()):
            click.echo(f"accepted {path.name}, on record in {home / 'accepted'}", err=True)
    for check in doctor(home, time.time()):
        wrong = wrong or check.state == "error"
        if as_json:
            terminal.put_json(check)
            continue
        colour = {"ok": "green", "warning": "yellow", "error": "red"}[check.state]
        click.echo(
            f"{click.style(f'{check.state:<8}', fg=colour)} {check.name:<12} {check.message}"
        )
        if check.remedy:
            click.echo(f"{'':21} {check.remedy}")
    sys.exit(1 if wrong else 0)
