"""`tracklog search`: where something was said."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal

if TYPE_CHECKING:
    from tracklog.cli._table import Names
    from tracklog.frame import Record

WIDE = 110
TINY = 60
NARROW, ROOMY = 12, 24
"""Columns of a run's name."""
MOST = 200
"""Characters of an excerpt, where there is all the room."""


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
        names = _home.names(opened)
    wanted = terms(text)
    for record, said in hits:
        if as_json:
            head = {"seq": record.seq, "received": record.received, "dialect": record.dialect}
            excerpt = "".join(piece for piece, _ in marked(said, wanted))
            of = {"family": record.family, "run": record.run}
            terminal.put_json({**head, **of, "excerpt": excerpt, "text": said})
        else:
            click.echo(_row(record, said, wanted, names))
    sys.stdout.flush()
    if not hits:
        click.echo(f"nobody said {text!r}; `migrat*` finds beginnings of words", err=True)


def _row(record: "Record", said: str, wanted: list[str], names: "Names") -> str:
    """A hit on one line, its words marked; on a terminal it does not run over."""
    from tracklog.index import marked  # noqa: PLC0415  # slow to import

    width = terminal.width()
    moment = record.received[:19].replace("T", " ")
    narrow = width is not None and width < WIDE
    name = names.of(record.family, record.run)
    if width is not None:
        least = names.least(name)
        most = max(NARROW if narrow else ROOMY, least)
        name = terminal.fitted(name[:most] if least <= most else name, min(most, width // 3))
    head = f"{record.seq:>7}  {moment[5:16] if narrow else moment}  "
    if width is not None and width < TINY:
        head = f"{record.seq:>7}  "
    room = MOST if width is None else max(8, width - len(head) - terminal.cells(name) - 2)
    parts: list[str] = []
    for piece, found in marked(said, wanted, max(8, room - 2)):
        text = terminal.fitted(piece, min(room, terminal.cells(terminal.plain(piece))))
        room -= terminal.cells(text)
        parts.append(click.style(text, fg="yellow", bold=True) if found else text)
    return f"{head}{click.style(terminal.plain(name), fg='cyan')}  {''.join(parts)}"
