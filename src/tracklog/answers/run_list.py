"""The one list of runs: filtered, ordered, a page of it at a time, with counts per status.

`runs`, `board`, `top` and `tree` show rows of it. What was read from the index is kept between
questions: of a run with nothing new, nothing is read again.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypedDict, TypeVar, Unpack

from tracklog.answers import (
    LOST,
    LOST_AFTER,
    WINDOWS,
    Param,
    limit,
    now_of,
    one_of,
    since,
    text,
    whole,
)
from tracklog.answers.prices import Prices, load
from tracklog.answers.related import read_spends
from tracklog.answers.spends import OwnSpend, spends_of, spent_by
from tracklog.folds import moment
from tracklog.folds import runs as runs_fold
from tracklog.folds.runs import RANK, STATUSES, State
from tracklog.home.home import Home
from tracklog.index.gc_paused import gc_paused
from tracklog.index.indexer import Indexer

NEWEST = 10_000
"""The runs that are looked at unless asked otherwise: those that were recorded last."""
_CHOICES = 500  # names of one kind that a person can choose from
_CHANGED = 100  # runs with something new, from which on all of what was spent is read again
_LARGE = 16 << 10  # bytes of a state that is not held

Status = Literal["waiting", "failed", "lost", "working", "done"]
Order = Literal["activity", "need"]
ORDERS: tuple[Order, ...] = ("activity", "need")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run."""

    family: str
    run: str
    dialects: list[str]
    title: str | None
    """Its own title, else the first thing that it was asked for."""
    model: str | None
    project: str | None
    """The folder that it worked in."""
    branch: str | None
    status: Status
    outcome: str | None
    outcomes: dict[str, int]
    """How many of its agents came to each outcome."""
    passed: bool | None
    score: float | None
    ended: bool
    seconds: float | None
    """How long it took; null while it goes on."""
    age_seconds: float | None
    """The time since it began; of a run that goes on no more, until its last activity."""
    silent_seconds: float | None
    """The time since its last activity."""
    last_activity: str | None
    agents: list[str]
    phases: dict[str, str | None]
    """The phase of each agent, where it is reported."""
    steps: int
    tool_calls: int
    tool_failures: int
    open_calls: int
    """Calls that have not returned."""
    torn_calls: int
    """Calls of which only the return was recorded."""
    questions: int
    """Questions that wait for a person."""
    tokens_in: int | None
    tokens_out: int | None
    tokens_cached: int | None
    tokens: int | None
    cost_usd: float | None
    """As the source reported it."""
    computed_usd: float | None
    """From list prices, for what has no reported cost."""
    lower_bound: bool
    """A part of it has no price: it costs at least this."""
    upper_bound: bool
    first_seq: int
    last_seq: int
    first_received: str
    last_received: str
    first_at: str | None
    last_at: str | None
    skew_ms: int
    """The greatest difference between its clock and that of the recorder."""
    source_gone: str | None
    """When it was noticed that the file that it was read from is not there any more."""
    same_as: str | None
    """The run that records the same conversation and is counted in the place of this one."""

    @property
    def key(self) -> str:
        return f"{self.family}:{self.run}"


@dataclass(frozen=True, slots=True)
class StatusCounts:
    """How many runs are in each status."""

    waiting: int = 0
    failed: int = 0
    lost: int = 0
    working: int = 0
    done: int = 0


@dataclass(frozen=True, slots=True)
class Choices:
    """The filters of a list of runs."""

    dialect: list[str]
    agent: list[str]
    outcome: list[str]


@dataclass(frozen=True, slots=True)
class RunsAnswer:
    """A page of the list of runs, and how many runs there are in each status."""

    all: int
    """Runs that were looked at."""
    matching: int
    """Those that pass the filter."""
    after: int
    """How many of the matching runs stand before this page."""
    counts: StatusCounts
    choices: Choices
    runs: list[RunRow]


class Filter(NamedTuple):
    """Which runs; a field that is empty excludes nothing."""

    status: Collection[str] = ()
    dialect: str | None = None
    agent: str | None = None
    outcome: str | None = None
    since: str | None = None
    text: str | None = None

    def matches(self, state: State, status: str) -> bool:
        return (
            (not self.status or status in self.status)
            and (not self.dialect or self.dialect in state.dialects)
            and (not self.agent or self.agent in state.agents)
            and (not self.outcome or self.outcome in outcomes(state))
            and (not self.since or _is_since(state, self.since))
            and (not self.text or self.text.casefold() in _searched(state))
        )


def _is_since(state: State, since: str) -> bool:
    """Whether it was active since then, by the time of its events."""
    active, begun = moment(state.alive), moment(since)
    return active is not None and (begun is None or active >= begun)


def outcomes(state: State) -> set[str]:
    """The outcomes of the run and of its agents, verbatim."""
    ends = {str(end[0]) for end in state.ends.values() if end[0] is not None}
    return ends | {state.outcome} if state.ended and state.outcome else ends


