"""`tracklog restore`: a home from an archive."""

from pathlib import Path

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal
from tracklog.cli._progress import progress_bar


@click.command(
    epilog="""\b
Examples:
  tracklog restore s3://bucket/tracklog ./restored
  tracklog restore /mnt/archive ./restored
  tracklog store copy file:./restored postgresql://tracklog@db.example/tracklog""",
)
@click.argument("archive")
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(archive: str, target: Path, as_json: bool) -> None:
    """Make the folder TARGET from an ARCHIVE, and verify it.

    ARCHIVE is what `tracklog archive` wrote: a folder or `s3://bucket/prefix`. The folder is a
    home: `--home TARGET` reads and writes it. One record is added to it: who restored it.
    """
    from tracklog.journal.archive.objects import open_objects
    from tracklog.journal.archive.reader import ArchiveReader
    from tracklog.journal.backup import restore

    with progress_bar("restoring", _home.MANY) as progress:
        head = restore(ArchiveReader(open_objects(archive)), target, progress)
    _home.record_act(target, "restore", source=archive, head=str(head))
    if as_json:
        terminal.put_json({"target": str(target), "head": str(head)})
    else:
        click.echo(terminal.printable(f"{target}: proven, head {head}"))
