"""Cells: the amounts that one run adds, minute by minute and name by name, to the sums of all runs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from operator import add
from typing import NamedTuple

from tracklog.folds import MARK, MINUTE


class Label(NamedTuple):
    """The names under which something happened; "" where none is known."""

    agent: str = ""
    model: str = ""
    tool: str = ""
    project: str = ""
    branch: str = ""
    dialect: str = ""
    source: str = ""
    """The family of the run: the program that made it."""


class Cell(NamedTuple):
    """A kind of thing that happened within a minute, under some names."""

    kind: str
    minute: int
    """Since 1970."""
    part: int
    """Tells apart what is not added up: classes of durations, of results, of prices."""
    label: Label


RunNames = tuple[str, str, str, str]
"""Project, branch, dialect and source: the names that all cells of a run have."""


class Cells(NamedTuple):
    """What one run adds: amounts by cell, and the names that all its cells have."""

    names: RunNames = ("", "", "", "")
    amounts: Mapping[str, list[int]] = {}
    """By `cell_key`; a list is replaced, never changed, so that two of these can be compared."""


NO_CELLS = Cells()
MOST_AMOUNTS = 15
"""A cell has so many amounts at most."""
AMOUNTS = {"calls": 3, "spends": MOST_AMOUNTS}
"""How many amounts the cells of a kind have; all others have one."""


def cell_key(
    kind: str,
    at_ms: int,
    agent: str | None,
    model: str | None,
    tool: str | None = None,
    part: int = 0,
    *more: str,
) -> str:
    """The key of a cell within its run; `more` tells apart what the run itself must not add up."""
    mark, minute = MARK, at_ms // MINUTE
    key = (
        f"{kind}{mark}{minute}{mark}{agent or ''}{mark}{model or ''}{mark}{tool or ''}{mark}{part}"
    )
    if more:
        key = mark.join((key, *more))
    if key.count(mark) == 5 + len(more):  # the usual case: no name contains `MARK`
        return key
    names = ((name or "").replace(MARK, " ") for name in (agent, model, tool))
    return mark.join((kind, str(minute), *names, str(part), *more))


def cell_of(key: str, names: RunNames) -> Cell:
    """The cell of such a key."""
    kind, minute, agent, model, tool, part, *_ = key.split(MARK)
    label = _new(Label, (agent, model, tool, *names))
    return _new(Cell, (kind, int(minute), int(part), label))


_new = tuple.__new__
"""Several cells are made for each event: by their own constructor, that takes twice as long."""


LENGTHS = (43_200, 1440, 60)
"""The index adds cells up by thirty days, by day and by hour, too; in minutes, the longest first."""


def longer(kind: str, length: int) -> str:
    """The kind of the cells that are the sums over so many minutes of the cells of a kind."""
    return f"{kind}/{length}"


def with_sums(
    changes: Iterable[tuple[Cell, Sequence[int]]],
) -> Iterator[tuple[Cell, Sequence[int]]]:
    """Changes of cells added up, and what they add to the cells of the hour, of the day and of
    thirty days.
    """
    by_name: dict[tuple[str, int, Label], dict[int, Sequence[int]]] = {}
    for (kind, minute, part, label), amounts in changes:
        name = (kind, part, label)
        known = by_name.get(name)
        if known is None:
            by_name[name] = {minute: amounts}
        else:
            before = known.get(minute)
            known[minute] = amounts if before is None else [*map(add, before, amounts)]
    for (kind, part, label), sums in by_name.items():
        if len(sums) == 1:  # the usual case
            ((at, amounts),) = sums.items()
            if any(amounts):
                for of, length in _lengths(kind):
                    yield _new(Cell, (of, at // length * length, part, label)), amounts
            continue
        minutes: Mapping[int, Sequence[int]] = sums
        for of, length in _lengths(kind):  # each is made of the sums of the one before
            if length > 1:
                minutes = _longer(minutes, length)
            for minute, amounts in minutes.items():
                if any(amounts):
                    yield _new(Cell, (of, minute, part, label)), amounts


@cache
def _lengths(kind: str) -> list[tuple[str, int]]:
    """A kind of cells, and the kinds of its sums, with their minutes, the shortest first."""
    return [(kind, 1), *((longer(kind, length), length) for length in reversed(LENGTHS))]


def _longer(minutes: Mapping[int, Sequence[int]], length: int) -> dict[int, Sequence[int]]:
    """What amounts come to in longer times."""
    sums: dict[int, Sequence[int]] = {}
    for minute, amounts in minutes.items():
        begin = minute // length * length
        known = sums.get(begin)
        sums[begin] = amounts if known is None else [*map(add, known, amounts)]
    return sums


def in_pieces(spans: Sequence[tuple[int, int]]) -> dict[int, list[tuple[int, tuple[int, int]]]]:
    """Spans cut into whole lengths, the longest first, and minutes: by length, the number of the span and the
    piece.
    """
    pieces: dict[int, list[tuple[int, tuple[int, int]]]] = {}
    rest = list(enumerate(spans))
    for length in LENGTHS:
        left = []
        for number, (first, last) in rest:
            begin, end = -(-first // length) * length, last // length * length
            if begin < end:
                pieces.setdefault(length, []).append((number, (begin, end)))
                left += [(number, (first, begin)), (number, (end, last))]
            else:
                left.append((number, (first, last)))
        rest = [(number, piece) for number, piece in left if piece[0] < piece[1]]
    if rest:
        pieces[1] = rest
    return pieces


def changed_cells(before: Cells, after: Cells) -> Iterator[tuple[Cell, list[int]]]:
    """What has to be added to get from one to the other."""
    if before.names != after.names:
        if before.amounts:
            yield from changed_cells(before, Cells(before.names))
        before = Cells(after.names)
    for key, amounts in after.amounts.items():
        known = before.amounts.get(key)
        if known is None:
            yield cell_of(key, after.names), amounts
        elif known is not amounts and known != amounts:
            change = [new - old for new, old in zip(amounts, known, strict=True)]
            yield cell_of(key, after.names), change
    for key, amounts in before.amounts.items():
        if key not in after.amounts:
            yield cell_of(key, before.names), [-amount for amount in amounts]
