"""The waterfall of a run: its turns, model calls, tool calls, waits, steps and sub-runs, with times."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from tracklog.answers import Question, integer, key_of, now_of, run_param, text
from tracklog.answers.ranges import ABOUT, point
from tracklog.answers.related import related_runs
from tracklog.answers.run_turns import NO_MONEY, Money, RunTimes, RunTurn, Timed, times_of
from tracklog.folds import epoch_ms
from tracklog.folds import runs as runs_fold
from tracklog.folds import tree as tree_fold
from tracklog.home.home import Home
from tracklog.journal.frame import stamp

Kind = Literal["run", "turn", "model", "tool", "wait", "step", "sub-run"]
NO_WORK = ("run", "turn", "step")
"""What only contains work, and is none itself."""
Interval = tuple[int, int]
"""Milliseconds since 1970: from when to when."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRow:
    """Something that took time, below what it is a part of."""

    id: str
    parent: str | None
    depth: int
    kind: Kind
    name: str | None
    """The tool, the model, the number of a turn, the question, the step, or the sub-run as
    `family:run`."""
    agent: str | None
    seq: int
    """Its first record."""
    start: str
    seconds: float
    own: float
    """Of these, the seconds in which nothing below it was under way."""
    open: bool
    """It has not come to an end."""
    failed: bool
    wait: bool
    """It waits for a person."""
    on_path: bool
    """It is on the critical path: had it been shorter, the run would have ended earlier."""
    cost_usd: float | None
    """As the source reported it."""
    computed_usd: float | None
    """From list prices, for what has no reported cost."""
    lower_bound: bool


@dataclass(frozen=True, slots=True)
class Shares:
    """The seconds of a run by what was under way; if several things were, the first in this list counts."""

    waiting: float
    tools: float
    model: float
    nothing: float
    """Nothing was under way, as far as it was recorded."""


@dataclass(frozen=True, slots=True)
class SpansAnswer:
    """The waterfall of a run."""

    begin: str | None
    """Null where nothing of the run has a time."""
    end: str | None
    seconds: float
    shares: Shares
    path_seconds: float
    """The sum of what is on the critical path."""
    before: int
    """Rows that ended before the range that was asked for."""
    after: int
    """Rows that began after it."""
    cut: bool
    """There are more rows than were asked for."""
    rows: list[SpanRow]
    """Parents before children, each below the one it is a part of."""


@dataclass(slots=True)
class _Span:
    kind: Kind
    id: str
    name: str | None
    agent: str | None
    seq: int
    begin: int
    end: int
    parent: "_Span | None" = None
    open: bool = False
    failed: bool = False
    money: Money = NO_MONEY
    on_path: bool = False

    @property
    def depth(self) -> int:
        return 0 if self.parent is None else self.parent.depth + 1


def spans(
    home: Home,
    run: str,
    t0: str | None = None,
    t1: str | None = None,
    depth: int = 9,
    limit: int = 5000,
    at: int | None = None,
    *,
    now: str | None = None,
) -> SpansAnswer:
    """What took time in a run; with `t0` and `t1`, only what was under way then."""
    now = now_of(home, now)
    times = times_of(home, key_of(home, run), at)
    root = _root(times, now)
    every = [root, *_below(home, times, root, now, at)]
    # A call may say that it took longer than the times of the records do.
    root.begin, root.end = min(span.begin for span in every), max(span.end for span in every)
    path = _critical([span for span in every if span.kind not in NO_WORK], root)
    first, last = point(t0, now), point(t1, now)
    begin, end = first if first is not None else root.begin, last if last is not None else root.end
    seen = [span for span in every if span.depth <= depth]
    within = [span for span in seen if span.end >= begin and span.begin <= end]
    known = len(every) > 1 or times.state.first_at is not None
    children: dict[str, list[Interval]] = {}
    for span in every:
        if span.parent is not None:
            children.setdefault(span.parent.id, []).append((span.begin, span.end))
    return SpansAnswer(
        begin=stamp(root.begin / 1000) if known else None,
        end=stamp(root.end / 1000) if known else None,
        seconds=(root.end - root.begin) / 1000,
        shares=_shares(every, (root.begin, root.end)),
        path_seconds=path / 1000,
        before=sum(span.end < begin for span in seen),
        after=sum(span.begin > end for span in seen),
        cut=len(within) > limit,
        rows=[_row(span, children.get(span.id, ())) for span in within[:limit]],
    )


