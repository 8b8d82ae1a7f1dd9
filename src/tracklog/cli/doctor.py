"""`tracklog doctor`: find problems of a journal, with the command that fixes each."""

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
    help="Accept that incomplete data was moved to quarantine; it is not reported again.",
)
def command(home: _home.Place, as_json: bool, accepting: bool) -> None:
    """Check the journal: permissions, free space, the chain, the clock, versions.

    After a crash, incomplete data is moved to the folder `quarantine` in the home. This command and
    `verify` report it until you run `tracklog doctor --accept`.
    """
    from tracklog.answers.doctor import accept, doctor

    folder, wrong = _home.folder_of(home), False
    if accepting:
        accepted = accept(folder, time.time(), _home.user_name())
        if accepted:
            _home.record_act(home, "accept", files=[path.name for path in accepted])
        for path in accepted:
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
