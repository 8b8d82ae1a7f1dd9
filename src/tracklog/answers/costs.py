"""Costs: tokens and money per run, project, agent, model or provider."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache

from tracklog.answers import Question, key_of, now_of, one_of, text
from tracklog.answers.buckets import time_of, zone
from tracklog.answers.duplicates import same_conversation
from tracklog.answers.prices import load
from tracklog.answers.spends import Spends, price_by, spends_of
from tracklog.folds import costs as costs_fold
from tracklog.folds import epoch_ms
from tracklog.home.home import Home
from tracklog.index.gc_paused import gc_paused
from tracklog.index.indexer import Indexer
from tracklog.model.errors import BadQuery

BY = ("run", "project", "agent", "model", "provider", "day", "week", "month", "all")
BUCKETS = ("day", "week", "month")
"""What costs can be added up by beside a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """What one run, project, agent, model or provider spent."""

    begin: str | None
    """When its day, week or month began, where costs are by one."""
    of: str | None
    """Its name; a run as `family:run`, a project as its folder. Null for the sum of all, or where no name is known."""
    also_of: str | None
    """The second name, where costs are by two."""
    runs: int
    spends: int
    calls: int
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    cache_write_tokens: int | None
    reasoning_tokens: int | None
    tool_tokens: int | None
    total_tokens: int | None
    cost_usd: float | None
    """As the source reported it."""
    computed_usd: float | None
    """From list prices, for what has no reported cost."""
    lower_bound: bool
    """A part of it has no price: it costs at least this."""
    upper_bound: bool
    unpriced_models: list[str]


def costs(
    home: Home,
    by: str | Sequence[str] = "run",
    since: str | None = None,
    until: str = "now",
    tz: str | None = None,
    run: str | None = None,
    *,
    now: str | None = None,
    in_time: bool = False,
) -> list[CostRow]:
    """What was spent, the most expensive first; from list prices where no cost was reported.

    By day, week or month the first of them comes first. With `run`, only what that run itself spent.
    With `in_time`, without what was recorded more than an hour after it was spent.
    """
    names, bucket = _names(by)
    asked_at = datetime.fromtimestamp((epoch_ms(now_of(home, now)) or 0) / 1000, zone(tz))
    with gc_paused():
        price = price_by(load(home.path))
        within = None if run is None else {key_of(home, run)}
        spends = _all_spends(home.index) if within is None else spends_of(home.index, within)
        projects = None
        if "project" in names:
            projects = {key: state.cwd for key, state in home.index.states("runs")}
        begin = _begin(since, until, bucket, asked_at)
        rows = costs_fold.answer(
            spends.states,
            by=names[0],
            then=names[1] if len(names) > 1 else None,
            within=within,
            price=price,
            duplicates=spends.duplicates,
            projects=projects,
            begin=begin,
            in_time=in_time,
        )
    return [CostRow(**row) for row in rows]


def _all_spends(index: Indexer) -> Spends:
    return Spends([state for _, state in index.states("costs")], same_conversation(index))


def _names(by: str | Sequence[str]) -> tuple[list[str], str | None]:
    """What costs are added up by: one or two names, and a day, a week or a month."""
    asked = [by] if isinstance(by, str) else list(by) or ["run"]
    names = [each for each in dict.fromkeys(asked) if each not in BUCKETS]
    times = [each for each in dict.fromkeys(asked) if each in BUCKETS]
    if len(names) > 2 or len(times) > 1:
        raise BadQuery(
            f"costs cannot be added up by {', '.join(asked)}",
            "give one or two names and one of day, week and month, as in day,model,project",
        )
    return names or ["all"], times[0] if times else None


def _begin(
    since: str | None, until: str, bucket: str | None, now: datetime
) -> Callable[[int], str | None]:
    """When the day, week or month of a time began; None for a time that was not asked for."""
    first = None if since is None else time_of(since, now).timestamp() * 1000
    last = None if until == "now" else time_of(until, now).timestamp() * 1000

    @cache
    def begun(quarter: int) -> str:
        # In every zone a day begins at a full quarter of an hour.
        day = datetime.fromtimestamp(quarter * QUARTER / 1000, now.tzinfo).date()
        if bucket == "week":
            day -= timedelta(days=day.weekday())
        return (day.replace(day=1) if bucket == "month" else day).isoformat()

    def begin(at_ms: int) -> str | None:
        if (first is not None and at_ms < first) or (last is not None and at_ms >= last):
            return None
        return begun(at_ms // QUARTER) if bucket else ""

    return begin


QUARTER = 900_000
"""Milliseconds."""


question = Question(
    name="costs",
    about="List tokens and money, the most expensive first.",
    ask=costs,
    params=(
        one_of(
            "by",
            "What to add up by; `day,model,project` is by all three.",
            BY,
            many=True,
            default=("run",),
        ),
        text(
            "since",
            "From when: -24h, -7d, `yesterday`, a day or a time; else from the first spend.",
        ),
        text("until", "Until when: `now`, `today`, a day or a time.", default="now"),
        text("tz", "The time zone in which days begin, such as Europe/Zurich; else the local one."),
        text("run", "Only what this run itself spent."),
    ),
    refusals={404: "There is no such run."},
    examples=(
        "costs                            (per session: one row for each run)",
        "costs --by day --since -30d      (daily)",
        "costs --by week                  (weekly)",
        "costs --by month                 (monthly)",
        "costs --by day,model --since -7d",
        "costs --by model,project --since yesterday --until today",
        "costs --run agent-coder-1 --by model",
    ),
)
