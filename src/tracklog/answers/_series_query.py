"""What a series asks for, and the sums that answer it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tracklog.answers.prices import Prices
from tracklog.answers.totals import Where
from tracklog.folds import series as series_fold
from tracklog.folds._durations import at_share
from tracklog.folds._spends import DOLLAR
from tracklog.index.indexer import Indexer

Unit = Literal[
    "usd", "tokens", "runs", "calls", "turns", "audits", "questions", "hits", "share", "seconds",
    "compactions",
]  # fmt: skip  # one row
METRICS: Mapping[str, tuple[str, Unit]] = {
    "cost": ("spends", "usd"),
    "tokens": ("spends", "tokens"),
    "runs": ("runs", "runs"),
    "calls": ("calls", "calls"),
    "failures": ("calls", "calls"),
    "failure_share": ("calls", "share"),
    "turns": ("turns", "turns"),
    "latency_p50": ("turns", "seconds"),
    "latency_p95": ("turns", "seconds"),
    "waits": ("questions", "questions"),
    "wait_p50": ("waits", "seconds"),
    "wait_p95": ("waits", "seconds"),
    "audits": ("audits", "audits"),
    "hits": ("", "hits"),
    "context": ("", "tokens"),
    "compactions": ("", "compactions"),
}
"""The kind of the cells of a metric, and its unit; hits are found by a search, not in cells, and how
full the context was and where it was compacted is known of each turn of a run."""
OF_TURNS = ("context", "compactions")
"""The metrics that only turns have."""
LABELS = ("model", "agent", "project", "branch", "tool", "dialect", "source")
PARTS = ("outcome", "token_kind", "latency_bucket", "result")
"""What a metric is split by that is no name: then each part has a row."""
FILTERS = (*LABELS, "outcome")
TOKEN_KINDS = ("cache read", "input", "cache write", "output")

SHARES = {"latency_p50": 0.5, "latency_p95": 0.95, "wait_p50": 0.5, "wait_p95": 0.95}
"""The share of the values that a percentile is at or above."""


@dataclass(frozen=True, slots=True)
class SeriesQuery:
    """One metric of a series, and what it takes to answer it."""

    index: Indexer
    prices: Prices
    metric: str
    by: str
    where: Where
    now_ms: int

    @property
    def kind(self) -> str:
        return METRICS[self.metric][0]

    @property
    def label(self) -> str:
        """The field of a cell that is the name of a row; a checkpoint stands where tools do."""
        by = "tool" if self.by == "checkpoint" else self.by
        if by == "tool" and self.kind == "spends":
            return ""  # a provider stands where tools do
        return by if by in LABELS else ""

    @property
    def tiers(self) -> tuple[int, ...] | None:
        """The classes of input that are priced apart, where a home's own prices have others."""
        return tiers_of(self.prices) if self.metric == "cost" else None


def tiers_of(prices: Prices) -> tuple[int, ...] | None:
    """The classes of input that are priced apart; None where they are those of the index."""
    thresholds = prices.thresholds
    return None if thresholds.issubset(series_fold.TIERS) else tuple(sorted(thresholds))


class CellSum:
    """What the cells of one name and one span come to."""

    __slots__ = ("_counts", "_parts", "bounded", "computed", "cost", "priced")

    def __init__(self) -> None:
        self._counts: list[int] = []
        self._parts: dict[int, int] = {}
        self.cost = self.computed = 0
        self.bounded = self.priced = False

    @property
    def is_empty(self) -> bool:
        return not (self._counts and self._counts[0])

    def add(self, part: int, amounts: Sequence[int]) -> None:
        known = self._counts
        self._counts = [*map(sum, zip(known, amounts, strict=True))] if known else [*amounts]
        self._parts[part] = self._parts.get(part, 0) + amounts[0]

    def merge(self, other: "CellSum") -> None:
        if other._counts:
            zeros = [0] * len(other._counts)
            self._counts = [*map(sum, zip(self._counts or zeros, other._counts, strict=True))]
        for part, count in other._parts.items():
            self._parts[part] = self._parts.get(part, 0) + count
        self.cost += other.cost
        self.computed += other.computed
        self.bounded |= other.bounded
        self.priced |= other.priced

    @property
    def tokens(self) -> int | None:
        """The tokens of these spends; None where none of them has an amount."""
        known = series_fold.INPUT | series_fold.OUTPUT
        total = self._counts[series_fold.SPENDS.index("total_tokens")]
        return (
            total
            if total or any(count and part & known for part, count in self._parts.items())
            else None
        )

    @property
    def reported_usd(self) -> float | None:
        """The cost of these spends as reported; None where none of them has one."""
        of = (count for part, count in self._parts.items() if part & series_fold.COST)
        return self.cost / DOLLAR if any(of) else None

    @property
    def is_lower_bound(self) -> bool:
        """Whether these spends cost at least so much: a part of them is a bound, or has no price."""
        lower = self._counts[series_fold.SPENDS.index("lower")]
        return self.bounded and (self.priced or lower > 0)

    def sum(self, metric: str) -> float | None:
        """What a metric comes to; None also where something was spent and no price is known."""
        return None if metric == "cost" and not self.priced else self.value(metric)

    def value(self, metric: str) -> float | None:
        """What a metric comes to; None where nothing was recorded."""
        if self.is_empty:
            return None
        counts = self._counts
        if metric == "cost":
            return (self.cost + self.computed) / DOLLAR
        if metric == "failure_share":
            return counts[1] / counts[0]
        if metric in SHARES:
            return at_share(self._parts, SHARES[metric])
        column = {"tokens": series_fold.SPENDS.index("total_tokens"), "failures": 1}.get(metric, 0)
        return counts[column]
