"""What other runs have to do with some: those above and below them, and who tells of their spends.

It is found by name in rows that all runs share, so that no more is read than is told of.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tracklog.folds import costs, rows_of, run_of, tree
from tracklog.index import Indexer


def kin(index: Indexer, runs: Iterable[str]) -> dict[str, tree.State]:
    """These runs and all that are tied to them, as parents, children or otherwise, however far."""
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


def spends(index: Indexer, runs: Iterable[str]) -> list[costs.State]:
    """What these runs tell of having spent, and what any other run tells of the same spends."""
    own = {
        key: state
        for run in set(runs)
        for key, state in index.states("costs", rows_of(*run_of(run)))
    }
    told = index.summed("costs", {state.key for state in own.values()})
    others = {rows_of(*run_of(run)) + name for name, row in told.items() for run in row}
    return [*own.values(), *index.load("costs", others - own.keys()).values()]


SPENT = {
    "tokens_in": "input_tokens", "tokens_out": "output_tokens", "tokens_cached": "cached_tokens",
    "tokens": "total_tokens", "cost_usd": "cost_usd",
}  # fmt: skip  # what a run's row calls what it spent
"""A spend that several runs tell is that of the run in which it was heard first."""


def count_once(index: Indexer, rows: Iterable[dict[str, Any]]) -> None:
    """Takes out of the rows of runs what was first heard in another one.

    Who tells of another's spends is tied to it, so only runs with ties are looked at.
    """
    spent = {_key(row): row for row in rows if any(row.get(name) is not None for name in SPENT)}
    shared = tied(index, spent)
    put_spent(spent.values(), spends(index, shared) if shared else [], shared)


def tied(index: Indexer, runs: Iterable[str]) -> set[str]:
    """Those of some runs that have to do with other runs, and may tell of the same spends."""
    keys = set(runs)
    trees = index.load("tree", keys)
    named = index.summed("tree", {run_of(key)[1] for key in keys})
    return {
        key
        for key in keys
        if (key in trees and trees[key].links) or named.get(run_of(key)[1], {}).keys() - {key}
    }


def put_spent(
    rows: Iterable[dict[str, Any]], told: Iterable[costs.State], runs: Collection[str]
) -> None:
    """Puts into the rows of these runs what each spent itself, of all that they and others tell."""
    counted: dict[str, Mapping[str, Any]] = (
        {row["of"]: row for row in costs.answer(told, by="run", within=runs)} if runs else {}
    )
    for row in rows:
        if (key := _key(row)) in runs:
            own = {name: counted.get(key, {}).get(of) for name, of in SPENT.items()}
            row.update({name: amount for name, amount in own.items() if name in row})


def _key(row: Mapping[str, Any]) -> str:
    return f"{row['family']}:{row['run']}"
