"""Tools: how often each was called and failed, and how long it took."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from tracklog.answers import WINDOWS, Question, one_of, since
from tracklog.answers.duplicates import same_conversation
from tracklog.folds import moment
from tracklog.folds import tools as tools_fold
from tracklog.home.home import Home
from tracklog.index.indexer import Indexer


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
    """The tools, the most called first, within the hours that touch a window."""
    begin = since(home, window, now)
    rows = tools_fold.answer(hourly(home.index, moment(begin)), begin)
    return [ToolRow(**row) for row in rows if row["calls"]]


def hourly(index: Indexer, begin_ms: int | None) -> Iterator[tuple[str, dict[str, int]]]:
    """The sums per hour and tool from a time on, without runs that are counted elsewhere."""
    after = "" if begin_ms is None else tools_fold.hour_key(begin_ms // tools_fold.HOUR)
    return chain(index.sums("tools", after), _duplicates(index, after))


def _duplicates(index: Indexer, after: str) -> Iterator[tuple[str, dict[str, int]]]:
    """The calls of runs that record a conversation which another run is counted for, as negative
    numbers.
    """
    for run in same_conversation(index):
        for key, row in tools_fold.sums(run, index.state("tools", run)).items():
            if key > after:
                yield key, {name: -amount for name, amount in row.items()}


question = Question(
    name="tools",
    about="List the tools, the most called first. Each call counts once, however often it was "
    "recorded.",
    ask=tools,
    params=(
        one_of(
            "window",
            "The hours back from now in which the calls were made.",
            WINDOWS,
            default="all",
        ),
    ),
    examples=("tools", "tools --window 24h", "tools --json"),
)
