"""Related runs: those above and below a run in the tree, and those that record the same spends.

They are found by name in rows that all runs share, so that no other run is read.
"""

from collections.abc import Iterable

from tracklog.folds import costs, rows_of, run_of, tree
from tracklog.index.indexer import Indexer


def related_runs(index: Indexer, runs: Iterable[str]) -> dict[str, tree.State]:
    """These runs and all that are linked to them, as parents, children or otherwise, however far.

    A recorded run without a stored tree state, such as one that only called tools, has a
    placeholder: its key must not be taken for another name of a run that bears the same id.
    """
    keys = set(runs)
    states = linked_runs(index, keys)
    named = {other for state in states.values() for _, _, other, *_ in state.links}
    rest = index.load("runs", (keys | named) - states.keys())
    return states | tree.placeholders({key: run.first_seq for key, run in rest.items()})


def linked_runs(index: Indexer, runs: Iterable[str]) -> dict[str, tree.State]:
    """The same, without runs that have no tree state."""
    keys, asked = set(runs), set[str]()
    states: dict[str, tree.State] = index.load("tree", keys)
    ahead = {run_of(key)[1] for key in keys}
    ahead |= {name for state in states.values() for name in tree.names(state)}
    while ahead:
        asked |= ahead
        named = {key for row in index.summed("tree", ahead).values() for key in row}
        new = index.load("tree", named - states.keys())
        states |= new
        ahead = {name for state in new.values() for name in tree.names(state)} - asked
    return states


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