def _root(times: RunTimes, now: str) -> _Span:
    state = times.state
    span = _Span("run", "run", times.key, None, state.first_seq, times.begin, times.end)
    span.money = times.money(times.spends)
    if times.at is not None:
        span.open = True
        return span
    status = runs_fold.status(state, now)
    span.failed, span.open = status == "failed", not runs_fold.is_over(state)
    if status in ("working", "waiting"):
        span.end = max(span.end, epoch_ms(now) or 0)
    return span


def _below(home: Home, times: RunTimes, root: _Span, now: str, at: int | None) -> list[_Span]:
    """Everything below the run, each turn followed by what is in it."""
    by_call: dict[str, _Span] = {}
    below: dict[str, list[_Span]] = {}
    top: list[tuple[_Span, list[_Span]]] = []
    for number, turn in enumerate(times.turns, 1):
        above = _turn(turn, number, root)
        inside = [_model(turn, number, above)] if turn.last_words > turn.begin else []
        for call in turn.calls:
            span = by_call[call.id] = _timed("tool", "c", call, root)
            span.parent = above
            inside.append(span)
        above.end = max([above.end, *(span.end for span in inside)])
        top.append((above, inside))
    for wait in times.waits:
        _place(_timed("wait", "w", wait, root), top, root)
    for span, call_id in _sub_runs(home, times.key, root, now, at):
        span.parent = by_call.get(call_id or "")
        if span.parent is None:
            _place(span, top, root)
        else:
            below.setdefault(span.parent.id, []).append(span)
    for step in times.steps:
        span = _timed("step", "s", step, root)
        span.parent = root
        top.append((span, []))
    top.sort(key=lambda each: (each[0].begin, each[0].seq))
    rows: list[_Span] = []
    for above, inside in top:
        rows.append(above)
        for span in sorted(inside, key=lambda each: (each.begin, each.seq)):
            rows += [span, *below.get(span.id, ())]
    return rows


def _timed(kind: Kind, letter: str, timed: Timed, root: _Span) -> _Span:
    """A call, a wait or a step; what goes on ends where the run does."""
    end = root.end if timed.end is None else timed.end
    id = f"{letter}{timed.seq}/{timed.id}"
    span = _Span(kind, id, timed.name, timed.agent, timed.seq, timed.begin, end)
    span.open, span.failed = timed.end is None, timed.failed
    return span


def _turn(turn: RunTurn, number: int, root: _Span) -> _Span:
    name = f"turn {number}"
    span = _Span("turn", f"t{number}", name, turn.agent, turn.seq, turn.begin, turn.end, root)
    span.money = turn.money
    return span


def _model(turn: RunTurn, number: int, parent: _Span) -> _Span:
    span = _Span(
        "model", f"m{number}", turn.model, turn.agent, turn.seq, turn.begin, turn.last_words
    )
    span.parent, span.money = parent, parent.money
    return span


def _place(span: _Span, turns: list[tuple[_Span, list[_Span]]], root: _Span) -> None:
    """Put a span into the last turn that began before it, or on the level of turns."""
    earlier = [each for each in turns if each[0].kind == "turn" and each[0].begin <= span.begin]
    same = [each for each in earlier if each[0].agent == span.agent] or earlier
    if not same:
        span.parent = root
        turns.append((span, []))
        return
    turn, inside = max(same, key=lambda each: each[0].begin)
    span.parent = turn
    turn.end = max(turn.end, span.end)
    inside.append(span)


