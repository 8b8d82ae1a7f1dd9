"""Shared by the commands that import: the sources, and the summary."""

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from tracklog.cli import _home, _names, _options
from tracklog.cli import _terminal as terminal

if TYPE_CHECKING:
    from tracklog.formats.follow import TornLine
    from tracklog.formats.importers import ImportReport
    from tracklog.formats.importing import Importing
    from tracklog.formats.importing_summary import ImportSummary

F = TypeVar("F", bound=Callable[..., Any])


def options(verb: F) -> F:
    """The arguments and options of the verbs that import files."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="The summary as one JSON object."),
        _options.redact_option,
        click.option("--dry-run", "dry", is_flag=True,
                     help="Show what would be imported, and store nothing."),
        click.option("--from", "only", metavar="NAME", shell_complete=_names.of("importers"),
                     help="Read every file with this importer."),
        _home.home_option,
        click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[PATHS]..."),
    ):  # fmt: skip
        verb = option(verb)
    return verb


def meant(importing: "Importing", paths: tuple[Path, ...]) -> list[Path]:
    """The sources given, or everything in the usual places of the user."""
    from tracklog.formats.importing import sources

    return sources(importing, paths, Path.home(), os.environ)


@contextmanager
def summing_up(
    summary: "ImportSummary", *, as_json: bool, dry: bool, redact: bool
) -> Iterator[None]:
    """Print the summary of the finished part when an import is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        if dry:
            words = "stopped; this was read so far, and nothing was stored"
        else:
            words = "stopped; everything that was read so far is stored, and the next import resumes there"
        click.echo(words, err=True)
        put(summary, as_json=as_json, dry=dry, redact=redact)
        raise


LEADS_OUT = "a link to a place outside its folder is skipped; --follow-symlinks reads it"


def follow(
    home: Path, *, redact: bool, once: bool, every: float, as_json: bool, follow_symlinks: bool
) -> NoReturn:
    """Import the logs of agents as they are written, until interrupted."""
    from tracklog.formats.importing import Importing
    from tracklog.formats.importing_summary import ImportSummary

    def print_progress(path: Path, summary: ImportSummary) -> None:
        if as_json:
            terminal.put_json({"file": str(path), **summary.lines})
            sys.stdout.buffer.flush()
        elif summary.lines:
            words = ", ".join(f"{count:,} {word}" for word, count in summary.lines.items())
            click.echo(f"{terminal.printable(str(path))}: {words}")
        for place, problems in summary.refused:
            terminal.print_refused(place, problems)

    total = ImportSummary()
    files: list[Path] = []
    unread: set[str] = set()
    skipped: set[Path] = set()

    def sources() -> Iterator[Path]:
        for path in meant(importing, ()):
            if follow_symlinks or not _leads_out(path):
                yield path
            elif path not in skipped:
                skipped.add(path)
                click.echo(terminal.printable(f"{path}: {LEADS_OUT}"), err=True)

    with _home.writing(home, redact=_home.redaction(redact)) as opened:
        importing = Importing(opened)
        try:
            while True:
                files = list(sources())
                summary = importing.bring(files, final=once, report=print_progress)
                total.lines.update(summary.lines)
                for place in importing.look_for_gone():
                    click.echo(
                        f"{terminal.printable(place)}: the file is gone; its records stay", err=True
                    )
                for place, why in summary.unread:
                    if place not in unread:
                        terminal.print_error(f"{terminal.printable(place)} cannot be read: {why}")
                    unread.add(place)
                for torn in summary.torn:
                    print_torn(torn)
                total.torn += summary.torn
                if once:
                    break
                time.sleep(every)
        except KeyboardInterrupt:
            pass  # the way to end it
    if once and not files:
        words = "no logs of agents were found in their usual folders; `tracklog follow DIR` reads another folder"
        click.echo(words, err=True)
    if not as_json:
        click.echo(_counts(total.lines, VERDICTS), err=True)
    sys.exit(2 if unread else 1 if total.lines["refused"] or total.torn else 0)


def _leads_out(path: Path) -> bool:
    """Whether a file is a link to one outside of the folder it is found in."""
    return path.is_symlink() and path.parent.resolve() not in path.resolve().parents


def exit_code(summary: "ImportSummary") -> int:
    """2 where a file cannot be read, or nothing could; 1 where a line was refused or is torn."""
    nothing = summary.unrecognised and not (summary.files or summary.unchanged)
    return 2 if summary.unread or nothing else 1 if summary.lines["refused"] or summary.torn else 0


def print_torn(torn: "TornLine") -> None:
    """Print that a last line is incomplete, whether it is stored, and what to do."""
    size, again = (
        terminal.count(torn.size, "byte"),
        "read the file again when its writer has finished",
    )
    if torn.stored:
        what = "last record" if torn.number else "file"
        words = f"the {what} is torn: {size} are stored with the finding torn-tail"
        again += ", then all of it is imported"
    elif not torn.number:
        words = f"not stored: the file is torn, {size} that are no complete JSON"
    else:
        words = (
            f"not stored: the line is torn, {size} without a line end that are no complete JSON "
            "object"
        )
        again += (
            "; if it never will, `tail -n 1 FILE | tracklog record` stores the line among the "
            "refused ones"
        )
    terminal.print_error(f"{terminal.printable(torn.place)}: {words}", again)


