"""The one list of runs: filtered, ordered, a page of it at a time, with counts per status.

`runs`, `board`, `top` and `tree` show rows of it. What was read from the index is kept between
questions: of a run with nothing new, nothing is read again.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from tracklog.answers import LOST_AFTER, now_of
from tracklog.answers.prices import Prices, load
from tracklog.answers.related import read_spends
from tracklog.answers.run_filter import Filter, Pair, filtered, is_seen_failure, outcomes
from tracklog.answers.run_marks import NO_MARKS, MarkList, RunMarks, marks_of
from tracklog.answers.spends import OwnSpend, spends_of, spent_by
from tracklog.folds import epoch_ms
from tracklog.folds import runs as runs_fold
from tracklog.folds.marks import State as Mark
from tracklog.folds.runs import RANK, State
from tracklog.home.home import Home
from tracklog.index.gc_paused import gc_paused
from tracklog.index.indexer import Indexer

NEWEST = 10_000
"""The runs that are looked at unless asked otherwise: those that were recorded last."""
_CHOICES = 500  # names of one kind that a person can choose from
_CHANGED = 100  # runs with something new, from which on all of what was spent is read again
_LARGE = 16 << 10  # bytes of a state that is not held

Status = Literal["waiting", "failed", "lost", "working", "done"]
Sort = Literal[
    "activity", "need", "title", "id", "project", "branch", "model", "source", "agents", "outcome",
    "score", "began", "took", "calls", "failures", "tokens", "cost",
]  # fmt: skip  # one list
SORTS: tuple[Sort, ...] = get_args(Sort)
Direction = Literal["asc", "desc"]
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run."""

    family: str
    run: str
    dialects: list[str]
    title: str | None
    """Its own title, else the first thing that it was asked for."""
    model: str | None
    """The model that spoke last."""
    models: list[str]
    """All its models, in the order of their first words."""
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
    """The time since it began; for a run that is over or lost, until its last activity."""
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
    """When tracklog noticed that the file from which the run was read no longer exists."""
    same_as: str | None
    """Another run that records the same conversation, and is counted instead of this one."""
    marks: RunMarks

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


class Selection(NamedTuple):
    """The runs that pass a filter, among all that were looked at."""

    all: int
    counts: StatusCounts
    choices: Choices
    every: list[Pair]
    """The runs that were looked at."""
    pairs: list[Pair]
    """Those that pass the filter, in order."""

    @property
    def states(self) -> list[State]:
        return [pair.state for pair in self.pairs]


class _Read(NamedTuple):
    """The contents of the index at a record."""

    cursor: int
    newest: int
    states: list[State]
    phases: list[str]
    """The phase of each of these runs: its status as if something had just been recorded."""
    choices: Choices


class Counted(NamedTuple):
    """What other runs change in the row of a run."""

    spent: OwnSpend | None = None
    """What it spent itself; None where it was not looked up, and its own state says it."""
    same_as: str | None = None


_Spent = dict[str, tuple[Prices, int, OwnSpend]]
"""By run, what it spent by which prices, up to which record: only runs whose spends no other run
records too."""

_TEXTS: Mapping[Sort, Callable[[State], str | None]] = {
    "title": lambda state: runs_fold.title(state) or state.run,
    "id": lambda state: state.run,
    "project": lambda state: PurePosixPath(state.cwd).name if state.cwd else None,
    "branch": lambda state: state.branch,
    "model": lambda state: state.model,
    "source": lambda state: ", ".join(state.dialects) or None,
    "agents": lambda state: ", ".join(sorted(state.agents)) or None,
    "outcome": lambda state: min(outcomes(state), default=None),
}
"""The texts that runs can be sorted by, those at the beginning of the alphabet first."""


