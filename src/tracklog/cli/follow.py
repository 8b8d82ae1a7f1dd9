"""`tracklog follow`: bring files into the journal as they grow."""

import sys
import time
from collections import Counter
from pathlib import Path

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal


@click.command(
    epilog="""\b
Examples:
  tracklog follow storage/transcripts .kahn/archive
  tracklog follow --once old-runs/""",
)
@click.argument(
    "paths",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="DIRS...",
)
@_home.home_option
@click.option("--dialect", metavar="NAME", help="Read every line as this dialect.")
@click.option("--once", is_flag=True, help="Take what is there, and stop.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per piece that was read.")
@click.option("--every", type=click.FloatRange(min=0.05), default=0.5, show_default=True)
def command(
    paths: tuple[Path, ...],
    home: Path,
    dialect: str | None,
    once: bool,
    as_json: bool,
    every: float,
) -> None:
    """Watch folders of JSONL files and keep their lines; Ctrl-C ends it.

    Where each file got to is kept with its records: nothing is read twice, nothing is missed.
    """
    from tracklog.follow import Follower  # noqa: PLC0415  # slow to import

    counts: Counter[str] = Counter()
    with _home.writing(home) as opened:
        follower = Follower(opened.intake, paths, dialect)
        try:
            while True:
                for heard in follower.poll():
                    here: Counter[str] = Counter(each.verdict for each in heard.verdicts)
                    counts += here
                    _report(heard.path, here, as_json)
                    for line, verdict in zip(heard.lines, heard.verdicts, strict=True):
                        for problem in verdict.problems[:1]:
                            place = f"{heard.path}, line {line.number}"
                            click.secho(f"{place}: {problem.message}", fg="red", err=True)
                if once:
                    break
                time.sleep(every)
        except KeyboardInterrupt:
            pass  # the way to end it
    if not as_json:
        words = ", ".join(f"{counts[w]:,} {w}" for w in ("accepted", "duplicate", "refused"))
        click.echo(words, err=True)
    sys.exit(1 if counts["refused"] else 0)


def _report(path: Path, counts: "Counter[str]", as_json: bool) -> None:
    if as_json:
        terminal.put_json({"file": str(path), **counts})
        sys.stdout.buffer.flush()
    else:
        words = ", ".join(f"{count:,} {word}" for word, count in counts.items())
        click.echo(f"{path}: {words}")
