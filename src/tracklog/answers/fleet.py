"""What the whole fleet is doing now, the neediest first: a view over the folds, kept up to date."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tracklog.answers import prices
from tracklog.answers.phrases import words
from tracklog.answers.related import count_once
from tracklog.folds import agents as agents_fold
from tracklog.folds import inbox as inbox_fold
from tracklog.folds import moment, rows_of, silence
from tracklog.folds import runs as runs_fold
from tracklog.home.home import Home
from tracklog.index.gc_paused import gc_paused
from tracklog.journal.frame import Run
from tracklog.model.fact import Fact, Linked, Noted, Spent
from tracklog.reading.walk import facts_in

WINDOW = 300
"""Seconds over which the rate of tool calls is measured."""
MOST_CALLS = 10_000
"""Times of calls that are remembered of a run, at most."""
SHOWN = 200
"""Runs whose last words are looked up, at most: nobody reads further."""
PAGE = 64
NEAR = 32
"""Records back from a run's last in which its last words are looked for."""
QUIET = (Linked, Noted, Spent)
"""Facts that are nobody's words."""
TOLD = (
    "family", "run", "status", "title", "outcome", "silent_seconds", "tool_calls", "tool_failures",
    "open_calls", "questions", "tokens", "cost_usd", "last_seq",
)  # fmt: skip  # one row
"""What is told of a run as `runs` tells it."""


@dataclass(frozen=True, slots=True)
class View:
    """The fleet at a moment."""

    now: str
    last: int
    """The last record that it knows of."""
    counts: dict[str, int]
    """Runs by status, the neediest first."""
    runs: list[dict[str, Any]]
    agents: list[dict[str, Any]]
    notes: list[str] = field(default_factory=list)
    """What is to be said about the index, which is mostly nothing."""


def fleet(
    states: Iterable[runs_fold.State],
    agents: Iterable[agents_fold.State],
    now: str,
    *,
    rates: Mapping[str, float],
    last: int = 0,
    notes: Iterable[str] = (),
    lost_after: float = runs_fold.LOST_AFTER,
) -> View:
    """The runs and the agents as rows, by need, then the latest heard first."""
    rows = {f"{state.family}:{state.run}": _run(state, now, rates, lost_after) for state in states}
    counts = Counter(row["status"] for row in rows.values())
    return View(
        now,
        last,
        {status: counts[status] for status in runs_fold.STATUSES},
        sorted(rows.values(), key=_by_need),
        sorted((_agent(state, rows, now) for state in agents), key=_by_need),
        list(notes),
    )


def _run(
    state: runs_fold.State, now: str, rates: Mapping[str, float], lost_after: float
) -> dict[str, Any]:
    row = runs_fold.row(state, now, lost_after)
    key = f"{state.family}:{state.run}"
    began, until = runs_fold.began_ms(state), moment(now)
    if began is None:
        began = moment(state.first_at)
    if row["status"] not in ("waiting", "working"):
        until = moment(state.alive)  # it is not getting older
    aged = None if began is None or until is None else max(0, until - began) / 1000
    phases = {name: phase or None for name, phase in sorted(state.agents.items())}
    return {
        **{name: row[name] for name in TOLD},
        "seconds": row["seconds"] if row["seconds"] is not None else aged,
        "agents": phases,
        "calls_per_minute": rates.get(key, 0.0),
        "computed_usd": None,
        "question": None,
        "words": "",
    }


def _agent(
    state: agents_fold.State, rows: Mapping[str, Mapping[str, Any]], now: str
) -> dict[str, Any]:
    """An agent in one run; one that still works in a run that is over or lost is so, too."""
    run = rows.get(f"{state.family}:{state.run}", {})
    over = run.get("status") in ("lost", "failed", "done")
    phase = state.phase or run.get("status") or "working"
    if over and phase in ("working", "waiting"):
        phase = str(run["status"])
    return {
        "family": state.family,
        "run": state.run,
        "agent": state.agent,
        "status": phase,
        "says": state.status,
        "reason": state.reason,
        "task": state.task,
        "outcome": state.outcome,
        "model": state.model,
        "silent_seconds": silence(state.alive, now) if state.alive else None,
        "last_seq": state.last_seq,
    }


def _by_need(row: Mapping[str, Any]) -> tuple[int, int]:
    return (runs_fold.RANK.get(row["status"], len(runs_fold.RANK)), -row["last_seq"])


