"""Series: what happened over time, in buckets, by model, agent, project, tool and more."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Literal

from tracklog.answers import Question, now_of, one_of, text, whole
from tracklog.answers.buckets import BUCKETS, Buckets, cut, minute_of, time_of, zone
from tracklog.answers.prices import Prices, load, total
from tracklog.answers.totals import Spans, Where, totals
from tracklog.folds import moment
from tracklog.folds import runs as runs_fold
from tracklog.folds import series as series_fold
from tracklog.folds._spends import DOLLAR
from tracklog.home.home import Home
from tracklog.index.indexer import Indexer
from tracklog.index.indexes import Total
from tracklog.model.errors import UnknownName

Unit = Literal["usd", "tokens", "runs", "calls", "turns", "audits", "questions", "share", "seconds"]
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
}
"""The kind of the cells of a metric, and its unit."""
LABELS = ("model", "agent", "project", "branch", "tool", "dialect", "source")
PARTS = ("outcome", "token_kind", "latency_bucket", "result")
"""What a metric is split by that is no name: then each part has a row."""
BY = ("none", *LABELS, "checkpoint", *PARTS)
FILTERS = (*LABELS, "outcome")
TOKEN_KINDS = ("cache read", "input", "cache write", "output")

_SHARES = {"latency_p50": 0.5, "latency_p95": 0.95, "wait_p50": 0.5, "wait_p95": 0.95}
_CALLS = ("calls", "failures", "failure_share")
_ONLY = {
    "outcome": ("runs",),
    "token_kind": ("tokens",),
    "latency_bucket": ("turns",),
    "result": ("audits",),
    "checkpoint": ("audits",),
    "tool": _CALLS,
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
    """Over the whole range; of a percentile, that of the whole range. Null where no cost is known."""
    computed: float | None
    """The part of a cost that was computed from list prices."""
    lower_bound: bool
    """A part of the cost has no price: it is at least this."""
    values: list[float | None]
    """Null where nothing that matches was recorded in a bucket; 0 where something was, and none of this."""


@dataclass(frozen=True, slots=True)
class Series:
    """A metric over time."""

    metric: str
    unit: Unit
    by: str
    bucket: int | None
    """Seconds; null for months, which differ."""
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
    """Up to where the record was read."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question, and what it takes to answer it."""

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
        return by if by in LABELS else ""

    @property
    def bands(self) -> tuple[int, ...] | None:
        """The classes of input that are priced apart, where a home's own prices have others."""
        thresholds = self.prices.thresholds if self.metric == "cost" else set()
        return None if thresholds.issubset(series_fold.BANDS) else tuple(sorted(thresholds))


class _Sum:
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

    def merge(self, other: "_Sum") -> None:
        if other._counts:
            zeros = [0] * len(other._counts)
            self._counts = [*map(sum, zip(self._counts or zeros, other._counts, strict=True))]
        for part, count in other._parts.items():
            self._parts[part] = self._parts.get(part, 0) + count
        self.cost += other.cost
        self.computed += other.computed
        self.bounded |= other.bounded
        self.priced |= other.priced

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
        if metric in _SHARES:
            return series_fold.at_share(self._parts, _SHARES[metric])
        column = {"tokens": series_fold.SPENDS.index("total_tokens"), "failures": 1}.get(metric, 0)
        return counts[column]


def series(
    home: Home,
    metric: Sequence[str] = ("cost",),
    by: str = "none",
    since: str = "-24h",
    until: str = "now",
    bucket: str = "auto",
    top: int = 5,
    tz: str | None = None,
    *,
    now: str | None = None,
    **filters: Collection[str],
) -> Series | list[Series]:
    """A metric over time, by the time of the events; a list where several metrics are asked for."""
    now_ms = moment(now_of(home, now)) or 0
    asked_at = datetime.fromtimestamp(now_ms / 1000, zone(tz))
    index, prices = home.index, load(home.path)
    end = time_of(until, asked_at)
    begin = _first(index, asked_at, end) if since == "all" else time_of(since, asked_at)
    buckets = cut(begin, end, bucket)
    where = {name: values for name in FILTERS if (values := filters.get(name))}
    head = str(index.index.cursor)
    found = [
        _series(_Asked(index, prices, each, by, where, now_ms), buckets, top, head)
        for each in metric or ("cost",)
    ]
    return found[0] if len(found) == 1 else found


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


def _series(asked: _Asked, buckets: Buckets, top: int, head: str) -> Series:
    only = _ONLY.get(asked.by)
    if only is not None and asked.metric not in only:
        raise UnknownName(f"{asked.metric} has no {asked.by}", f"by it ask for {', '.join(only)}")
    spans = buckets.spans
    rows = _summed(asked, spans)
    recorded = {span for span, _ in rows}
    names = _named(asked, rows, top)
    ahead = (buckets.begin - (buckets.end - buckets.begin), buckets.begin)
    every, before = _Sum(), _Sum()
    keys: dict[tuple[str, bool], list[_Sum]] = {
        name: [_Sum() for _ in spans] for name in dict.fromkeys(names.values())
    }
    for (span, name), each in rows.items():
        keys[names[name]][span].merge(each)
        every.merge(each)
    for each in _summed(asked, [ahead]).values():
        before.merge(each)
    metric = asked.metric
    return Series(
        metric=metric,
        unit=METRICS[metric][1],
        by=asked.by,
        bucket=buckets.seconds,
        at=[each.isoformat(timespec="seconds") for each in buckets.edges[:-1]],
        keys=[_key(metric, name, sums, recorded) for name, sums in keys.items()],
        total=every.sum(metric),
        computed=_computed(metric, every),
        lower_bound=metric == "cost" and every.bounded,
        unknown_runs=_unknown_runs(asked, (buckets.begin, buckets.end)) if metric == "cost" else 0,
        before=before.sum(metric),
        partial_last=buckets.partial_last,
        head=head,
    )


