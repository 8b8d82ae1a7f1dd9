"""`tracklog secrets`: find secrets in the journal."""

import sys
from itertools import chain
from pathlib import Path

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal


@click.command(
    epilog="""\b
Examples:
  tracklog secrets
  tracklog secrets RUN --json
  tracklog erase RUN SEQ --reason "a key was in it"

\b
Exit code: 0 nothing found, 1 something found, 2 usage or I/O.""",
)
@_home.run_argument(required=False)
@_home.read_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per place.")
def command(run: str | None, home: Path, as_json: bool) -> None:
    """List the records that contain keys, tokens and passwords, and their kind.

    The secrets themselves are never shown. `tracklog erase` takes the run and the number as they
    are printed. A refused line has no run; `tracklog prune` deletes it.
    """
    from tracklog.intake.secrets import leaks, refused_leaks
    from tracklog.model.errors import NoSuchBlob

    count = 0
    with _home.reading(home) as opened:
        wanted = opened.run(run) if run else None

        def blob(name: str) -> bytes | None:
            try:
                return opened.blobs.get(name)
            except NoSuchBlob:
                return None

        aside = () if run else refused_leaks(opened.refused)
        for leak in chain(leaks(iter(opened.journal.records(run=wanted)), blob), aside):
            count += 1
            if as_json:
                terminal.put_json({k: v for k, v in leak._asdict().items() if v is not None})
                continue
            place = f"{leak.family}:{leak.run} {leak.seq}".removeprefix(":")
            times = f" ({leak.times} times)" if leak.times > 1 else ""
            where = f" in its blob {leak.blob[:12]}" if leak.blob else ""
            click.echo(terminal.printable(f"{place}  {leak.kind}{times}{where}"))
    if not count:
        click.echo("no secrets found", err=True)
    sys.exit(1 if count else 0)