class RunList:
    """The runs of a home; get it by `home.cache(RunList)`, so that it is cached."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._held: dict[str, tuple[bytes, State]] = {}
        self._read = _Read(-1, 0, [], [], Choices([], [], []))
        self._large: dict[str, int] = {}
        """The hash of each state that is not held."""
        self._spent: _Spent = {}

    def page(
        self,
        wanted: Filter = Filter(),  # noqa: B008  # it cannot be changed
        *,
        sort: Sort = "activity",
        dir: Direction | None = None,
        after: int = 0,
        limit: int | None = None,
        newest: int = NEWEST,
        lost_after: float = LOST_AFTER,
        now: str | None = None,
    ) -> RunsAnswer:
        """A page of the runs that pass the filter, in an order; of so many that were recorded last."""
        now = now_of(self.home, now)
        selection = self.select(
            wanted, sort=sort, dir=dir, newest=newest, lost_after=lost_after, now=now
        )
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
        sort: Sort,
        dir: Direction | None = None,
        newest: int = NEWEST,
        lost_after: float,
        now: str,
    ) -> Selection:
        """The runs that pass the filter, in an order."""
        with gc_paused():
            read = self._look(newest)
        marks = self.home.cache(MarkList).by_run()
        every = [
            _pair(each, runs_fold.status_in(phase, each, now, lost_after), marks)
            for each, phase in zip(read.states, read.phases, strict=True)
        ]
        pairs = self._sorted(filtered(every, wanted), sort, dir, now)
        counts = StatusCounts(**Counter(pair.status for pair in every))
        return Selection(len(every), counts, read.choices, every, pairs)

    def _sorted(self, pairs: list[Pair], sort: Sort, dir: Direction | None, now: str) -> list[Pair]:
        """The runs in an order; equal ones by last activity, those without a value at the end."""
        direction = dir or natural(sort)
        is_old_first = sort == "activity" and direction == "asc"
        pairs.sort(key=lambda pair: runs_fold.last_active(pair.state), reverse=not is_old_first)
        if sort == "activity":
            return pairs
        keys = self._keys(pairs, sort, now)
        known = [n for n, key in enumerate(keys) if key is not None]
        known.sort(key=keys.__getitem__, reverse=direction == "desc")
        unknown = [pair for pair, key in zip(pairs, keys, strict=True) if key is None]
        return [pairs[n] for n in known] + unknown

    def _keys(self, pairs: list[Pair], sort: Sort, now: str) -> list[Any]:
        """What each run is sorted by; None where it has no value."""
        match sort:
            case "need":
                return [(_need(pair), -pair.state.last_seq) for pair in pairs]
            case "began":
                return [epoch_ms(pair.state.first_at) for pair in pairs]
            case "calls":
                return [pair.state.tool_calls for pair in pairs]
            case "failures":
                return [pair.state.tool_failures for pair in pairs]
            case "score":
                return [runs_fold.row(pair.state, now)["score"] for pair in pairs]
            case "took":
                return [_took(pair.state, pair.status, now) for pair in pairs]
            case "tokens" | "cost":
                spent = [each.spent for each in self.counted([pair.state for pair in pairs])]
                of = _cost if sort == "cost" else (lambda own: own.tokens)
                return [None if own is None else of(own) for own in spent]
            case _:
                texts = [_TEXTS[sort](pair.state) for pair in pairs]
                return [None if each is None else each.casefold() for each in texts]

    def states(self, newest: int = NEWEST) -> list[State]:
        """The states of the runs that were recorded last."""
        return self._look(newest).states

    def rows(
        self, states: Iterable[State], now: str, lost_after: float = LOST_AFTER
    ) -> list[RunRow]:
        """The rows of some runs, each with what it spent itself."""
        every = list(states)
        counted = self.counted(every)
        marks = self.home.cache(MarkList).by_run()
        return [
            row_of(RunRow, state, now, lost_after, each, marks.get((state.family, state.run), ()))
            for state, each in zip(every, counted, strict=True)
        ]

    def counted(self, states: Sequence[State]) -> list[Counted]:
        """For each of these runs, what other runs record of the same spends and conversation."""
        by_key = {f"{state.family}:{state.run}": state for state in states}
        spenders = {key for key, state in by_key.items() if runs_fold.has_spent(state)}
        spent, same = self._look_up(by_key, self._spent, spenders)
        return [Counted(spent[key], same.get(key)) for key in by_key]

    def _look(self, newest: int) -> _Read:
        index = self.home.index
        cursor = index.index.cursor  # first: what comes meanwhile is read again, never missed
        if (cursor, newest) == self._read[:2]:
            return self._read
        states = self._states(index, newest)
        phases = [runs_fold.phase_of(each) for each in states]
        read = _Read(cursor, newest, states, phases, _choices(states))
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
        self, states: Mapping[str, State], spent: _Spent, spenders: Collection[str]
    ) -> tuple[Mapping[str, OwnSpend], Mapping[str, str]]:
        """What each run spent itself, and the duplicates among them.

        What is known of a run is not read again; of runs that recorded no spend nothing is read.
        """
        index, prices, runs = self.home.index, load(self.home.path), states.keys()
        held = ((run, spent[run]) for run in runs if run in spent)
        known = {
            run: own
            for run, (by, through, own) in held
            if by is prices and through == states[run].last_seq
        }
        spends = spends_of(index, (runs - known.keys()).intersection(spenders), runs)
        amounts = spent_by(spends, runs - known.keys(), prices)
        recorded: dict[str, set[str]] = {}
        for each in spends.states:
            recorded.setdefault(each.key, set()).add(f"{each.family}:{each.run}")
        shared = set().union(*(each for each in recorded.values() if len(each) > 1))
        spent |= {
            run: (prices, states[run].last_seq, own)
            for run, own in amounts.items()
            if run not in shared
        }
        return known | amounts, spends.duplicates


def _pair(state: State, status: str, marks: Mapping[tuple[str, str], Sequence[Mark]]) -> Pair:
    made = marks.get((state.family, state.run)) if marks else None
    return Pair(status, state, NO_MARKS if made is None else marks_of(made, state, status))


def _need(pair: Pair) -> int:
    """How much a run needs a person: a failure that somebody has seen needs nobody."""
    return RANK["done" if is_seen_failure(pair) else pair.status]


def _still_known(index: Indexer, spent: _Spent, changed: set[str]) -> _Spent:
    """Of what runs spent, that of which neither they nor another run has recorded anything new."""
    if len(changed) > _CHANGED:
        return {}
    still = dict(spent)  # a copy: another thread may still write to the old one
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
    marks: Sequence[Mark] = (),
    at: int | None = None,
    **more: Any,
) -> Row:
    """The row of a run, of a class that may have `more` fields, with its marks as of a record.

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
        marks=marks_of(marks, state, fields["status"], at) if marks else NO_MARKS,
        **more,
    )


def _age(state: State, seconds: float | None, status: str, now: str) -> float | None:
    """The seconds since it began: as its end reports, else until now or its last activity."""
    if seconds is not None:
        return float(seconds)
    began, until = runs_fold.began_ms(state), epoch_ms(now)
    if began is None:
        began = epoch_ms(state.first_at)
    if status not in ("waiting", "working"):
        until = epoch_ms(state.alive)  # it is not getting older
    return None if began is None or until is None else max(0, until - began) / 1000


def natural(sort: Sort) -> Direction:
    """The direction of a sort where none is given."""
    return "asc" if sort == "need" or sort in _TEXTS else "desc"


def _cost(own: OwnSpend) -> float | None:
    known = [each for each in (own.cost_usd, own.computed_usd) if each is not None]
    return sum(known) if known else None


def _took(state: State, status: str, now: str) -> float | None:
    began, ended = runs_fold.began_ms(state), runs_fold.ended_ms(state)
    took = None if began is None or ended is None else max(0, ended - began) / 1000
    return _age(state, took if state.seconds is None else state.seconds, status, now)
