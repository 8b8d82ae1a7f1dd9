"""`tracklog prune`: delete old records, with a note in the record."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal

if TYPE_CHECKING:
    from tracklog.home.home import Home

UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
OLDEST = 100 * 365 * 86400
"""Seconds; nothing here is a hundred years old."""


class Age(click.ParamType[float]):
    """A length of time: 30d, 12h."""

    name = "age"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        match = re.fullmatch(r"([0-9]+)([mhdw])", str(value))
        if match is None:
            self.fail(f"{value!r} is no age; write 30d, 12h, 90m or 8w", param, ctx)
        seconds = int(match[1]) * UNITS[match[2]]
        if seconds > OLDEST:
            self.fail(
                f"{value!r} is longer than any record exists; write 30d, 12h or 8w", param, ctx
            )
        return float(seconds)


@click.command(
    epilog="""\b
Examples:
  tracklog prune --older-than 30d --dry-run
  tracklog prune --older-than 12w
  tracklog prune --older-than 7d --archive s3://bucket/tracklog   (the archive keeps them)""",
)
@_home.home_option
@click.option("--older-than", type=Age(), required=True, metavar="AGE", help="30d, 12h, 8w.")
@click.option(
    "--open-too", is_flag=True, help="Also runs that have not ended and are still active."
)
@click.option(
    "--archive",
    metavar="PLACE",
    help="Delete only what this archive has: a folder or s3://bucket/prefix.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    home: Path,
    older_than: float,
    open_too: bool,
    archive: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Delete old records, one journal file at a time; the others can still be verified.

    Each run that lost records is marked, so that a later import does not bring them back.
    """
    _home.reading(home).close()
    with _home.writing(home) as opened:
        if archive and not dry_run:
            _check_archived(opened, archive)
        done = opened.prune(older_than, open_too=open_too, dry=dry_run)
    if as_json:
        terminal.put_json({"dry_run": dry_run, **done._asdict()})
    elif not done.records:
        click.echo("nothing is that old in a segment that can go")
    else:
        word = "would be dropped" if dry_run else "dropped"
        click.echo(
            f"{terminal.count(done.records, 'record')} {word}, {done.bytes:,} bytes; "
            f"{terminal.count(len(done.whole), 'run')} wholly, {len(done.part)} in part"
        )


def _check_archived(home: "Home", place: str) -> None:
    """Archive what is missing; where another process does that, check that it has come far enough."""
    from tracklog.journal.archive.objects import open_objects
    from tracklog.journal.archive.reader import ArchiveReader
    from tracklog.journal.archive.shipping import archive
    from tracklog.journal.comparing import verify_store
    from tracklog.model.errors import BadBackup, Overtaken

    through = home.journal.last
    try:
        archive(home.storage, place)
    except Overtaken:
        pass  # a collector ships to it
    reader = ArchiveReader(open_objects(place))
    if reader.last < through:
        raise BadBackup(
            f"the archive {place} has records up to {reader.last}, and the record has {through}",
            "nothing was deleted; see the log of the collector that archives",
        )
    report = verify_store(reader)
    if not report.ok:
        raise BadBackup(
            f"the archive {place} does not verify: {report.faults[0]}",
            "nothing was deleted; archive to a new place first",
        )
    if not verify_store(home.store, reader.head()).ok:
        raise BadBackup(f"the archive {place} is not that of this record", "nothing was deleted")
