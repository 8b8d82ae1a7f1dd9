"""Runs that tell of one conversation: recorded as it happened, and imported from its own log.

They are joined by the provider's own name of the conversation, an alias of both. Both are shown;
of two tellings the one that tells more is counted, so that none is counted twice.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from tracklog.folds import aliases, costs, tree
from tracklog.index import Indexer
from tracklog.kin import kin, spends


def untold(index: Indexer, among: Iterable[str] | None = None) -> dict[str, str]:
    """The runs that are not counted, each with one of another family that tells the same and more.

    Sub-runs go with the run that began them: a recording includes what its sub-agents spent.
    With `among` only what has to do with these runs is looked at.
    """
    left: dict[str, str] = {}
    for keys in _shared(index, among):
        trees = kin(index, keys)
        sides: dict[str, set[str]] = {}
        for key in keys:
            sides.setdefault(key.partition(":")[0], set()).update(tree.below(trees, key))
        best = _best(index, sides)
        counted = next(key for key in keys if key.partition(":")[0] == best)
        for family, side in sides.items():
            if family != best:
                left |= dict.fromkeys(side - sides[best], counted)
    return left


def _best(index: Indexer, sides: dict[str, set[str]]) -> str:
    """The family that tells most: of what was spent, else of what was called, else by records."""
    weight = _weight(index, set().union(*sides.values()))

    def told(family: str) -> tuple[int, int, int]:
        states = index.load("runs", sides[family]).values()
        spent = sum(weight[key] for key in sides[family])
        calls = sum(state.tool_calls for state in states)
        return spent, calls, sum(state.last_seq - state.first_seq for state in states)

    return max(sorted(sides), key=told)


def _weight(index: Indexer, runs: set[str]) -> Counter[str]:
    """By run, how much it tells of having spent."""
    weight: Counter[str] = Counter()
    for spent in costs.counted(spends(index, runs)):
        told = spent.amounts.get("output_tokens", spent.amounts.get("total_tokens", 0))
        weight[f"{spent.family}:{spent.run}"] += told
    return weight


def _shared(index: Indexer, among: Iterable[str] | None) -> list[list[str]]:
    """The runs of different families that have one name in one system."""
    rows: Iterable[Mapping[str, int]]
    if among is None:
        rows = (row for _, row in index.sums("aliases"))
    else:
        # And whoever began them: a sub-run has no name that both sides know.
        asked = kin(index, among).values()
        names = {aliases.name(*known) for state in asked for known in state.aliases}
        rows = index.summed("aliases", names).values()
    named = map(sorted, rows)
    return [keys for keys in named if len({key.partition(":")[0] for key in keys}) > 1]
