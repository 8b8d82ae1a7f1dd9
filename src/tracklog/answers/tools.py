"""Tools: how often each was called and failed, and how long it took."""

from collections import Counter, defaultdict
from dataclasses import dataclass

from tracklog.answers import WINDOWS, Question, one_of, since
from tracklog.answers.totals import Spans, totals
from tracklog.folds import MINUTE, epoch_ms, series
from tracklog.folds._durations import at_share
from tracklog.home.home import Home
from tracklog.index.indexer import Indexer

EVER = 2**53
"""No minute is later."""


@dataclass(frozen=True, slots=True)
class ToolRow:
    """One tool; each call counts once, however often it was recorded."""

    tool: str
    calls: int
    failures: int
    failure_rate: float | None
    open: int
    """Calls that have not returned."""
    p50_seconds: float | None
    p95_seconds: float | None
    p99_seconds: float | None


def tools(home: Home, window: str = "all", *, now: str | None = None) -> list[ToolRow]:
    """The tools, the most called first, within a window."""
    begin = epoch_ms(since(home, window, now))
    first = -EVER if begin is None else begin // MINUTE
    counts = calls_by(home.index, [(first, EVER)], "tool")
    rows = [each.row(tool) for (_, tool), each in counts.items() if each.calls > 0]
    return sorted(rows, key=lambda row: (-row.calls, row.tool))


class Calls:
    """Calls, added up."""

    def __init__(self) -> None:
        self.calls = self.failures = self.open = 0
        self.durations: Counter[int] = Counter()

    def row(self, tool: str) -> ToolRow:
        return ToolRow(
            tool=tool,
            calls=self.calls,
            failures=self.failures,
            failure_rate=self.failures / self.calls if self.calls else None,
            open=self.open,
            p50_seconds=at_share(self.durations, 0.5),
            p95_seconds=at_share(self.durations, 0.95),
            p99_seconds=at_share(self.durations, 0.99),
        )


def calls_by(index: Indexer, spans: Spans, by: str = "") -> dict[tuple[int, str], Calls]:
    """By span of minutes and name, the calls and how long they took."""
    sums: dict[tuple[int, str], Calls] = defaultdict(Calls)
    for row in totals(index, "calls", spans, by):
        each = sums[row.span, row.name]
        each.calls += row.amounts[0]
        each.failures += row.amounts[1]
        each.open += row.amounts[2]
        if (bucket := series.lasted(row.part)) is not None:
            each.durations[bucket] += row.amounts[0]
    return sums


question = Question(
    name="tools",
    about="List the tools, the most called first. Each call counts once, however often it was "
    "recorded.",
    ask=tools,
    params=(
        one_of(
            "window",
            "Only calls of this time, counted back from now.",
            WINDOWS,
            default="all",
        ),
    ),
    examples=("tools", "tools --window 24h", "tools --json"),
)
