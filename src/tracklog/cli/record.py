"""`tracklog record`: lines in, numbers out, each as soon as it is safe."""

import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal

if TYPE_CHECKING:
    from tracklog.intake import Verdict


@click.command(
    epilog="""\b
Examples:
  some-agent | tracklog record --dialect kahn-agent
  tracklog record runs/*.jsonl
  some-agent | tracklog record --json | jq -r .seq
\b
Exit code: 0 all kept, 1 something refused, 2 usage or I/O.""",
)
@click.argument("files", nargs=-1, metavar="[FILES|-]")
@_home.home_option
@click.option("--dialect", metavar="NAME", help="Read every line as this dialect.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line, once it is safe.")
@click.option(
    "--durability",
    type=click.Choice(_home.DURABILITIES),
    default="sync",
    show_default=True,
    help="What a number promises: see docs/promises.md.",
)
@click.option("--max-line", type=click.IntRange(min=1), metavar="BYTES", help="The line cap.")
def command(
    files: tuple[str, ...],
    home: Path,
    dialect: str | None,
    as_json: bool,
    durability: Any,
    max_line: int | None,
) -> None:
    """Keep lines in the journal; a line that got its number survives a crash and a power cut.

    What is refused is kept aside with its reasons.
    """
    from tracklog import registry  # noqa: PLC0415  # the dialects are slow to import
    from tracklog.lines import CAP, groups  # noqa: PLC0415

    if dialect:
        registry.dialect(dialect)
    counts: Counter[str] = Counter()
    last = 0
    names = terminal.inputs(files)
    with _home.writing(home, durability=durability, cap=max_line or CAP) as opened:
        for name in names:
            with terminal.opened(name) as source:
                raw = _Available(source.fileno()) if name == "-" else source
                for group in groups(raw, opened.intake.cap):
                    verdicts = opened.intake.admit_lines(group, dialect)
                    for line, verdict in zip(group, verdicts, strict=True):
                        counts[verdict.verdict] += 1
                        last = max(last, verdict.seq or 0)
                        _report(name if files else None, line.number, verdict, as_json)
                    sys.stdout.flush()
    if not as_json:
        kept = f", the last is record {last:,}" if counts["accepted"] else ""
        words = ", ".join(f"{counts[w]:,} {w}" for w in ("accepted", "duplicate", "refused"))
        click.echo(f"{words}{kept}", err=True)
    sys.exit(1 if counts["refused"] else 0)


class _Available:
    """Standard input, read as it comes and not in whole blocks, so that no line waits."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def read(self, size: int, /) -> bytes:
        return os.read(self.fd, size)


def _report(name: str | None, number: int, verdict: "Verdict", as_json: bool) -> None:
    if as_json:
        said: dict[str, Any] = {"line": number, "verdict": verdict.verdict}
        if name is not None:
            said["file"] = name
        if verdict.problems:
            said["problems"] = [problem._asdict() for problem in verdict.problems]
        else:
            said["seq"] = verdict.seq
        terminal.put_json(said)
    elif verdict.problems:
        place = f"{name}, line {number}" if name else f"line {number}"
        click.secho(f"{place} refused", fg="red", err=True)
        for problem in verdict.problems:
            click.echo(f"  {problem.pointer or 'the line'}  {problem.message}", err=True)
            click.echo(f"    {problem.hint}", err=True)
