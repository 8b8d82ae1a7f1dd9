"""Costs from the sums that the index has, so that no spend is read."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import add

from tracklog.answers._series_query import tiers_of
from tracklog.answers._series_spends import by_price, listed_cost
from tracklog.answers.buckets import minute_of
from tracklog.answers.prices import Prices
from tracklog.answers.totals import Spans, net, totals
from tracklog.folds import MARK, MINUTE
from tracklog.folds import series as series_fold
from tracklog.folds._spends import DOLLAR, TOKENS
from tracklog.index.indexer import Indexer
from tracklog.index.indexes import Total

LABELS = {"agent": "agent", "model": "model", "provider": "tool", "project": "project"}
"""The field of a cell that has each name; a provider stands where tools do."""
_SPENDER = ("agent", "model", "provider")
_COLUMN = {name: n for n, name in enumerate(series_fold.SPENDS)}
_DAY = 1440
_FIRST = minute_of(datetime(1, 1, 1, tzinfo=UTC))
_LAST = minute_of(datetime(9999, 12, 31, tzinfo=UTC)) + _DAY
_STEPS = (40_000 * _DAY, 400 * _DAY, _DAY)
"""The lengths of time, in minutes, in which it is looked whether anything was spent at all."""

Begin = Callable[[int], str]
"""From a time in milliseconds, when its day, week or month began."""
Group = tuple[str, str | None, str | None]
"""When its day, week or month began, and one or two names."""


@dataclass(slots=True)
class CostSum:
    """What was spent under one name."""

    spends: int = 0
    priced: int = 0
    computed: int = 0
    runs: int = 0
    known: int = 0
    """A bit for each amount that is known of some spend."""
    is_lower: bool = False
    amounts: list[int] = field(default_factory=lambda: [0] * len(series_fold.SPENDS))
    unpriced: set[str] = field(default_factory=set)

    def add(self, row: Total, model: str, day: str, prices: Prices) -> None:
        """Add the spends of a model at the prices of a day."""
        count = row.amounts[0]
        self.spends += count
        self.amounts = [*map(add, self.amounts, row.amounts)]
        self.known |= row.part
        if row.part & series_fold.COST:
            self.priced += count
        elif (cost := listed_cost(prices, tiers_of(prices), model or None, day, row)) is not None:
            self.priced += count
            self.computed += cost.amount
            self.is_lower |= not cost.complete
        elif model:
            self.unpriced.add(model)

    def amount(self, name: str) -> int | None:
        """A sum of it; None where no spend has that amount."""
        is_known = self.known >> series_fold.KNOWN.index(name) & 1
        return self.amounts[_COLUMN[name]] if is_known else None

    def row(self) -> dict[str, float | list[str] | None]:
        """It as a row of costs."""
        cost = self.amount("cost")
        return {
            "runs": self.runs,
            "spends": self.spends,
            "calls": self.amounts[_COLUMN["calls"]],
            **{name: self.amount(name) for name in TOKENS},
            "cost_usd": None if cost is None else cost / DOLLAR,
            "computed_usd": self.computed / DOLLAR if self.computed else None,
            "lower_bound": self.is_lower
            or self.amounts[_COLUMN["lower"]] > 0
            or 0 < self.priced < self.spends,
            "upper_bound": self.amounts[_COLUMN["upper"]] > 0,
            "unpriced_models": sorted(self.unpriced),
        }


def cost_sums(
    index: Indexer,
    prices: Prices,
    names: Sequence[str],
    first_ms: float | None,
    last_ms: float | None,
    begin: Begin | None,
    *,
    in_time: bool = False,
) -> dict[Group, CostSum]:
    """What was spent from one minute until another, by names, and with `begin` by time, too.

    With `in_time`, without what was recorded long after it was spent.
    """
    first = _FIRST if first_ms is None else int(first_ms // MINUTE)
    last = _LAST if last_ms is None else int(last_ms // MINUTE)
    begins, spans = [""], [(first, last)] if first < last else []
    if begin is not None:
        begins, spans = _in_time(index, spans, begin)
    fields = [LABELS[name] for name in names if name in LABELS]
    sums: dict[Group, CostSum] = defaultdict(CostSum)
    parts, days, places = by_price(spans, prices)
    for row in net(
        totals(index, "spends", parts, ",".join([*fields, "model"]), tiers=tiers_of(prices))
    ):
        if in_time and row.part & series_fold.LATE:
            continue
        *of, model = row.name.split(MARK)
        group = _group(begins[places[row.span]], names, of)
        sums[group].add(row, model, days[row.span], prices)
    bit = 1 << series_fold.SPENDERS.index(
        tuple(sorted(_SPENDER.index(name) for name in {*names} if name in _SPENDER))
    )
    for row in totals(index, "spenders", spans, ",".join(fields)):
        if row.part & bit:
            of = row.name.split(MARK) if fields else []
            group = _group(begins[row.span], names, of)
            if group in sums:
                sums[group].runs += row.amounts[0]
    return {group: each for group, each in sums.items() if each.spends}


def _group(begin: str, names: Sequence[str], values: Sequence[str]) -> Group:
    known = iter(values)
    one, other, *_ = (*((next(known) or None) if name in LABELS else None for name in names), None)
    return begin, one, other


def _in_time(index: Indexer, spans: Spans, begin: Begin) -> tuple[list[str], list[tuple[int, int]]]:
    """The spans cut into days, weeks or months, as far as something was spent in them."""
    for step in _STEPS:
        cut = [piece for span in spans for piece in _cut(span, step)]
        spans = [cut[n] for n in sorted({row.span for row in totals(index, "spends", cut)})]
    begins: list[str] = []
    pieces: list[tuple[int, int]] = []
    for first, last in (piece for span in spans for piece in _split(span, begin)):
        since = begin(first * MINUTE)
        if begins and begins[-1] == since and pieces[-1][1] == first:
            pieces[-1] = (pieces[-1][0], last)
        else:
            begins.append(since)
            pieces.append((first, last))
    return begins, pieces


def _cut(span: tuple[int, int], step: int) -> Iterator[tuple[int, int]]:
    """A span cut at the multiples of a length."""
    first, last = span
    while first < last:
        end = min(last, (first // step + 1) * step)
        yield first, end
        first = end


def _split(span: tuple[int, int], begin: Begin) -> Iterator[tuple[int, int]]:
    """A span of a day at most, cut where another day, week or month begins."""
    first, last = span
    if begin(first * MINUTE) == begin(last * MINUTE - 1):
        yield span
        return
    same, other = first, last - 1  # the first is in one of them, the last in another
    while other - same > 1:
        middle = (same + other) // 2
        if begin(middle * MINUTE) == begin(first * MINUTE):
            same = middle
        else:
            other = middle
    yield first, other
    yield from _split((other, last), begin)
