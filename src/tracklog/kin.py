"""What other runs have to do with some: those above and below them, and who tells of their spends.

It is found by name in rows that all runs share, so that no more is read than is told of.
"""

from collections.abc import Iterable

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
