"""Rows as a table that fits the terminal, or as JSON."""

import shutil
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from tracklog.cli import _terminal as terminal

Column = tuple[str, Callable[[dict[str, Any]], Any]]
WIDEST = 26
"""Of a column that is not the last."""

COLOURS = {"waiting": "yellow", "failed": "red", "lost": "magenta", "working": "cyan"}
COLOURS |= {"done": "green", "open": "yellow", "red": "red", "amber": "yellow", "green": "green"}


def put(
    rows: Iterable[dict[str, Any]], columns: Sequence[Column], empty: str, *, as_json: bool
) -> None:
    """One JSON object per row; or a table whose last column takes what room is left."""
    if as_json:
        for row in rows:
            terminal.put_json(row)
        return
    cells = [[cell(value(row)) for _, value in columns] for row in rows]
    if not cells:
        click.echo(empty)
        return
    heads = [name for name, _ in columns]
    widths = [min(WIDEST, max(map(len, column))) for column in zip(heads, *cells, strict=True)]
    widths[-1] = max(len(heads[-1]), *(len(row[-1]) for row in cells))
    room = shutil.get_terminal_size().columns - sum(widths[:-1]) - 2 * (len(widths) - 1)
    widths[-1] = max(8, min(widths[-1], room))
    click.secho(_line(heads, widths), bold=True)
    for texts in cells:
        line = _line(texts, widths)
        colour = next((COLOURS[each] for each in texts if each in COLOURS), None)
        click.echo(click.style(line, fg=colour) if colour else line)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(map(_fitted, cells, widths)).rstrip()


def _fitted(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else f"{text[: width - 1]}…"


def cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, list | tuple | set):
        return ", ".join(map(str, value))
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return " ".join(str(value).split())


def age(seconds: float | None) -> str:
    """A length of time in the unit that fits: 42s, 3m, 5h, 12d."""
    if seconds is None:
        return "-"
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:.0f}s"
