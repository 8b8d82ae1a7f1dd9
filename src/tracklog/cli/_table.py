"""Rows as a table that fits the terminal, or as JSON; a pipe gets everything in full."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import click

from tracklog.cli import _home
from tracklog.cli import _terminal as terminal

GAP = 2
NOTHING = "-"
SHORT = 8
"""The shortest form of an id, in characters."""
BESIDE = 30
"""Columns that an uncut text needs beside the others; with fewer it goes below them."""
INDENT = 4
PADDED = 40
"""The greatest padding in a pipe, so that one long value does not widen all rows."""

COLOURS = {"waiting": "yellow", "failed": "red", "lost": "magenta", "working": "cyan"}
COLOURS |= {"done": "green", "open": "yellow", "red": "red", "amber": "yellow", "green": "green"}
COLOURS |= {"error": "red", "warning": "yellow", "info": "cyan"}


class Column(NamedTuple):
    """A column, and its behaviour where there is little room."""

    name: str
    value: Callable[[Any], Any]
    rank: int = 0
    """The order in which columns are left out: the greatest first, after empty ones; 0 is never
    left out.
    """
    cut: int = 0
    """The width that its texts may be cut to; 0 where they may not, as with numbers."""
    right: bool = False
    least: Callable[[str], int] | None = None
    """How many characters make a text unambiguous; it is never cut further."""
    wrap: bool = False
    """Whether it wraps instead of being cut. Only for the last column."""


Keys = Callable[[str, int], Sequence[str]]
"""From a prefix, the first keys of runs that begin so, in order, and so many of them at most."""


class RunNames:
    """The names of runs: the id, `family:run` where two share one, as short as possible.

    Only the runs that are named alike are read from the index.
    """

    def __init__(self, keys: Keys, families: Iterable[str]) -> None:
        self._keys = keys
        self._families = sorted(families)

    def of(self, family: str, run: str) -> str:
        """The name by which this run can be requested."""
        others = (f"{other}:{run}" for other in self._known if other != family)
        is_shared = any(self._keys(key, 1) == [key] for key in others)
        return f"{family}:{run}" if is_shared else run

    def least(self, name: str) -> int:
        """The shortest unambiguous prefix of a name."""
        family, _, run = name.partition(":")
        if run and family in self._known and self._keys(name, 1) == [name]:
            return max(self._need(name, [""]), min(len(name), len(family) + 1 + SHORT))
        return self._need(name, [f"{each}:" for each in self._known])

    @cached_property
    def _known(self) -> list[str]:
        """The families that have runs."""
        return [each for each in self._families if self._keys(f"{each}:", 1)]

    def _need(self, name: str, before: Sequence[str]) -> int:
        """The characters by which a name differs from all others that stand behind one of these."""
        need = min(len(name), SHORT)
        while need < len(name):
            alike = (
                key.removeprefix(each)
                for each in before
                for key in self._keys(each + name[:need], 2)
            )
            longer = [_shared(name, other) + 1 for other in alike if other != name]
            if not longer:
                break
            need = min(len(name), max(longer))
        return need

    def column(self, name: str = "run", rank: int = 0) -> Column:
        """The column of a row's run."""
        return Column(name, lambda row: self.of(row.family, row.run), rank, SHORT, least=self.least)