def put(
    summary: "ImportSummary", *, as_json: bool, dry: bool = False, redact: bool = False
) -> None:
    """The summary: what was imported, from which records, and what was not recognised."""
    if as_json:
        terminal.put_json({**summary.as_json(), "dry_run": dry})
    else:
        for line in _summary_lines(summary, dry=dry):
            click.echo(line)
    for path, why in summary.unread:
        terminal.print_error(
            f"{terminal.printable(path)} cannot be read: {why}", "check its owner and mode"
        )
    for path, problems in summary.refused:
        terminal.print_refused(path, problems)
    for torn in summary.torn:
        print_torn(torn)
    for hint in summary.hints:
        click.echo(f"hint: {terminal.printable(hint)}", err=True)
    if redact and (summary.unchanged or summary.lines["duplicate"]):
        words = "earlier records are not changed; `tracklog secrets` lists their secrets"
        click.echo(words, err=True)


VERDICTS = ("accepted", "duplicate", "refused")
OF_A_FILE = (*VERDICTS, "read_before", "torn")


def _counts(counts: Counter[str], names: Iterable[str]) -> str:
    return ", ".join(f"{counts[name]:,} {name.replace('_', ' ')}" for name in names)


def _summary_lines(summary: "ImportSummary", *, dry: bool) -> list[str]:
    size = summary.bytes / 1e6
    files = terminal.count(summary.files, "file")
    runs = terminal.count(len(summary.runs), "run")
    lines = [f"{files} read ({size:,.1f} MB), {summary.unchanged:,} unchanged"]
    if summary.empty and not (summary.files or summary.unchanged or summary.unread):
        lines.clear()
    elif dry:
        lines.append(
            f"{summary.lines['told']:,} lines would be imported for {runs}; nothing was stored"
        )
    elif summary.unchanged and not (summary.files or summary.torn or summary.unread):
        lines.append("nothing new: these files were imported before and have not changed")
    else:
        lines.append(f"{_counts(summary.lines, VERDICTS)}, of {runs}")
    if summary.file_lines and +summary.file_lines != summary.lines:
        whole = terminal.count(summary.file_lines.total(), "line")
        lines.append(f"{whole} in files of a dialect: {_counts(summary.file_lines, OF_A_FILE)}")
    for name, report in sorted(summary.by_importer.items()):
        lines += _reported(name, report, 0 if dry else summary.events[name])
    if summary.notes:
        lines.append(
            f"{terminal.count(summary.notes, 'note')} added: for each run, that its lines were "
            "imported from a file"
        )
    if summary.empty:
        some = ", ".join(map(terminal.printable, summary.empty[:3]))
        lines.append(f"empty: {len(summary.empty):,} ({some}); there is nothing in it to import")
    for why, count in summary.again.items():
        lines.append(f"read from the start again, because {AGAIN.get(why, why)}: {count:,}")
    for path in summary.gone:
        lines.append(f"gone: {terminal.printable(path)} (its records stay)")
    if summary.unrecognised:
        some = ", ".join(map(terminal.printable, summary.unrecognised[:3]))
        lines.append(
            f"not recognised: {len(summary.unrecognised):,} ({some}); --from NAME names the format, "
            "and `tracklog record FILE` reads lines of a dialect"
        )
        for path, names in list(summary.ambiguous.items())[:3]:
            lines.append(f"  {terminal.printable(path)} may be of {' or '.join(names)}")
    elif not (
        summary.files
        or summary.unchanged
        or summary.unread
        or summary.gone
        or summary.empty
        or summary.torn
    ):
        lines.append("nothing to read was found; name the files or folders of an agent's log")
    return lines


AGAIN = {
    "mapping": "the mapping has a new version",
    "truncated": "it is shorter than it was",
    "replaced": "its beginning has changed",
    "rewritten": "the part that was read has changed",
}


def _reported(name: str, report: "ImportReport", events: int) -> list[str]:
    def listed(counts: dict[str, int]) -> str:
        counts = {word: count for word, count in counts.items() if count}
        first = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:12]
        rest = f", and {len(counts) - 12} more" if len(counts) > 12 else ""
        return ", ".join(f"{terminal.printable(word)} {count:,}" for word, count in first) + rest

    gave = f", which gave {terminal.count(events, 'event')}" if events else ""
    lines = [f"{name}: {terminal.count(report.records(), 'record')}{gave}"]
    rows = {
        "mapped": report.mapped,
        "stored encrypted": report.opaque,
        "ignored": report.ignored,
        "repaired or set aside": report.repaired,
        "moved to blobs": report.lifted,
        "not recognised, stored complete": report.unknown,
    }
    lines += [f"  {word}: {listed(counts)}" for word, counts in rows.items() if counts]
    return lines
