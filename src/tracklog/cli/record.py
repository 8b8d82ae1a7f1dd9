"""`tracklog record`: store lines in the journal; each gets its number as soon as it is durable."""

import os
import stat
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import click

from tracklog.cli import _hints, _home, _options
from tracklog.cli import _terminal as terminal

if TYPE_CHECKING:
    from tracklog.home.home import Home
    from tracklog.intake.verdicts import Verdict
    from tracklog.journal.offsets import SourceOffset
    from tracklog.model.lines import Line


@click.command(
    epilog="""\b
Examples:
  some-agent | tracklog record --dialect kahn-agent
  tracklog record runs/*.jsonl
  some-agent | tracklog record --json | jq -r .seq
  tracklog record --key nightly-7 < lines.jsonl   (may be sent again: no duplicates)

\b
Exit code: 0 all stored, 1 something refused, 2 usage or I/O.""",
)
@click.argument("files", nargs=-1, metavar="[FILES|-]")
@_home.home_option
@_options.dialect_option
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object per line, once it is durable."
)
@_options.durability_option
@_options.redact_option
@click.option(
    "--key",
    metavar="KEY",
    help="A name for the piped stream: if it is piped again, no line is stored twice.",
)
@click.option("--again", is_flag=True, help="Store a file's lines again from its start.")
@_options.max_line_option
def command(
    files: tuple[str, ...],
    home: Path,
    dialect: str | None,
    as_json: bool,
    durability: Any,
    redact: bool,
    key: str | None,
    again: bool,
    max_line: int | None,
) -> None:
    """Store lines in the journal; an accepted line survives a crash and a power failure.

    Refused lines are stored separately with the reasons. A file that was recorded before, or whose
    recording was interrupted, resumes where it stopped; so does a pipe with a --key.
    """
    from tracklog.home import registry
    from tracklog.model.lines import CAP

    if dialect:
        registry.dialect(dialect)
    names = terminal.inputs(files)
    hints = _hints.of_lines(dialect)
    counts: Counter[str] = Counter()
    unread = 0
    try:
        options = {
            "durability": durability,
            "cap": max_line or CAP,
            "redact": _home.redaction(redact),
        }
        with _home.writing(home, **options) as opened:
            for name in names:
                try:
                    for line, verdict in _admit(opened, name, dialect, key, again=again):
                        counts[verdict.verdict] += 1
                        counts["last"] = max(counts["last"], verdict.seq or 0)
                        hint = _hints.due_hint(hints, verdict.dialect, verdict.run)
                        _report(name if files else None, line, verdict, as_json, hint)
                except terminal.UnreadableInput as error:
                    unread += 1
                    terminal.print_error(error.message)
    finally:
        if counts or not sys.exc_info()[0]:
            _end(counts, as_json)  # also after an interrupt: the results so far are valid
    sys.exit(2 if unread else 1 if counts["refused"] else 0)


def _admit(
    home: "Home", name: str, dialect: str | None, key: str | None, *, again: bool
) -> "Iterator[tuple[Line, Verdict]]":
    """The result of each line of an input, as soon as it is durable."""
    from tracklog.intake.resuming import admit_stream

    if dialect is None:
        _hints.look_ahead(home.intake, name)
    with terminal.opened(name) as opened:
        piped = name == "-"
        stream = _Available(opened.fileno()) if piped else opened
        source = _key_source(home, key, dialect) if piped and key else None
        is_file = not piped and stat.S_ISREG(os.fstat(opened.fileno()).st_mode)
        if is_file:
            source = _source(home, Path(name), dialect, again=again)
        for lines, verdicts in admit_stream(home.intake, stream, source, dialect, compared=is_file):
            yield from zip(lines, verdicts, strict=True)
            sys.stdout.flush()


def _source(home: "Home", path: Path, dialect: str | None, *, again: bool) -> str:
    """The name under which the offset of a file is stored: another file has another name.

    If more of the file was read in the same dialect under another name, it is that one: the name
    that `follow` and `import` give it, or that of a `record` that named its dialect, or none, or
    that of a file that was renamed.
    """
    from tracklog.formats.follow import source_of
    from tracklog.intake.resuming import moved_names, recorded_names, starts_alike

    place = home.intake.offsets.place
    name, known = next(
        (name, known)
        for name in recorded_names(path, dialect)
        if not (known := place(name)) or (not again and starts_alike(path, known))
    )
    if again:
        return name
    through = known.through if known else 0
    others = [next(recorded_names(path, each)) for each in (None, *home.dialects)]
    moved = [] if known else moved_names(home.intake.offsets, path)
    for other in (source_of(path), *others, *moved):
        found = place(other)
        if found is None or found.through <= through or not _is_in(home, found, dialect):
            continue
        if starts_alike(path, found):
            name, through = other, found.through
    return name


def _key_source(home: "Home", key: str, dialect: str | None) -> str:
    """The name under which the offset of a pipe is stored, whether its dialect was named or not."""
    names = [f"key:{each}:{key}" for each in (dialect or "", "", *home.dialects)]
    place = home.intake.offsets.place
    known = ((name, found) for name in names if (found := place(name)))
    return next((name for name, found in known if _is_in(home, found, dialect)), names[0])


def _is_in(home: "Home", offset: "SourceOffset", dialect: str | None) -> bool:
    """Whether what was read up to an offset is in this dialect, by the record that has the offset."""
    record = next(iter(home.journal.read(offset.seq - 1, 1)), None)
    return dialect is None or (record is not None and record.dialect == dialect)


def _end(counts: "Counter[str]", as_json: bool) -> None:
    if not as_json:
        last = f", the last is record {counts['last']:,}" if counts["accepted"] else ""
        last = last if counts else "; no line was read, so there is nothing to store"
        words = ", ".join(f"{counts[w]:,} {w}" for w in ("accepted", "duplicate", "refused"))
        click.echo(f"{words}{last}", err=True)


class _Available:
    """Standard input, read as it comes and not in blocks, so that no line waits."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def read(self, size: int, /) -> bytes:
        return os.read(self.fd, size)


class _LineRow(TypedDict, total=False):
    """What became of a line."""

    line: int
    verdict: str
    file: str
    problems: list[dict[str, str]]
    seq: int | None
    bom: bool
    dialect: str | None
    hint: str


def _report(
    name: str | None, line: "Line", verdict: "Verdict", as_json: bool, hint: str | None
) -> None:
    if as_json:
        row: _LineRow = {"line": line.number, "verdict": verdict.verdict}
        if name is not None:
            row["file"] = name
        if verdict.problems:
            row["problems"] = [problem._asdict() for problem in verdict.problems]
        else:
            row["seq"] = verdict.seq
        if line.bom:
            row["bom"] = True
        if hint:
            row["dialect"], row["hint"] = verdict.dialect, hint
        terminal.put_json(row)
        return
    place = f"line {line.number}"
    if name:
        place = f"{terminal.printable(terminal.named(name))}, {place}"
    if line.bom:
        click.echo(f"{place}: a byte order mark was dropped", err=True)
    if verdict.problems:
        terminal.print_refused(place, verdict.problems)