def _searched(state: State) -> str:
    return " ".join((state.run, runs_fold.title(state) or "", *state.agents)).casefold()


class Selection(NamedTuple):
    """The runs that pass a filter, among all that were looked at."""

    all: int
    counts: StatusCounts
    choices: Choices
    states: list[State]


class _Read(NamedTuple):
    """The contents of the index at a record."""

    cursor: int
    newest: int
    states: list[State]
    choices: Choices


class Counted(NamedTuple):
    """What other runs change in the row of a run."""

    spent: OwnSpend | None = None
    """What it spent itself; None where it was not looked up, and its own state says it."""
    same_as: str | None = None


_Spent = dict[str, tuple[Prices, OwnSpend]]
"""By run, what it spent by which prices: only runs whose spends no other run records too."""

_Pair = tuple[str, State]
"""A run and its status."""

_ORDER: Mapping[Order, Callable[[_Pair], tuple[int, int]]] = {
    "need": lambda pair: (RANK[pair[0]], -pair[1].last_seq),
    "activity": lambda pair: (-runs_fold.last_active(pair[1])[0], -pair[1].last_seq),
}


class RunList:
    """The runs of a home; get it by `home.cache(RunList)`, so that it is cached."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._held: dict[str, tuple[bytes, State]] = {}
        self._read = _Read(-1, 0, [], Choices([], [], []))
        self._large: dict[str, int] = {}
        """The hash of each state that is not held."""
        self._spent: _Spent = {}

    def page(
        self,
        wanted: Filter = Filter(),  # noqa: B008  # it cannot be changed
        *,
        order: Order = "activity",
        after: int = 0,
        limit: int | None = None,
        newest: int = NEWEST,
        lost_after: float = LOST_AFTER,
        now: str | None = None,
    ) -> RunsAnswer:
        """A page of the runs that pass the filter, in an order; of so many that were recorded last."""
        now = now_of(self.home, now)
        selection = self.select(wanted, order=order, newest=newest, lost_after=lost_after, now=now)
        states = (
            selection.states[after:] if limit is None else selection.states[after : after + limit]
        )
        return RunsAnswer(
            all=selection.all,
            matching=len(selection.states),
            after=after,
            counts=selection.counts,
            choices=selection.choices,
            runs=self.rows(states, now, lost_after),
        )

    def select(
        self,
        wanted: Filter = Filter(),  # noqa: B008  # it cannot be changed
        *,
        order: Order,
        newest: int = NEWEST,
        lost_after: float,
        now: str,
    ) -> Selection:
        """The states of the runs that pass the filter, in an order."""
        with gc_paused():
            read = self._look(newest)
        every = [(runs_fold.status(each, now, lost_after), each) for each in read.states]
        pairs = [pair for pair in every if wanted.matches(pair[1], pair[0])]
        pairs.sort(key=_ORDER[order])
        counts = StatusCounts(**Counter(status for status, _ in every))
        return Selection(len(every), counts, read.choices, [state for _, state in pairs])

    def states(self, newest: int = NEWEST) -> list[State]:
        """The states of the runs that were recorded last."""
        return self._look(newest).states

    def rows(
        self, states: Iterable[State], now: str, lost_after: float = LOST_AFTER
    ) -> list[RunRow]:
        """The rows of some runs, each with what it spent itself."""
        every = list(states)
        counted = self.counted(every)
        return [
            row_of(RunRow, state, now, lost_after, each)
            for state, each in zip(every, counted, strict=True)
        ]

    def counted(self, states: Sequence[State]) -> list[Counted]:
        """For each of these runs, what other runs record of the same spends and conversation."""
        by_key = {f"{state.family}:{state.run}": state for state in states}
        spenders = {key for key, state in by_key.items() if runs_fold.has_spent(state)}
        spent, same = self._look_up(by_key.keys(), self._spent, spenders)
        return [Counted(spent[key], same.get(key)) for key in by_key]

    def _look(self, newest: int) -> _Read:
        index = self.home.index
        cursor = index.index.cursor  # first: what comes meanwhile is read again, never missed
        if (cursor, newest) == self._read[:2]:
            return self._read
        states = self._states(index, newest)
        read = _Read(cursor, newest, states, _choices(states))
        if len(self._held) == len(states):  # none of them is large
            self._read = read
        return read

    def _states(self, index: Indexer, newest: int) -> list[State]:
        held, now, changed = self._held, {}, set()
        for key, state in index.newest_stored("runs", newest):
            known = held.get(key)
            if known is None or known[0] != state:
                known = (state, index.thawed("runs", key, state))
                if self._large.get(key) != hash(state):
                    changed.add(key)
            now[key] = known
        self._spent = _still_known(index, self._spent, changed)
        small = [(key, each) for key, each in now.items() if len(each[0]) <= _LARGE]
        self._held = dict(small[:NEWEST])
        self._large = {key: hash(now[key][0]) for key in now.keys() - self._held.keys()}
        return [state for _, state in now.values()]

    def _look_up(
        self, runs: AbstractSet[str], spent: _Spent, spenders: Collection[str]
    ) -> tuple[Mapping[str, OwnSpend], Mapping[str, str]]:
        """What each run spent itself, and the duplicates among them.

        What is known of a run is not read again; of runs that recorded no spend nothing is read.
        """
        index, prices = self.home.index, load(self.home.path)
        held = ((run, spent[run]) for run in runs if run in spent)
        known = {run: own for run, (by, own) in held if by is prices}
        spends = spends_of(index, (runs - known.keys()).intersection(spenders), runs)
        amounts = spent_by(spends, runs - known.keys(), prices)
        recorded: dict[str, set[str]] = {}
        for each in spends.states:
            recorded.setdefault(each.key, set()).add(f"{each.family}:{each.run}")
        shared = set().union(*(each for each in recorded.values() if len(each) > 1))
        spent |= {run: (prices, own) for run, own in amounts.items() if run not in shared}
        return known | amounts, spends.duplicates


def _still_known(index: Indexer, spent: _Spent, changed: set[str]) -> _Spent:
    """Of what runs spent, that of which neither they nor another run has recorded anything new."""
    if len(changed) > _CHANGED:
        return {}
    still = dict(spent)  # a copy: one who is still answering may write to the old one
    also = {f"{each.family}:{each.run}" for each in read_spends(index, changed)} if still else set()
    for run in changed | also:
        still.pop(run, None)
    return still


def _choices(states: Iterable[State]) -> Choices:
    dialects: set[str] = set()
    agents: set[str] = set()
    ends: set[str] = set()
    for state in states:
        dialects.update(state.dialects)
        agents.update(state.agents)
        ends |= outcomes(state)
    return Choices(*(sorted(each)[:_CHOICES] for each in (dialects, agents, ends)))


Row = TypeVar("Row", bound=RunRow)


def row_of(
    kind: type[Row],
    state: State,
    now: str,
    lost_after: float = LOST_AFTER,
    counted: Counted = Counted(),  # noqa: B008  # it cannot be changed
    **more: Any,
) -> Row:
    """The row of a run, of a class that may have `more` fields.

    Where its spends were not looked up, they are as its own state tells them, without a price.
    """
    fields = runs_fold.row(state, now, lost_after)
    fields |= {"computed_usd": None, "lower_bound": False, "upper_bound": False}
    if counted.spent is not None:
        fields |= counted.spent._asdict()
    return kind(
        **fields,
        age_seconds=_age(state, fields["seconds"], fields["status"], now),
        phases={name: phase or None for name, phase in sorted(state.agents.items())},
        same_as=counted.same_as,
        **more,
    )


def _age(state: State, seconds: float | None, status: str, now: str) -> float | None:
    """The seconds since it began: as its end reports, else until now or its last activity."""
    if seconds is not None:
        return float(seconds)
    began, until = runs_fold.began_ms(state), moment(now)
    if began is None:
        began = moment(state.first_at)
    if status not in ("waiting", "working"):
        until = moment(state.alive)  # it is not getting older
    return None if began is None or until is None else max(0, until - began) / 1000


class RunsAsked(TypedDict, total=False):
    """The parameters of a question for runs."""

    status: Collection[str]
    dialect: str | None
    agent: str | None
    outcome: str | None
    within: str | None
    text: str | None
    order: Order
    after: int
    limit: int | None
    newest: int
    lost_after: float
    now: str | None


def listed(home: Home, **asked: Unpack[RunsAsked]) -> RunsAnswer:
    """A page of the runs of a home, by its parameters."""
    now = now_of(home, asked.get("now"))
    wanted = Filter(
        status=asked.get("status", ()),
        dialect=asked.get("dialect"),
        agent=asked.get("agent"),
        outcome=asked.get("outcome"),
        since=since(home, asked.get("within"), now),
        text=asked.get("text"),
    )
    return home.cache(RunList).page(
        wanted,
        order=asked.get("order", "activity"),
        after=asked.get("after", 0),
        limit=asked.get("limit"),
        newest=asked.get("newest", NEWEST),
        lost_after=asked.get("lost_after", LOST_AFTER),
        now=now,
    )


def params(order: Order, most: int) -> tuple[Param, ...]:
    """The parameters of a question for runs, with its own order and length."""
    return (
        one_of("status", "Only runs with this status.", STATUSES, many=True, default=()),
        text("dialect", "Only runs with events of this dialect."),
        text("agent", "Only runs of this agent."),
        text("outcome", "Only runs with this outcome, or with an agent that has it."),
        one_of("within", "Only runs that were active in this time.", WINDOWS, default="all"),
        text("text", "Only runs with this in the title, the id or an agent's name."),
        one_of(
            "order",
            "By last activity, or runs that need a person first.",
            ORDERS,
            default=order,
        ),
        whole("after", "Skip this many runs at the beginning of the list.", least=0, default=0),
        limit(most),
        whole(
            "newest",
            "Look only at this many runs, those that were recorded last.",
            least=1,
            default=NEWEST,
        ),
        LOST,
    )
