"""All runs as a board lists them: the neediest first, filtered, a part of the list at a time."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tracklog.answers.prices import Prices
from tracklog.answers.related import count_once, kin, put, spends, spent_by
from tracklog.folds import moment
from tracklog.folds import tree as tree_fold
from tracklog.folds.runs import LOST_AFTER, RANK, STATUSES, State, row, status, title
from tracklog.index.gc_paused import gc_paused
from tracklog.index.indexer import Indexer

MOST = 10_000
"""The runs that are looked at, the latest heard."""
_CHOICES = 500  # names of one kind that a person can choose from
_CHANGED = 100  # runs with something new, from which on all of what was spent is read again
_LARGE = 16 << 10  # bytes of a state that is not held


class Wanted(NamedTuple):
    """Which runs; what is empty does not narrow."""

    status: str | None = None
    dialect: str | None = None
    agent: str | None = None
    outcome: str | None = None
    since: str | None = None
    text: str | None = None

    def matches(self, state: State, its_status: str) -> bool:
        return (
            (not self.status or its_status == self.status)
            and (not self.dialect or self.dialect in state.dialects)
            and (not self.agent or self.agent in state.agents)
            and (not self.outcome or self.outcome in outcomes(state))
            and (not self.since or _is_since(state, self.since))
            and (not self.text or self.text.casefold() in _words(state))
        )


def _is_since(state: State, since: str) -> bool:
    """Whether it gave a sign of life since then, by the time of its events."""
    alive, begun = moment(state.alive), moment(since)
    return alive is not None and (begun is None or alive >= begun)


def outcomes(state: State) -> set[str]:
    """What the run, or its agents, came to, verbatim."""
    ends = {str(end[0]) for end in state.ends.values() if end[0] is not None}
    return ends | {state.outcome} if state.ended and state.outcome else ends


def _words(state: State) -> str:
    said = (state.run, title(state) or "", *state.agents)
    return " ".join(said).casefold()


_ANY = Wanted()


class _Kept(NamedTuple):
    """What the index held when it had come to a record."""

    cursor: int
    states: list[State]
    choices: dict[str, list[str]]
    spent: "_Spent"


_Spent = dict[str, tuple[Prices | None, dict[str, Any]]]
"""By run, what it spent by which prices: only runs whose spends no other run records too."""


class Board:
    """Answers what all runs are doing; of a run that said nothing new, nothing is read again."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[bytes, State]] = {}
        self._kept = _Kept(-1, [], {}, {})
        self._large: dict[str, int] = {}
        """The hash of each state that is not held."""
        self._spent: _Spent = {}

    def answer(
        self,
        index: Indexer,
        now: str,
        wanted: Wanted = _ANY,
        *,
        after: int = 0,
        limit: int = 200,
        lost_after: float = LOST_AFTER,
        prices: Prices | None = None,
    ) -> dict[str, Any]:
        """A part of the list, how long it is, how many runs are how, and what can be chosen."""
        with gc_paused():
            kept = self._look(index)
        every = [(status(each, now, lost_after), each) for each in kept.states]
        found = [pair for pair in every if wanted.matches(pair[1], pair[0])]
        found.sort(key=lambda pair: (RANK[pair[0]], -pair[1].last_seq))
        rows = [row(state, now, lost_after) for _, state in found[after : after + limit]]
        self._count_once(index, rows, kept.spent, prices)
        counts = Counter(each for each, _ in every)
        return {
            "all": len(every),
            "matching": len(found),
            "after": after,
            "counts": {each: counts[each] for each in STATUSES},
            "choices": kept.choices,
            "runs": [_brief(each) for each in rows],
        }

    def _look(self, index: Indexer) -> _Kept:
        cursor = index.index.cursor  # first: what comes meanwhile is read again, never missed
        if cursor == self._kept.cursor:
            return self._kept
        states = self._states(index)
        kept = _Kept(cursor, states, _choices(states), self._spent)
        if len(self._held) == len(states):  # none of them is large
            self._kept = kept
        return kept

    def _states(self, index: Indexer) -> list[State]:
        held, now, changed = self._held, {}, set()
        for key, state in index.newest_kept("runs", MOST):
            known = held.get(key)
            if known is None or known[0] != state:
                known = (state, index.thawed("runs", key, state))
                if self._large.get(key) != hash(state):
                    changed.add(key)
            now[key] = known
        self._spent = _still_known(index, self._spent, changed)
        self._held = {key: each for key, each in now.items() if len(each[0]) <= _LARGE}
        self._large = {key: hash(now[key][0]) for key in now.keys() - self._held.keys()}
        return [state for _, state in now.values()]

    def _count_once(
        self, index: Indexer, rows: list[dict[str, Any]], spent: _Spent, prices: Prices | None
    ) -> None:
        """Puts into the rows what each run spent itself; what is known of it is not read again."""
        runs = {f"{row['family']}:{row['run']}" for row in rows}
        held = ((run, spent[run]) for run in runs if run in spent)
        known = {run: own for run, (by, own) in held if by is prices}
        told = spends(index, runs - known.keys())
        found = spent_by(told, runs - known.keys(), prices)
        put(rows, known | found)
        recorded: dict[str, set[str]] = {}
        for each in told:
            recorded.setdefault(each.key, set()).add(f"{each.family}:{each.run}")
        shared = set().union(*(each for each in recorded.values() if len(each) > 1))
        spent |= {run: (prices, own) for run, own in found.items() if run not in shared}


