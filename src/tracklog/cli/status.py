"""`tracklog status`: how far a journal, its index and its archive are."""

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal


@click.command(
    epilog="""\b
Examples:
  tracklog status
  tracklog status --json | jq .archive.behind
  tracklog status --store postgresql://tracklog@db.example/tracklog""",
)
@_home.read_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(home: _home.Place, as_json: bool) -> None:
    """Print the number of the last record, and how many records are not indexed or archived yet.

    Records that are not archived yet would be missing if this machine were lost now. Of a journal
    in PostgreSQL, it prints the same as `tracklog store status`.
    """
    if isinstance(home, _home.RemoteStore):
        from tracklog.cli.store import addresses_of, report_store
        from tracklog.journal.postgres.status import status as store_status

        report_store(store_status(addresses_of(home.url)), as_json=as_json)
        return
    from tracklog.answers.status import status

    with _home.reading(home) as opened:
        state = status(opened)
    if as_json:
        terminal.put_json(state)
        return
    click.echo(terminal.printable(f"{state.home}: records {state.first:,} to {state.last:,}"))
    click.echo(f"head {state.head}")
    click.echo(f"index: up to record {state.indexed:,}, {state.index_behind:,} behind")
    if state.archive is None:
        click.echo("archive: none; `tracklog serve --archive PLACE` keeps one")
    else:
        of = state.archive
        click.echo(
            terminal.printable(f"archive {of.place}: {of.behind:,} not archived yet, as of {of.at}")
        )
