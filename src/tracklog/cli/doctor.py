"""`tracklog doctor`: find problems of a record, with the command that fixes each."""

import sys
import time

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
    help="Accept that data was set aside after a crash; it is not reported again.",
)
def command(home: _home.Place, as_json: bool, accepting: bool) -> None:
    """Check the record: permissions, free space, the chain, the clock, versions.

    After a crash, incomplete data is set aside. This command and `verify` report it until you run
    `tracklog doctor --accept`.
    """
    from tracklog.answers.doctor import accept, doctor

    folder, wrong = _home.folder_of(home), False
    if accepting:
        for path in accept(folder, time.time()):
            click.echo(f"accepted {path.name}; {folder / 'accepted'} lists it", err=True)
    place, folders = _home.url_and_folders(home)
    for check in doctor(place, time.time(), folders):
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