def _key(
    metric: str, name: tuple[str, bool], sums: Sequence[_Sum], recorded: Collection[int]
) -> SeriesKey:
    every = _Sum()
    for each in sums:
        every.merge(each)
    none = None if metric in _SHARES or metric == "failure_share" else 0
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


def _computed(metric: str, every: _Sum) -> float | None:
    return every.computed / DOLLAR if metric == "cost" and every.computed else None


def _named(
    asked: _Asked, rows: Mapping[tuple[int, str], _Sum], top: int
) -> dict[str, tuple[str, bool]]:
    """By name, the name of its row, and whether that is the row of all others."""
    sums: dict[str, _Sum] = defaultdict(_Sum)
    for (_, name), each in rows.items():
        sums[name].merge(each)
    fixed = {"token_kind": TOKEN_KINDS, "outcome": ("done", *runs_fold.STATUSES[:-1])}
    if asked.by in fixed:
        order = [name for name in fixed[asked.by] if name in sums]
    elif asked.by == "latency_bucket":
        order = sorted(sums, key=float)
    else:
        order = sorted(sums, key=lambda name: (-_size(asked.metric, sums[name]), name))
    most = len(order) if asked.by in PARTS else top
    return {name: (name, False) if n < most else ("", True) for n, name in enumerate(order)}


def _size(metric: str, every: _Sum) -> float:
    return every.value("turns" if metric in _SHARES else metric) or 0


def _summed(asked: _Asked, spans: Spans) -> dict[tuple[int, str], _Sum]:
    """By span and name, what the cells come to."""
    where = {name: values for name, values in asked.where.items() if name != "outcome"}
    sums: dict[tuple[int, str], _Sum] = defaultdict(_Sum)
    if asked.kind == "spends":
        for span, name, each in _spends(asked, spans, where):
            sums[span, name].merge(each)
        return sums
    by = asked.label
    for row in _rows(asked, spans, by, where):
        name = row.name if by else _part_name(asked, row.part)
        if _has_outcome(asked, row.part):
            sums[row.span, name].add(row.part, row.amounts)
    return {key: each for key, each in sums.items() if not each.is_empty}


def _rows(asked: _Asked, spans: Spans, by: str, where: Where) -> list[Total]:
    """The rows of the cells; by agent, a run of several agents counts for each of them."""
    rows = totals(asked.index, asked.kind, spans, by, where)
    if asked.kind != "runs" or not (by == "agent" or "agent" in where):
        return rows
    alone = [row for row in rows if row.name != runs_fold.SEVERAL]
    return [*alone, *totals(asked.index, "runs_by_agent", spans, by, where)]


def _has_outcome(asked: _Asked, part: int) -> bool:
    wanted = asked.where.get("outcome")
    if not wanted:
        return True
    return asked.kind == "runs" and runs_fold.status_of(part, asked.now_ms) in wanted


def _part_name(asked: _Asked, part: int) -> str:
    if asked.by == "outcome":
        return runs_fold.status_of(part, asked.now_ms)
    if asked.by == "result":
        return series_fold.RESULTS[part]
    if asked.by == "latency_bucket":
        return _latency(part)
    return ""


def _latency(part: int) -> str:
    """The seconds at which a bucket of the heat map ends: a power of two of a millisecond."""
    doublings = max(0, part - 1) // _PER_DOUBLING + 1
    return f"{max(2.0**doublings / 1_000_000, 0.001):g}"


def _spends(asked: _Asked, spans: Spans, where: Where) -> Iterator[tuple[int, str, _Sum]]:
    """What was spent, with its price: the names of the rows are models wherever prices are needed."""
    if asked.where.get("outcome"):
        return
    parts, days, places = _by_price(spans, asked.prices)
    by = asked.label
    for model, rows in _by_model(asked, parts, by, where):
        for row in rows:
            each = _Sum()
            each.add(row.part, row.amounts)
            if asked.metric == "cost":
                _price(each, asked, model or None, days[row.span], row)
            for name, part in _kinds(asked, row, each):
                yield places[row.span], name, part


