"""`tracklog archive`: copy the record to a folder or to object storage, as it grows."""

from pathlib import Path

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal


@click.command(
    epilog="""\b
Examples:
  tracklog archive /mnt/archive
  tracklog archive s3://bucket/tracklog
  tracklog archive s3://bucket/tracklog --behind      (how much would be lost now)
  tracklog serve --archive s3://bucket/tracklog       (all the time)
  tracklog verify s3://bucket/tracklog
  tracklog restore s3://bucket/tracklog ./record

\b
Object storage needs `pip install 'tracklog[s3]'` and the variables of the AWS tools:
AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, and AWS_ENDPOINT_URL for other services.""",
)
@click.argument("target")
@_home.home_option
@click.option("--behind", is_flag=True, help="Only say how many records are not archived.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(target: str, home: Path, behind: bool, as_json: bool) -> None:
    """Copy the records that TARGET does not have yet, with their chain and their large values.

    TARGET is a folder or `s3://bucket/prefix`. Refused lines and the index are not archived.
    """
    from tracklog.journal.archive.objects import open_objects
    from tracklog.journal.archive.shipping import Archiver, archive

    with _home.reading(home) as opened:
        if behind:
            archiver, count = Archiver(opened.storage, open_objects(target)), 0
        else:
            archiver, count = archive(opened.storage, target)
        missing, head = archiver.behind(), archiver.head
    if as_json:
        row = {"target": target, "archived": count, "behind": missing, "head": str(head)}
        terminal.put_json(row)
        return
    done = "" if behind else f"{terminal.count(count, 'record')} archived, "
    click.echo(terminal.plain(f"{target}: {done}{missing:,} not archived yet, head {head}"))
