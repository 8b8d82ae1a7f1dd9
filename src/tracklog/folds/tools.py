"""How often is each tool called, how often does it fail, and how long does it take?

A state belongs to a run, because which of two calls is a copy is known in the run only:
each hour's digest is corrected when the join of two tellings shows that they were one call.
The index adds the runs' digests up, so that a window reads a row per hour and tool.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import log2
from typing import Any

from tracklog.folds import MARK, Call, Fold, Position, Sums, join_call, moment, run_key, summed
from tracklog.model.fact import Called, Returned

HOUR = 3_600_000


@dataclass(slots=True)
class State:
    calls: dict[str, Any] = field(default_factory=dict)
    hours: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    """By hour since 1970 and by tool: calls, failures, open calls, and how many took how long."""


def step(state: State, position: Position, fact: Called | Returned) -> State:
    if fact.copied is not True:
        before, after = join_call(state.calls, position, fact, places=True)
        for call in before:
            _count(state, call, -1)
        for call in after:
            _count(state, call, 1)
    return state


def _count(state: State, call: Call, one: int) -> None:
    if not call.counts:
        return
    tools = state.hours.setdefault(str(call.at // HOUR), {})
    digest = tools.setdefault(call.tool or "", [0, 0, 0, {}])
    digest[0] += one
    digest[1] += one * call.failed
    digest[2] += one * call.open
    if call.micros is not None:
        name = str(bucket(call.micros))
        digest[3][name] = digest[3].get(name, 0) + one
        if not digest[3][name]:
            del digest[3][name]
    if not digest[0]:
        del tools[call.tool or ""]
        if not tools:
            del state.hours[str(call.at // HOUR)]


def bucket(micros: int) -> int:
    """The number of the log bucket of a duration; each is a twelfth part of a doubling wide."""
    return 0 if micros < 1 else 1 + int(log2(micros) * 12)


def middle(number: int) -> float:
    """The seconds in the middle of a bucket."""
    return 0.0 if number < 1 else float(2 ** ((number - 0.5) / 12)) / 1_000_000


def sums(_key: str, state: State) -> Sums:
    """The counts that a run adds to each hour and tool."""
    rows: dict[str, dict[str, int]] = {}
    for hour, tools in state.hours.items():
        for tool, (calls, failures, unfinished, buckets) in tools.items():
            row = {"calls": calls, "failures": failures, "open": unfinished}
            row |= {f"b{number}": times for number, times in buckets.items()}
            rows[hour_key(int(hour)) + tool] = row
    return rows


def hour_key(hour: int) -> str:
    """The prefix of the keys of an hour's rows; prefixes sort by time."""
    return f"{hour + 10**9:010}{MARK}"


def answer(
    rows: Iterable[tuple[str, Mapping[str, int]]],
    since: str | None = None,
    until: str | None = None,
) -> list[dict[str, Any]]:
    """One row per tool, the most called first, of all hours that the window touches."""
    first, last = moment(since), moment(until)
    begin = "" if first is None else hour_key(first // HOUR)
    end = "~" if last is None else hour_key(last // HOUR + 1)
    counts: dict[str, list[Mapping[str, int]]] = defaultdict(list)
    for key, row in rows:
        if begin <= key < end:
            counts[key.partition(MARK)[2]].append(row)
    return sorted(
        (_row(tool, each) for tool, each in counts.items()),
        key=lambda row: (-row["calls"], row["tool"]),
    )


def by_hour(rows: Iterable[tuple[str, Mapping[str, int]]]) -> dict[int, dict[str, Any]]:
    """One row per hour since 1970, over all tools."""
    counts: dict[int, list[Mapping[str, int]]] = defaultdict(list)
    for key, row in rows:
        counts[int(key.partition(MARK)[0]) - 10**9].append(row)
    return {hour: _row("", each) for hour, each in counts.items()}


def _row(tool: str, rows: Iterable[Mapping[str, int]]) -> dict[str, Any]:
    counted = summed({tool: row} for row in rows).get(tool, {})
    calls, failures = counted.get("calls", 0), counted.get("failures", 0)
    spread = {int(name[1:]): times for name, times in counted.items() if name[0] == "b"}
    return {
        "tool": tool,
        "calls": calls,
        "failures": failures,
        "failure_rate": failures / calls if calls else None,
        "open": counted.get("open", 0),
        "p50_seconds": at_share(spread, 0.5),
        "p95_seconds": at_share(spread, 0.95),
        "p99_seconds": at_share(spread, 0.99),
    }


def at_share(buckets: dict[int, int], share: float) -> float | None:
    """The middle of the bucket that holds this share of all durations, within six per cent."""
    total, reached = sum(buckets.values()), 0
    for number in sorted(buckets):
        reached += buckets[number]
        if reached >= total * share:
            return middle(number)
    return None


fold = Fold(
    name="tools",
    about="How often is each tool called, how often does it fail, and how long does it take?",
    State=State,
    facts=(Called, Returned),
    key=lambda position, _: run_key(position),
    step=step,
    sums=sums,
)
