"""Filters of a list of runs, and facets: how many runs each value of a filter would show.

A filter takes several values: a run passes with any of them. A value that begins with `!` excludes
runs that have it; `(none)` stands for runs that have no value.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from tracklog.answers.run_marks import RunMarks
from tracklog.folds import epoch_ms
from tracklog.folds import runs as runs_fold
from tracklog.folds.runs import STATUSES, State

NONE = "(none)"
SEEN, UNSEEN = "yes", "no"
MOST = 50  # values of one facet


class Pair(NamedTuple):
    """A run: its status, its state and its marks."""

    status: str
    state: State
    marks: RunMarks


def is_seen_failure(pair: Pair) -> bool:
    """Whether a run failed or was lost, and a person has seen it."""
    return pair.marks.seen and pair.status in ("failed", "lost")


def outcomes(state: State) -> set[str]:
    """The outcomes of the run and of its agents, verbatim."""
    ends = {str(end[0]) for end in state.ends.values() if end[0] is not None}
    return ends | {state.outcome} if state.ended and state.outcome else ends


FacetName = Literal[
    "status", "project", "branch", "model", "agent", "outcome", "dialect", "tag", "seen"
]
FACETS: Mapping[FacetName, Callable[[Pair], Collection[str | None]]] = {
    "status": lambda pair: (pair.status,),
    "project": lambda pair: (pair.state.cwd,),
    "branch": lambda pair: (pair.state.branch,),
    "model": lambda pair: pair.state.models or (None,),
    "agent": lambda pair: pair.state.agents.keys() or (None,),
    "outcome": lambda pair: outcomes(pair.state) or (None,),
    "dialect": lambda pair: pair.state.dialects,
    "tag": lambda pair: pair.marks.tags or (None,),
    "seen": lambda pair: (SEEN if pair.marks.seen else UNSEEN,),
}
"""By name, the values that a run has."""


@dataclass(frozen=True, slots=True)
class FacetValue:
    """A value of a facet."""

    value: str | None
    """Null: runs without a value; ask for them by `(none)`."""
    count: int
    """Runs that have it, among those that pass all other filters."""


@dataclass(frozen=True, slots=True)
class Facet:
    """A filter, and its values."""

    name: FacetName
    values: list[FacetValue]
    """The most frequent first; a status in the order of need."""
    distinct: int
    """How many values there are; those that are not listed are rare."""


class Chosen(NamedTuple):
    """The values of one filter."""

    wanted: frozenset[str | None]
    excluded: frozenset[str | None]

    def passes(self, values: Collection[str | None]) -> bool:
        if self.wanted and self.wanted.isdisjoint(values):
            return False
        return not self.excluded or self.excluded.isdisjoint(values)


def chosen(values: Iterable[str]) -> Chosen:
    """The values of a filter, as they are given."""
    wanted: set[str | None] = set()
    excluded: set[str | None] = set()
    for value in values:
        name = value.removeprefix("!")
        (excluded if name != value else wanted).add(None if name == NONE else name)
    return Chosen(frozenset(wanted), frozenset(excluded))


class Filter(NamedTuple):
    """Which runs; a field that is empty excludes nothing."""

    facets: Mapping[FacetName, Chosen] = {}
    since: int | None = None
    """Milliseconds since 1970: only runs that were active then or later."""
    until: int | None = None
    """Only runs that began before that or then."""
    text: str | None = None
    score: tuple[float, float] | None = None
    """Only runs to which a person gave a score from the one to the other."""

    def misses(self, pair: Pair) -> list[FacetName]:
        """The facets that a run does not pass."""
        return [name for name, each in self.facets.items() if not each.passes(FACETS[name](pair))]

    def holds(self, pair: Pair) -> bool:
        """Whether a run passes what is no facet: the range, the text and the score."""
        state, score = pair.state, pair.marks.score
        return (
            (self.since is None or (epoch_ms(state.alive) or -1) >= self.since)
            and (self.until is None or _began(state) <= self.until)
            and (not self.text or self.text.casefold() in _searched(state))
            and (
                self.score is None
                or (score is not None and self.score[0] <= score <= self.score[1])
            )
        )


def _began(state: State) -> int:
    began = epoch_ms(state.first_at)
    return (epoch_ms(state.first_received) or 0) if began is None else began


def _searched(state: State) -> str:
    return " ".join((state.run, runs_fold.title(state) or "", *state.agents)).casefold()


def filtered(pairs: Iterable[Pair], wanted: Filter) -> list[Pair]:
    """The runs that pass a filter."""
    if wanted == Filter():
        return list(pairs)
    return [pair for pair in pairs if wanted.holds(pair) and not wanted.misses(pair)]


def facets_of(pairs: Iterable[Pair], wanted: Filter) -> list[Facet]:
    """Each facet with its counts: of the runs that pass the filter without that facet itself."""
    found: dict[FacetName, list[str | None]] = {name: [] for name in FACETS}
    for pair in pairs:
        if not wanted.holds(pair):
            continue
        missed = wanted.misses(pair)
        if len(missed) > 1:
            continue
        for name in missed or FACETS:
            found[name] += FACETS[name](
                pair
            )  # counted together: one run at a time takes twice as long
    return [_facet(name, Counter(each), wanted.facets.get(name)) for name, each in found.items()]


def _facet(name: FacetName, counts: Counter[str | None], given: Chosen | None) -> Facet:
    for value in (given.wanted | given.excluded) if given else ():
        counts.setdefault(value, 0)  # what was chosen stays on the screen
    if name == "status":
        return Facet(name, [FacetValue(each, counts[each]) for each in STATUSES], len(STATUSES))
    ranked = sorted(counts.items(), key=lambda item: (item[0] is None, -item[1], str(item[0])))
    return Facet(name, [FacetValue(*each) for each in ranked[:MOST]], len(ranked))
