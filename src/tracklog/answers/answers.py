"""The questions that a fleet's owner asks, each a function of the same name as its verb.

An answer is computed from what the folds keep; only words are read from the journal.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from heapq import nlargest
from itertools import chain, islice
from typing import Any

from tracklog.answers.diff import diff
from tracklog.answers.duplicates import untold
from tracklog.answers.fleet import View, Watch
from tracklog.answers.prices import Prices
from tracklog.answers.related import count_once, elsewhere, kin, price_by, put_spent, spends
from tracklog.answers.story import story
from tracklog.answers.why import why
from tracklog.folds import agents as agents_fold
from tracklog.folds import audits as audits_fold
from tracklog.folds import conversation as conversation_fold
from tracklog.folds import costs as costs_fold
from tracklog.folds import inbox as inbox_fold
from tracklog.folds import leaderboard as leaderboard_fold
from tracklog.folds import loops as loops_fold
from tracklog.folds import moment, rows_of, run_of, said_in, short
from tracklog.folds import outcomes as outcomes_fold
from tracklog.folds import runs as runs_fold
from tracklog.folds import stage as stage_fold
from tracklog.folds import steps as steps_fold
from tracklog.folds import tools as tools_fold
from tracklog.folds import tree as tree_fold
from tracklog.folds.runs import LOST_AFTER
from tracklog.home import registry
from tracklog.home.home import Home
from tracklog.index.gc_paused import gc_paused
from tracklog.index.indexer import Indexer
from tracklog.index.indexes import Answer
from tracklog.index.search_text import marked, terms
from tracklog.journal.frame import Record, Run, stamp
from tracklog.model.errors import NoSuchRecord
from tracklog.model.fact import Called, Said
from tracklog.reading.replay import replay, replay_all

__all__ = [
    "agents", "agents_now", "audits", "conversation", "costs", "diff", "findings", "hours", "inbox",
    "leaderboard", "loops", "outcome_runs", "outcomes", "query", "runs", "search", "show",
    "show_at", "story", "tools", "top", "tree", "why",
]  # fmt: skip  # a list to be read

Row = dict[str, Any]

_SHORT = ("steps", "leaderboard", "stage")
"""The folds that tell a run in short."""
LOOP = 3
"""The same call so many times is going round in circles."""
SHOWN = 200
"""Characters of a call's arguments that are told."""
LOOKED_AT = 5_000
"""Records in which something was said that a narrower search looks at."""


def runs(
    index: Indexer,
    now: str,
    limit: int | None = 50,
    lost_after: float = LOST_AFTER,
    prices: Prices | None = None,
    *,
    status: Collection[str] = (),
    agent: str | None = None,
    by_time: bool = False,
) -> list[Row]:
    """The runs, the latest active first; who works and was silent for too long is lost.

    With prices, what each cost by the list is told where no cost was reported. Of the runs looked
    at, only those of a status, or with an agent, if asked. With a limit, the runs looked at are
    those that were recorded last; `by_time` looks at all, for those whose events are the latest.
    """
    kept: list[tuple[str, Any]]
    if limit is None:
        kept = list(index.states("runs"))
    elif by_time:
        order = runs_fold.last_active
        kept = nlargest(limit, index.states("runs"), key=lambda each: order(each[1]))
    else:
        kept = index.newest("runs", limit)
    rows = [
        row
        for row in runs_fold.answer((state for _, state in kept), now, lost_after)
        if (not status or row["status"] in status) and (not agent or agent in row["agents"])
    ]
    count_once(index, rows, prices, {key for key, state in kept if runs_fold.has_spent(state)})
    keys = [f"{row['family']}:{row['run']}" for row in rows]
    same = untold(index, None if limit is None else keys)
    for key, row in zip(keys, rows, strict=True):
        row["same_as"] = same.get(key)
    return rows


