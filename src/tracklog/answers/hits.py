"""Hits of a search, by run or by time: what kind of record each is, and how many there are of each kind."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal, NamedTuple, get_args

from tracklog.answers import Question, integer, limit, now_of, one_of, text
from tracklog.answers.ranges import ABOUT, point
from tracklog.answers.run_filter import Chosen, FacetValue, chosen
from tracklog.answers.run_list import RunList, RunRow
from tracklog.folds import OWN_KEYS, Position, epoch_ms, name_text, row_key
from tracklog.folds._calls import call_name
from tracklog.home.home import Home
from tracklog.index.indexer import Hit
from tracklog.index.search_text import marked, searchable_text, terms
from tracklog.model.errors import UnknownName
from tracklog.model.fact import (
    Answered,
    Asked,
    Called,
    Decided,
    Ended,
    Fact,
    Noted,
    Returned,
    Said,
)

LOOKED_AT = 2_000
"""Records with the words that are looked at: those that were recorded last."""
_HELD = 4  # searches whose hits stay in memory

Kind = Literal["said", "thinking", "call", "result", "question", "verdict", "note", "run"]
KINDS: tuple[Kind, ...] = get_args(Kind)
FacetName = Literal["kind", "failed", "project", "agent", "tool", "dialect"]
NAMES: tuple[FacetName, ...] = get_args(FacetName)
_FAILED = ("yes", "no")
_TOKEN = re.compile(rf"(?:({'|'.join(NAMES)}):)?(\"[^\"]*\"?|\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class HitRow:
    """A record that contains the words."""

    seq: int
    at: str
    """By the clock of its emitter, else when it was recorded."""
    dialect: str
    family: str
    run: str
    kind: Kind
    tool: str | None
    agent: str | None
    failed: bool
    """A call that failed, or a verdict or an end that says so."""
    excerpt: str


@dataclass(frozen=True, slots=True)
class HitRun:
    """A run with hits."""

    run: RunRow
    hits: int


@dataclass(frozen=True, slots=True)
class HitFacet:
    """A filter of the hits, and how many hits each value would leave."""

    name: FacetName
    values: list[FacetValue]


@dataclass(frozen=True, slots=True)
class HitsAnswer:
    """The hits of a search."""

    total: int
    cut: bool
    """There are more records with these words; older ones were not looked at."""
    of_runs: int
    """Runs that have a hit."""
    first_at: str | None
    """When the oldest of them happened."""
    runs: list[HitRun]
    """The run with the newest hit first."""
    hits: list[HitRow]
    """The newest first; by run, those of the first run first, and at the end those of no run."""
    facets: list[HitFacet]


class Found(NamedTuple):
    """A hit and where it is."""

    row: HitRow
    at_ms: int
    project: str | None


VALUES: Mapping[FacetName, Callable[[Found], str | None]] = {
    "kind": lambda found: found.row.kind,
    "failed": lambda found: _FAILED[not found.row.failed],
    "project": lambda found: found.project,
    "agent": lambda found: found.row.agent,
    "tool": lambda found: found.row.tool,
    "dialect": lambda found: found.row.dialect,
}


def parsed(query: str) -> tuple[str, dict[FacetName, list[str]]]:
    """The words of a query, and its filters as in `tool:Bash failed:yes`."""
    words: list[str] = []
    filters: dict[FacetName, list[str]] = {}
    for name, value in _TOKEN.findall(query):
        if name:
            filters.setdefault(name, []).append(value.strip('"'))
        else:
            words.append(value)
    return " ".join(words), filters


def found(
    home: Home,
    query: str,
    filters: Mapping[FacetName, Collection[str]],
    since: str | None = None,
    until: str | None = None,
    run: str | None = None,
    *,
    now: str,
) -> tuple[list[Found], "_HitFilter", bool]:
    """The hits in a range of time, the filter of a query, and whether there may be older hits."""
    words, typed = parsed(query)
    wanted = {
        name: chosen([*filters.get(name, ()), *typed.get(name, ())])
        for name in NAMES
        if filters.get(name) or typed.get(name)
    }
    _check("kind", wanted, KINDS)
    _check("failed", wanted, _FAILED)
    every, is_cut = home.cache(_Searches).of(words)
    begin, end = point(since, now), point(until, now)
    inside = [
        each
        for each in every
        if (begin is None or each.at_ms >= begin)
        and (end is None or each.at_ms <= end)
        and (run is None or run in (f"{each.row.family}:{each.row.run}", each.row.run))
    ]
    return inside, _HitFilter(wanted), is_cut


def _check(name: FacetName, wanted: Mapping[FacetName, Chosen], options: Collection[str]) -> None:
    given = wanted.get(name, Chosen(frozenset(), frozenset()))
    for value in given.wanted | given.excluded:
        if value not in options:
            raise UnknownName(f"{name} cannot be {value!r}", f"give one of {', '.join(options)}")


class _HitFilter(NamedTuple):
    """Which hits are wanted."""

    facets: Mapping[FacetName, Chosen]

    def misses(self, hit: Found) -> list[FacetName]:
        """The facets that a hit does not pass."""
        return [name for name, each in self.facets.items() if not each.passes(_names(name, hit))]


def _names(name: FacetName, hit: Found) -> tuple[str | None, ...]:
    """The values of a hit; a project also by the name of its folder."""
    value = VALUES[name](hit)
    return (value, PurePath(value).name) if name == "project" and value else (value,)


def hits(
    home: Home,
    query: str = "",
    group: Literal["run", "time"] = "run",
    since: str | None = None,
    until: str | None = None,
    run: str | None = None,
    each: int = 4,
    limit: int = 50,
    *,
    now: str | None = None,
    **filters: Collection[str],
) -> HitsAnswer:
    """The records with all the words of a query, and how many pass each filter."""
    at = now_of(home, now)
    given = {name: values for name in NAMES if (values := filters.get(name))}
    inside, wanted, is_cut = found(home, query, given, since, until, run, now=at)
    facets = {name: Counter[str | None]() for name in NAMES}
    passing: list[Found] = []
    for hit in inside:
        missed = wanted.misses(hit)
        if not missed:
            passing.append(hit)
        if len(missed) < 2:
            for name in missed or NAMES:
                facets[name][VALUES[name](hit)] += 1
    by_run: dict[str, list[HitRow]] = {}
    for hit in passing:
        by_run.setdefault(f"{hit.row.family}:{hit.row.run}", []).append(hit.row)
    notes = [key for key in by_run if key in OWN_KEYS]  # notes of tracklog, part of no run
    runs = [key for key in by_run if key not in OWN_KEYS]
    if group == "time":
        shown = [hit.row for hit in sorted(passing, key=lambda hit: -hit.at_ms)[:limit]]
        listed = {f"{row.family}:{row.run}": None for row in shown}
    else:
        listed = dict.fromkeys(runs[:limit])
        shown = [row for key in [*listed, *notes] for row in by_run[key][:each]]
    states = home.index.load("runs", listed)
    rows = home.cache(RunList).rows([states[key] for key in listed if key in states], at)
    return HitsAnswer(
        total=len(passing),
        cut=is_cut,
        of_runs=len(runs),
        first_at=min(passing, key=lambda hit: hit.at_ms).row.at if passing else None,
        runs=[HitRun(row, len(by_run[row.key])) for row in rows],
        hits=shown,
        facets=[
            HitFacet(name, [FacetValue(*pair) for pair in _ranked(name, counts)])
            for name, counts in facets.items()
        ],
    )


def _ranked(name: FacetName, counts: Counter[str | None]) -> list[tuple[str | None, int]]:
    order = {"kind": KINDS, "failed": _FAILED}.get(name, ())
    return sorted(
        counts.items(),
        key=lambda pair: (
            order.index(pair[0]) if pair[0] in order else -pair[1],
            pair[0] is None,
            str(pair[0]),
        ),
    )[:50]


class _Searches:
    """The hits of the last searches, as long as nothing new is recorded."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._held: dict[str, tuple[int, list[Found], bool]] = {}

    def of(self, words: str) -> tuple[list[Found], bool]:
        """The records with these words, the newest first, and whether older ones were left out."""
        index = self._home.index
        cursor = index.index.cursor
        held = self._held.pop(words, None)
        if held is None or held[0] != cursor:
            if words:
                records = index.search(words, LOOKED_AT + 1)
            else:
                records = index.newest_hits(LOOKED_AT + 1)
            projects: dict[str, str | None] = {}
            rows = [_found(self._home, each, terms(words), projects) for each in records]
            held = (cursor, rows[:LOOKED_AT], len(rows) > LOOKED_AT)
        self._held = {**dict(list(self._held.items())[1 - _HELD :]), words: held}
        return held[1], held[2]


