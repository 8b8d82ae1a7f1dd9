"""Costs: tokens and money per run, project, agent, model or provider."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from itertools import islice

from tracklog.answers import Question, after, integer, key_of, limit, newest, now_of, one_of, text
from tracklog.answers._cost_sums import LABELS, Begin, cost_sums
from tracklog.answers._run_costs import BY as DIVIDED
from tracklog.answers._run_costs import shares
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

BY = ("run", "project", "agent", "model", "provider", "day", "week", "month", "all", *DIVIDED)
NEWEST = 500
"""The runs whose costs are listed by run unless asked otherwise: those that were recorded last."""
LIMIT = 2000
"""The rows that are listed unless asked otherwise."""
BUCKETS = ("day", "week", "month")
"""What costs can be added up by beside a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """What one run, project, agent, model or provider spent."""

    begin: str | None
    """The beginning of the day, week or month, if costs are added up by one of these."""
    of: str | None
    """Its name; a run as `family:run`, a project as its folder. Null for the sum of all, or where no name is known."""
    also_of: str | None
    """The second name, if costs are added up by two names."""
    runs: int
    """The runs that spent it. Within a time, those that did so first within it; by run, it is 1."""
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
    at: int | None = None,
    newest: int = NEWEST,
    after: int = 0,
    limit: int = LIMIT,
    *,
    now: str | None = None,
    in_time: bool = False,
) -> list[CostRow]:
    """What was spent, the most expensive first; from list prices where no cost was reported.

    By day, week or month the first of them comes first. With `run`, only what that run itself spent.
    By tool or kind of token, each spend of that run is divided among them; with `at`, only what it
    had spent at that record. By run, only what so many runs spent that were recorded last. With `in_time`, without what was
    recorded more than an hour after it was spent.
    """
    names, bucket = _names(by)
    if run is None and (at is not None or not {*names}.isdisjoint(DIVIDED)):
        raise BadQuery(
            "costs by tool, by kind of token or at a record are those of one run", "name the run"
        )
    asked_at = datetime.fromtimestamp((epoch_ms(now_of(home, now)) or 0) / 1000, zone(tz))
    first = None if since is None else time_of(since, asked_at).timestamp() * 1000
    last = None if until == "now" else time_of(until, asked_at).timestamp() * 1000
    begin = _begin(bucket, asked_at)
    with gc_paused():
        prices = load(home.path)
        if run is None and {*names} <= {*LABELS, "all"} and not (in_time and since):
            sums = cost_sums(home.index, prices, names, first, last, begin, in_time=in_time)
            rows = costs_fold.in_order(
                {"begin": of or None, "of": one, "also_of": other, **each.row()}
                for (of, one, other), each in sums.items()
            )
        elif run is not None and not {*names}.isdisjoint(DIVIDED):
            if len(names) > 1:
                raise BadQuery("costs by tool or kind of token are by nothing else", "ask twice")
            parts = shares(home, key_of(home, run), names[0], at)
            listed = {part.spend.key: part.listed for part in parts}
            rows = costs_fold.answer(
                [part.spend for part in parts],
                by="agent",
                price=lambda spend: listed[spend.key],
                begin=_within(first, last, begin),
            )
        else:
            spends, within = _spends(home, names, run, newest, first if in_time else None)
            rows = costs_fold.answer(
                [each for each in spends.states if at is None or each.seq <= at],
                by=names[0],
                then=names[1] if len(names) > 1 else None,
                within=within,
                price=price_by(prices),
                duplicates=spends.duplicates,
                projects=_projects(home.index, spends) if "project" in names else None,
                begin=_within(first, last, begin),
                in_time=in_time,
            )
    return [CostRow(**row) for row in islice(islice(rows, after, None), limit)]


def _spends(
    home: Home, names: Sequence[str], run: str | None, newest: int, since: float | None
) -> tuple[Spends, Collection[str] | None]:
    """The spends to be added up one by one, and the runs of which they are; None for all runs."""
    index = home.index
    if run is not None:
        within = {key_of(home, run)}
        return spends_of(index, within), within
    if since is not None:
        runs = _recorded_since(index, since)
    elif "run" in names:
        runs = {key for key, _ in index.newest_stored("runs", newest)}
        runs = runs if len(runs) == newest else None
    else:
        runs = None
    if runs is None:
        return Spends([state for _, state in index.states("costs")], same_conversation(index)), None
    spends = spends_of(index, runs, runs)
    return spends, runs - spends.duplicates.keys()


def _recorded_since(index: Indexer, since: float) -> set[str] | None:
    """The runs with a record since a time; None for all runs."""
    count = 1000
    while True:
        runs = index.newest("runs", count)
        if len(runs) < count:
            return None
        if (epoch_ms(runs[-1][1].last_received) or 0) < since:
            return {key for key, state in runs if (epoch_ms(state.last_received) or 0) >= since}
        count *= 4


def _projects(index: Indexer, spends: Spends) -> dict[str, str | None]:
    runs = {f"{each.family}:{each.run}" for each in spends.states}
    return {key: state.cwd for key, state in index.load("runs", runs).items()}


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


def _begin(bucket: str | None, now: datetime) -> Begin | None:
    """When the day, week or month of a time began, where costs are by one."""
    if bucket is None:
        return None

    @cache
    def begun(quarter: int) -> str:
        # In every zone a day begins at a full quarter of an hour.
        day = datetime.fromtimestamp(quarter * QUARTER / 1000, now.tzinfo).date()
        if bucket == "week":
            day -= timedelta(days=day.weekday())
        return (day.replace(day=1) if bucket == "month" else day).isoformat()

    return lambda at_ms: begun(at_ms // QUARTER)


def _within(
    first: float | None, last: float | None, begin: Begin | None
) -> Callable[[int], str | None]:
    """The same for a time that was asked for, else None."""

    def within(at_ms: int) -> str | None:
        if (first is not None and at_ms < first) or (last is not None and at_ms >= last):
            return None
        return begin(at_ms) if begin else ""

    return within


QUARTER = 900_000
"""Milliseconds."""


question = Question(
    name="costs",
    about="List tokens and money, the most expensive first.",
    ask=costs,
    params=(
        one_of(
            "by",
            "Add up the costs by this; with `day,model,project`, by all three.",
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
        integer("at", "Only what the run had spent up to this record.", least=1),
        replace(
            newest(NEWEST),
            about="If costs are by run: of this many runs, those that were recorded last.",
        ),
        after("rows"),
        limit(LIMIT),
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
        "costs --run agent-coder-1 --by tool",
        "costs --all                      (every run that was ever recorded)",
    ),
)
