"""One run: its row, its loops, what it waits for, and what it cost with its sub-runs."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tracklog.answers import LOST, LOST_AFTER, Question, integer, key_of, now_of, run_param
from tracklog.answers.costs import CostRow
from tracklog.answers.duplicates import same_conversation
from tracklog.answers.inbox import InboxRow
from tracklog.answers.leaderboard import Player, cast_of
from tracklog.answers.loops import LOOP, LoopRow, loop_rows
from tracklog.answers.prices import load
from tracklog.answers.related import related_runs
from tracklog.answers.run_list import Counted, RunRow, row_of
from tracklog.answers.run_marks import marks_in
from tracklog.answers.spends import (
    OwnSpend,
    Spends,
    price_by,
    spends_elsewhere,
    spends_of,
    spent_by,
)
from tracklog.folds import costs as costs_fold
from tracklog.folds import epoch_ms, rows_of, run_of
from tracklog.folds import inbox as inbox_fold
from tracklog.folds import leaderboard as leaderboard_fold
from tracklog.folds import runs as runs_fold
from tracklog.folds import stage as stage_fold
from tracklog.folds import steps as steps_fold
from tracklog.folds import tree as tree_fold
from tracklog.home import registry
from tracklog.home.home import Home
from tracklog.model.errors import NoSuchRecord
from tracklog.reading.replay import replay, replay_all

_SUMMARIES = ("steps", "leaderboard", "stage")
"""The folds that a summary is made of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A summary of a run of steps, a play or a contest; the fields of the others are null."""

    run_id: str
    started: str | None = None
    ended: str | None = None
    duration_s: float | None = None
    outcome: str | None = None
    total_nodes: int | None = None
    done: int | None = None
    failed: int | None = None
    blocked: int | None = None
    total_attempts: int | None = None
    flake_retries: int | None = None
    exit_code: int | None = None
    failed_nodes: list[str] = field(default_factory=list)
    node_attempts: dict[str, int] = field(default_factory=dict)
    scenario: str | None = None
    seed: str | None = None
    session_id: str | None = None
    cast: dict[str, Player] = field(default_factory=dict)
    started_at: str | None = None
    finished_at: str | None = None
    reason: str | None = None
    winner: str | None = None
    winner_kind: str | None = None
    winning_model: str | None = None
    winning_models: list[str] = field(default_factory=list)
    turns: int | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """The stage of a play as an audience would see it now, the newest message last."""

    goal: str | None
    seed: str | None
    scene: str | None
    notes: list[str]
    verdicts: list[str]
    user: list[str]
    """The messages of visitors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowAnswer(RunRow):
    """One run, in full."""

    aliases: list[str] = field(default_factory=list)
    """Its names in other systems, as `system: name`."""
    asks: list[InboxRow] = field(default_factory=list)
    """Its open questions."""
    waited_seconds: float | None = None
    """How long it waited for people so far; null as of an earlier record."""
    loops: list[LoopRow] = field(default_factory=list)
    cost_with_sub_runs: CostRow | None = None
    """Null as of an earlier record."""
    summary: Summary | None = None
    stage: Stage | None = None


def show(
    home: Home,
    run: str,
    at: int | None = None,
    lost_after: float = LOST_AFTER,
    *,
    now: str | None = None,
) -> ShowAnswer:
    """One run as it is now, or as it was at a record."""
    if at is not None:
        return _show_at(home, ":".join(home.run(run)), at)
    key, now, index = key_of(home, run), now_of(home, now), home.index
    own = index.state("runs", key)
    counted, spent = _spent_now(home, key)
    rows = rows_of(*run_of(key))
    named = (state for _, state in index.states("aliases", rows))
    often = (each for each, row in index.sums("loops", prefix=rows) if row["times"] >= LOOP)
    asked = _questions((state for _, state in index.states("inbox", rows)), now)
    contest = index.state("leaderboard", key)
    return row_of(
        ShowAnswer,
        own,
        now,
        lost_after,
        counted,
        marks_in(home, key),
        aliases=sorted(f"{each.system}: {each.alias}" for each in named),
        asks=_open(asked),
        waited_seconds=_waited(asked),
        loops=loop_rows(index, often, LOOP),
        cost_with_sub_runs=spent,
        summary=_summary(index.state("steps", key), contest),
        stage=_stage(index.state("stage", key), contest),
    )


