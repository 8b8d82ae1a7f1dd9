"""`tracklog verify`: verify that the record is complete and unchanged."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal
from tracklog.model.errors import BadFormat

if TYPE_CHECKING:
    from tracklog.journal.comparing import Report


class PlaceType(click.Path):
    """A path, or the URL of object storage."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if str(value).startswith("s3://"):
            return str(value)
        return str(super().convert(value, param, ctx))


@click.command(
    epilog="""\b
Examples:
  tracklog verify
  tracklog verify --anchor 120:9f86d0...   (a head that was noted before: detects a cut end)
  tracklog verify s3://bucket/tracklog      (an archive)
  tracklog verify storage/transcripts/3f1c1f2e-9a5b-4c7d-8e21-0a1b2c3d4e5f.jsonl

\b
Exit code: 0 unchanged, 1 not as it was recorded, 2 usage or I/O.""",
)
@click.argument("places", nargs=-1, type=PlaceType(exists=True))
@_home.read_option
@click.option("--anchor", metavar="HEAD", help="A head of the chain that was noted elsewhere.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(places: tuple[str, ...], home: Path, anchor: str | None, as_json: bool) -> None:
    """Verify the journal, an archive, or transcripts with a hash chain; name the first bad record.

    An archive is a folder that `tracklog archive` wrote, or `s3://bucket/prefix`; no database is
    needed.

    A chain cannot show that its own end was cut off: note the head somewhere else, and give it as
    --anchor later.
    """
    from tracklog.journal.comparing import anchor_of

    if places:
        results = [_place(place, anchor, as_json) for place in places]
        sys.exit(0 if all(results) else 1)
    with _home.reading(home) as opened:
        report = opened.storage.verify(anchor_of(anchor) if anchor else None)
    _print(report, as_json)
    sys.exit(0 if report.ok else 1)


def _place(place: str, anchor: str | None, as_json: bool) -> bool:
    from tracklog.journal.archive.objects import open_objects
    from tracklog.journal.archive.reader import ArchiveReader
    from tracklog.journal.comparing import anchor_of, verify_store

    path = Path(place)
    if not place.startswith("s3://") and not path.is_dir():
        return _transcript(path, anchor, as_json)
    archive = ArchiveReader(open_objects(place))
    if not archive.shipments:
        raise BadFormat(f"there is no archive at {place}", "a home is verified with --home")
    report = verify_store(archive, anchor_of(anchor) if anchor else None)
    _print(report, as_json)
    return report.ok


def _print(report: "Report", as_json: bool) -> None:
    if as_json:
        terminal.put_json(
            {
                "ok": report.ok,
                "records": report.records,
                "first": report.first,
                "head": str(report.head),
                "erased": report.erased,
                "faults": [fault._asdict() for fault in report.faults],
                "unproven": report.unproven,
                "notes": report.notes,
            }
        )
    else:
        for fault in report.faults:
            click.secho(str(fault), fg="red")
        for note in report.notes:
            click.echo(note)
        colour = "red" if report.faults else "yellow" if report.unproven else "green"
        word = click.style(report.verdict, fg=colour)
        erased = f", {len(report.erased):,} erased" if report.erased else ""
        click.echo(f"{terminal.count(report.records, 'record')}{erased}: {word}")
        click.echo(f"head {report.head}")


def _transcript(path: Path, anchor: str | None, as_json: bool) -> bool:
    from tracklog.recording.transcript.chain import verify_chain

    proof, name = verify_chain(path, anchor), terminal.plain(str(path))
    if as_json:
        bad = None if proof.bad is None else {"line": proof.bad.number, "why": proof.bad.message}
        row = {"file": str(path), "ok": proof.sound, "lines": proof.lines, "head": proof.head}
        terminal.put_json({**row, "bad": bad, "anchored": proof.anchored})
    elif proof.bad is not None:
        click.secho(f"{name}: line {proof.bad.number}: {proof.bad.message}", fg="red")
    elif not proof.lines:
        click.echo(f'{name}: it has no chain; a Recorder writes one with integrity="chain"')
    elif proof.anchored is False:
        click.secho(
            f"{name}: the anchor was not found: its end was cut off, or rewritten", fg="red"
        )
    else:
        click.echo(f"{name}: {terminal.count(proof.lines, 'line')} proven, head {proof.head}")
    return proof.sound
