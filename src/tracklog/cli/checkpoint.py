"""`tracklog checkpoint`: sign how many records there are, and their hash."""

import sys
from pathlib import Path

import click

from tracklog.cli import _home, _options, _writing
from tracklog.cli import _terminal as terminal


@click.command(
    epilog="""\b
Examples:
  tracklog checkpoint --out /mnt/elsewhere/checkpoint
  tracklog verify --checkpoint /mnt/elsewhere/checkpoint
  tracklog checkpoint --witness http://witness.example:4319 --publish git:./checkpoints
  tracklog checkpoint --origin recorder.example/team-a    (the first time: its name)

\b
Exit code: 0 signed, 1 a witness knows another history of this journal, 2 usage or I/O.
Signatures need `pip install 'tracklog[sign]'`.""",
)
@_home.home_option
@click.option(
    "-o",
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the checkpoint to this file.  [default: standard output]",
)
@_options.publish_options
@click.option(
    "--key",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The private key; made if it does not exist.  [default: checkpoint.key in the home]",
)
@click.option(
    "--origin",
    metavar="NAME",
    help="The name of this journal in its checkpoints, chosen with the first one.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    home: Path,
    out: Path | None,
    places: tuple[str, ...],
    witnesses: tuple[str, ...],
    key: Path | None,
    origin: str | None,
    as_json: bool,
) -> None:
    """Sign a checkpoint: the number of records, and the root of a hash tree over all of them.

    With a checkpoint, `tracklog verify --checkpoint` later detects every change to the records that
    it covers, even if the whole journal was rewritten. Store the checkpoint in a place to which
    those who can write to the record cannot write, and note the public key that is printed.
    """
    from tracklog.collector.publishers import WitnessRefused, open_publisher, publish_all
    from tracklog.journal.checkpoints.checkpoint import Checkpoint, Checkpoints

    with _home.reading(home) as opened, Checkpoints(opened.storage, key, origin) as checkpoints:
        urls = _options.published_to(places, witnesses)
        publishers = {url: open_publisher(url) for url in urls}
        note, failures = publish_all(checkpoints, checkpoints.make(), publishers)
        public = str(checkpoints.key)
    made = Checkpoint.of(note.text)
    if out is not None:
        _writing.put([str(note).encode()], out)
    if as_json:
        row = {"origin": made.origin, "records": made.size, "root": made.root.hex()}
        terminal.put_json({**row, "runs": made.runs, "key": public, "checkpoint": str(note)})
    elif out is None:
        click.echo(str(note), nl=False)
        click.echo(f"key {public}", err=True)
    else:
        click.echo(terminal.printable(f"{out}: {terminal.count(made.size, 'record')} signed"))
        click.echo(f"key {public}")
    for error in failures:
        terminal.print_error(error.message, error.hint)
    if failures:
        sys.exit(1 if any(isinstance(each, WitnessRefused) for each in failures) else 2)
