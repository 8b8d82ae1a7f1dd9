"""`tracklog rebuild`: rebuild the index from the journal."""

from pathlib import Path

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal
from tracklog.cli._progress import progress_bar


@click.command(
    epilog="""\b
Examples:
  tracklog rebuild
  tracklog rebuild --json

\b
It is seldom needed: an index that is damaged, or was made by another version, is rebuilt when
it is used next.""",
)
@_home.home_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(home: Path, as_json: bool) -> None:
    """Rebuild the index from the journal; this takes time and loses nothing."""
    with _home.reading(home) as opened:
        with progress_bar("indexing") as progress:
            _home.report(opened.index.rebuild(progress))
        cursor, last = opened.index.index.cursor, opened.journal.last
    if as_json:
        terminal.put_json({"cursor": cursor, "last": last})
    else:
        click.echo(f"the index is at record {cursor:,} of {last:,}")
