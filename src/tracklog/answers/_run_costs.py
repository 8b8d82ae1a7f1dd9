"""What one run spent by tool or by kind of token: a spend is divided among several names."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from tracklog.answers._series_query import TOKEN_KINDS
from tracklog.answers.prices import Prices, load
from tracklog.answers.run_turns import RunTimes, times_of
from tracklog.answers.spends import day_of, price_by
from tracklog.folds import costs as costs_fold
from tracklog.home.home import Home

BY = ("tool", "token_kind")
_FIELDS = {
    "cache read": "cached_tokens",
    "input": "input_tokens",
    "cache write": "cache_write_tokens",
    "output": "output_tokens",
}


class Share(NamedTuple):
    """The part of a spend that counts for one name."""

    spend: costs_fold.State
    listed: tuple[int, bool] | None
    """Its price by the list, in billionths of a dollar, and whether all of it is priced."""


def shares(home: Home, key: str, by: str, at: int | None = None) -> list[Share]:
    """The spends of a run, divided; the name of each stands where its agent did."""
    times, prices = times_of(home, key, at), load(home.path)
    return list(_by_tool(times, prices) if by == "tool" else _by_kind(times, prices))


def _by_tool(times: RunTimes, prices: Prices) -> Iterator[Share]:
    """The cost of a turn is that of the tools that it called, in equal parts."""
    price = price_by(prices)
    tools: dict[int, list[str | None]] = {}
    for turn in times.turns:
        called = list(dict.fromkeys(call.name for call in turn.calls)) or [None]
        tools |= {id(spend): called for spend in turn.spends}
    for spend in times.spends:
        names = tools.get(id(spend), [None])
        listed = None if "cost" in spend.amounts else price(spend)
        parts = {name: _parts(amount, len(names)) for name, amount in spend.amounts.items()}
        costs = _parts(listed[0], len(names)) if listed else []
        for nth, name in enumerate(names):
            amounts = {field: part[nth] for field, part in parts.items()}
            cost = (costs[nth], listed[1]) if listed else None
            yield Share(_named(spend, name, nth, amounts), cost)


def _parts(amount: int, count: int) -> list[int]:
    """An amount in equal parts; the first ones get what is left."""
    each, rest = divmod(amount, count)
    return [each + (nth < rest) for nth in range(count)]


def _by_kind(times: RunTimes, prices: Prices) -> Iterator[Share]:
    """By kind of token; a cost that was reported is that of all of them, and has no kind."""
    for spend in times.spends:
        amounts = spend.amounts
        read, written = amounts.get("cached_tokens", 0), amounts.get("cache_write_tokens", 0)
        tokens = {
            "cache read": amounts.get("cached_tokens"),
            "cache write": amounts.get("cache_write_tokens"),
            "output": amounts.get("output_tokens"),
        }
        if "input_tokens" in amounts:
            tokens["input"] = max(0, amounts["input_tokens"] - read - written)
        reported = "cost" in amounts
        costs = {} if reported else prices.cost_by_kind(spend.model, spend.amounts, day_of(spend))
        for nth, kind in enumerate(TOKEN_KINDS):
            count = tokens.get(kind)
            if count is not None:
                listed = (costs[kind], True) if kind in costs else (0, False) if reported else None
                held = {_FIELDS[kind]: count, "total_tokens": count}
                yield Share(_named(spend, kind, nth, held), listed)
        if reported:
            yield Share(_named(spend, None, len(TOKEN_KINDS), {"cost": amounts["cost"]}), None)


def _named(
    spend: costs_fold.State, name: str | None, nth: int, amounts: dict[str, int]
) -> costs_fold.State:
    return replace(
        spend,
        key=f"{spend.key}/{spend.seq}/{nth}",
        agent=name,
        amounts=amounts,
        calls=None if nth else spend.calls,
        group=None,
        whole=False,
    )
