"""`tracklog backup`: a consistent copy, while others write."""

import sys
from pathlib import Path

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal


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
    """Copy the home to TARGET as it is at one point in time, and verify the copy."""
    from tracklog.journal.backup import backup

    home = _home.local(home, "`tracklog store copy URL file:DIR` copies it to a folder")
    _home.reading(home).close()
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(file=terminal.drawn(sys.stderr))) as bar:
            task = bar.add_task("copying", total=None)
            head = backup(
                home, target, lambda done, all_: bar.update(task, completed=done, total=all_)
            )
    else:
        head = backup(home, target)
    if as_json:
        terminal.put_json({"target": str(target), "head": str(head)})
    else:
        click.echo(terminal.plain(f"{target}: proven, head {head}"))
