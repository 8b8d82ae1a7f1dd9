"""What each run spent itself, where several runs record the same spending.

A spend belongs to the run that recorded it first. Where two runs record the same conversation,
each shows all that it spent, and only the counted one is added up.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from tracklog.answers.duplicates import same_conversation
from tracklog.answers.prices import Prices
from tracklog.answers.related import read_spends
from tracklog.folds import costs
from tracklog.index.indexer import Indexer
from tracklog.journal.frame import stamp

DAY_MS = 86_400_000


class OwnSpend(NamedTuple):
    """What a run spent itself, under the field names of its row."""

    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_cached: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    computed_usd: float | None = None
    """From list prices, where these were asked for."""
    lower_bound: bool = False
    upper_bound: bool = False

    def reported(self) -> dict[str, float | None]:
        """The fields that need no list of prices."""
        return dict(zip(self._fields[:5], self[:5], strict=True))


NOTHING = OwnSpend()
_PRICED = ("computed_usd", "lower_bound", "upper_bound")


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


def own_spends(index: Indexer, runs: Collection[str]) -> dict[str, OwnSpend]:
    """What each of these runs spent itself."""
    return spent_by(spends_of(index, runs), runs)


def spent_by(
    spends: Spends, runs: Collection[str], prices: Prices | None = None
) -> dict[str, OwnSpend]:
    """By run, what it spent itself.

    With prices, where no cost was reported, the cost by the list is there too.
    """
    price = price_by(prices) if prices else None
    rows = costs.answer(
        spends.states, by="run", within=runs, price=price, duplicates=spends.duplicates
    )
    totals = dict.fromkeys(runs, NOTHING)
    for row in rows:
        totals[row["of"]] = OwnSpend(
            tokens_in=row["input_tokens"],
            tokens_out=row["output_tokens"],
            tokens_cached=row["cached_tokens"],
            tokens=row["total_tokens"],
            cost_usd=row["cost_usd"],
            **{name: row[name] for name in _PRICED} if prices else {},
        )
    return totals


def price_by(prices: Prices) -> costs.Price:
    """The cost of a spend by a list of prices, on its day."""

    def price(state: costs.State) -> tuple[int, bool] | None:
        return prices.cost(state.model, state.amounts, _day(state.at_ms // DAY_MS))

    return price


def day_of(state: costs.State) -> str:
    """The day of a spend, by which it is priced."""
    return _day(state.at_ms // DAY_MS)


@lru_cache(maxsize=4096)
def _day(number: int) -> str:
    return stamp(number * DAY_MS / 1000)[:10]
