"""What happened within spans of time, over all runs, each thing counted once.

The index has the sums over all runs. Runs that record a conversation for which another run is
counted are taken out of them, and a spend that several runs record is left in the first of them.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import add, attrgetter
from typing import Any

from tracklog.answers.duplicates import same_conversation
from tracklog.answers.related import read_spends
from tracklog.folds import MARK, MINUTE, costs, series
from tracklog.folds._cells import Cell, RunNames, cell_of
from tracklog.index.indexer import Indexer
from tracklog.index.indexes import NO_FILTER, Total

Spans = Sequence[tuple[int, int]]
Where = Mapping[str, Collection[str]]

_FIELDS = attrgetter(*series.SPEND)
_FOLDS = {"runs": "runs", "runs_by_agent": "runs"}
"""The fold of a kind of cells, where that is not `series`."""


def totals(
    index: Indexer,
    kind: str,
    spans: Spans,
    by: str = "",
    where: Where = NO_FILTER,
    tiers: Sequence[int] | None = None,
) -> list[Total]:
    """The sums of the cells of a kind, for each span of minutes, name and part.

    `by` may be several fields with commas between them; then the name is several, with `MARK`
    between them. One name and part may have several rows in a span, some of them negative. With `tiers`, the parts
    of spends are of these; the index has sums for its own tiers only, so every spend is read.
    """
    if tiers is not None and kind == "spends":
        rows, cells = [], _all_spends(index, tiers)
    else:
        rows, cells = index.totals(kind, spans, by=by, where=where), _corrections(index, kind)
    fields = by.split(",") if by else []
    for cell, amounts in cells:
        if all(getattr(cell.label, name) in wanted for name, wanted in where.items()):
            span = _span(spans, cell.minute)
            if span is not None:
                name = MARK.join(getattr(cell.label, each) for each in fields)
                rows.append(Total(span, name, cell.part, tuple(amounts)))
    return rows


def net(rows: Sequence[Total]) -> Iterator[Total]:
    """The rows with each name and part once: what was taken out of the sums is subtracted."""
    sums: dict[tuple[int, str, int], Sequence[int]] = {}
    for row in rows:
        of = (row.span, row.name, row.part)
        known = sums.get(of)
        sums[of] = row.amounts if known is None else [*map(add, known, row.amounts)]
    return (Total(*of, tuple(amounts)) for of, amounts in sums.items() if amounts[0])


def _all_spends(index: Indexer, tiers: Sequence[int]) -> Iterator[tuple[Cell, Sequence[int]]]:
    left = same_conversation(index)
    names: dict[str, RunNames] = {}
    for spend in costs.counted((state for _, state in index.states("costs")), left):
        run = f"{spend.family}:{spend.run}"
        if run not in left:
            if run not in names:
                names[run] = index.cells("series", run).names
            key, amounts = series.spend_cell(_FIELDS(spend), tiers)
            yield cell_of(key, names[run]), amounts


def _span(spans: Spans, minute: int) -> int | None:
    """The number of the span that a minute is in."""
    place = bisect_right(spans, minute, key=lambda span: span[0]) - 1
    return place if place >= 0 and minute < spans[place][1] else None


def _corrections(index: Indexer, kind: str) -> Iterator[tuple[Cell, Sequence[int]]]:
    """What has to be added to the sums over all runs, so that each thing counts once."""
    if kind == "audits":
        return  # a verdict counts in every run that records it
    left = same_conversation(index)
    runs = set(left)
    if kind in ("spends", "spenders", "unreported"):
        runs |= {run for row in index.shared("costs") for run in row}
    known = {run: index.cells(_FOLDS.get(kind, "series"), run) for run in runs}
    for run, cells in known.items():
        if kind != "unreported" or run in left:
            for key, amounts in cells.amounts.items():
                if key.startswith(f"{kind}{MARK}"):
                    yield cell_of(key, cells.names), [-amount for amount in amounts]
    if kind in ("spends", "spenders"):
        counted = [
            (f"{spend.family}:{spend.run}", _FIELDS(spend))
            for spend in costs.counted(read_spends(index, runs), left)
        ]
        own = [(run, spend) for run, spend in counted if run in runs and run not in left]
        again = _spend_cells(own) if kind == "spends" else _spender_cells(own)
        for run, key, added in again:
            yield cell_of(key, known[run].names), added


Spends = Sequence[tuple[str, Sequence[Any]]]
"""By run, the fields of its spends."""


def _spend_cells(spends: Spends) -> Iterator[tuple[str, str, Sequence[int]]]:
    for run, spend in spends:
        yield run, *series.spend_cell(spend)


def _spender_cells(spends: Spends) -> Iterator[tuple[str, str, Sequence[int]]]:
    firsts: dict[str, dict[tuple[str, ...], int]] = {}
    for run, spend in spends:
        names, minute = series.spender_names(spend), spend[0] // MINUTE
        known = firsts.setdefault(run, {})
        known[names] = min(known.get(names, minute), minute)
    for run, of in firsts.items():
        for key, amounts in series.spender_cells(of).items():
            yield run, key, amounts
