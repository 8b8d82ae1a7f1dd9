"""`tracklog check`: check every line, and the rules across lines."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracklog.cli import _hints, _options, _reports
from tracklog.cli import _terminal as terminal

if TYPE_CHECKING:
    from tracklog.dialects import Dialect
    from tracklog.dialects.checking import LineVerdict, LocatedFinding


@click.command(
    epilog="""\b
Examples:
  tracklog check events.jsonl
  tracklog check --dialect kahn-agent runs/*.jsonl
  tracklog check --fail-on warning --format github runs/*.jsonl
  tracklog check .kahn/archive/runs/nightly/graph.json
  some-agent | tracklog check --json

\b
A finding is an error (the format forbids it, such as a forbidden change of state),
a warning (the format does not expect it) or info (worth knowing).

\b
Exit code: 0 nothing refused and nothing found at the level of --fail-on,
1 something refused or found at that level or above, 2 usage or I/O.""",
)
@click.argument("files", nargs=-1, metavar="[FILES|-]")
@_options.dialect_option
@click.option(
    "--fail-on",
    type=click.Choice(_reports.LEVELS[::-1]),
    default="error",
    show_default=True,
    help="A finding of this level or above is a failure; so is any refused line.",
)
@click.option(
    "--format",
    "format",
    type=click.Choice(_reports.FORMATS),
    default="text",
    show_default=True,
    help="Text for a person, JSON for a program, annotations for GitHub, or SARIF 2.1.0.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--verbose", "-v", is_flag=True, help="Show accepted lines too.")
@_options.max_line_option
def command(
    files: tuple[str, ...],
    dialect: str | None,
    fail_on: str,
    format: str,
    as_json: bool,
    verbose: bool,
    max_line: int | None,
) -> None:
    """Check every line, and print every problem with its place and a hint.

    Without --dialect the dialect of each line is recognised; an ambiguous line is reported. For a
    file in a folder of transcripts, its name and its links are checked too. A graph.json is checked as one
    document: its shape, unknown dependencies, cycles.
    """
    from tracklog.dialects.checking import LocatedFinding
    from tracklog.home import registry
    from tracklog.model.event import Refusal
    from tracklog.model.lines import CAP

    dialects = [registry.dialect(dialect)] if dialect else registry.dialects()
    report = _reports.report("json" if as_json else format, verbose=verbose)
    hints = _hints.of_lines(dialect)
    documents = {name for each in dialects for name in each.document_rules}
    levels = _reports.LEVELS[_reports.LEVELS.index(fail_on) :]
    unread = failed = 0
    for name in terminal.inputs(files):
        report.open(name)
        try:
            for result in _results(name, dialects, max_line or CAP):
                if isinstance(result, LocatedFinding):
                    failed += result.finding.level in levels
                    report.finding(result)
                    continue
                failed += isinstance(result.result, Refusal)
                report.judged(result)
                if result.result.kind in documents:
                    continue
                if hint := _hints.due_hint(hints, result.result.dialect, result.result.run):
                    report.hint(hint)
        except terminal.UnreadableInput as error:
            unread += 1
            report.unread(error.message)
            terminal.print_error(error.message)
        else:
            report.close()
    report.end()
    sys.exit(2 if unread else 1 if failed else 0)


def _results(
    name: str, dialects: "Sequence[Dialect]", cap: int
) -> "Iterator[LineVerdict | LocatedFinding]":
    """The results of an input: of its lines, across its lines, and of the file."""
    from tracklog.dialects.checking import LineVerdict, LocatedFinding, check
    from tracklog.dialects.documents import check_document, document_of
    from tracklog.dialects.recognition import Recogniser
    from tracklog.model.event import Event
    from tracklog.model.lines import split
    from tracklog.recording.transcript.lint import recorder_file

    path = Path(name)
    regular = terminal.is_file(name)
    if regular and path.suffix == ".json":
        with terminal.opened(name) as source:
            data = source.read(-1)
        if document := document_of(name, data, dialects):
            yield from check_document(document, data)
            return
    recogniser = Recogniser(dialects)
    if regular and len(dialects) > 1:
        with suppress(OSError), path.open("rb") as ahead:  # errors are reported below
            recogniser.look_ahead(line.data for line in split(ahead, cap))
    file = recorder_file(path)
    with terminal.opened(name) as source:
        for result in check(split(source, cap), dialects, cap, recogniser):
            yield result
            if file and isinstance(result, LineVerdict) and isinstance(result.result, Event):
                for finding in file.add(result.result):
                    yield LocatedFinding(result.line, finding, result.result.dialect)
    for finding in file.rest() if file else ():
        yield LocatedFinding(None, finding)