class Watch:
    """A fleet that is looked at again and again: what did not change is not read again."""

    def __init__(self, home: Home, lost_after: float = runs_fold.LOST_AFTER) -> None:
        self.home = home
        self._lost_after = lost_after
        self._prices = prices.load(home.path)
        self._runs: dict[str, runs_fold.State] = {}
        self._agents: dict[str, dict[str, agents_fold.State]] = {}
        self._words: dict[str, tuple[int, str]] = {}
        self._calls: dict[str, deque[tuple[int, int]]] = {}
        """When a run called tools, and how many it called then."""
        self._notes: list[str] = []
        self._seen = 0

    @property
    def seen(self) -> int:
        """The last record that the next look knows already."""
        return self._seen

    def look(self, now: str) -> View:
        """Catches up with the journal, and tells how the fleet is."""
        with gc_paused():
            return self._look(now)

    def _look(self, now: str) -> View:
        index = self.home.index
        if self.home.journal.last > self._seen or not self._seen:
            found = index.catch_up()
            self._notes = [each.message for each in found]
            if any(each.name == "index-rebuilt" for each in found):
                self._seen = 0
            self._refresh(now)
            self._seen = index.index.cursor
        view = fleet(
            self._runs.values(),
            (state for each in self._agents.values() for state in each.values()),
            now,
            rates=self._rates(now),
            last=self._seen,
            notes=self._notes,
            lost_after=self._lost_after,
        )
        count_once(index, view.runs[:SHOWN], self._prices)
        for row in view.runs[:SHOWN]:
            row["words"] = self._last_words(row)
            if row["status"] == "waiting":
                row["question"] = self._question((row["family"], row["run"]), now)
        return view

    def _refresh(self, now: str) -> None:
        """Reads what changed since the last look; all of it at first."""
        if self._seen and self._runs:
            for key, state in self._changed():
                self._agents[key] = dict(self.home.index.states("agents", _rows(state)))
                self._count(key, state)
                self._runs[key] = state
            return
        self._runs = dict(self.home.index.states("runs"))
        self._agents = {"": dict(self.home.index.states("agents"))}
        for key, state in self._runs.items():
            self._agents[key] = {}
            if state.alive and silence(state.alive, now) <= WINDOW:
                self._begin_count(key, state)
        for name, agent in self._agents.pop("").items():
            self._agents.setdefault(f"{agent.family}:{agent.run}", {})[name] = agent

    def _changed(self) -> list[tuple[str, runs_fold.State]]:
        limit = PAGE
        while True:
            newest: list[tuple[str, runs_fold.State]] = self.home.index.newest("runs", limit)
            if len(newest) < limit or newest[-1][1].last_seq <= self._seen:
                return [pair for pair in newest if pair[1].last_seq > self._seen]
            limit *= 4

    def _begin_count(self, key: str, state: runs_fold.State) -> None:
        for _, call in self.home.index.states("calls", _rows(state)):
            if call.called_ms is not None and call.copied is not True:
                self._calls.setdefault(key, deque(maxlen=MOST_CALLS)).append((call.called_ms, 1))

    def _count(self, key: str, state: runs_fold.State) -> None:
        before = self._runs[key].tool_calls if key in self._runs else 0
        if state.tool_calls > before:
            calls = self._calls.setdefault(key, deque(maxlen=MOST_CALLS))
            at = moment(state.last_at) or moment(state.last_received) or 0
            calls.append((at, state.tool_calls - before))

    def _rates(self, now: str) -> dict[str, float]:
        asked = moment(now) or 0
        found = {}
        for key, calls in list(self._calls.items()):
            n = sum(many for ms, many in calls if abs(asked - ms) <= WINDOW * 1000)
            found[key] = n * 60 / WINDOW
            if not n:
                del self._calls[key]
        return found

    def _last_words(self, row: Mapping[str, Any]) -> str:
        run: Run = (row["family"], row["run"])
        key, seq = ":".join(run), row["last_seq"]
        known, said = self._words.get(key, (0, ""))
        if known != seq:
            near = self.home.journal.read(max(0, seq - NEAR), NEAR, run)
            again = self.home.index.silent([record.seq for record in near])
            heard = (
                words([fact for fact in facts_in(record, self.home.dialects) if _speaks(fact)])
                for record in reversed(near)
                if record.seq not in again
            )
            said = next(filter(None, heard), said)
            self._words[key] = (seq, said)
        return said

    def _question(self, run: Run, now: str) -> str | None:
        """The question that has waited longest."""
        states = (state for _, state in self.home.index.states("inbox", rows_of(*run)))
        open_ = [row for row in inbox_fold.answer(states, now) if row["state"] == "open"]
        return next((row["text"] or row["question_id"] for row in open_), None)


def _speaks(fact: Fact) -> bool:
    return not isinstance(fact, QUIET) and fact.copied is not True


def _rows(state: runs_fold.State) -> str:
    return rows_of(state.family, state.run)
