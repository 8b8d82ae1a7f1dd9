"""Calls and failures of tools, and what was spent, hour by hour."""

from collections import defaultdict
from dataclasses import dataclass
from typing import TypedDict

from tracklog.answers import Question, integer, now_of
from tracklog.answers._series_query import CellSum, SeriesQuery
from tracklog.answers._series_spends import spends
from tracklog.answers.prices import load
from tracklog.answers.tools import Calls, calls_by
from tracklog.answers.totals import Spans
from tracklog.folds import epoch_ms
from tracklog.folds._spends import DOLLAR
from tracklog.folds.costs import HOUR
from tracklog.home.home import Home
from tracklog.journal.frame import stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class HourRow:
    """One hour; null where nothing was recorded in it."""

    begin: str
    """When the hour began."""
    calls: int | None = None
    failures: int | None = None
    p50_seconds: float | None = None
    p95_seconds: float | None = None
    total_tokens: int | None = None
    cost_usd: float | None = None
    computed_usd: float | None = None
    lower_bound: bool | None = None


def hours(home: Home, count: int = 24, *, now: str | None = None) -> list[HourRow]:
    """The last hours, the oldest first."""
    asked = epoch_ms(now_of(home, now)) or 0
    last = asked // HOUR
    first = last - count + 1
    spans = [(hour * 60, hour * 60 + 60) for hour in range(first, last + 1)]
    calls = calls_by(home.index, spans)
    spent = _spent(home, spans, asked)
    return [
        HourRow(
            begin=stamp(hour * HOUR / 1000),
            **_fields(calls.get((n, ""))),
            **_amounts(spent.get(n)),
        )
        for n, hour in enumerate(range(first, last + 1))
    ]


def _spent(home: Home, spans: Spans, now_ms: int) -> dict[int, CellSum]:
    """By the number of its span, what was spent."""
    query = SeriesQuery(home.index, load(home.path), "cost", "", {}, now_ms)
    sums: dict[int, CellSum] = defaultdict(CellSum)
    for span, _, each in spends(query, spans, {}):
        sums[span].merge(each)
    return {span: each for span, each in sums.items() if not each.is_empty}


class _Amounts(TypedDict, total=False):
    total_tokens: int | None
    cost_usd: float | None
    computed_usd: float | None
    lower_bound: bool


def _amounts(spent: CellSum | None) -> _Amounts:
    if spent is None:
        return {}
    return {
        "total_tokens": spent.tokens,
        "cost_usd": spent.reported_usd,
        "computed_usd": spent.computed / DOLLAR if spent.computed else None,
        "lower_bound": spent.is_lower_bound,
    }


class _Hour(TypedDict, total=False):
    calls: int
    failures: int
    p50_seconds: float | None
    p95_seconds: float | None


def _fields(calls: Calls | None) -> _Hour:
    if calls is None:
        return {}
    row = calls.row("")
    return {
        "calls": row.calls,
        "failures": row.failures,
        "p50_seconds": row.p50_seconds,
        "p95_seconds": row.p95_seconds,
    }


question = Question(
    name="hours",
    about="List the last hours, the oldest first: calls, failures, latency, tokens and cost.",
    ask=hours,
    params=(integer("count", "The number of hours.", least=1, most=24 * 31, default=24),),
    examples=("hours", "hours --count 48 --json"),
)
