"""Durations in log buckets, so that quantiles can be read from counts."""

from collections.abc import Mapping
from math import log2


def bucket(micros: int) -> int:
    """The number of the log bucket of a duration; each is a twelfth part of a doubling wide."""
    return 0 if micros < 1 else 1 + int(log2(micros) * 12)


def middle(number: int) -> float:
    """The seconds in the middle of a bucket."""
    return 0.0 if number < 1 else float(2 ** ((number - 0.5) / 12)) / 1_000_000


def at_share(buckets: Mapping[int, int], share: float) -> float | None:
    """The middle of the bucket that holds this share of all durations, within six per cent."""
    total, reached = sum(buckets.values()), 0
    for number in sorted(buckets):
        reached += buckets[number]
        if reached >= total * share:
            return middle(number)
    return None
