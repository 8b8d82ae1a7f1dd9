"""`tracklog convert`: convert a run to another dialect."""

from collections.abc import Iterator
from pathlib import Path

import click

from tracklog.cli import _home, _names, _options, _writing


@click.command(
    epilog="""\b
Examples:
  tracklog convert agent-coder-1 --to awf > agent-coder-1.jsonl
  tracklog convert agent-coder-1 --to openwop -o run.jsonl --report
  tracklog convert agent-coder-1 --to tracklog --strict     (only if nothing is lost)

\b
Exit code: 0 written, 1 something would be lost and --strict was given, 2 usage or I/O.""",
)
@_home.run_argument()
@_home.read_option
@click.option(
    "--to",
    metavar="DIALECT",
    shell_complete=_names.of("dialects"),
    required=True,
    help="The dialect to convert to.",
)
@_options.loss_options
@click.option("--bare", is_flag=True, help="Do not add the original lines under an extra key.")
def command(
    run: str,
    home: Path,
    to: str,
    output: Path | None,
    strict: bool,
    report: bool,
    as_json: bool,
    bare: bool,
) -> None:
    """Convert RUN to another dialect: every line passes the check of that dialect.

    Fields that the dialect cannot express are added under an extra key; if you convert the run back,
    the original lines are restored from it. Without -o the report goes to standard error.
    """
    from tracklog.formats.convert import convert
    from tracklog.formats.loss import LossReport
    from tracklog.home import registry
    from tracklog.journal.frame import Record

    dialect, losses = registry.dialect(to), LossReport()
    with _home.reading(home) as opened:
        family, name = opened.run(run)
        last, dialects = opened.journal_of((family, name)).last, opened.dialects

        def lines(losses: LossReport) -> Iterator[bytes]:
            def records() -> Iterator[Record]:
                return opened.journal.records(run=(family, name), through=last)

            for line in convert(records, dialects, dialect, losses, carry=not bare):
                yield line + b"\n"

        if strict:
            first = LossReport()
            for _ in lines(first):
                pass
            if not first.lossless:
                _writing.refuse(first, as_json=as_json)
        _writing.put(lines(losses), output)
    if report or as_json:
        _writing.print_losses(losses, as_json=as_json, err=output is None)
