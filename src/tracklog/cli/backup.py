"""`tracklog backup`: a consistent copy, while others write."""

from pathlib import Path

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal
from tracklog.cli._progress import progress_bar


@click.command(
    epilog="""\b
Examples:
  tracklog backup /mnt/backup/tracklog-2026-05-05
  tracklog verify --home /mnt/backup/tracklog-2026-05-05""",
)
@click.argument("target", type=click.Path(path_type=Path))
@_home.home_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(target: Path, home: Path, as_json: bool) -> None:
    """Copy the record to the folder TARGET as it is at one point in time, and verify the copy.

    The copy is a home: `--home TARGET` reads and writes it.
    """
    from tracklog.journal.backup import backup

    with _home.reading(home) as opened, progress_bar("copying", _home.MANY) as progress:
        head = backup(opened.storage, target, progress)
    if as_json:
        terminal.put_json({"target": str(target), "head": str(head)})
    else:
        click.echo(terminal.printable(f"{target}: proven, head {head}"))
