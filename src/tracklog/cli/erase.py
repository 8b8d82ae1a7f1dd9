"""`tracklog erase`: delete the bytes of one record, with a tombstone."""

from pathlib import Path

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal
from tracklog.cli._terminal import printable


@click.command(
    epilog="""\b
Examples:
  tracklog erase agent-coder-1 42 --reason "a token was logged" """,
)
@_home.run_argument()
@click.argument("seq", type=click.IntRange(min=1))
@_home.home_option
@click.option("--reason", required=True, help="The reason, written to the tombstone.")
@click.option(
    "--by", default=None, help="The name of the person; the user's name is recorded, too."
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    run: str, seq: int, home: Path, reason: str, by: str | None, yes: bool, as_json: bool
) -> None:
    """Delete the content of record SEQ of RUN; the other records can still be verified.

    A tombstone with the hash of the record takes its place. The bytes are deleted everywhere in
    this home, and an event with the same identity is not accepted again. Copies outside the home
    are not deleted.
    """
    _home.reading(home).close()
    with _home.writing(home) as opened:
        opened.record(run, seq)  # no confirmation for a record that does not exist
        if not yes and not _confirmed(seq, run):
            click.echo("nothing was erased; --yes does not ask", err=True)
            raise click.Abort
        done = opened.erase(run, seq, reason=reason, by=_home.name_of(by))
    if as_json:
        terminal.put_json(
            {"seq": done.seq, "run": done.run[1], "leaf": done.leaf, "also": done.also}
        )
    else:
        also = f"; also in {', '.join(done.also)}" if done.also else ""
        click.echo(f"record {done.seq} is erased{also}")


def _confirmed(seq: int, run: str) -> bool:
    try:
        return click.confirm(
            f"delete the content of record {seq} of {printable(run)}? This cannot be undone.",
            err=True,
        )
    except click.Abort:
        click.echo(err=True)  # the prompt has no line end
        return False
