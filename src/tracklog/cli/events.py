"""`tracklog events`: what one run said, in order."""

import sys
from pathlib import Path

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal


@click.command(
    epilog="""\b
Examples:
  tracklog events agent-coder-1
  tracklog events agent-c            (a run id may be shortened while it is unambiguous)
  tracklog events kahn:nightly --after 120 --raw > nightly.jsonl""",
)
@click.argument("run")
@_home.home_option
@click.option("--after", type=click.IntRange(min=0), default=0, help="Only behind this record.")
@click.option("--raw", is_flag=True, help="The stored lines, byte for byte.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per record.")
@click.option(
    "--proof", type=click.Path(dir_okay=False, path_type=Path), help="Write a proof here, too."
)
def command(run: str, home: Path, after: int, raw: bool, as_json: bool, proof: Path | None) -> None:
    """Print the records of RUN, oldest first.

    With --raw and --proof, contracts/tracklog_verify.py proves the lines without tracklog.
    """
    import orjson  # noqa: PLC0415  # slow to import

    with _home.reading(home) as opened:
        found = opened.run(run)
        out = sys.stdout.buffer
        for record in opened.journal.records(after, run=found):
            if raw:
                if record.line:
                    out.write(record.line + b"\n")
            elif as_json:
                event = orjson.Fragment(record.line or b"null")
                head = {"seq": record.seq, "received": record.received, "dialect": record.dialect}
                terminal.put_json({**head, "family": found[0], "run": found[1], "event": event})
            else:
                click.echo(_home.shown(record, opened))
        out.flush()
    if proof is not None:
        from tracklog.verify import prove  # noqa: PLC0415

        proof.write_bytes(orjson.dumps(prove(home, found), option=orjson.OPT_APPEND_NEWLINE))
