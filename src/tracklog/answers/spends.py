"""What runs spent themselves, where several runs record the same spends.

A spend belongs to the run that recorded it first. Where two runs record the same conversation,
each shows all that it spent, and only the counted one is added up.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from tracklog.answers.duplicates import same_conversation
from tracklog.answers.prices import Prices
from tracklog.answers.related import read_spends
from tracklog.folds import costs
from tracklog.index.indexer import Indexer
from tracklog.journal.frame import stamp

DAY_MS = 86_400_000

SPENT = {
    "tokens_in": "input_tokens", "tokens_out": "output_tokens", "tokens_cached": "cached_tokens",
    "tokens": "total_tokens", "cost_usd": "cost_usd",
}  # fmt: skip  # a field of a run's row, and the field of a cost row that it shows

PAID = {"computed_usd": None, "lower_bound": False, "upper_bound": False}
"""A cost by list prices, before anything is known."""


class Spends(NamedTuple):
    """Spends as every run records them, and which of these runs are duplicates."""

    states: Sequence[costs.State] = ()
    duplicates: Mapping[str, str] = {}
    """Runs that record a conversation for which another run is counted, and that run."""


def spends_of(index: Indexer, runs: Iterable[str], among: Iterable[str] = ()) -> Spends:
    """The spends that these runs record, and what any other run records of the same spends.

    Duplicates are looked for among all of these, and among the runs of `among`.
    """
    states = read_spends(index, runs)
    known = {f"{each.family}:{each.run}" for each in states}
    return Spends(states, same_conversation(index, known.union(among)))


def spends_elsewhere(index: Indexer, key: str, through: int | None = None) -> Spends:
    """What other runs record of the spends of a run, up to a record."""
    states = [
        each
        for each in read_spends(index, [key])
        if f"{each.family}:{each.run}" != key and (through is None or each.seq <= through)
    ]
    if not states:
        return Spends()
    known = {f"{each.family}:{each.run}" for each in states}
    return Spends(states, same_conversation(index, {key, *known}))


def put_own_spends(index: Indexer, rows: Iterable[dict[str, Any]]) -> None:
    """Puts into the rows of runs what each spent itself."""
    every = list(rows)
    runs = {_key(row) for row in every}  # one without an amount too: another run may know it
    put_spends(every, spent_by(spends_of(index, runs), runs))


def spent_by(
    spends: Spends, runs: Collection[str], prices: Prices | None = None
) -> dict[str, dict[str, Any]]:
    """By run, what it spent itself, under the field names of its row.

    With prices, where no cost was reported, the cost by the list is there too.
    """
    price = price_by(prices) if prices else None
    rows = costs.answer(
        spends.states, by="run", within=runs, price=price, duplicates=spends.duplicates
    )
    counted: dict[str, Mapping[str, Any]] = {row["of"]: row for row in rows}
    totals = {}
    for run in runs:
        own = counted.get(run, {})
        totals[run] = {name: own.get(of) for name, of in SPENT.items()}
        if prices:
            totals[run] |= {name: own.get(name, usual) for name, usual in PAID.items()}
    return totals


def put_spends(rows: Iterable[dict[str, Any]], spent: Mapping[str, Mapping[str, Any]]) -> None:
    """Puts amounts into the fields that rows have for them."""
    for row in rows:
        own = spent.get(_key(row), {})
        row.update({name: own[name] for name in own if name in row or name in PAID})


def price_by(prices: Prices) -> costs.Price:
    """The cost of a spend by a list of prices, on its day."""

    @cache
    def day(number: int) -> str:
        return stamp(number * DAY_MS / 1000)[:10]

    def price(state: costs.State) -> tuple[int, bool] | None:
        return prices.cost(state.model, state.amounts, day(state.at_ms // DAY_MS))

    return price


def _key(row: Mapping[str, Any]) -> str:
    return f"{row['family']}:{row['run']}"
