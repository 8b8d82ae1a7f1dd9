"""Runs that tell of one conversation: recorded as it happened, and imported from its own log.

They are joined by the provider's own name of the conversation, an alias of both. Both are shown;
of two tellings the one that tells more is counted, so that none is counted twice.
"""

from collections import Counter

from tracklog.folds import costs, tree
from tracklog.index import Indexer
from tracklog.kin import kin, spends


def untold(index: Indexer) -> frozenset[str]:
    """The runs that are not counted, because a run of another family tells the same and more.

    Sub-runs go with the run that began them: a recording includes what its sub-agents spent.
    """
    left: set[str] = set()
    for keys in _shared(index):
        trees = kin(index, keys)
        sides: dict[str, set[str]] = {}
        for key in keys:
            sides.setdefault(key.partition(":")[0], set()).update(tree.below(trees, key))
        weight = _weight(index, set().union(*sides.values()))
        best = max(sorted(sides), key=lambda family: sum(weight[key] for key in sides[family]))
        for family, side in sides.items():
            if family != best:
                left |= side - sides[best]
    return frozenset(left)


def _weight(index: Indexer, runs: set[str]) -> Counter[str]:
    """By run, how much it tells of having spent."""
    weight: Counter[str] = Counter()
    for spent in costs.counted(spends(index, runs)):
        told = spent.amounts.get("output_tokens", spent.amounts.get("total_tokens", 0))
        weight[f"{spent.family}:{spent.run}"] += told
    return weight


def _shared(index: Indexer) -> list[list[str]]:
    """The runs of different families that have one name in one system."""
    named = (sorted(row) for _, row in index.sums("aliases"))
    return [keys for keys in named if len({key.partition(":")[0] for key in keys}) > 1]
