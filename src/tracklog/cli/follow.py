"""`tracklog follow`: read growing files into the journal."""

import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracklog.cli import _hints, _home, _importing, _options
from tracklog.cli import _terminal as terminal

if TYPE_CHECKING:
    from tracklog.dialects.recognition import Hints
    from tracklog.formats.follow import FileRead, LinesRead


@click.command(
    epilog="""\b
Examples:
  tracklog follow
  tracklog follow storage/transcripts .kahn/archive
  tracklog follow --once old-runs/

\b
Exit code: 0 all stored, 1 a line refused or torn, 2 usage or I/O.""",
)
@click.argument(
    "paths",
    nargs=-1,
    type=click.Path(exists=True, path_type=Path),
    metavar="[DIRS]...",
)
@_home.home_option
@_options.dialect_option
@_options.redact_option
@click.option("--once", is_flag=True, help="Read what exists, and stop.")
@click.option(
    "--follow-symlinks", is_flag=True, help="Also read links that lead out of the folders."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per piece that was read.")
@click.option(
    "--every",
    type=click.FloatRange(min=0.05),
    default=0.5,
    show_default=True,
    metavar="SECONDS",
    help="How often files are checked.",
)
def command(
    paths: tuple[Path, ...],
    home: Path,
    dialect: str | None,
    redact: bool,
    once: bool,
    follow_symlinks: bool,
    as_json: bool,
    every: float,
) -> None:
    """Watch folders of JSONL files and store their lines; Ctrl-C ends it.

    It stores how far each file was read, and continues there when it is started again. A line is
    stored when its line end is there; --once also stores a complete last line without one. Without
    DIRS it watches the usual places of agents, and imports their logs. A symbolic link that leads
    out of its folder is not read, unless --follow-symlinks is given.
    """
    if not paths:
        if dialect:
            raise click.UsageError("--dialect needs DIRS: logs of agents are in no dialect")
        _importing.follow(
            home,
            redact=redact,
            once=once,
            every=every,
            as_json=as_json,
            follow_symlinks=follow_symlinks,
        )
    from tracklog.formats.follow import Follower
    from tracklog.home import registry
    from tracklog.model.errors import JournalFull, NotDurable, OverQuota

    if dialect:
        registry.dialect(dialect)
    counts: Counter[str] = Counter()
    hints = _hints.of_lines(dialect)
    with _home.writing(home, redact=_home.redaction(redact)) as opened:
        follower = Follower(
            opened.intake, paths, dialect, opened.path, follow_symlinks=follow_symlinks
        )
        reported = ""
        try:
            while True:
                try:
                    for read in follower.poll(final=once):
                        counts += _report(read, as_json, hints)
                    reported = ""
                except (JournalFull, NotDurable, OverQuota) as error:
                    if once:
                        raise
                    if error.message != reported:
                        reported = error.message
                        terminal.print_error(error.message, "it is tried again until it works")
                if once:
                    break
                time.sleep(every)
        except KeyboardInterrupt:
            pass  # the usual way to end it
    if once and not follower.files():
        named = terminal.printable(", ".join(map(str, paths)))
        click.echo(
            f"no file in {named} ends with .jsonl: name the folder that the program writes to, "
            "or leave --once out to wait for its files",
            err=True,
        )
    if not as_json:
        words = ", ".join(f"{counts[w]:,} {w}" for w in ("accepted", "duplicate", "refused"))
        click.echo(words, err=True)
    sys.exit(2 if counts["unheard"] else 1 if counts["refused"] or counts["torn"] else 0)


def _report(read: "FileRead", as_json: bool, hints: "Hints") -> "Counter[str]":
    """Print what was read, or why it was not; returns the counts."""
    from tracklog.formats.follow import SkippedLink, TornLine, UnreadableFile

    if isinstance(read, UnreadableFile):
        message = f"{read.path} cannot be read: {read.why}"
        terminal.print_error(message, "check its owner and mode")
        return Counter(unheard=1)
    if isinstance(read, TornLine):
        _importing.print_torn(read)
        return Counter(torn=1)
    if isinstance(read, SkippedLink):
        click.echo(terminal.printable(f"{read.path}: {_importing.LEADS_OUT}"), err=True)
        return Counter()
    return _report_lines(read, as_json, hints)


def _report_lines(read: "LinesRead", as_json: bool, hints: "Hints") -> "Counter[str]":
    """Print the result for some lines of a file; returns the counts by verdict."""
    counts = Counter[str](each.verdict for each in read.verdicts)
    texts = [_hints.due_hint(hints, each.dialect, each.run) for each in read.verdicts]
    extra = {"hints": list(filter(None, texts))} if any(texts) else {}
    if as_json:
        terminal.put_json({"file": str(read.path), **counts, **extra})
        sys.stdout.buffer.flush()
    else:
        words = ", ".join(f"{count:,} {word}" for word, count in counts.items())
        click.echo(f"{terminal.printable(str(read.path))}: {words or 'nothing but blank lines'}")
    for line, verdict in zip(read.lines, read.verdicts, strict=True):
        if verdict.problems:
            terminal.print_refused(f"{read.path}, line {line.number}", verdict.problems)
    return counts