def show(
    index: Indexer,
    key: str,
    now: str,
    lost_after: float = LOST_AFTER,
    prices: Prices | None = None,
) -> Row:
    """One run: its row, its tools' loops and what it cost, sub-runs included."""
    below = {key, *tree_fold.below(kin(index, [key]), key)}
    price = price_by(prices) if prices else None
    spent = costs_fold.answer(spends(index, below), by="all", within=below, price=price)
    own = runs_fold.row(index.state("runs", key), now, lost_after)
    count_once(index, [own])
    rows = rows_of(*run_of(key))
    named = (state for _, state in index.states("aliases", rows))
    often = (each for each, row in index.sums("loops", prefix=rows) if row["times"] >= LOOP)
    asked = inbox_fold.answer((state for _, state in index.states("inbox", rows)), now)
    return {
        **own,
        "aliases": sorted(f"{each.system}: {each.alias}" for each in named),
        "asks": _open(asked),
        "loops": _looped(index, often, LOOP),
        "cost_with_sub_runs": spent[0] if spent else None,
        "same_as": untold(index, [key]).get(key),
        **_in_short({fold: index.state(fold, key) for fold in _SHORT}),
    }


def _in_short(then: Mapping[str, Any]) -> Row:
    """Of a run with steps or with a cast its summary; and what one would see on the stage."""
    steps, contest = then["steps"], then["leaderboard"]
    told: Row = {"summary": steps_fold.summary(steps)} if steps_fold.stepped(steps) else {}
    if leaderboard_fold.staged(contest):
        told["summary"] = told.get("summary", {}) | leaderboard_fold.summary(contest)
        told["stage"] = stage_fold.answer(then["stage"])
    return told


def show_at(home: Home, key: str, seq: int) -> Row:
    """The same run as it was at a record, folded anew from the journal.

    Where the index kept earlier states of a long run, only what followed is read.
    """
    run, folds = run_of(key), [registry.fold(name) for name in ("runs", *_SHORT)]
    after, known = home.index.past([fold.name for fold in folds], run, seq)
    records = list(home.journal.records(after, run=run, through=seq))
    begin = {name: {key: state} for name, state in known.items()}
    states = replay_all(folds, records, home.dialects, until=seq, begin=begin)
    then = {fold.name: states[fold.name].get(key) or fold.State() for fold in folds}
    own = then["runs"]
    if not own.run:
        raise NoSuchRecord(f"the run had not begun at record {seq}", "ask for a later one")
    now = records[-1].received if records else own.last_received
    row = {**runs_fold.row(own, now), **_in_short(then)}
    _count_then(home, key, seq, row)
    if row["questions"]:  # what a run waits for may have been asked long before: all of it is read
        heard = home.journal.records(run=run, through=seq)
        asked = replay(registry.fold("inbox"), heard, home.dialects, until=seq)
        row["asks"] = _open(inbox_fold.answer(asked.values(), now))
    return row


def _count_then(home: Home, key: str, seq: int, row: Row) -> None:
    """Takes out of a row what another run had told of before, as it was known at a record."""
    home.index.catch_up()
    others = elsewhere(home.index, key, seq)
    if others:
        heard = home.journal.records(run=run_of(key), through=seq)
        own = replay(registry.fold("costs"), heard, home.dialects, until=seq).values()
        put_spent([row], [*own, *others], {key})


def _open(asked: Iterable[Row]) -> list[Row]:
    return [row for row in asked if row["state"] == "open"]


def tree(index: Indexer, root: str | None = None) -> list[tree_fold.Branch]:
    """The runs below one, or all of them: parents before children."""
    # Of a run that only ever called tools no state is kept, though it was heard.
    if root is not None:
        return tree_fold.answer(kin(index, [root]), root)
    states = dict(index.states("tree"))
    others = {key for key, _ in index.newest_kept("runs", sys.maxsize)}
    known = index.load("runs", others - states.keys())
    return tree_fold.answer(states, None, {key: run.first_seq for key, run in known.items()})


def agents(index: Indexer) -> list[Row]:
    """The agents over all their runs, the busiest first."""
    return agents_fold.answer(_counted(index, "agents"))


