"""`tracklog checkpoint`: sign how many records there are, and their hash."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracklog.cli import _home, _options, _writing
from tracklog.cli import _terminal as terminal

if TYPE_CHECKING:
    from tracklog.journal.checkpoints.notes import Note


@click.command(
    epilog="""\b
Examples:
  tracklog checkpoint --out /mnt/elsewhere/checkpoint
  tracklog verify --checkpoint /mnt/elsewhere/checkpoint
  tracklog checkpoint --witness http://witness.example:4319 --publish git:./checkpoints
  tracklog checkpoint --origin recorder.example/team-a    (the first time: its name)

\b
Exit code: 0 signed, 1 the journal was rewritten, or a witness or a place knows another history of
it (then nothing is written), 2 usage or I/O.
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
    it covers, even if the whole journal was rewritten. Store the checkpoint where
    nobody who can change the journal can change it, and note the public key that is printed.
    """
    from tracklog.collector.checkpointing import newer, record_refusal
    from tracklog.collector.publishers import WitnessRefused, open_publisher, publish_all
    from tracklog.journal.checkpoints.checkpoint import Checkpoints
    from tracklog.model.errors import NotExtended

    urls = _options.published_to(places, witnesses)
    publishers = {url: open_publisher(url) for url in urls}
    with _home.reading(home) as opened:
        is_new = newer(opened) > 0
    if is_new:
        _home.record_act(home, "checkpoint", to=urls)
    try:
        with _home.reading(home) as opened, Checkpoints(opened.storage, key, origin) as checkpoints:
            note, failures = publish_all(checkpoints, checkpoints.make(), publishers)
            public = str(checkpoints.key)
    except NotExtended as error:
        with _home.writing(home) as opened:
            record_refusal(opened, error)
        raise
    refusals = [each for each in failures if isinstance(each, WitnessRefused)]
    if refusals:
        with _home.writing(home) as opened:
            record_refusal(opened, refusals[0])
    else:
        _print(note, public, out, as_json=as_json)
    for failure in failures:
        terminal.print_error(failure.message, failure.hint)
    if failures:
        sys.exit(1 if refusals else 2)


def _print(note: "Note", public: str, out: Path | None, *, as_json: bool) -> None:
    """Write a checkpoint that nobody refused to its file, and print it."""
    from tracklog.journal.checkpoints.checkpoint import Checkpoint

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