def _sub_runs(
    home: Home, key: str, root: _Span, now: str, at: int | None
) -> Iterable[tuple[_Span, str | None]]:
    """The runs that this one began, up to a record of the journal, and the call that each began with."""
    states = related_runs(home.index, [key])
    children, _ = tree_fold.links(states)
    resolve = tree_fold.resolver(states)
    calls: dict[str, str] = {}
    for own, state in states.items():
        for _, end, named, _, call in state.links:
            ends = (own, resolve(named)) if end == "child" else (resolve(named), own)
            if call is not None and ends[0] == key:
                calls.setdefault(ends[1], call)
    for child, kind in children.get(key, {}).items():
        state = home.index.state("runs", child)
        begin = epoch_ms(state.first_at)
        if kind != "sub-run" or not state.run or begin is None:
            continue
        if at is not None and state.first_seq > at:
            continue
        went_on = at is not None and state.last_seq > at
        end = root.end if went_on else epoch_ms(state.last_at) or begin
        span = _Span("sub-run", f"r{child}", child, None, state.first_seq, begin, max(begin, end))
        span.failed = not went_on and runs_fold.status(state, now) == "failed"
        span.open = went_on or not runs_fold.is_over(state)
        yield span, calls.get(child)


def _critical(leaves: Sequence[_Span], root: _Span) -> int:
    """Mark what the end of the run waited for, from its end back; its length in milliseconds."""
    at, length = root.end, 0
    for span in sorted(leaves, key=lambda each: (each.end, each.begin), reverse=True):
        if span.begin >= at or span.end <= span.begin:
            continue
        length += min(span.end, at) - span.begin
        at = span.begin
        above: _Span | None = span
        while above is not None:
            above.on_path = True
            above = above.parent
    return length


def _shares(every: Iterable[_Span], run: Interval) -> Shares:
    kinds: dict[str, list[Interval]] = {"waiting": [], "tools": [], "model": []}
    names = {"wait": "waiting", "tool": "tools", "sub-run": "tools", "model": "model"}
    for span in every:
        if span.kind in names:
            kinds[names[span.kind]].append((span.begin, span.end))
    lengths, before = [], list[Interval]()
    for intervals in kinds.values():
        covered = _length(before, run)
        before += intervals
        lengths.append((_length(before, run) - covered) / 1000)
    waiting, tools, model = lengths
    return Shares(waiting, tools, model, (run[1] - run[0] - _length(before, run)) / 1000)


def _length(intervals: Iterable[Interval], within: Interval) -> int:
    """How long at least one of the intervals was under way."""
    total, reached = 0, within[0]
    for begin, end in sorted(intervals):
        last = min(end, within[1])
        if last > max(begin, reached):
            total += last - max(begin, reached)
            reached = last
    return total


def _row(span: _Span, children: Iterable[Interval]) -> SpanRow:
    length = span.end - span.begin
    return SpanRow(
        id=span.id,
        parent=span.parent.id if span.parent else None,
        depth=span.depth,
        kind=span.kind,
        name=span.name,
        agent=span.agent,
        seq=span.seq,
        start=stamp(span.begin / 1000),
        seconds=length / 1000,
        own=(length - _length(children, (span.begin, span.end))) / 1000,
        open=span.open,
        failed=span.failed,
        wait=span.kind == "wait",
        on_path=span.on_path,
        **span.money._asdict(),
    )


question = Question(
    name="spans",
    about="Show what took time in a run: turns, model calls, tool calls, waits, steps and sub-runs, "
    "with the critical path. A turn is what a model said after its last input, and the calls it made.",
    ask=spans,
    params=(
        run_param(),
        text("t0", f"Only what was under way at this time or later: {ABOUT}."),
        text("t1", "Only what was under way at this time or before."),
        integer("depth", "How many levels below the run.", least=0, most=9, default=9),
        integer("limit", "Show at most this many rows.", least=1, most=100_000, default=5000),
        integer("at", "As it was at this record.", least=1),
    ),
    paths=("/api/runs/{family}/{run}/spans",),
    examples=("spans agent-coder-1 --json", "spans agent-coder-1 --json | jq .shares"),
)