def tools(index: Indexer, since: str | None = None, until: str | None = None) -> list[Row]:
    """The tools, the most called first, over all runs or within whole hours of a window."""
    begun = moment(since)
    after = "" if begun is None else tools_fold.hour_key(begun // tools_fold.HOUR)
    rows = chain(index.sums("tools", after), _taken_out(index, after))
    return [row for row in tools_fold.answer(rows, since, until) if row["calls"]]


def hours(index: Indexer, now: str, count: int, prices: Prices | None = None) -> list[Row]:
    """The last hours, the oldest first: how tools did, and what was spent."""
    last = (moment(now) or 0) // tools_fold.HOUR
    first = last - count + 1
    after = tools_fold.hour_key(first)
    tools = tools_fold.by_hour(chain(index.sums("tools", after), _taken_out(index, after)))
    spent = {row["of"]: row for row in costs(index, "hour", prices)}
    told = ("calls", "failures", "p50_seconds", "p95_seconds")
    paid = ("total_tokens", "cost_usd", "computed_usd", "lower_bound")
    return [
        {
            "from": stamp(hour * tools_fold.HOUR / 1000),
            **{name: tools.get(hour, {}).get(name) for name in told},
            **{name: spent.get(str(hour), {}).get(name) for name in paid},
        }
        for hour in range(first, last + 1)
    ]


def agents_now(index: Indexer, now: str, limit: int, lost_after: float = LOST_AFTER) -> list[Row]:
    """The agents of the runs that are under way, each with its status as it says it."""
    under_way = [
        row
        for row in runs(index, now, limit, lost_after)
        if row["status"] in ("waiting", "working")
    ]
    states = (
        state
        for row in under_way
        for _, state in index.states("agents", rows_of(row["family"], row["run"]))
    )
    return agents_fold.in_runs(state for state in states if not state.ended)


def _taken_out(index: Indexer, after: str) -> Iterator[tuple[str, dict[str, int]]]:
    """What the runs have called that tell again of another's conversation, to be subtracted."""
    for run in untold(index):
        for key, row in tools_fold.sums(run, index.state("tools", run)).items():
            if key > after:
                yield key, {name: -amount for name, amount in row.items()}


def audits(index: Indexer, window: str, now: str) -> list[Row]:
    """The audit checkpoints, the most flaky first."""
    return audits_fold.answer(_all(index, "audits"), window, now)


def outcomes(index: Indexer, now: str) -> Row:
    """How the runs of the last 24 hours went."""
    return outcomes_fold.answer(_counted(index, "outcomes"), now)


def outcome_runs(index: Indexer) -> list[Row]:
    """The runs that the 24-hour aggregate is made of."""
    return [outcomes_fold.as_run(state) for state in _counted(index, "outcomes")]


def inbox(index: Indexer, now: str) -> list[Row]:
    """Who waits for a person, since when, and with what question."""
    questions = list(_all(index, "inbox"))
    runs = {
        run: index.state("runs", ":".join(run)) for run in {(q.family, q.run) for q in questions}
    }
    ended = {run for run, state in runs.items() if runs_fold.is_over(state)}
    rows = inbox_fold.answer(questions, now, ended)
    for row in rows:
        state = runs[row["family"], row["run"]]
        row["title"] = runs_fold.title(state)
    return rows


def leaderboard(index: Indexer) -> list[Row]:
    """The contests that were won, the latest first."""
    return leaderboard_fold.answer(_all(index, "leaderboard"))


def costs(index: Indexer, by: str = "run", prices: Prices | None = None) -> list[Row]:
    """What was spent, by run, agent, model or provider; by a list where no cost was reported."""
    with gc_paused():
        price = price_by(prices) if prices else None
        return costs_fold.answer(_counted_spends(index), by=by, price=price)


def conversation(home: Home, key: str) -> list[Row]:
    """What was said in a run, message by message, from its own records."""
    kept = (state for _, state in home.index.states("conversation", rows_of(*run_of(key))))
    rows = conversation_fold.answer(kept)
    wanted = {part["seq"] for row in rows for part in row["parts"]}
    words = {
        (record.seq, conversation_fold.mark_of(words)): words
        for record in home.journal.records(run=run_of(key))
        if record.seq in wanted
        for fact in home.facts(record)
        if isinstance(fact, Said) and (words := said_in(fact.blocks))
    }
    for row in rows:
        for part in row["parts"]:
            part["text"] = words.get((part["seq"], part.pop("mark")), "")
    return rows


def loops(index: Indexer, at_least: int = LOOP) -> list[Row]:
    """The tools that a run called with the same arguments again and again, the most often first."""
    often = (key for key, row in index.sums("loops") if row["times"] >= at_least)
    return _looped(index, often, at_least)


def _looped(index: Indexer, keys: Iterable[str], at_least: int) -> list[Row]:
    rows = loops_fold.answer(index.load("loops", keys).values(), at_least)
    for row in rows:
        called = (
            fact.input
            for fact in index.facts(row["first_seq"])
            if isinstance(fact, Called) and fact.tool == row["tool"]
        )
        row["input"] = short(next(called, None), SHOWN)
    return rows


def findings(
    index: Indexer,
    now: str,
    run: Run | None = None,
    limit: int = 1000,
    lost_after: float = LOST_AFTER,
) -> list[Row]:
    """What was surprising, the newest first; of a run that goes on no more, what it left open too."""
    found = index.findings(run, limit)
    for each in [run] if run is not None else index.unfinished(limit):
        state = index.state("runs", ":".join(each))
        if len(found) >= limit and state.last_seq < found[limit - 1].seq:
            break
        if runs_fold.status(state, now, lost_after) not in ("working", "waiting"):
            found = sorted([*index.rest(each), *found], key=lambda each: -each.seq)
    return [
        {"seq": seq, "family": family, "run": name}
        | {"name": told.name, "level": told.level, "message": told.message}
        for seq, family, name, told in found[:limit]
    ]


def search(
    index: Indexer, text: str, limit: int = 50, fits: Callable[[Record], bool] | None = None
) -> list[Row]:
    """The records that fit and in which all the words of a text were said, the newest first."""
    found = index.search(text, LOOKED_AT if fits else limit)
    wanted = terms(text)
    return [
        {
            "seq": record.seq,
            "received": record.received,
            "at": at,
            "dialect": record.dialect,
            "family": record.family,
            "run": record.run,
            "title": _title(index, record),
            "excerpt": "".join(piece for piece, _ in marked(said, wanted)),
            "text": said,
        }
        for record, said, at in islice(
            (each for each in found if not fits or fits(each.record)), limit
        )
    ]


def _title(index: Indexer, record: Record) -> str | None:
    state = index.state("runs", f"{record.family}:{record.run}")
    return runs_fold.title(state)


def query(index: Indexer, sql: str, limit: int = 1000, seconds: float = 10) -> Answer:
    """The answer to one question in SQL, which can change nothing; else `BadQuery`."""
    return index.query(sql, limit=limit, seconds=seconds)


def top(home: Home, now: str, lost_after: float = LOST_AFTER) -> View:
    """What the whole fleet is doing now, the neediest first; a `Watch` goes on looking."""
    return Watch(home, lost_after).look(now)


def _all(index: Indexer, fold: str) -> Iterable[Any]:
    return (state for _, state in index.states(fold))


def _counted_spends(index: Indexer) -> Iterable[costs_fold.State]:
    """The spends that a counted run records, each as every run records it.

    Another run of the same conversation may say of a spend what the counted one does not, such as
    its cost; so its record of that spend is compared like that of any other run.
    """
    left = untold(index)
    if not left:
        return _all(index, "costs")
    every = [(f"{each.family}:{each.run}" in left, each) for each in _all(index, "costs")]
    counted = {each.key for again, each in every if not again}
    return [each for again, each in every if not again or each.key in counted]


def _counted(index: Indexer, fold: str) -> Iterable[Any]:
    """The same without the runs that tell again of another's conversation."""
    left = untold(index)
    return (state for state in _all(index, fold) if f"{state.family}:{state.run}" not in left)
