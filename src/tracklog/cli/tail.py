"""`tracklog tail`: the last records of the journal, and new ones."""

import sys
from pathlib import Path

import click

from tracklog.cli import _home, _names
from tracklog.cli import _terminal as terminal
from tracklog.cli._records import printer


@click.command(
    epilog="""\b
Examples:
  tracklog tail
  tracklog tail -f --dialect kahn-agent
  tracklog tail -f --run agent-coder-1 --kind tool_invocation --json""",
)
@_home.read_option
@click.option("-f", "--follow", is_flag=True, help="Continue with new records; Ctrl-C ends it.")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="How many records.",
)
@click.option("--run", metavar="RUN", help="Only this run.")
@click.option("--kind", metavar="KIND", help="Only this kind of event.")
@click.option(
    "--dialect", metavar="NAME", shell_complete=_names.of("dialects"), help="Only this dialect."
)
@click.option("--raw", is_flag=True, help="The stored lines, byte for byte.")
@terminal.wide_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per record.")
def command(
    home: Path,
    follow: bool,
    lines: int,
    run: str | None,
    kind: str | None,
    dialect: str | None,
    raw: bool,
    as_json: bool,
) -> None:
    """Print the last records, of every run or of the selected ones."""
    from collections import deque
    from collections.abc import Iterable

    from tracklog.home import registry
    from tracklog.journal.frame import Record
    from tracklog.journal.sharding import ShardedJournal

    if dialect:
        registry.dialect(dialect)
    with _home.reading(home) as opened:
        journal = opened.journal
        wanted = opened.run(run) if run else None
        filtered = bool(kind or dialect or wanted)

        def matches(record: Record) -> bool:
            if dialect and record.dialect != dialect:
                return False
            if kind is None:
                return True
            event = opened.event(record)
            return event is not None and event.kind == kind

        put = printer(opened, raw=raw, as_json=as_json, one_run=wanted is not None)
        if wanted:
            journal = opened.journal_of(wanted)
        end = journal.last
        every: Iterable[Record]
        if isinstance(journal, ShardedJournal):
            end = journal.highest
            every = journal.records(through=end) if filtered else journal.newest(lines)
        else:
            start = 0 if filtered else max(0, end - lines)
            every = journal.records(start, wanted, through=end)
        records = (each for each in every if matches(each))
        for record in deque(records, maxlen=lines):
            put(record)
        sys.stdout.buffer.flush()
        if follow:
            for record in journal.follow(end, wanted):
                if matches(record):
                    put(record)
                    sys.stdout.buffer.flush()
