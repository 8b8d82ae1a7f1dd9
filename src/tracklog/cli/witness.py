"""`tracklog witness`: sign the checkpoints of other journals, if they continue what was seen."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracklog.cli import _home, _options
from tracklog.cli import _terminal as terminal

if TYPE_CHECKING:
    from tracklog.journal.checkpoints.witness import Witness

FOLDER = "~/.local/share/tracklog-witness"
_EXAMPLES = """\b
Examples:
  tracklog witness trust 'recorder.example/team-a+1f3a9c20+AQ…'   (the key that checkpoint prints)
  tracklog witness serve --host 0.0.0.0
  tracklog serve --witness http://witness.example:4319            (on the machine of the journal)
  tracklog witness status"""


@click.group(epilog=_EXAMPLES)
def command() -> None:
    """Sign the checkpoints of journals on other machines, if they continue what was seen before.

    A witness remembers the last checkpoint of each journal, and refuses a new one that does not
    continue it. So nobody can rewrite records that a checkpoint covers without being noticed. Two
    machines can witness each other.
    """


def _folder_option(verb: _options.F) -> _options.F:
    return click.option(
        "--folder",
        type=click.Path(file_okay=False, path_type=Path),
        default=FOLDER,
        show_default=True,
        metavar="DIR",
        help="The folder of the witness: its key, and what it has seen.",
    )(verb)


def _name_option(verb: _options.F) -> _options.F:
    return click.option(
        "--name", metavar="NAME", help="The name of the witness, chosen with its first command."
    )(verb)


def _opened(folder: Path, name: str | None = None) -> "Witness":
    from tracklog.journal.checkpoints.witness import Witness

    return Witness(_home.expanded(folder), name)


@command.command(epilog=_EXAMPLES)
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@_folder_option
@_name_option
def trust(keys: tuple[str, ...], folder: Path, name: str | None) -> None:
    """Witness the journals of these public KEYs."""
    from tracklog.journal.checkpoints.notes import Verifier

    with _opened(folder, name) as witness:
        for key in map(Verifier.of, keys):
            witness.trust(key, _home.user_name())
            click.echo(terminal.printable(f"{key.name} is witnessed"))


@command.command(
    epilog="""\b
Examples:
  tracklog witness serve
  tracklog witness serve --host 0.0.0.0 --port 4319 --name witness.example/w1
  tracklog witness serve --alert https://alerts.example/hook

\b
Its protocol is C2SP tlog-witness: POST /add-checkpoint. GET /logs, /alerts and /key show what it knows;
nothing of it is secret.""",
)
@_folder_option
@_options.listen_options(4319)
@_name_option
@click.option(
    "--alert", metavar="URL", help="Post a text to this URL when a checkpoint is refused."
)
def serve(folder: Path, host: str, port: int, name: str | None, alert: str | None) -> None:
    """Sign the checkpoints that journals send, until Ctrl-C."""
    from tracklog.cli import _witness_server as witness_server
    from tracklog.cli.serve import url_of
    from tracklog.collector import server

    with _opened(folder, name) as witness, server.listen(host, port) as bound:
        where = url_of(bound)

        def ready() -> None:
            click.echo(f"the witness is at {where}")
            click.echo(f"key {witness.key}")

        witness_server.serve(witness_server.WitnessServer(witness, alert), bound, ready)


@command.command(epilog=_EXAMPLES)
@_folder_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def status(folder: Path, as_json: bool) -> None:
    """Show the journals, their last checkpoints, and what was refused; exit code 1 after a refusal."""
    from tracklog.journal.checkpoints.checkpoint import Checkpoint
    from tracklog.journal.checkpoints.notes import read_note

    with _opened(folder) as witness:
        logs, alerts, key = witness.logs(), witness.alerts(), str(witness.key)
        changes = witness.changes()
    if as_json:
        terminal.put_json(
            {
                "key": key,
                "logs": [each._asdict() for each in logs],
                "alerts": [each._asdict() for each in alerts],
                "changes": [each._asdict() for each in changes],
            }
        )
    else:
        click.echo(f"key {key}")
        for log in logs:
            known = "no checkpoint yet"
            if log.note:
                size = Checkpoint.of(read_note(log.note.encode()).text).size
                known = f"{terminal.count(size, 'record')}, signed at {log.at}"
            click.echo(terminal.printable(f"{log.origin}: {known}"))
        for change in changes:
            text = f"{change.at} {change.by} had {change.key.partition('+')[0]} witnessed"
            click.echo(terminal.printable(text))
        for alert in alerts:
            text = f"{alert.at} a checkpoint of {alert.origin} was refused: {alert.why}"
            click.secho(terminal.printable(text), fg="red")
    sys.exit(1 if alerts else 0)
