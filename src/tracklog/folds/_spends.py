"""Spends: their amounts, and which of two reports of one counts."""

from collections.abc import Iterable, Mapping
from typing import Any

from tracklog.folds import LATE, Position, add, epoch_ms, integer, text_of
from tracklog.model.fact import Spent

TOKENS = (
    "input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens",
    "tool_tokens", "total_tokens",
)  # fmt: skip  # one row
"""The amounts of a spend that can be added up."""
PRICED = (*TOKENS, "cache_write_1h_tokens")
"""The same, and what is part of one of them at another price."""

DOLLAR = 10**9
"""Money is added up in billionths of a dollar."""


def amounts(fact: Spent) -> dict[str, int]:
    """The amounts of a spend as integers, without those that are not known."""
    usage = fact.usage if isinstance(fact.usage, Mapping) else {}
    known = {
        key: amount
        for key in PRICED
        if key in usage and (amount := integer(usage[key])) is not None
    }
    if (cost := integer(fact.cost_usd, DOLLAR)) is not None:
        known["cost"] = cost
    if "total_tokens" not in known and known.keys() & {"input_tokens", "output_tokens"}:
        both = add(known.get("input_tokens", 0), known.get("output_tokens"))
        known["total_tokens"] = both
    return known


_GREATER = (
    "output_tokens",
    "total_tokens",
    "cost",
    *(key for key in PRICED if key not in ("output_tokens", "total_tokens")),
)


def greater(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    """Whether one report of a spend replaces another: the one with the greatest output counts."""
    return [one.get(key, -1) for key in _GREATER] > [other.get(key, -1) for key in _GREATER]


def spend_name(position: Position, fact: Spent) -> str:
    """Spends with one key are one spend; without a key it is the record's own."""
    return f"#{position.seq}" if fact.key is None else f"={text_of(fact.key)}"


def is_late(position: Position, at_ms: int) -> bool:
    """Whether a spend was recorded long after it was made, as by an import."""
    return (epoch_ms(position.received) or 0) - at_ms > LATE * 1000


def sum_of(spent: Iterable[list[Any]], loose: Mapping[str, int]) -> Mapping[str, int]:
    """The sums of the spends of a run, each as its group, whether it is the total of the group, its
    amounts and its writer; `loose` is the sum of those that nothing can replace.

    In a group, spends marked as its total replace the others; writers are not added up.
    """
    every = list(spent)
    replaced = {group for group, replaces, *_ in every if replaces and group is not None}
    by_writer: dict[str, dict[str, int]] = {"": dict(loose)}
    for group, replaces, known, writer in every:
        if replaces or group not in replaced:
            add_to(by_writer.setdefault(writer, {}), known)
    best = by_writer.pop("")
    for writer in sorted(by_writer):
        best = by_writer[writer] if greater(by_writer[writer], best) else best
    return best


def add_to(sums: dict[str, int], known: Mapping[str, int]) -> None:
    for key, amount in known.items():
        sums[key] = add(sums.get(key, 0), amount)
