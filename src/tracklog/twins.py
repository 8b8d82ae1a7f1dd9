"""Runs that tell of one conversation: recorded as it happened, and imported from its own log.

They are joined by the provider's own name of the conversation, an alias of both. Both are shown;
of two tellings the one that tells more is counted, so that none is counted twice.
"""

from collections import Counter

from tracklog.folds import costs, tree
from tracklog.index import Indexer


def untold(index: Indexer) -> frozenset[str]:
    """The runs that are not counted, because a run of another family tells the same and more.

    Sub-runs go with the run that began them: a recording includes what its sub-agents spent.
    """
    shared = _shared(index)
    if not shared:
        return frozenset()
    trees = dict(index.states("tree"))
    weight: Counter[str] = Counter()
    for spent in costs.counted(state for _, state in index.states("costs")):
        key = f"{spent.family}:{spent.run}"
        weight[key] += spent.amounts.get("output_tokens", spent.amounts.get("total_tokens", 0))
    left: set[str] = set()
    for keys in shared:
        sides: dict[str, set[str]] = {}
        for key in keys:
            sides.setdefault(key.partition(":")[0], set()).update(tree.below(trees, key))
        best = max(sorted(sides), key=lambda family: sum(weight[key] for key in sides[family]))
        for family, side in sides.items():
            if family != best:
                left |= side - sides[best]
    return frozenset(left)


def _shared(index: Indexer) -> list[list[str]]:
    """The runs of different families that have one name in one system."""
    named: dict[tuple[str, str], set[str]] = {}
    for _, state in index.states("aliases"):
        key = f"{state.family}:{state.run}"
        named.setdefault((state.system, state.alias), set()).add(key)
    found = (sorted(keys) for _, keys in sorted(named.items()))
    return [keys for keys in found if len({key.partition(":")[0] for key in keys}) > 1]
