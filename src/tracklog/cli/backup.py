"""`tracklog backup`: a consistent copy, while others write."""

from pathlib import Path

import click

from tracklog.cli import _home
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
    """Copy the journal to the folder TARGET as it is at one point in time, and verify the copy.

    The copy is a home: `--home TARGET` reads and writes it. If the journal has several shards,
    TARGET has a home for each of them; `tracklog store copy` copies them back to a database.
    """
    from tracklog.journal.backup import check_new
    from tracklog.journal.shard_copies import backup_all

    _home.reading(home).close()
    check_new(target)
    if not _home.damage_of(
        home
    ):  # a damaged journal stays as it is: whoever writes would repair it
        _home.record_act(home, "backup", target=str(target))
    with _home.reading(home) as opened, progress_bar("copying", _home.MANY) as progress:
        heads = backup_all(opened.storage, target, progress)
    _home.report_copy(str(target), heads, as_json=as_json)
