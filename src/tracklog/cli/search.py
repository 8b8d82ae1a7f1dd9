"""`tracklog search`: where something was said."""

import sys
from pathlib import Path

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal


@click.command(
    epilog="""\b
Examples:
  tracklog search timeout
  tracklog search '"connection refused" api'     (a phrase, and a word anywhere)
  tracklog search 'migrat*' --json""",
)
@click.argument("text")
@_home.home_option
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per record.")
def command(text: str, home: Path, limit: int, as_json: bool) -> None:
    """Print the records in which all the words of TEXT were said, the newest first.

    Tasks, prompts, replies, thoughts, tool arguments and results, errors, reasons, questions and
    answers are searched.
    """
    from tracklog.index import marked, terms  # noqa: PLC0415  # slow to import

    with _home.asking(home) as opened:
        hits = opened.index.search(text, limit)
    wanted = terms(text)
    for record, said in hits:
        pieces = marked(said, wanted)
        if as_json:
            head = {"seq": record.seq, "received": record.received, "dialect": record.dialect}
            excerpt = "".join(piece for piece, _ in pieces)
            of = {"family": record.family, "run": record.run}
            terminal.put_json({**head, **of, "excerpt": excerpt, "text": said})
        else:
            moment = record.received[:19].replace("T", " ")
            run = click.style(f"{record.run[:20]:<20}", fg="cyan")
            excerpt = "".join(
                click.style(piece, fg="yellow", bold=True) if found else piece
                for piece, found in pieces
            )
            click.echo(f"{record.seq:>8}  {moment}  {run}  {excerpt}")
    sys.stdout.flush()
    if not hits:
        click.echo(f"nobody said {text!r}; `migrat*` finds beginnings of words", err=True)