def _found(home: Home, hit: Hit, wanted: Sequence[str], projects: dict[str, str | None]) -> Found:
    record = hit.record
    key = f"{record.family}:{record.run}"
    if key not in projects:
        projects[key] = home.index.state("runs", key).cwd
    fact, excerpt = _matching(hit, wanted)
    kind, tool, failed = _kind(home, hit.position, fact)
    at = record.received if hit.at is None or epoch_ms(hit.at) is None else hit.at
    row = HitRow(
        seq=record.seq,
        at=at,
        dialect=record.dialect,
        family=record.family,
        run=record.run,
        kind=kind,
        tool=tool,
        agent=None if fact is None else name_text(fact.agent),
        failed=failed,
        excerpt=excerpt,
    )
    return Found(row, epoch_ms(at) or 0, projects[key])


def _matching(hit: Hit, wanted: Sequence[str]) -> tuple[Fact | None, str]:
    """The fact of a record in which a word stands, and an excerpt of it."""
    texts = [(fact, each) for fact in hit.facts if (each := searchable_text([fact]))]
    for fact, each in texts:
        pieces = marked(each, wanted)
        if any(is_term for _, is_term in pieces):
            return fact, "".join(piece for piece, _ in pieces)
    first = texts[0][0] if texts else next(iter(hit.facts), None)
    return first, "".join(piece for piece, _ in marked(hit.text, wanted))


