"""`tracklog events`: the records of one run, in order."""

import sys
from pathlib import Path

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal
from tracklog.cli._records import printer


@click.command(
    epilog="""\b
Examples:
  tracklog events agent-coder-1
  tracklog events agent-c            (a run id may be shortened while it is unambiguous)
  tracklog events kahn:nightly --after 120 --raw > nightly.jsonl""",
)
@_home.run_argument()
@_home.read_option
@click.option("--after", type=click.IntRange(min=0), default=0, help="Only after this record.")
@click.option("--raw", is_flag=True, help="The stored lines, byte for byte.")
@terminal.wide_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per record.")
@click.option(
    "--proof",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write a proof to this file.",
)
def command(run: str, home: Path, after: int, raw: bool, as_json: bool, proof: Path | None) -> None:
    """Print the records of RUN, oldest first.

    With --raw and --proof, tracklog_verify.py (in the folder contracts of the package) can check
    the lines without tracklog.
    """
    with _home.reading(home) as opened:
        wanted = opened.run(run)
        put = printer(opened, raw=raw, as_json=as_json, one_run=True)
        for record in opened.journal.records(after, run=wanted):
            put(record)
        sys.stdout.buffer.flush()
        if proof is not None:
            import orjson

            from tracklog.journal.proof import prove_all

            proof.write_bytes(
                orjson.dumps(
                    prove_all(opened.storage_of(wanted), wanted), option=orjson.OPT_APPEND_NEWLINE
                )
            )
