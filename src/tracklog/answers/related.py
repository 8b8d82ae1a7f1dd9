"""Related runs: those above and below a run in the tree, and those that record the same spends.

They are found by name in rows that all runs share, so that no other run is read.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Any

from tracklog.answers.prices import Prices
from tracklog.folds import costs, rows_of, run_of, tree
from tracklog.index.indexer import Indexer
from tracklog.journal.frame import stamp

DAY_MS = 86_400_000


def related_runs(index: Indexer, runs: Iterable[str]) -> dict[str, tree.State]:
    """These runs and all that are linked to them, as parents, children or otherwise, however far.

    A recorded run of which no tree state is kept, such as one that only called tools, has a
    placeholder: its key must not be taken for another name of a run that bears the same id.
    """
    keys = set(runs)
    found = linked_runs(index, keys)
    named = {other for state in found.values() for _, _, other, *_ in state.links}
    rest = index.load("runs", (keys | named) - found.keys())
    return found | tree.placeholders({key: run.first_seq for key, run in rest.items()})


def linked_runs(index: Indexer, runs: Iterable[str]) -> dict[str, tree.State]:
    """The same, without runs that have no tree state."""
    keys, asked = set(runs), set[str]()
    found: dict[str, tree.State] = index.load("tree", keys)
    ahead = {run_of(key)[1] for key in keys}
    ahead |= {name for state in found.values() for name in tree.names(state)}
    while ahead:
        asked |= ahead
        named = {key for row in index.summed("tree", ahead).values() for key in row}
        new = index.load("tree", named - found.keys())
        found |= new
        ahead = {name for state in new.values() for name in tree.names(state)} - asked
    return found


def read_spends(index: Indexer, runs: Iterable[str]) -> list[costs.State]:
    """The spends that these runs record, and what any other run records of the same spends."""
    own = {
        key: state
        for run in set(runs)
        for key, state in index.states("costs", rows_of(*run_of(run)))
    }
    recorded = index.summed("costs", {state.key for state in own.values()})
    others = {rows_of(*run_of(run)) + name for name, row in recorded.items() for run in row}
    return [*own.values(), *index.load("costs", others - own.keys()).values()]


SPENT = {
    "tokens_in": "input_tokens", "tokens_out": "output_tokens", "tokens_cached": "cached_tokens",
    "tokens": "total_tokens", "cost_usd": "cost_usd",
}  # fmt: skip  # what a run's row calls what it spent
"""A spend that several runs record belongs to the run that recorded it first."""


PAID = {"computed_usd": None, "lower_bound": False, "upper_bound": False}
"""A cost by list prices, before anything is known."""


def put_own_spends(
    index: Indexer,
    rows: Iterable[dict[str, Any]],
    prices: Prices | None = None,
    spenders: Collection[str] | None = None,
) -> None:
    """Puts into the rows of runs what each spent itself, without what another run recorded before.

    With prices, where no cost was reported, the cost by the list is put there too. `spenders` are
    the runs that recorded a spend, where the caller knows them: of the others nothing is read.
    """
    every = list(rows)
    runs = {_key(row) for row in every}  # one without an amount too: another run may know it
    spends = read_spends(index, runs if spenders is None else runs.intersection(spenders))
    put_counted(every, spends, runs, prices)


def put_counted(
    rows: Iterable[dict[str, Any]],
    spends: Iterable[costs.State],
    runs: Collection[str],
    prices: Prices | None = None,
) -> None:
    """Puts into the rows of these runs what each spent itself, of all spends that are recorded."""
    put_spends(rows, spent_by(spends, runs, prices))


def spent_by(
    spends: Iterable[costs.State], runs: Collection[str], prices: Prices | None = None
) -> dict[str, dict[str, Any]]:
    """By run, what it spent itself, under the field names of its row."""
    price = price_by(prices) if prices else None
    counted: dict[str, Mapping[str, Any]] = {
        row["of"]: row for row in costs.answer(spends, by="run", within=runs, price=price)
    }
    found = {}
    for run in runs:
        own = counted.get(run, {})
        found[run] = {name: own.get(of) for name, of in SPENT.items()}
        if prices:
            found[run] |= {name: own.get(name, usual) for name, usual in PAID.items()}
    return found


def put_spends(rows: Iterable[dict[str, Any]], spent: Mapping[str, Mapping[str, Any]]) -> None:
    """Puts amounts into the fields that rows have for them."""
    for row in rows:
        own = spent.get(_key(row), {})
        row.update({name: own[name] for name in own if name in row or name in PAID})


def spends_elsewhere(index: Indexer, key: str, through: int | None = None) -> list[costs.State]:
    """What other runs record of the spends of a run, up to a record."""
    return [
        each
        for each in read_spends(index, [key])
        if f"{each.family}:{each.run}" != key and (through is None or each.seq <= through)
    ]


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
