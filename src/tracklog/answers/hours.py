"""Calls and failures of tools, and what was spent, hour by hour."""

from dataclasses import dataclass

from tracklog.answers import Question, now_of, whole
from tracklog.answers.costs import costs
from tracklog.answers.tools import hourly
from tracklog.folds import moment
from tracklog.folds import tools as tools_fold
from tracklog.home.home import Home
from tracklog.journal.frame import stamp

_CALLS = ("calls", "failures", "p50_seconds", "p95_seconds")
_SPENT = ("total_tokens", "cost_usd", "computed_usd", "lower_bound")


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
    last = (moment(now_of(home, now)) or 0) // tools_fold.HOUR
    first = last - count + 1
    tools = tools_fold.by_hour(hourly(home.index, first * tools_fold.HOUR))
    spent = {row.of: row for row in costs(home, "hour")}
    return [
        HourRow(
            begin=stamp(hour * tools_fold.HOUR / 1000),
            **{name: tools.get(hour, {}).get(name) for name in _CALLS},
            **{name: getattr(spent.get(str(hour)), name, None) for name in _SPENT},
        )
        for hour in range(first, last + 1)
    ]


question = Question(
    name="hours",
    about="List the last hours, the oldest first: calls, failures, latency, tokens and cost.",
    ask=hours,
    params=(whole("count", "The number of hours.", least=1, most=24 * 31, default=24),),
    examples=("hours", "hours --count 48 --json"),
)
