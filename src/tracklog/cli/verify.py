"""`tracklog verify`: verify that the record is complete and unchanged."""

import sys
from pathlib import Path

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal


@click.command(
    epilog="""\b
Examples:
  tracklog verify
  tracklog verify --anchor 120:9f86d0...   (a head that was noted before: detects a cut end)
  tracklog verify storage/transcripts/3f1c1f2e-9a5b-4c7d-8e21-0a1b2c3d4e5f.jsonl

\b
Exit code: 0 unchanged, 1 not as it was recorded, 2 usage or I/O.""",
)
@click.argument(
    "transcripts", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@_home.read_option
@click.option("--anchor", metavar="HEAD", help="A head of the chain that was noted elsewhere.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(transcripts: tuple[Path, ...], home: Path, anchor: str | None, as_json: bool) -> None:
    """Verify the journal, or transcripts with a hash chain; name the first bad record.

    A chain cannot show that its own end was cut off: note the head somewhere else, and give it as
    --anchor later.
    """
    if transcripts:
        results = [_transcript(path, anchor, as_json) for path in transcripts]
        sys.exit(0 if all(results) else 1)
    from tracklog.journal.comparing import anchor_of

    with _home.reading(home) as opened:
        report = opened.storage.verify(anchor_of(anchor) if anchor else None)
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
    sys.exit(0 if report.ok else 1)


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