def _by_model(
    asked: _Asked, spans: Spans, by: str, where: Where
) -> Iterator[tuple[str, Iterable[Total]]]:
    """The rows of each model, under the names that are asked for."""
    if asked.metric != "cost" or by == "model":
        every: dict[str, list[Total]] = defaultdict(list)
        for row in totals(asked.index, "spends", spans, by, where, asked.bands):
            every[row.name if by == "model" else ""].append(row)
        yield from every.items()
        return
    models = {row.name for row in totals(asked.index, "spends", [_hull(spans)], "model", where)}
    for model in models:
        one = {**where, "model": [model]}
        yield model, totals(asked.index, "spends", spans, by, one, asked.bands)


def _hull(spans: Spans) -> tuple[int, int]:
    return spans[0][0], spans[-1][1]


def _by_price(spans: Spans, prices: Prices) -> tuple[list[tuple[int, int]], list[str], list[int]]:
    """Spans cut where a price changes; the day of each; and the number of the span it is a part of."""
    changes = sorted(_midnight(day) for day in prices.days)
    parts, days, places = [], [], []
    for place, (first, last) in enumerate(spans):
        edges = [first, *(each for each in changes if first < each < last), last]
        for begin, end in pairwise(edges):
            parts.append((begin, end))
            days.append(datetime.fromtimestamp(begin * 60, UTC).date().isoformat())
            places.append(place)
    return parts, days, places


def _midnight(day: str) -> int:
    return minute_of(datetime.fromisoformat(day).replace(tzinfo=UTC))


_COLUMN = {name: n for n, name in enumerate(series_fold.SPENDS)}


def _price(each: _Sum, asked: _Asked, model: str | None, day: str, row: Total) -> None:
    """Add the reported cost; where none was reported, the cost by the list."""
    amounts, flags = row.amounts, row.part
    each.cost = amounts[_COLUMN["cost"]]
    each.bounded = amounts[_COLUMN["lower"]] > 0
    if flags & series_fold.COST:
        each.priced = True
        return
    price = asked.prices.at(model, day)
    if price is None or not flags & (series_fold.INPUT | series_fold.OUTPUT):
        each.bounded = True
        return
    bands = asked.bands or series_fold.BANDS
    if price.above and series_fold.band(price.above[0] + 1, bands) <= flags >> 4:
        price = price.above[1]
    cost = total(
        price,
        fresh=amounts[_COLUMN["fresh"]],
        fresh_and_written=amounts[_COLUMN["fresh_and_written"]],
        read=amounts[_COLUMN["cached_tokens"]],
        written=amounts[_COLUMN["cache_write_tokens"]],
        longer=amounts[_COLUMN["longer"]],
        output=amounts[_COLUMN["output_tokens"]],
        complete=flags & 3 == series_fold.INPUT | series_fold.OUTPUT,
    )
    each.computed, each.priced = cost.amount, True
    each.bounded |= not cost.complete


def _kinds(asked: _Asked, row: Total, each: _Sum) -> Iterator[tuple[str, _Sum]]:
    """A row under its name; or, by kind of tokens, a part of it for each kind."""
    if asked.by != "token_kind":
        yield row.name, each
        return
    counts = row.amounts
    read, written = counts[_COLUMN["cached_tokens"]], counts[_COLUMN["cache_write_tokens"]]
    output = counts[_COLUMN["output_tokens"]]
    rest = counts[_COLUMN["total_tokens"]] - read - written - output
    for name, tokens in zip(TOKEN_KINDS, (read, rest, written, output), strict=True):
        part = _Sum()
        amounts = [0] * len(series_fold.SPENDS)
        amounts[0], amounts[_COLUMN["total_tokens"]] = counts[0], tokens
        part.add(0, amounts)
        yield name, part


def _unknown_runs(asked: _Asked, span: tuple[int, int]) -> int:
    """The runs that began to spend within a span and used a model that has no price."""
    where = {name: each for name, each in asked.where.items() if name not in ("outcome", "model")}
    wanted, runs = asked.where.get("model"), 0
    day = datetime.fromtimestamp(span[1] * 60, UTC).date().isoformat()
    for row in totals(asked.index, "unreported", [span], "tool", where):
        models = row.name.split(series_fold.NEXT)
        unknown = (
            model
            for model in models
            if (not wanted or model in wanted) and asked.prices.at(model or None, day) is None
        )
        runs += row.amounts[0] * any(True for _ in unknown)
    return runs


question = Question(
    name="series",
    about="Show a metric over time, by the time of the events: cost, tokens, runs, calls, failures, "
    "durations of turns and waits, audits.",
    ask=series,
    params=(
        one_of("metric", "What is measured.", METRICS, many=True, default=("cost",)),
        one_of("by", "Split by what.", BY, default="none"),
        text("since", "From when: -24h, -7d, a day, a time, or `all`.", default="-24h"),
        text("until", "Until when: `now`, a day or a time.", default="now"),
        one_of("bucket", "The length of a bucket.", BUCKETS, default="auto"),
        whole("top", "So many names have a row of their own.", least=1, most=100, default=5),
        text("tz", "The time zone in which days begin, such as Europe/Zurich; else the local one."),
        *(text(name, f"Only of this {name}.", many=True, default=()) for name in FILTERS),
    ),
    examples=(
        "series --metric cost --by model --since -7d",
        "series --metric failures --by tool --since -7d --bucket 1d",
        "series --metric latency_p95 --json",
    ),
)
