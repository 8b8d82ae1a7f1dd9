"""Cells: what happened within a minute, under some names, as a run adds it to the sums of all runs."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tracklog.folds import MARK, MINUTE


class Cell(NamedTuple):
    """A kind of thing that happened within a minute, under some names; "" where none is known."""

    kind: str
    minute: int
    """Since 1970."""
    agent: str
    model: str
    tool: str
    part: int
    """Tells apart what is not added up: classes of durations, of results, of prices."""
    project: str = ""
    branch: str = ""
    dialect: str = ""
    source: str = ""
    """The family of the run: the program that made it."""


RunNames = tuple[str, str, str, str]
"""Project, branch, dialect and source: the names that all cells of a run have."""


class Cells(NamedTuple):
    """What one run adds: amounts by cell, and the names that all its cells have."""

    names: RunNames = ("", "", "", "")
    amounts: Mapping[str, list[int]] = {}
    """By `cell_key`; a list is replaced, never changed, so that two of these can be compared."""


MOST_AMOUNTS = 14
"""A cell has so many amounts at most."""


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
    names = MARK.join((agent or "", model or "", tool or ""))
    if names.count(MARK) != 2:
        names = MARK.join((name or "").replace(MARK, " ") for name in (agent, model, tool))
    return MARK.join((kind, str(at_ms // MINUTE), names, str(part), *more))


def cell_of(key: str, names: RunNames) -> Cell:
    """The cell of such a key."""
    kind, minute, agent, model, tool, part, *_ = key.split(MARK)
    return Cell(kind, int(minute), agent, model, tool, int(part), *names)


def changed_cells(before: Cells, after: Cells) -> Iterator[tuple[Cell, list[int]]]:
    """What has to be added to get from one to the other."""
    if before.names != after.names:
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
