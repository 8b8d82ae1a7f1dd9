"""The board: a page of the runs in groups, with facets and counts per status."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal, Unpack, get_args

from tracklog.answers import LOST_AFTER, Question, now_of, one_of, text
from tracklog.answers.run_filter import NONE, Facet, Pair, facets_of, is_seen_failure
from tracklog.answers.run_list import (
    NEWEST,
    Choices,
    RunList,
    RunRow,
    StatusCounts,
)
from tracklog.answers.run_params import RunsAsked, filter_of, params
from tracklog.folds import inbox as inbox_fold
from tracklog.folds import rows_of
from tracklog.home.home import Home

Grouping = Literal["none", "attention", "status", "project", "branch", "model"]
GROUPINGS: tuple[Grouping, ...] = get_args(Grouping)
_ATTENTION = {
    "waiting": "waiting", "working": "working", "failed": "broken", "lost": "broken", "done": "done",
}  # fmt: skip  # one table
"""The group of each status, where runs are grouped by the attention that they need."""
_SEEN = "seen"
"""The group of runs that failed or were lost, and that a person has seen."""


@dataclass(frozen=True, slots=True)
class BoardGroup:
    """A group of runs that stand together."""

    key: str | None
    """With `attention`: `waiting`, `working`, `broken` (failed or lost, not seen), `seen` (failed or
    lost, and seen) or `done`.
    """
    count: int
    closed: bool
    """It was asked for without its rows."""


@dataclass(frozen=True, slots=True)
class BoardAnswer:
    """A page of the runs, in groups, and what they can be filtered by."""

    all: int
    """Runs that were looked at."""
    matching: int
    """Those that pass the filter."""
    asking: int
    """Matching runs that are not in the list, because their questions are in the inbox."""
    listed: int
    """The length of the list that the page is cut from: without closed groups."""
    after: int
    """How many runs of the list stand before this page."""
    counts: StatusCounts
    """Of all runs that were looked at."""
    choices: Choices
    facets: list[Facet]
    groups: list[BoardGroup]
    """In the order of the list; empty where it is not grouped."""
    runs: list[RunRow]
    head: int
    """The last record that the answer has considered."""


class BoardAsked(RunsAsked, total=False):
    """The parameters of the board."""

    group: Grouping
    closed: Collection[str]


def board(home: Home, **asked: Unpack[BoardAsked]) -> BoardAnswer:
    """The runs that need a person first, unless asked otherwise."""
    now = now_of(home, asked.get("now"))
    lost_after = asked.get("lost_after", LOST_AFTER)
    group: Grouping = asked.get("group", "none")
    wanted = filter_of(home, asked, now)
    head = home.index.index.cursor  # first: what comes meanwhile is not promised
    runs = home.cache(RunList)
    selection = runs.select(
        wanted,
        sort=asked.get("sort", "need"),
        dir=asked.get("dir"),
        newest=asked.get("newest", NEWEST),
        lost_after=lost_after,
        now=now,
    )
    pairs = selection.pairs
    if group == "attention" and "status" not in wanted.facets:
        asking = _asking(home, pairs, now)
        pairs = [pair for pair in pairs if (pair.state.family, pair.state.run) not in asking]
    matching, rest = len(selection.pairs), len(pairs)
    groups: list[BoardGroup] = []
    if group != "none":
        groups, pairs = _grouped(pairs, group, asked.get("closed", ()))
    after = asked.get("after", 0)
    limit = asked.get("limit", 200)
    page = pairs[after:] if limit is None else pairs[after : after + limit]
    return BoardAnswer(
        all=selection.all,
        matching=matching,
        asking=matching - rest,
        listed=len(pairs),
        after=after,
        counts=selection.counts,
        choices=selection.choices,
        facets=facets_of(selection.every, wanted),
        groups=groups,
        runs=runs.rows([pair.state for pair in page], now, lost_after),
        head=head,
    )


def _asking(home: Home, pairs: Iterable[Pair], now: str) -> set[tuple[str, str]]:
    """The runs with a question that waits in the inbox."""
    questions = [
        question
        for status, state, _ in pairs
        if status == "waiting" and state.asking
        for _, question in home.index.states("inbox", rows_of(state.family, state.run))
    ]
    rows = inbox_fold.answer(questions, now)
    return {(row["family"], row["run"]) for row in rows if row["state"] == "open"}


def _group_key(pair: Pair, group: Grouping) -> str | None:
    status, state, _ = pair
    match group:
        case "attention":
            return _SEEN if is_seen_failure(pair) else _ATTENTION[status]
        case "status":
            return status
        case "project":
            return state.cwd
        case "branch":
            return state.branch
        case _:
            return state.model


def _grouped(
    pairs: Iterable[Pair], group: Grouping, closed: Collection[str]
) -> tuple[list[BoardGroup], list[Pair]]:
    """The groups, and the runs group by group without those of closed ones.

    Groups by status have an order of their own; of others, the largest is first.
    """
    by_key: dict[str | None, list[Pair]] = {}
    for pair in pairs:
        by_key.setdefault(_group_key(pair, group), []).append(pair)
    order = {key: n for n, key in enumerate((*_ATTENTION.values(), _SEEN, "done"))}
    if group == "status":
        order = {key: n for n, key in enumerate(_ATTENTION)}
    counts = Counter({key: len(each) for key, each in by_key.items()})
    keys = sorted(by_key, key=lambda key: (order.get(key or "", 0), key is None, -counts[key]))
    groups = [BoardGroup(key, counts[key], (key or NONE) in closed) for key in keys]
    return groups, [pair for each in groups if not each.closed for pair in by_key[each.key]]


question = Question(
    name="board",
    about="Show a page of the runs, those that need a person first. It also has the number "
    "of runs in each status, and the values of the filters.",
    ask=board,
    params=(
        *params("need", 200),
        one_of(
            "group",
            "Put the runs into groups. With `attention`, runs with an open question are only in "
            "the inbox, unless a status is asked for.",
            GROUPINGS,
            default="none",
        ),
        text(
            "closed",
            "Leave out the rows of this group; `(none)` is the group of runs without a value.",
            many=True,
            default=(),
        ),
    ),
    examples=("board --status failed --json", "board --within 24h --json | jq .counts"),
)
