"""Runs that record the same conversation: once as it happened, once imported from its own log.

They are found by the provider's own name of the conversation, an alias of both runs. Both are shown;
only the one that holds more is counted.
"""

from collections.abc import Iterable, Mapping

from tracklog.answers.related import linked_runs, read_spends, related_runs
from tracklog.folds import aliases, costs, tree
from tracklog.index.indexer import Indexer


def same_conversation(index: Indexer, among: Iterable[str] | None = None) -> dict[str, str]:
    """The runs that are not counted, each with the run of another family that is counted instead.

    Sub-runs go with the run that began them: a recording includes what its sub-agents spent.
    With `among` only runs that are related to these are looked at.
    """
    left: dict[str, str] = {}
    for keys in _shared(index, among):
        trees = related_runs(index, keys)
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
    """The family that holds most: of what was spent, else of calls; else the one recorded first."""
    spends = read_spends(index, set().union(*sides.values()))

    def size(family: str) -> tuple[int, ...]:
        states = index.load("runs", sides[family]).values()
        own = [each for each in spends if f"{each.family}:{each.run}" in sides[family]]
        calls = sum(state.tool_calls for state in states)
        return *_amounts(own), calls, -min((state.first_seq for state in states), default=0)

    return max(sorted(sides), key=size)


def _amounts(spends: Iterable[costs.State]) -> tuple[int, int, int]:
    """What was spent: output tokens, all that is counted, the number of spends."""
    amounts = [each.amounts for each in costs.counted(spends)]
    output = sum(each.get("output_tokens", each.get("total_tokens", 0)) for each in amounts)
    return output, sum(sum(each.values()) for each in amounts), len(amounts)


def _shared(index: Indexer, among: Iterable[str] | None) -> list[list[str]]:
    """The runs of different families that have one name in one system."""
    rows: Iterable[Mapping[str, int]]
    if among is None:
        rows = index.shared("aliases")
    else:
        # And the runs that began them: a sub-run has no name that both sides know.
        asked = linked_runs(index, among).values()
        names = {aliases.name(*known) for state in asked for known in state.aliases}
        rows = index.summed("aliases", names).values()
    named = map(sorted, rows)
    return [keys for keys in named if len({key.partition(":")[0] for key in keys}) > 1]
