"""`tracklog prune`: delete old records, with a note in the journal."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracklog.cli import _home, _options
from tracklog.cli import _terminal as terminal

if TYPE_CHECKING:
    from tracklog.home.home import Home


@click.command(
    epilog="""\b
Examples:
  tracklog prune --older-than 30d --dry-run
  tracklog prune --older-than 12w
  tracklog prune --older-than 7d --archive s3://bucket/tracklog   (the archive keeps them)
  tracklog prune --older-than 52w --archive s3://bucket/tracklog --archive-too""",
)
@_home.home_option
@click.option(
    "--older-than",
    type=_options.Age(),
    required=True,
    metavar="AGE",
    help="The age of the records to delete, such as 30d, 12h or 8w.",
)
@click.option(
    "--open-too",
    is_flag=True,
    help="Also delete records of runs that have not ended and are still active.",
)
@click.option(
    "--archive",
    metavar="PLACE",
    help="Delete only what this archive has: a folder or s3://bucket/prefix.",
)
@click.option(
    "--archive-too",
    is_flag=True,
    help="Delete the records of that age from the archive, too.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    home: Path,
    older_than: float,
    open_too: bool,
    archive: str | None,
    archive_too: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Delete old records, one journal file at a time; the others can still be verified.

    Each run that lost records gets a note, so that a later import does not record them again.
    """
    from tracklog.home.home import act

    if archive_too and not archive:
        raise click.UsageError("--archive-too needs --archive PLACE")
    _home.reading(home).close()
    with _home.writing(home) as opened:
        missing = _check_archived(opened, archive, dry=dry_run) if archive else 0
        done = opened.prune(older_than, open_too=open_too, dry=dry_run, by=_home.user_name())
        gone = 0
        if archive and archive_too and not dry_run:
            gone = _prune_archive(opened, archive, older_than)
            if gone:
                who = _home.user_name()
                opened.record_act(act("archive-pruned", who, target=archive, records=gone))
    if missing:
        click.echo(f"{terminal.count(missing, 'record')} would be archived first", err=as_json)
    if as_json:
        archived = {"archive_records": gone} if archive_too else {}
        terminal.put_json({"dry_run": dry_run, **done._asdict(), **archived})
    elif not done.records:
        click.echo("nothing to delete: no journal file contains only records of that age")
    else:
        word = "would be deleted" if dry_run else "deleted"
        click.echo(
            f"{terminal.count(done.records, 'record')} {word}, {done.bytes:,} bytes; "
            f"{terminal.count(len(done.whole), 'run')} completely, {len(done.part)} in part"
        )
    if gone and not as_json:
        click.echo(f"{terminal.count(gone, 'record')} deleted from the archive")


def _prune_archive(home: "Home", place: str, older_than: float) -> int:
    """Delete old records from the archive that the home does not have any more: how many."""
    from tracklog.journal.archive.objects import open_objects
    from tracklog.journal.archive.shipping import NAME, prune_archive
    from tracklog.journal.leases import lease
    from tracklog.model.errors import Overtaken

    with lease(home.storage.leases(), NAME, 10) as mine:
        if not mine:
            raise Overtaken(
                "a collector archives this journal, so nothing was deleted from the archive",
                "stop it, and repeat the command",
            )
        return prune_archive(home.store, open_objects(place), _home.ago(older_than) or "")


def _check_archived(home: "Home", place: str, *, dry: bool) -> int:
    """Archive what is missing, and verify the archive; returns how many records it does not have.

    Where another process archives, it must have come far enough.
    """
    from tracklog.journal.archive.objects import open_objects
    from tracklog.journal.archive.shipping import archive
    from tracklog.journal.archive.verify import verify_archive
    from tracklog.journal.comparing import verify_store
    from tracklog.model.errors import ArchiveDamaged, BadBackup, Overtaken

    through = home.journal.last
    try:
        if not dry:
            archive(home.storage, place)
    except Overtaken:
        pass  # a collector ships to it
    except ArchiveDamaged as error:
        error.hint = f"nothing was deleted; {error.hint}"
        raise
    report = verify_archive(open_objects(place))
    if report is None:  # it would be the first shipment
        return through - home.store.origin().through
    if not report.ok:
        raise ArchiveDamaged(
            f"the archive {place} does not verify: {report.faults[0]}",
            "nothing was deleted; archive to a new place first",
        )
    own = verify_store(home.store, report.head)
    if not own.ok:
        raise BadBackup(
            f"the archive {place} is not that of this journal: {own.faults[0]}",
            "nothing was deleted",
        )
    missing = max(0, through - report.head.through)
    if missing and not dry:
        raise BadBackup(
            f"the archive {place} has records up to {report.head.through}, and the journal has "
            f"{through}",
            "nothing was deleted; see the log of the collector that archives",
        )
    return missing
