"""A metric of one run, turn by turn: each turn is a bucket."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tracklog.answers import key_of
from tracklog.answers._series_query import TOKEN_KINDS
from tracklog.answers.prices import Prices, load
from tracklog.answers.run_turns import RunTurn, times_of
from tracklog.answers.spends import day_of
from tracklog.answers.turns import TurnRow, turns
from tracklog.folds._spends import DOLLAR
from tracklog.home.home import Home
from tracklog.model.errors import BadQuery

METRICS = ("cost", "tokens", "calls", "failures", "context", "compactions")
BY = ("none", "model", "agent", "token_kind")
_KINDS = ("cost", "tokens")  # which can be split by kind of token
_FIELDS = {
    "cache read": "cache_read_tokens",
    "input": "input_tokens",
    "cache write": "cache_write_tokens",
    "output": "output_tokens",
}
_MOST = 100_000  # turns


class TurnValue(NamedTuple):
    """What a turn came to under one name."""

    place: int
    name: str
    value: float
    computed: float = 0.0
    """The part of a cost that was computed from list prices."""
    bounded: bool = False
    """A part of the cost has no price."""


class TurnBuckets(NamedTuple):
    """The turns of a run as buckets."""

    at: list[str]
    """When each turn began."""
    found: list[TurnValue]
    bounded: bool
    """A part of the cost has no price."""


def by_turn(
    home: Home, run: str | None, metric: str, by: str, at: int | None = None
) -> TurnBuckets:
    """What each turn came to; with `at`, as it was at that record."""
    if run is None:
        raise BadQuery("the bucket `turn` is of one run", "name the run, too")
    if metric not in METRICS or by not in BY or (by == "token_kind" and metric not in _KINDS):
        raise BadQuery(
            f"there is no {metric} by {by} of each turn",
            f"by turn there is: {', '.join(METRICS)}; by {', '.join(BY)}, "
            f"the last for {' and '.join(_KINDS)}",
        )
    rows = turns(home, run, limit=_MOST, at=at).rows
    if metric == "cost" and by == "token_kind":
        timed, prices = times_of(home, key_of(home, run), at).turns, load(home.path)
        found = [each for place, turn in enumerate(timed) for each in _kinds(place, turn, prices)]
    else:
        found = [each for place, row in enumerate(rows) for each in _values(place, row, metric, by)]
    bounded = metric == "cost" and any(row.lower_bound for row in rows)
    return TurnBuckets([row.at for row in rows], found, bounded)


def total_of(metric: str, found: Iterable[TurnValue]) -> float:
    """What values come to: they are added up, but a context is only as full as it was at last."""
    values = list(found)
    if metric != "context":
        return sum(each.value for each in values)
    return max(values, key=lambda each: each.place).value


def _values(place: int, row: TurnRow, metric: str, by: str) -> Iterator[TurnValue]:
    name = {"model": row.model, "agent": row.agent}.get(by) or ""
    if metric == "cost":
        if row.cost_usd is not None or row.computed_usd is not None:
            computed = row.computed_usd or 0.0
            value = (row.cost_usd or 0.0) + computed
            yield TurnValue(place, name, value, computed, row.lower_bound)
    elif metric == "tokens":
        kinds = {kind: getattr(row, _FIELDS[kind]) for kind in TOKEN_KINDS}
        for kind, tokens in kinds.items():
            if tokens is not None:
                yield TurnValue(place, kind if by == "token_kind" else name, tokens)
    elif metric == "context":
        if row.context_tokens is not None:
            yield TurnValue(place, name, row.context_tokens)
    elif metric == "compactions":
        yield TurnValue(place, name, int(row.compaction is not None))
    else:
        yield TurnValue(place, name, row.calls if metric == "calls" else row.failures)


def _kinds(place: int, turn: RunTurn, prices: Prices) -> Iterator[TurnValue]:
    """A cost by kind of token; one that was reported is told as a whole, and has no kind."""
    for spend in turn.spends:
        if "cost" in spend.amounts:
            bounded = spend.bound == "lower"
            yield TurnValue(place, "", spend.amounts["cost"] / DOLLAR, bounded=bounded)
            continue
        for kind, cost in prices.cost_by_kind(spend.model, spend.amounts, day_of(spend)).items():
            if cost:
                yield TurnValue(place, kind, cost / DOLLAR, cost / DOLLAR)