def _still_known(index: Indexer, spent: _Spent, changed: set[str]) -> _Spent:
    """Of what runs spent, that of which neither they nor another run has recorded anything new."""
    if len(changed) > _CHANGED:
        return {}
    still = dict(spent)  # a copy: one who is still answering may write to the old one
    also = {f"{each.family}:{each.run}" for each in spends(index, changed)} if still else set()
    for run in changed | also:
        still.pop(run, None)
    return still


def _choices(states: Iterable[State]) -> dict[str, list[str]]:
    dialects: set[str] = set()
    agents: set[str] = set()
    ends: set[str] = set()
    for state in states:
        dialects.update(state.dialects)
        agents.update(state.agents)
        ends |= outcomes(state)
    found = {"dialect": dialects, "agent": agents, "outcome": ends}
    return {name: sorted(each)[:_CHOICES] for name, each in found.items()}


_BRIEF = (
    "family", "run", "dialects", "title", "model", "project", "branch", "status", "outcome",
    "outcomes", "agents", "tool_calls", "tool_failures", "tokens", "cost_usd", "computed_usd",
    "lower_bound", "upper_bound", "first_at", "last_at", "last_activity", "last_seq",
    "last_received",
)  # fmt: skip  # one row


def _brief(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a list has room for."""
    return {name: row.get(name) for name in _BRIEF}


def around(
    index: Indexer,
    key: str,
    now: str,
    lost_after: float = LOST_AFTER,
    prices: Prices | None = None,
) -> list[dict[str, Any]]:
    """The whole tree that a run stands in, from its first ancestor on, each run with its row."""
    tied = kin(index, [key])
    _, parents = tree_fold.links(tied)
    top, seen = key, {key}
    while above := [parent for parent in parents.get(top, {}) if parent not in seen]:
        top = above[0]
        seen.add(top)
    branches = tree_fold.answer(tied, top)
    states = index.load("runs", {branch.key for branch in branches})
    rows = {each: row(state, now, lost_after) for each, state in states.items()}
    count_once(index, rows.values(), prices)
    return [
        {
            "key": branch.key,
            "depth": branch.depth,
            "kind": branch.kind,
            "missing": branch.missing,
            "again": branch.again,
            "run": _brief(rows[branch.key]) if branch.key in rows else None,
        }
        for branch in branches
    ]