def _spent_now(home: Home, key: str) -> tuple[Counted, CostRow | None]:
    """What a run spent itself, and what it spent with its sub-runs, without duplicates."""
    index, prices = home.index, load(home.path)
    below = {key, *tree_fold.below(related_runs(index, [key]), key)}
    spends = spends_of(index, below, [key])
    again = spends.duplicates
    below = {run for run in below if (run in again) == (key in again)}
    rows = costs_fold.answer(
        spends.states, by="all", within=below, price=price_by(prices), duplicates=again
    )
    own = spent_by(spends, {key}, prices)[key]
    return Counted(own, again.get(key)), CostRow(**rows[0]) if rows else None


def _summary(steps: steps_fold.State, contest: leaderboard_fold.State) -> Summary | None:
    """The summary of a run with steps or of a play."""
    fields = steps_fold.summary(steps) if steps_fold.stepped(steps) else {}
    if leaderboard_fold.staged(contest):
        fields |= leaderboard_fold.summary(contest)
        fields["cast"] = cast_of(fields["cast"])
    return Summary(**fields) if fields else None


def _stage(stage: stage_fold.State, contest: leaderboard_fold.State) -> Stage | None:
    """What would be seen on the stage of a play."""
    staged = leaderboard_fold.staged(contest)
    return Stage(**stage_fold.answer(stage)) if staged else None


def _show_at(home: Home, key: str, seq: int) -> ShowAnswer:
    """A run as it was at a record, folded again from the journal.

    Where the index has a past state of a long run, only the records after it are read.
    """
    run, folds = run_of(key), [registry.fold(name) for name in ("runs", *_SUMMARIES)]
    after, known = home.index.past([fold.name for fold in folds], run, seq)
    records = list(home.journal.records(after, run=run, through=seq))
    begin = {name: {key: state} for name, state in known.items()}
    states = replay_all(folds, records, home.dialects, until=seq, begin=begin)
    then = {fold.name: states[fold.name].get(key) or fold.State() for fold in folds}
    own = then["runs"]
    if not own.run:
        raise NoSuchRecord(f"the run had not begun at record {seq}", "ask for a later one")
    now = own.last_received
    spent = _spent_then(home, key, seq) if runs_fold.has_spent(own) else None
    asks: list[InboxRow] = []
    if own.asking:  # it may have asked long before: all of its records are read
        every = home.journal.records(run=run, through=seq)
        asked = replay(registry.fold("inbox"), every, home.dialects, until=seq)
        asks = _open(_questions(asked.values(), now))
    return row_of(
        ShowAnswer,
        own,
        now,
        counted=Counted(spent, same_conversation(home.index, [key]).get(key)),
        marks=marks_in(home, key),
        at=seq,
        asks=asks,
        summary=_summary(then["steps"], then["leaderboard"]),
        stage=_stage(then["stage"], then["leaderboard"]),
    )


def _spent_then(home: Home, key: str, seq: int) -> OwnSpend | None:
    """What a run had spent itself at a record; None where no other run had recorded the same."""
    home.index.catch_up()
    others = spends_elsewhere(home.index, key, seq)
    if not others.states:
        return None
    every = home.journal.records(run=run_of(key), through=seq)
    own = replay(registry.fold("costs"), every, home.dialects, until=seq).values()
    spends = Spends([*own, *others.states], others.duplicates)
    return spent_by(spends, {key})[key]


def _questions(states: Iterable[inbox_fold.State], now: str) -> list[InboxRow]:
    return [InboxRow(**row) for row in inbox_fold.answer(states, now)]


def _open(rows: Iterable[InboxRow]) -> list[InboxRow]:
    return [row for row in rows if row.state == "open"]


def _waited(rows: Iterable[InboxRow]) -> float:
    """Seconds in which at least one question was open: questions may overlap."""
    spans = [
        (asked, asked + round(row.waiting_seconds * 1000))
        for row in rows
        if row.state in ("open", "answered") and row.waiting_seconds is not None
        if (asked := epoch_ms(row.asked_at)) is not None
    ]
    total = last = 0
    for begin, end in sorted(spans):
        total += max(0, end - max(begin, last))
        last = max(last, end)
    return total / 1000


question = Question(
    name="show",
    about="Show one run: status, outcome, agents, tools, tokens, cost, loops.",
    ask=show,
    params=(run_param(), integer("at", "As it was at this record.", least=1), LOST),
    paths=("/api/runs/{family}/{run}",),
    refusals={404: "There is no such run, or it had not begun at that record."},
    examples=(
        "show agent-coder-1",
        "show agent-coder-1 --at 120       (as it was at record 120)",
        "show agent-coder-1 --json",
    ),
)
