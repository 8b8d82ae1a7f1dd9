"""Series: what happened over time, in buckets, by model, agent, project, tool and more."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from tracklog.answers import Question, integer, now_of, one_of, text
from tracklog.answers._series_query import (
    FILTERS,
    LABELS,
    METRICS,
    OF_TURNS,
    PARTS,
    SHARES,
    TOKEN_KINDS,
    CellSum,
    SeriesQuery,
    Unit,
)
from tracklog.answers._series_spends import spends, unknown_runs
from tracklog.answers._series_turns import TurnValue, by_turn, total_of
from tracklog.answers.buckets import BUCKETS, Buckets, cut, minute_of, time_of, zone
from tracklog.answers.hits import VALUES, FacetName, found
from tracklog.answers.prices import load
from tracklog.answers.totals import Spans, Where, totals
from tracklog.folds import epoch_ms
from tracklog.folds import runs as runs_fold
from tracklog.folds import series as series_fold
from tracklog.folds._spends import DOLLAR
from tracklog.home.home import Home
from tracklog.index.indexer import Indexer
from tracklog.index.indexes import Total
from tracklog.model.errors import BadQuery, UnknownName

TURN = "turn"
"""The bucket of which each is a turn of one run."""
BY = ("none", *LABELS, "checkpoint", *PARTS)
_CALLS = ("calls", "failures", "failure_share")
_NOT_HITS = tuple(metric for metric in METRICS if metric not in ("hits", *OF_TURNS))
_ONLY = {
    "outcome": ("runs",),
    "token_kind": ("tokens",),
    "latency_bucket": ("turns",),
    "result": ("audits",),
    "checkpoint": ("audits",),
    "tool": (*_CALLS, "hits"),
    "model": _NOT_HITS,
    "branch": _NOT_HITS,
    "source": _NOT_HITS,
}
"""The metrics that can be split by something; by anything else all of them can."""
_FIRST = ("runs", "spends", "calls", "turns", "questions", "audits")
_PER_DOUBLING = 12  # buckets of a duration that are one bucket of the heat map


@dataclass(frozen=True, slots=True)
class SeriesKey:
    """The values of one model, agent, project or another name, bucket by bucket."""

    key: str | None
    """Its name; null where none is known, and for the sum of all others."""
    other: bool
    """The sum of all names that have no row of their own."""
    sum: float | None
    """The sum (or the percentile) over the whole range. Null where no cost is known."""
    computed: float | None
    """The part of a cost that was computed from list prices."""
    lower_bound: bool
    """A part of the cost has no price: it is at least this."""
    values: list[float | None]
    """Null where no event that matches was recorded; 0 where some were, but none of this name."""


@dataclass(frozen=True, slots=True)
class Series:
    """A metric over time."""

    metric: str
    unit: Unit
    by: str
    bucket: int | None
    """Seconds; null for months and turns, which differ."""
    at: list[str]
    """When each bucket begins."""
    keys: list[SeriesKey]
    """The greatest first, the sum of all others last."""
    total: float | None
    computed: float | None
    """The part of a cost that was computed from list prices."""
    lower_bound: bool
    """A part of the cost has no price: it is at least this."""
    unknown_runs: int
    """Runs that spent something on a model whose price is not known."""
    before: float | None
    """The total of the same length of time before."""
    partial_last: bool
    """The last bucket is not over."""
    head: str
    """The last record that the answer includes."""


def series(
    home: Home,
    metric: Sequence[str] = ("cost",),
    by: str = "none",
    since: str = "-24h",
    until: str = "now",
    bucket: str = "auto",
    top: int = 5,
    tz: str | None = None,
    query: str = "",
    run: str | None = None,
    at: int | None = None,
    *,
    now: str | None = None,
    **filters: Collection[str],
) -> Series | list[Series]:
    """A metric over time, by the time of the events; a list where several metrics are asked for."""
    now_ms = epoch_ms(now_of(home, now)) or 0
    asked_at = datetime.fromtimestamp(now_ms / 1000, zone(tz))
    index, prices = home.index, load(home.path)
    if bucket == TURN:
        head = str(index.index.cursor)
        answered = [_turns(home, run, each, by, top, head, at) for each in metric or ("cost",)]
        return answered[0] if len(answered) == 1 else answered
    if run is not None or at is not None or not set(OF_TURNS).isdisjoint(metric):
        raise BadQuery("a run is asked for turn by turn", f"give the bucket `{TURN}`, too")
    end = time_of(until, asked_at)
    begin = _first(index, asked_at, end) if since == "all" else time_of(since, asked_at)
    buckets = cut(begin, end, bucket)
    where = {name: values for name in FILTERS if (values := filters.get(name))}
    head = str(index.index.cursor)
    answers = [
        _hits(home, query, by, where, buckets, top, head, now_of(home, now))
        if each == "hits"
        else _series(SeriesQuery(index, prices, each, by, where, now_ms), buckets, top, head)
        for each in metric or ("cost",)
    ]
    return answers[0] if len(answers) == 1 else answers


def _hits(
    home: Home,
    query: str,
    by: str,
    where: Where,
    buckets: Buckets,
    top: int,
    head: str,
    now: str,
) -> Series:
    """The hits of a search over time. Before the oldest hit that was looked at, none are known."""
    _check("hits", by)
    filters: dict[FacetName, Collection[str]] = {
        name: where[name] for name in VALUES if name in where
    }
    every, wanted, is_cut = found(home, query, filters, now=now)
    hits = [each for each in every if not wanted.misses(each)]
    name_of = next((value for name, value in VALUES.items() if name == by), None)
    first = min((each.at_ms // 60_000 for each in every), default=0) if is_cut else 0
    counts: dict[str, list[float | None]] = {}
    spans = buckets.spans
    for each in hits:
        minute = each.at_ms // 60_000
        for span, (begin, end) in enumerate(spans):
            if begin <= minute < end:
                name = "" if name_of is None else name_of(each) or ""
                values = counts.setdefault(
                    name, [None if last <= first else 0 for _, last in spans]
                )
                values[span] = (values[span] or 0) + 1
    order = sorted(counts, key=lambda name: (-_known(counts[name]), name))
    keys = [
        SeriesKey(name or None, False, _known(counts[name]), None, False, counts[name])
        for name in order[:top]
    ]
    if rest := order[top:]:
        values = [
            None if each[0] is None else sum(one or 0 for one in each)
            for each in zip(*(counts[name] for name in rest), strict=True)
        ]
        keys.append(SeriesKey(None, True, _known(values), None, False, values))
    length = buckets.end - buckets.begin
    return Series(
        metric="hits",
        unit="hits",
        by=by,
        bucket=buckets.seconds,
        at=[each.isoformat(timespec="seconds") for each in buckets.edges[:-1]],
        keys=keys,
        total=sum(_known(each) for each in counts.values()),
        computed=None,
        lower_bound=is_cut and first > buckets.begin,
        unknown_runs=0,
        before=sum(buckets.begin - length <= each.at_ms // 60_000 < buckets.begin for each in hits),
        partial_last=buckets.partial_last,
        head=head,
    )


def _turns(
    home: Home, run: str | None, metric: str, by: str, top: int, head: str, seq: int | None
) -> Series:
    """A metric of one run, turn by turn; with `seq`, as it was at that record."""
    at, found, bounded = by_turn(home, run, metric, by, seq)
    rows: dict[str, list[TurnValue]] = defaultdict(list)
    for each in found:
        rows[each.name].append(each)
    order = sorted(rows, key=lambda name: (-sum(each.value for each in rows[name]), name))
    if by == "token_kind":
        order = [name for name in (*TOKEN_KINDS, "") if name in rows]
    shown = [(name, False, rows[name]) for name in order[:top]]
    if rest := order[top:]:
        shown.append(("", True, [each for name in rest for each in rows[name]]))
    held = {each.place for each in found}
    computed = sum(each.computed for each in found)
    return Series(
        metric=metric,
        unit=METRICS[metric][1],
        by=by,
        bucket=None,
        at=at,
        keys=[
            _turn_key(metric, name, other, values, held, len(at)) for name, other, values in shown
        ],
        total=total_of(metric, found) if found else None,
        computed=computed or None,
        lower_bound=bounded,
        unknown_runs=0,
        before=None,
        partial_last=False,
        head=head,
    )


def _turn_key(
    metric: str,
    name: str,
    other: bool,
    found: list[TurnValue],
    held: Collection[int],
    turns: int,
) -> SeriesKey:
    none = None if metric == "context" else 0
    values: list[float | None] = [none if place in held else None for place in range(turns)]
    for each in found:
        values[each.place] = (values[each.place] or 0) + each.value
    return SeriesKey(
        key=name or None,
        other=other,
        sum=total_of(metric, found),
        computed=sum(each.computed for each in found) or None,
        lower_bound=any(each.bounded for each in found),
        values=values,
    )


def _known(values: Sequence[float | None]) -> float:
    return sum(each or 0 for each in values)


def _first(index: Indexer, now: datetime, until: datetime) -> datetime:
    """The local day of the first thing that was recorded."""
    first, last = 0, minute_of(until)
    for length in (525_600, 10_080, 1440):  # a year, a week, a day
        spans = [*pairwise(range(first, last + length, length))]
        held = [each.span for kind in _FIRST for each in index.totals(kind, spans)]
        if not held:
            return until - timedelta(days=1)
        first, last = spans[min(held)]
    begin = datetime.fromtimestamp(first * 60, now.tzinfo)
    return begin.replace(hour=0, minute=0, second=0, microsecond=0)


def _check(metric: str, by: str) -> None:
    """Refuse to split a metric by what it does not have."""
    only = _ONLY.get(by)
    if only is not None and metric not in only:
        raise UnknownName(f"{metric} cannot be split by {by}", f"only these can: {', '.join(only)}")


def _series(query: SeriesQuery, buckets: Buckets, top: int, head: str) -> Series:
    _check(query.metric, query.by)
    spans = buckets.spans
    rows = _summed(query, spans)
    recorded = {span for span, _ in rows}
    names = _named(query, rows, top)
    ahead = (buckets.begin - (buckets.end - buckets.begin), buckets.begin)
    every, before = CellSum(), CellSum()
    keys: dict[tuple[str, bool], list[CellSum]] = {
        name: [CellSum() for _ in spans] for name in dict.fromkeys(names.values())
    }
    for (span, name), each in rows.items():
        keys[names[name]][span].merge(each)
        every.merge(each)
    for each in _summed(query, [ahead]).values():
        before.merge(each)
    metric = query.metric
    return Series(
        metric=metric,
        unit=METRICS[metric][1],
        by=query.by,
        bucket=buckets.seconds,
        at=[each.isoformat(timespec="seconds") for each in buckets.edges[:-1]],
        keys=[_key(metric, name, sums, recorded) for name, sums in keys.items()],
        total=every.sum(metric),
        computed=_computed(metric, every),
        lower_bound=metric == "cost" and every.bounded,
        unknown_runs=unknown_runs(query, (buckets.begin, buckets.end)) if metric == "cost" else 0,
        before=before.sum(metric),
        partial_last=buckets.partial_last,
        head=head,
    )


def _key(
    metric: str, name: tuple[str, bool], sums: Sequence[CellSum], recorded: Collection[int]
) -> SeriesKey:
    every = CellSum()
    for each in sums:
        every.merge(each)
    none = None if metric in SHARES or metric == "failure_share" else 0
    values = [
        value if (value := each.value(metric)) is not None or span not in recorded else none
        for span, each in enumerate(sums)
    ]
    key, other = name
    return SeriesKey(
        key=None if other else key or None,
        other=other,
        sum=every.sum(metric),
        computed=_computed(metric, every),
        lower_bound=metric == "cost" and every.bounded,
        values=values,
    )


def _computed(metric: str, every: CellSum) -> float | None:
    return every.computed / DOLLAR if metric == "cost" and every.computed else None


def _named(
    query: SeriesQuery, rows: Mapping[tuple[int, str], CellSum], top: int
) -> dict[str, tuple[str, bool]]:
    """By name, the name of its row, and whether that is the row of all others."""
    sums: dict[str, CellSum] = defaultdict(CellSum)
    for (_, name), each in rows.items():
        sums[name].merge(each)
    fixed = {"token_kind": TOKEN_KINDS, "outcome": ("done", *runs_fold.STATUSES[:-1])}
    if query.by in fixed:
        order = [name for name in fixed[query.by] if name in sums]
    elif query.by == "latency_bucket":
        order = sorted(sums, key=float)
    else:
        order = sorted(sums, key=lambda name: (-_size(query.metric, sums[name]), name))
    most = len(order) if query.by in PARTS else top
    return {name: (name, False) if n < most else ("", True) for n, name in enumerate(order)}


def _size(metric: str, every: CellSum) -> float:
    return every.value("turns" if metric in SHARES else metric) or 0


def _summed(query: SeriesQuery, spans: Spans) -> dict[tuple[int, str], CellSum]:
    """By span and name, what the cells come to."""
    where = {name: values for name, values in query.where.items() if name != "outcome"}
    sums: dict[tuple[int, str], CellSum] = defaultdict(CellSum)
    if query.kind == "spends":
        for span, name, each in spends(query, spans, where):
            sums[span, name].merge(each)
        return sums
    by = query.label
    for row in _rows(query, spans, by, where):
        name = row.name if by else _part_name(query, row.part)
        if _has_outcome(query, row.part):
            sums[row.span, name].add(row.part, row.amounts)
    return {key: each for key, each in sums.items() if not each.is_empty}


def _rows(query: SeriesQuery, spans: Spans, by: str, where: Where) -> list[Total]:
    """The rows of the cells; by agent, a run of several agents counts for each of them."""
    rows = totals(query.index, query.kind, spans, by, where)
    if query.kind != "runs" or not (by == "agent" or "agent" in where):
        return rows
    alone = [row for row in rows if row.name != runs_fold.SEVERAL]
    return [*alone, *totals(query.index, "runs_by_agent", spans, by, where)]


def _has_outcome(query: SeriesQuery, part: int) -> bool:
    wanted = query.where.get("outcome")
    if not wanted:
        return True
    return query.kind == "runs" and runs_fold.status_of(part, query.now_ms) in wanted


def _part_name(query: SeriesQuery, part: int) -> str:
    if query.by == "outcome":
        return runs_fold.status_of(part, query.now_ms)
    if query.by == "result":
        return series_fold.RESULTS[part]
    if query.by == "latency_bucket":
        return _latency(part)
    return ""


def _latency(part: int) -> str:
    """The seconds at which a bucket of the heat map ends: a power of two of a millisecond."""
    doublings = max(0, part - 1) // _PER_DOUBLING + 1
    return f"{max(2.0**doublings / 1_000_000, 0.001):g}"


question = Question(
    name="series",
    about="Show a metric over time, by the time of the events: cost, tokens, runs, calls, failures, "
    "durations of turns and waits, audits, hits of a search.",
    ask=series,
    params=(
        one_of("metric", "What is measured.", METRICS, many=True, default=("cost",)),
        one_of("by", "What the metric is split by.", BY, default="none"),
        text(
            "since", "From when: -24h, -7d, `yesterday`, a day, a time, or `all`.", default="-24h"
        ),
        text("until", "Until when: `now`, `today`, a day or a time.", default="now"),
        one_of(
            "bucket",
            "The length of a bucket; `turn` for the turns of one run.",
            (*BUCKETS, TURN),
            default="auto",
        ),
        integer("top", "How many names get a separate row.", least=1, most=100, default=5),
        text("tz", "The time zone in which days begin, such as Europe/Zurich; else the local one."),
        text(
            "q",
            "The words that the metric `hits` counts, as `search` takes them.",
            default="",
            keyword="query",
        ),
        text("run", "The run whose turns are shown, with the bucket `turn`."),
        integer("at", "The run as it was at this record, with the bucket `turn`.", least=1),
        *(text(name, f"Only of this {name}.", many=True, default=()) for name in FILTERS),
    ),
    examples=(
        "series --metric cost --by model --since -7d",
        "series --metric failures --by tool --since -7d --bucket 1d",
        "series --metric tokens --by token_kind --bucket turn --run agent-coder-1",
        "series --metric context --metric compactions --bucket turn --run agent-coder-1 --json",
        "series --metric latency_p95 --json",
        "series --metric hits --q timeout --since -7d",
    ),
)