def _kind(
    home: Home, position: Position | None, fact: Fact | None
) -> tuple[Kind, str | None, bool]:
    """What a fact is, its tool, and whether it failed."""
    match fact:
        case Called() | Returned():
            call = (
                None
                if position is None
                else home.index.state("calls", row_key(position, call_name(position, fact)))
            )
            tool = name_text(fact.tool) or (call.tool if call else None)
            failed = (call is not None and call.ok is False) or (
                isinstance(fact, Returned) and fact.ok is False
            )
            return ("call" if isinstance(fact, Called) else "result"), tool, failed
        case Said():
            blocks = {block.get("type") for block in fact.blocks if isinstance(block, Mapping)}
            thinks = fact.role == "thought" or blocks == {"thinking"}
            return ("thinking" if thinks else "said"), None, False
        case Asked() | Answered():
            return "question", None, False
        case Decided():
            return "verdict", None, fact.passed is False
        case Noted():
            return "note", None, False
        case Ended():
            return "run", None, fact.passed is False or fact.error is not None
    return "run", None, False


question = Question(
    name="hits",
    about="Search: list the hits of each run, and how many hits each value of a filter has. A query "
    "may contain filters: `tool:Bash failed:yes timeout`. A query without words filters the records "
    "that were recorded last.",
    ask=hits,
    params=(
        text(
            "q",
            'Words, "words in quotes", beginnings*, and filters: kind:, failed:, project:, agent:, '
            "tool:, dialect:.",
            default="",
            keyword="query",
        ),
        one_of("kind", "Only hits of this kind.", KINDS, many=True, default=()),
        one_of("failed", "Only hits that failed, or that did not.", _FAILED, many=True, default=()),
        text("project", "Only hits in runs of this folder.", many=True, default=()),
        text("agent", "Only hits of this agent.", many=True, default=()),
        text("tool", "Only calls and results of this tool.", many=True, default=()),
        text("dialect", "Only hits of this dialect.", many=True, default=()),
        text("run", "Only hits of this run, as `family:run`."),
        text("since", f"From when: {ABOUT}."),
        text("until", "Until when."),
        one_of("group", "List the hits by run, or by time.", ("run", "time"), default="run"),
        integer(
            "each", "Show at most this many hits of each run.", least=1, most=10_000, default=4
        ),
        limit(50),
    ),
    refusals={404: "There is no such kind."},
    examples=("hits --q timeout --json", "hits --q 'tool:Bash failed:yes' --since -7d --json"),
)
