"""Runs that tell of one conversation: recorded as it happened, and imported from its own log.

They are joined by the provider's own name of the conversation, an alias of both. Both are shown;
of two tellings the one that tells more is counted, so that none is counted twice.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from tracklog.answers.related import kin, spends, tied
from tracklog.folds import aliases, costs, tree
from tracklog.index.indexer import Indexer

_PARTS = 3  # of what a run tells of having spent


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
    """The family that tells most: of what was spent, else of what was called, else told first."""
    weight = _weight(index, set().union(*sides.values()))

    def told(family: str) -> tuple[int, ...]:
        states = index.load("runs", sides[family]).values()
        spent = [sum(weight[key][part] for key in sides[family]) for part in range(_PARTS)]
        calls = sum(state.tool_calls for state in states)
        return *spent, calls, -min((state.first_seq for state in states), default=0)

    return max(sorted(sides), key=told)


def _weight(index: Indexer, runs: set[str]) -> dict[str, list[int]]:
    """By run, how much it tells of having spent: in output, in all that is counted, how often."""
    weight: dict[str, list[int]] = defaultdict(lambda: [0] * _PARTS)
    for spent in costs.counted(spends(index, runs)):
        amounts, own = spent.amounts, weight[f"{spent.family}:{spent.run}"]
        own[0] += amounts.get("output_tokens", amounts.get("total_tokens", 0))
        own[1] += sum(amounts.values())
        own[2] += 1
    return weight


def _shared(index: Indexer, among: Iterable[str] | None) -> list[list[str]]:
    """The runs of different families that have one name in one system."""
    rows: Iterable[Mapping[str, int]]
    if among is None:
        rows = (row for _, row in index.sums("aliases"))
    else:
        # And whoever began them: a sub-run has no name that both sides know.
        asked = tied(index, among).values()
        names = {aliases.name(*known) for state in asked for known in state.aliases}
        rows = index.summed("aliases", names).values()
    named = map(sorted, rows)
    return [keys for keys in named if len({key.partition(":")[0] for key in keys}) > 1]
