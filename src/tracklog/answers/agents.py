"""Agents: how each did over all its runs."""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from tracklog.answers import Question, limit
from tracklog.answers.duplicates import same_conversation
from tracklog.folds import Sums, less, rows_of, run_of, summed
from tracklog.folds import agents as agents_fold
from tracklog.home.home import Home
from tracklog.index.indexer import Indexer

RECENT = 24
"""The scores of so many of its runs are listed one by one."""


@dataclass(frozen=True, slots=True)
class AgentRow:
    """One agent over all its runs."""

    agent: str
    run_count: int
    outcomes: dict[str, int]
    p50_seconds: float | None
    p95_seconds: float | None
    mean_score: float | None
    scores: list[float]
    """The scores of the last 24 runs that it ended, the latest last."""
    severity: int
    """How much it needs attention: a regression counts most."""
    last_seen: str | None
    last_seq: int


def agents(home: Home, limit: int = 100) -> list[AgentRow]:
    """The agents over all their runs, the busiest first."""
    return agents_over_all(home.index, limit)


def agents_over_all(index: Indexer, limit: int) -> list[AgentRow]:
    """The same from the sums that an index has."""
    left = {
        key: state
        for run in same_conversation(index)
        for key, state in index.states("agents", rows_of(*run_of(run)))
    }
    without = summed(less(agents_fold.sums(*each)) for each in left.items())
    known = index.largest("agents", limit + len(left))
    counts = summed([known, {key: row for key, row in without.items() if key in known}])
    busiest = sorted(counts, key=lambda key: (-counts[key]["runs"], key))[:limit]
    lives = {key: list(_lives(index, key[1:], left)) for key in busiest}
    states = index.load("agents", [life for each in lives.values() for life in each])
    rows = [
        _row(counts[key], known_lives, _Durations(index, key[1:], counts[key], without))
        for key in busiest
        if (known_lives := [states[life] for life in lives[key] if life in states])
    ]
    return sorted(rows, key=lambda row: (-row.run_count, row.agent))


def _lives(index: Indexer, agent: str, left: Collection[str]) -> Iterator[str]:
    """The keys of the lives that it ended last, and of the last one that it has not ended."""
    for ended, most in ((True, RECENT), (False, 1)):
        prefix, found = agents_fold.lives_key(agent, ended=ended), 0
        for _, row in index.sums("agents", prefix=prefix, limit=most + len(left)):
            for key in row:
                if key not in left and found < most:
                    found += 1
                    yield key


class _Durations:
    """How long the lives of an agent lasted: of each log bucket the number, and on demand all of it."""

    def __init__(
        self, index: Indexer, agent: str, counts: Mapping[str, int], without: Sums
    ) -> None:
        self._index, self._agent, self._without = index, agent, without
        lasted = agents_fold.LASTED
        known = {
            int(name[len(lasted) :]): n for name, n in counts.items() if name.startswith(lasted)
        }
        self._numbers = sorted(known)
        self._ends = list(accumulate(known[number] for number in self._numbers))
        self._read: dict[int, list[tuple[int, int]]] = {}

    def quantile(self, share: float) -> float | None:
        """By linear interpolation between the two nearest."""
        if not self._ends:
            return None
        last = self._ends[-1] - 1
        place = last * share
        below = int(place)
        one, other = self._seconds(below), self._seconds(min(below + 1, last))
        return one + (other - one) * (place - below)

    def _seconds(self, place: int) -> float:
        """The duration at a place in their order."""
        at = bisect_right(self._ends, place)
        before = self._ends[at - 1] if at else 0
        for micros, reached in self._bucket(self._numbers[at]):
            if place < before + reached:
                return micros / 1_000_000
        return 0.0

    def _bucket(self, number: int) -> Sequence[tuple[int, int]]:
        """The durations in a log bucket, each with the number of those that last no longer."""
        if number not in self._read:
            prefix = agents_fold.durations_key(self._agent, number)
            less_ = {key: row for key, row in self._without.items() if key.startswith(prefix)}
            rows = summed([dict(self._index.sums("agents", prefix=prefix)), less_])
            reached = accumulate(rows[key]["lives"] for key in sorted(rows))
            micros = (int(key[len(prefix) :]) for key in sorted(rows))
            self._read[number] = list(zip(micros, reached, strict=True))
        return self._read[number]


def _row(
    counts: Mapping[str, int], lives: Sequence[agents_fold.State], durations: _Durations
) -> AgentRow:
    """The row of an agent from its counts and the last of its lives."""
    ends = [state for state in lives if state.ended][::-1]
    latest = max(lives, key=agents_fold.latest)
    scored = counts.get("scores", 0)
    score = counts.get("whole", 0) + counts.get("billionths", 0) / agents_fold.BILLION
    return AgentRow(
        agent=latest.agent,
        run_count=counts["runs"],
        outcomes={name: counts.get(name, 0) for name in agents_fold.BUCKETS},
        p50_seconds=durations.quantile(0.5),
        p95_seconds=durations.quantile(0.95),
        mean_score=score / scored if scored else None,
        scores=[state.score for state in ends if state.score is not None],
        severity=agents_fold.severity(
            regression=[state.passed for state in ends[-2:]] == [True, False],
            failed=counts.get("failed", 0),
            partial=counts.get("partial", 0),
            in_flight=counts.get("in_flight", 0) > 0,
        ),
        last_seen=latest.alive or None,
        last_seq=latest.last_seq,
    )


question = Question(
    name="agents",
    about="List the agents, the busiest first: runs, outcomes, durations, convergence.",
    ask=agents,
    params=(limit(100),),
    examples=("agents", "agents --limit 1000 --json"),
)