def _shared(one: str, other: str) -> int:
    """The length of the common prefix of two names."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def put(rows: Iterable[Any], columns: Sequence[Column], empty: str) -> None:
    """Print a table as wide as the terminal; or, without rows, a hint."""
    texts = [[terminal.printable(cell(column.value(row))) for column in columns] for row in rows]
    if not texts:
        click.echo(_home.same_record(empty))
        return
    for line in lines(texts, columns, terminal.width()):
        click.echo(line)


def lines(
    texts: Sequence[Sequence[str]], columns: Sequence[Column], room: int | None
) -> Iterable[str]:
    """The head and the rows, each at most this wide; on one line, unless a column wraps."""
    widths = [
        max(terminal.cells(text) for text in (column.name, *(row[n] for row in texts)))
        for n, column in enumerate(columns)
    ]
    if room is None:
        fitted = [min(width, PADDED) for width in widths]
        numbers = list(range(len(columns)))
    else:
        numbers, fitted = _fitted(texts, columns, widths, room)
    fitting = [columns[n] for n in numbers]
    if room is not None and fitting[-1].wrap and fitted[-1] < min(widths[numbers[-1]], BESIDE):
        yield from _above(texts, numbers, fitting, fitted, room)
        return
    yield click.style(_line([column.name for column in fitting], fitting, fitted, room), bold=True)
    for row in texts:
        cells = [row[n] for n in numbers]
        rest: list[str] = []
        if room is not None and fitting[-1].wrap:
            cells[-1], *rest = _wrapped(cells[-1], fitted[-1])
        yield _line(cells, fitting, fitted, room, paint=True)
        margin = " " * (sum(fitted[:-1]) + GAP * (len(fitted) - 1))
        yield from (f"{margin}{line}" for line in rest)


def _above(
    texts: Sequence[Sequence[str]],
    numbers: Sequence[int],
    fitting: Sequence[Column],
    fitted: Sequence[int],
    room: int,
) -> Iterator[str]:
    """A long text that does not fit beside the other columns is printed below them, in full."""
    others, widths = fitting[:-1], fitted[:-1]
    yield click.style(_line([column.name for column in others], others, widths, room), bold=True)
    for row in texts:
        yield _line([row[n] for n in numbers[:-1]], others, widths, room, paint=True)
        yield from (f"{'':{INDENT}}{line}" for line in _wrapped(row[numbers[-1]], room - INDENT))


def _wrapped(text: str, width: int) -> list[str]:
    """A text on lines of this width, broken between words where there are any."""
    rows, line = [], ""
    for word in text.split(" "):
        joined = f"{line} {word}" if line else word
        if terminal.cells(joined) <= width:
            line = joined
            continue
        rows += [line] if line else []
        line = word
        while terminal.cells(line) > width:
            piece = terminal.fitted(line, width + 1).rstrip()[:-1]  # without the ellipsis
            piece = piece or line[:1]
            rows.append(piece)
            line = line[len(piece) :]
    return [*rows, line] if line or not rows else rows


def _fitted(
    texts: Sequence[Sequence[str]], columns: Sequence[Column], widths: Sequence[int], room: int
) -> tuple[list[int], list[int]]:
    """The columns that stay, and their widths: those that may be cut share the remaining room."""
    least = [_least(texts, n, column, widths[n]) for n, column in enumerate(columns)]
    numbers = list(range(len(columns)))
    blank = {n for n in numbers if all(row[n] == NOTHING for row in texts)}
    while sum(least[n] for n in numbers) + GAP * (len(numbers) - 1) > room:
        loose = [n for n in numbers if columns[n].rank]
        if not loose:
            break
        numbers.remove(max(loose, key=lambda n: (n in blank, columns[n].rank, n)))
    sizes = {n: least[n] for n in numbers}
    left = room - sum(sizes.values()) - GAP * (len(numbers) - 1)
    while left > 0 and (wanting := [n for n in numbers if sizes[n] < widths[n]]):
        # A name that is unambiguous gets the room that the texts leave.
        n = min(wanting, key=lambda n: (columns[n].least is not None, sizes[n]))
        sizes[n] += 1
        left -= 1
    return numbers, [sizes[n] for n in numbers]


def _least(texts: Sequence[Sequence[str]], n: int, column: Column, width: int) -> int:
    if not column.cut:
        return width
    if column.least is None:
        return min(width, max(column.cut, terminal.cells(column.name)))
    needs = (_needed(row[n], column.least(row[n])) for row in texts)
    return min(width, max(terminal.cells(column.name), *needs))


def _needed(text: str, least: int) -> int:
    """The width of a text of which this many characters must stay, with the ellipsis."""
    return terminal.cells(text[:least]) + (least < len(text))


def _line(
    texts: Sequence[str],
    columns: Sequence[Column],
    widths: Sequence[int],
    room: int | None,
    *,
    paint: bool = False,
) -> str:
    parts, left = [], room
    for text, column, width in zip(texts, columns, widths, strict=True):
        if left is not None and left <= 0:
            break
        part = _part(text, column, width if left is None else min(width, left), room)
        if left is not None:
            left -= width + GAP
        colour = COLOURS.get(text) if paint else None
        parts.append(click.style(part, fg=colour) if colour else part)
    return (" " * GAP).join(parts).rstrip()


def _part(text: str, column: Column, width: int, room: int | None) -> str:
    if terminal.cells(text) > width and room is None:
        return text
    fitted = terminal.fitted(text, width)
    return fitted.strip().rjust(width) if column.right else fitted


def cell(value: Any) -> str:
    """A value on one line, for a person."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {cell(each)}" for name, each in value.items())
    if isinstance(value, list | tuple | set):
        return ", ".join(map(cell, value))
    return " ".join(str(value).split()) or NOTHING


def _number(value: float) -> str:
    if value == int(value) and abs(value) < 2**53:
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.1e}"


MONEY = """Money is in US dollars: $0.10 as the source reported it, ~$0.10 computed from list
prices, ≥$0.10 this or more (a part is not known), ≤$0.10 this or less. Two signs can be
together: ≥~$0.10."""
"""An explanation of the marks, for the help of the verbs that print money."""


def money(value: float | None, mark: str = "") -> str:
    """US dollars, as every verb prints them; empty for None."""
    if value is None:
        return NOTHING
    from tracklog.answers.phrases import dollars

    return f"{mark}{dollars(value)}"


class Priced(Protocol):
    """A row with money."""

    @property
    def cost_usd(self) -> float | None: ...
    @property
    def computed_usd(self) -> float | None: ...
    @property
    def lower_bound(self) -> bool: ...
    @property
    def upper_bound(self) -> bool: ...


def cost(row: Priced) -> str:
    """The cost of a row, with the marks that `MONEY` explains."""
    known = [row.cost_usd, row.computed_usd]
    amounts = [amount for amount in known if amount is not None]
    bound = "≥" if row.lower_bound else "≤" if row.upper_bound else ""
    computed = "~" if known[1] is not None else ""
    return money(sum(amounts) if amounts else None, f"{bound}{computed}")


def duration_text(value: float | None) -> str:
    """A duration in the unit that fits: 0.4ms, 42ms, 1.5s, 42s, 3m, 5h, 12d."""
    if value is None:
        return "-"
    if value >= 9.95:
        return age(value)
    if value >= 0.9995:
        return f"{value:.1f}s"
    return f"{value * 1000:.0f}ms" if value >= 0.00995 or value == 0 else f"{value * 1000:.1f}ms"


def age(seconds: float | None) -> str:
    """A duration in the unit that fits: 42s, 3m, 5h, 12d."""
    if seconds is None:
        return "-"
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:.0f}s"


def ago(seconds: float | None) -> str:
    """The time since then."""
    return "-" if seconds is None else "now" if seconds < 1 else f"{age(seconds)} ago"
