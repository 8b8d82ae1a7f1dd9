"""What was spent, in the cells of a series: tokens by kind, and costs by the list of prices."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise

from tracklog.answers._series_query import TOKEN_KINDS, CellSum, SeriesQuery
from tracklog.answers.buckets import minute_of
from tracklog.answers.prices import Cost, Prices, total
from tracklog.answers.totals import Spans, Where, net, totals
from tracklog.folds import series as series_fold
from tracklog.index.indexes import Total

_COLUMN = {name: n for n, name in enumerate(series_fold.SPENDS)}


def spends(query: SeriesQuery, spans: Spans, where: Where) -> Iterator[tuple[int, str, CellSum]]:
    """What was spent, with its price: the names of the rows are models wherever prices are needed."""
    if query.where.get("outcome") or query.where.get("tool"):
        return  # no spend has either
    parts, days, places = by_price(spans, query.prices)
    by = query.label
    for model, rows in _by_model(query, parts, by, where):
        for row in rows:
            each = CellSum()
            each.add(row.part, row.amounts)
            if query.metric == "cost":
                _price(each, query, model or None, days[row.span], row)
            for name, part in _kinds(query, row, each):
                yield places[row.span], name, part


def _by_model(
    query: SeriesQuery, spans: Spans, by: str, where: Where
) -> Iterator[tuple[str, Iterable[Total]]]:
    """The rows of each model, under the names that are asked for."""
    if query.metric != "cost" or by == "model":
        every: dict[str, list[Total]] = defaultdict(list)
        for row in net(totals(query.index, "spends", spans, by, where, query.tiers)):
            every[row.name if by == "model" else ""].append(row)
        yield from every.items()
        return
    models = {row.name for row in totals(query.index, "spends", [_hull(spans)], "model", where)}
    for model in models:
        one = {**where, "model": [model]}
        yield model, net(totals(query.index, "spends", spans, by, one, query.tiers))


def _hull(spans: Spans) -> tuple[int, int]:
    return spans[0][0], spans[-1][1]


def by_price(spans: Spans, prices: Prices) -> tuple[list[tuple[int, int]], list[str], list[int]]:
    """Spans cut where a price changes; the day of each; and the number of the span it is a part of."""
    changes = sorted(_midnight(day) for day in prices.days)
    parts, days, places = [], [], []
    for place, (first, last) in enumerate(spans):
        edges = [first, *(each for each in changes if first < each < last), last]
        for begin, end in pairwise(edges):
            parts.append((begin, end))
            days.append(datetime.fromtimestamp(begin * 60, UTC).date().isoformat())
            places.append(place)
    return parts, days, places


def _midnight(day: str) -> int:
    return minute_of(datetime.fromisoformat(day).replace(tzinfo=UTC))


def _price(each: CellSum, query: SeriesQuery, model: str | None, day: str, row: Total) -> None:
    """Add the reported cost; where none was reported, the cost by the list."""
    amounts, flags = row.amounts, row.part
    each.cost = amounts[_COLUMN["cost"]]
    each.bounded = amounts[_COLUMN["lower"]] > 0
    if flags & series_fold.COST:
        each.priced = True
        return
    cost = listed_cost(query.prices, query.tiers, model, day, row)
    if cost is None:
        each.bounded = True
        return
    each.computed, each.priced = cost.amount, True
    each.bounded |= not cost.complete


def listed_cost(
    prices: Prices, tiers: Sequence[int] | None, model: str | None, day: str, row: Total
) -> Cost | None:
    """What spends without a reported cost come to by the list; None where it has no price."""
    amounts, flags = row.amounts, row.part
    price = prices.at(model, day)
    if price is None or not flags & (series_fold.INPUT | series_fold.OUTPUT):
        return None
    number = flags >> series_fold.TIER
    if price.above and (series_fold.tier(price.above[0] + 1, tiers or series_fold.TIERS) <= number):
        price = price.above[1]
    return total(
        price,
        fresh=amounts[_COLUMN["fresh"]],
        fresh_and_written=amounts[_COLUMN["fresh_and_written"]],
        read=amounts[_COLUMN["cached_tokens"]],
        written=amounts[_COLUMN["cache_write_tokens"]],
        longer=amounts[_COLUMN["longer"]],
        output=amounts[_COLUMN["output_tokens"]],
        complete=flags & 3 == series_fold.INPUT | series_fold.OUTPUT,
    )


def _kinds(query: SeriesQuery, row: Total, each: CellSum) -> Iterator[tuple[str, CellSum]]:
    """A row under its name; or, by kind of tokens, a part of it for each kind."""
    if query.by != "token_kind":
        yield row.name, each
        return
    counts = row.amounts
    read, written = counts[_COLUMN["cached_tokens"]], counts[_COLUMN["cache_write_tokens"]]
    output = counts[_COLUMN["output_tokens"]]
    rest = counts[_COLUMN["total_tokens"]] - read - written - output
    for name, tokens in zip(TOKEN_KINDS, (read, rest, written, output), strict=True):
        part = CellSum()
        amounts = [0] * len(series_fold.SPENDS)
        amounts[0], amounts[_COLUMN["total_tokens"]] = counts[0], tokens
        part.add(0, amounts)
        yield name, part


def unknown_runs(query: SeriesQuery, span: tuple[int, int]) -> int:
    """The runs that began to spend within a span and used a model that has no price."""
    where = {name: each for name, each in query.where.items() if name not in ("outcome", "model")}
    wanted, runs = query.where.get("model"), 0
    day = datetime.fromtimestamp(span[1] * 60, UTC).date().isoformat()
    for row in totals(query.index, "unreported", [span], "tool", where):
        models = row.name.split(series_fold.NEXT)
        unknown = (
            model
            for model in models
            if (not wanted or model in wanted) and query.prices.at(model or None, day) is None
        )
        runs += row.amounts[0] * any(True for _ in unknown)
    return runs
