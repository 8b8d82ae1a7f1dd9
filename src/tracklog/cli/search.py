"""`tracklog search`: full-text search in the events."""

import sys
from typing import TYPE_CHECKING

import click

from tracklog.cli import _question
from tracklog.cli import _terminal as terminal

if TYPE_CHECKING:
    from tracklog.answers.search import SearchRow
    from tracklog.cli._table import RunNames

WIDE = 110
TINY = 60
NARROW, ROOMY = 12, 24
"""The width of a run's name."""
MOST = 200
"""The longest excerpt."""


def _show(rows: "list[SearchRow]", call: _question.QuestionCall) -> None:
    text = call.parameters["query"]
    for row in rows:
        click.echo(_row(row, text, call.names))
    sys.stdout.flush()
    if not rows:
        click.echo(f"nothing contains {text!r}; `migrat*` finds beginnings of words", err=True)


def _row(row: "SearchRow", text: str, names: "RunNames") -> str:
    """A hit on one line, its words marked; on a terminal it is cut to the width."""
    from tracklog.index.search_text import marked, terms

    width = terminal.width()
    time = terminal.time_text(row.at, row.received)
    narrow = width is not None and width < WIDE
    name = names.of(row.family, row.run)
    if width is not None:
        most = max(NARROW if narrow else ROOMY, names.least(name) + 1)  # and the ellipsis
        name = terminal.fitted(name, min(most, width // 3))
    head = f"{row.seq:>7}  {time[5:16] if narrow else time}  "
    if width is not None and width < TINY:
        head = f"{row.seq:>7}  "
    room = MOST if width is None else max(8, width - len(head) - terminal.cells(name) - 2)
    parts: list[str] = []
    for piece, is_match in marked(row.text or row.excerpt, terms(text), max(8, room - 2)):
        text_part = terminal.fitted(piece, min(room, terminal.cells(terminal.printable(piece))))
        room -= terminal.cells(text_part)
        parts.append(click.style(text_part, fg="yellow", bold=True) if is_match else text_part)
    return f"{head}{click.style(terminal.printable(name), fg='cyan')}  {''.join(parts)}"


command = _question.verb("search", _show)
