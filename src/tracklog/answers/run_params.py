"""The parameters of a question for runs, and the list that they describe."""

from collections.abc import Collection
from typing import TypedDict, Unpack

from tracklog.answers import (
    LOST,
    LOST_AFTER,
    WINDOWS,
    Param,
    after,
    limit,
    newest,
    now_of,
    one_of,
    since,
    text,
)
from tracklog.answers.ranges import ABOUT, numbers, point
from tracklog.answers.run_filter import FACETS, SEEN, UNSEEN, FacetName, Filter, chosen
from tracklog.answers.run_list import (
    DIRECTIONS,
    NEWEST,
    SORTS,
    Direction,
    RunList,
    RunsAnswer,
    Sort,
)
from tracklog.folds import epoch_ms
from tracklog.folds.runs import STATUSES
from tracklog.home.home import Home

Values = str | Collection[str] | None
"""The values of a filter: one, several or none."""


class RunsAsked(TypedDict, total=False):
    """The parameters of a question for runs."""

    status: Values
    project: Values
    branch: Values
    model: Values
    agent: Values
    outcome: Values
    dialect: Values
    tag: Values
    seen: Values
    score: str | None
    since: str | None
    until: str | None
    within: str | None
    text: str | None
    sort: Sort
    dir: Direction | None
    after: int
    limit: int | None
    newest: int
    lost_after: float
    now: str | None


def filter_of(home: Home, asked: RunsAsked, now: str) -> Filter:
    """The filter that the parameters of a question describe."""
    given: dict[FacetName, Values] = {name: asked.get(name) for name in FACETS}
    window = epoch_ms(since(home, asked.get("within"), now))
    begin = point(asked.get("since"), now)
    return Filter(
        facets={
            name: chosen([values] if isinstance(values, str) else values)
            for name, values in given.items()
            if values
        },
        since=max((each for each in (window, begin) if each is not None), default=None),
        until=point(asked.get("until"), now),
        text=asked.get("text"),
        score=numbers(asked.get("score"), "score"),
    )


def listed(home: Home, **asked: Unpack[RunsAsked]) -> RunsAnswer:
    """A page of the runs of a home, by its parameters."""
    now = now_of(home, asked.get("now"))
    return home.cache(RunList).page(
        filter_of(home, asked, now),
        sort=asked.get("sort", "activity"),
        dir=asked.get("dir"),
        after=asked.get("after", 0),
        limit=asked.get("limit"),
        newest=asked.get("newest", NEWEST),
        lost_after=asked.get("lost_after", LOST_AFTER),
        now=now,
    )


def params(sort: Sort, most: int) -> tuple[Param, ...]:
    """The parameters of a question for runs, with its own order and length."""

    def values(name: str, about: str) -> Param:
        return text(name, about, many=True, default=())

    return (
        one_of("status", "Only runs with this status.", STATUSES, many=True, default=()),
        values("project", "Only runs that worked in this folder, given as its path."),
        values("branch", "Only runs on this branch."),
        values("model", "Only runs with this model."),
        values("agent", "Only runs of this agent."),
        values("outcome", "Only runs with this outcome, or with an agent that has it."),
        values("dialect", "Only runs with events of this dialect."),
        values("tag", "Only runs that have this tag, or a record with it."),
        one_of(
            "seen",
            "Only runs that a person has seen, or only those that nobody has seen. A run that has "
            "failed again since then counts as not seen.",
            (SEEN, UNSEEN),
            many=True,
            default=(),
        ),
        text(
            "score",
            "Only runs to which a person gave such a score: `0.8`, or a range: `0.5..`, `..0.5`, `0..1`.",
        ),
        text("since", f"Only runs that were active at this time or later: {ABOUT}."),
        text("until", "Only runs that began at this time or before."),
        one_of("within", "Only runs that were active in this time.", WINDOWS, default="all"),
        text("text", "Only runs with this in the title, the id or an agent's name."),
        one_of("sort", "What the list is sorted by.", SORTS, default=sort),
        one_of(
            "dir",
            "Ascending or descending; unless given, texts ascend, and the largest number or "
            "latest time is first.",
            DIRECTIONS,
        ),
        after("runs"),
        limit(most),
        newest(NEWEST),
        LOST,
    )
