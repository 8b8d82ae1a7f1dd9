"""`tracklog search`: where something was said."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal

if TYPE_CHECKING:
    from tracklog.cli._table import Names

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
@_home.read_option
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True)
@terminal.wide_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per record.")
def command(text: str, home: Path, limit: int, as_json: bool) -> None:
    """Print the records in which all the words of TEXT were said, the newest first.

    Tasks, prompts, replies, thoughts, tool arguments and results, errors, reasons, questions and
    answers are searched; of a text that was lifted into a blob, its beginning.
    """
    from tracklog.answers import answers

    with _home.asking(home) as opened:
        rows = answers.search(opened.index, text, limit)
        names = _home.names(opened)
    for row in rows:
        terminal.put_json(row) if as_json else click.echo(_row(row, text, names))
    sys.stdout.flush()
    if not rows:
        click.echo(f"nobody said {text!r}; `migrat*` finds beginnings of words", err=True)


def _row(row: dict[str, Any], text: str, names: "Names") -> str:
    """A hit on one line, its words marked; on a terminal it does not run over."""
    from tracklog.index.search_text import marked, terms

    width = terminal.width()
    moment = terminal.moment(row["at"], row["received"])
    narrow = width is not None and width < WIDE
    name = names.of(row["family"], row["run"])
    if width is not None:
        most = max(NARROW if narrow else ROOMY, names.least(name) + 1)  # and the sign of a cut
        name = terminal.fitted(name, min(most, width // 3))
    head = f"{row['seq']:>7}  {moment[5:16] if narrow else moment}  "
    if width is not None and width < TINY:
        head = f"{row['seq']:>7}  "
    room = MOST if width is None else max(8, width - len(head) - terminal.cells(name) - 2)
    parts: list[str] = []
    for piece, found in marked(row["text"], terms(text), max(8, room - 2)):
        shown = terminal.fitted(piece, min(room, terminal.cells(terminal.plain(piece))))
        room -= terminal.cells(shown)
        parts.append(click.style(shown, fg="yellow", bold=True) if found else shown)
    return f"{head}{click.style(terminal.plain(name), fg='cyan')}  {''.join(parts)}"
