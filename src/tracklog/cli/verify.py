"""`tracklog verify`: verify that the journal is complete and unchanged."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal
from tracklog.model.errors import BadFormat

if TYPE_CHECKING:
    from tracklog.journal.checkpoints.checkpoint import Compared
    from tracklog.journal.comparing import Report
    from tracklog.journal.storages import Storage


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
  tracklog verify --checkpoint /mnt/elsewhere/checkpoint    (detects every rewrite before it)
  tracklog verify --checkpoint https://recorder.example/checkpoint --key recorder+1f…+AQ…
  tracklog verify s3://bucket/tracklog      (an archive)
  tracklog verify storage/transcripts/3f1c1f2e-9a5b-4c7d-8e21-0a1b2c3d4e5f.jsonl

\b
Exit code: 0 unchanged, 1 not as it was recorded, 2 usage or I/O.""",
)
@click.argument("places", nargs=-1, type=PlaceType(exists=True))
@_home.read_option
@click.option("--anchor", metavar="HEAD", help="A head of the chain that was noted elsewhere.")
@click.option(
    "--checkpoint",
    metavar="FILE|URL",
    help="A checkpoint that was stored elsewhere: the journal must continue it.",
)
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="KEY",
    help="A public key that must have signed the checkpoint, of the journal or of a witness; may be "
    "repeated.  [default: the key that is noted in the home]",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    places: tuple[str, ...],
    home: Path,
    anchor: str | None,
    checkpoint: str | None,
    keys: tuple[str, ...],
    as_json: bool,
) -> None:
    """Verify the journal, an archive, or transcripts with a hash chain; name the first bad record.

    An archive is a folder that `tracklog archive` wrote, or `s3://bucket/prefix`; no database is
    needed.

    A chain cannot show that its own end was cut off: note the head somewhere else, and give it as
    --anchor later. A checkpoint does the same and is signed; it also detects that the journal and
    its chain were rewritten.
    """
    from tracklog.journal.comparing import anchor_of
    from tracklog.journal.prune_notes import check_pruned
    from tracklog.journal.sharding import Sharded

    if (keys and not checkpoint) or (checkpoint and places):
        raise click.UsageError("--checkpoint is for a journal, and --key for a checkpoint")
    if places:
        results = [_place(place, anchor, as_json) for place in places]
        sys.exit(0 if all(results) else 1)
    with _home.reading(home) as opened:
        if isinstance(opened.storage, Sharded) and not (anchor or checkpoint):
            reports = [part.verify() for part in opened.storage.parts]
            _print_shards(reports, as_json)
            sys.exit(0 if all(report.ok for report in reports) else 1)
        report = opened.storage.verify(anchor_of(anchor) if anchor else None)
        if not isinstance(opened.storage, Sharded):
            check_pruned(opened.store, report)
        compared = _compare(opened.storage, checkpoint, keys, report) if checkpoint else None
    _print(report, as_json, compared)
    sys.exit(0 if report.ok else 1)


def _compare(storage: "Storage", place: str, keys: tuple[str, ...], report: "Report") -> "Compared":
    """Compare a journal with a checkpoint; its faults and notes go to the report."""
    from tracklog.journal.checkpoints.checkpoint import compare, own_key, read_checkpoint
    from tracklog.journal.checkpoints.notes import Verifier, read_note

    note = read_note(_content(place))
    own = own_key(storage) if not keys else None
    stated, signers = read_checkpoint(note, [own] if own else [Verifier.of(key) for key in keys])
    compared = compare(storage, stated)._replace(signers=tuple(signers))
    report.faults[:] = sorted([*report.faults, *compared.faults])
    report.notes += compared.notes
    if not signers:
        report.notes.append("no signature of the checkpoint was verified: give --key")
    elif own is not None:
        report.notes.append(f"the signature was verified with the key in this home: {own}")
    return compared


def _content(place: str) -> bytes:
    """The bytes of a file or of an answer over HTTP."""
    from tracklog.journal.checkpoints.notes import LARGEST

    if not place.startswith(("http://", "https://")):
        return _home.expanded(Path(place)).read_bytes()
    from urllib.request import urlopen

    try:
        with urlopen(place, timeout=30) as answer:  # noqa: S310  # the scheme was looked at
            content: bytes = answer.read(LARGEST + 1)
    except OSError as error:
        raise BadFormat(f"{place} does not answer: {error}", "is the address right?") from error
    return content


def _place(place: str, anchor: str | None, as_json: bool) -> bool:
    from tracklog.journal.archive.objects import open_objects
    from tracklog.journal.archive.verify import verify_archive
    from tracklog.journal.comparing import anchor_of

    path = Path(place)
    if not place.startswith("s3://") and not path.is_dir():
        return _transcript(path, anchor, as_json)
    report = verify_archive(open_objects(place), anchor_of(anchor) if anchor else None)
    if report is None:
        raise BadFormat(f"there is no archive at {place}", "a home is verified with --home")
    _print(report, as_json)
    return report.ok


def _print_shards(reports: "list[Report]", as_json: bool) -> None:
    """Print a report for each shard; each is a journal with a chain of its own."""
    if as_json:
        ok = all(report.ok for report in reports)
        terminal.put_json({"ok": ok, "shards": [_row(report) for report in reports]})
        return
    for n, report in enumerate(reports):
        click.echo(f"shard {n}")
        _print(report, as_json)


class _FaultRow(TypedDict):
    seq: int
    why: str


class _ReportRow(TypedDict):
    """A report as JSON."""

    ok: bool
    records: int
    first: int
    head: str
    erased: list[int]
    faults: list[_FaultRow]
    unproven: list[int]
    notes: list[str]


def _row(report: "Report") -> _ReportRow:
    return {
        "ok": report.ok,
        "records": report.records,
        "first": report.first,
        "head": str(report.head),
        "erased": report.erased,
        "faults": [{"seq": fault.seq, "why": fault.why} for fault in report.faults],
        "unproven": report.unproven,
        "notes": report.notes,
    }


def _print(report: "Report", as_json: bool, compared: "Compared | None" = None) -> None:
    from tracklog.journal.frame import stamp

    if as_json:
        more = {}
        if compared is not None:
            more["checkpoint"] = {
                "origin": compared.checkpoint.origin,
                "records": compared.checkpoint.size,
                "extended": not compared.faults,
                "signed_by": [each._asdict() for each in compared.signers],
            }
        terminal.put_json({**more, **_row(report)})
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
        if compared is not None:
            word = "does NOT continue" if compared.faults else "continues"
            of = f"of {compared.checkpoint.size:,} records of {compared.checkpoint.origin}"
            click.echo(terminal.printable(f"the journal {word} the checkpoint {of}"))
            for each in compared.signers:
                at = "" if each.at is None else f" at {stamp(each.at)}"
                click.echo(terminal.printable(f"signed by {each.name}{at}"))


def _transcript(path: Path, anchor: str | None, as_json: bool) -> bool:
    from tracklog.recording.transcript.chain import verify_chain

    proof, name = verify_chain(path, anchor), terminal.printable(str(path))
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
