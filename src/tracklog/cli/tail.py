"""`tracklog tail`: the end of the journal, and what comes."""

import sys
from pathlib import Path

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal


@click.command(
    epilog="""\b
Examples:
  tracklog tail
  tracklog tail -f --dialect kahn-agent
  tracklog tail -f --run agent-coder-1 --kind tool_invocation --json""",
)
@_home.home_option
@click.option("-f", "--follow", is_flag=True, help="Go on as records come; Ctrl-C ends it.")
@click.option("-n", "--lines", type=click.IntRange(min=0), default=10, show_default=True)
@click.option("--run", metavar="RUN", help="Only this run.")
@click.option("--kind", metavar="KIND", help="Only this kind of event.")
@click.option("--dialect", metavar="NAME", help="Only this dialect.")
@click.option("--raw", is_flag=True, help="The stored lines, byte for byte.")
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
    """Print the last records, of every run or of those that are asked for."""
    from collections import deque  # noqa: PLC0415

    import orjson  # noqa: PLC0415  # slow to import

    from tracklog.check import understand  # noqa: PLC0415
    from tracklog.frame import Record  # noqa: PLC0415

    with _home.reading(home) as opened:
        journal = opened.journal
        wanted = opened.run(run) if run else None
        filtered = bool(kind or dialect or wanted)

        def matches(record: Record) -> bool:
            if dialect and record.dialect != dialect:
                return False
            if kind is None:
                return True
            known = opened.dialects.get(record.dialect)
            if known is None or not record.line:
                return False
            return understand(known, record.line).kind == kind

        def put(record: Record) -> None:
            if raw:
                sys.stdout.buffer.write(record.line + b"\n")
            elif as_json:
                event = orjson.Fragment(record.line or b"null")
                head = {"seq": record.seq, "received": record.received, "dialect": record.dialect}
                terminal.put_json(
                    {**head, "family": record.family, "run": record.run, "event": event}
                )
            else:
                click.echo(_home.shown(record, opened))

        end = journal.last
        start = 0 if filtered else max(0, end - lines)
        found = (each for each in journal.records(start, wanted, through=end) if matches(each))
        for record in deque(found, maxlen=lines):
            put(record)
        sys.stdout.buffer.flush()
        if follow:
            for record in journal.follow(end, wanted):
                if matches(record):
                    put(record)
                    sys.stdout.buffer.flush()
