"""`tracklog archive`: copy the journal to a folder or to object storage, as it grows."""

import sys
from pathlib import Path

import click

from tracklog.cli import _home, _options
from tracklog.cli import _terminal as terminal


@click.command(
    epilog="""\b
Examples:
  tracklog archive /mnt/archive
  tracklog archive s3://bucket/tracklog
  tracklog archive s3://bucket/tracklog --behind      (how much would be lost now)
  tracklog archive s3://bucket/tracklog --hot 7d      (of PostgreSQL: move what is older)
  tracklog serve --archive s3://bucket/tracklog       (all the time)
  tracklog verify s3://bucket/tracklog
  tracklog restore s3://bucket/tracklog ./restored

\b
Object storage needs `pip install 'tracklog[s3]'` and the variables of the AWS tools:
AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, and AWS_ENDPOINT_URL for other services.

\b
Exit code: 0 archived, 1 the archive is damaged, 2 usage or I/O.""",
)
@click.argument("target")
@_home.home_option
@click.option("--behind", is_flag=True, help="Only say how many records are not archived.")
@_options.hot_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(target: str, home: Path, behind: bool, hot: float | None, as_json: bool) -> None:
    """Copy the records that TARGET does not have yet, with their chain and their large values.

    TARGET is a folder or `s3://bucket/prefix`. Refused lines and the index are not archived. If
    TARGET has records already, it is checked first: every object must be there, with its size, and
    the chain must not be damaged. `tracklog verify TARGET` checks every record.
    """
    from tracklog.journal.archive.objects import open_objects
    from tracklog.journal.archive.shipping import Archiver, archive

    moved = None
    if not behind:
        _record(home, target, hot)
    with _home.reading(home) if hot is None else _home.writing(home) as opened:
        if behind:
            archiver, count = Archiver(opened.storage, open_objects(target)), 0
        else:
            archiver, count = archive(opened.storage, target)
        if hot is not None and not behind:
            moved = archiver.move_old(_home.ago(hot) or "")
        missing, head, lost = archiver.behind(), archiver.head, archiver.lost()
    if as_json:
        row = {"target": target, "archived": count, "behind": missing, "head": str(head)}
        terminal.put_json({**row, "lost": lost, **({"moved": moved._asdict()} if moved else {})})
    else:
        done = "" if behind else f"{terminal.count(count, 'record')} archived, "
        click.echo(terminal.printable(f"{target}: {done}{missing:,} not archived yet, head {head}"))
        if moved:
            values = terminal.count(moved.blobs, "large value")
            click.echo(
                f"{terminal.count(moved.records, 'record')} and {values} moved to the archive"
            )
    for what in lost:
        terminal.print_error(
            f"the archive is damaged: {terminal.printable(what)}",
            f"`tracklog verify {terminal.printable(target)}` names every record; bring the object back, "
            "or archive to a new place while the journal has these records",
        )
    sys.exit(1 if lost else 0)


def _record(home: _home.Place, target: str, hot: float | None) -> None:
    """Record it, unless there is nothing to archive."""
    from tracklog.journal.archive.objects import open_objects
    from tracklog.journal.archive.shipping import Archiver

    with _home.reading(home) as opened:
        missing = Archiver(opened.storage, open_objects(target)).behind()
    if missing or hot is not None:
        older = None if hot is None else _home.ago(hot)
        _home.record_act(home, "archive", target=target, records=missing, moved_before=older)
