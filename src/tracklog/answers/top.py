"""The fleet now: every run and every agent, those that need a person first."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

from tracklog.answers import LOST, LOST_AFTER, Question, limit, newest, now_of
from tracklog.answers.phrases import summary
from tracklog.answers.run_list import RunList, RunRow, StatusCounts, row_of
from tracklog.answers.run_marks import MarkList
from tracklog.folds import agents as agents_fold
from tracklog.folds import epoch_ms, rows_of, run_of, silence
from tracklog.folds import inbox as inbox_fold
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
NEWEST = 1000
"""The runs that are looked at unless asked otherwise: those that were recorded last."""
SHOWN = 200
"""The runs that are shown unless asked otherwise, with their agents."""
NEAR = 32
"""Records back from a run's last in which its last words are looked for."""
QUIET = (Linked, Noted, Spent)
"""Facts without words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopRunRow(RunRow):
    """One run, and what it does now."""

    calls_per_minute: float = 0.0
    """Tool calls, over the last five minutes."""
    question: str | None = None
    """Of a run that waits, the question that has waited longest."""
    words: str = ""
    """Its last message or act."""


@dataclass(frozen=True, slots=True)
class TopAgentRow:
    """One agent in one run."""

    family: str
    run: str
    agent: str
    status: str
    """Working, waiting, failed, lost or done."""
    says: str | None
    """Its status in its own words."""
    reason: str | None
    task: str | None
    outcome: str | None
    model: str | None
    silent_seconds: float | None
    last_seq: int


@dataclass(frozen=True, slots=True)
class TopAnswer:
    """The fleet at one time."""

    now: str
    last: int
    """The last record that it knows of."""
    counts: StatusCounts
    """Of all runs that were looked at."""
    runs: list[TopRunRow]
    agents: list[TopAgentRow]
    """Those of these runs."""
    more: int
    """Runs that were looked at and are not listed."""
    older: bool
    """The limit was reached: there may be more runs, which were recorded earlier."""
    notes: list[str] = field(default_factory=list)
    """Messages about the index, mostly none."""


def top(
    home: Home,
    limit: int | None = SHOWN,
    newest: int = NEWEST,
    lost_after: float = LOST_AFTER,
    *,
    now: str | None = None,
) -> TopAnswer:
    """The fleet now; what did not change since the last question is not read again."""
    return home.cache(Fleet).look(now, lost_after, limit, newest)


class Fleet:
    """The fleet of a home that is looked at again and again: only what changed is read."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._list = RunList(home)  # its own: the one that lists share holds more runs
        self._runs: dict[str, runs_fold.State] = {}
        self._agents: dict[str, tuple[int, dict[str, agents_fold.State]]] = {}
        """By run, its last record when they were read, and its agents."""
        self._words: dict[Run, tuple[int, str]] = {}
        self._calls: dict[str, deque[tuple[int, int]]] = {}
        """When a run called tools, and how many it called then."""
        self._notes: list[str] = []
        self._lock = Lock()
        self.seen = -1
        """The last record that the next look knows already."""

    def look(
        self,
        now: str | None = None,
        lost_after: float = LOST_AFTER,
        limit: int | None = SHOWN,
        newest: int = NEWEST,
    ) -> TopAnswer:
        """Catch up with the journal, and return the state of the fleet: of so many runs that were
        recorded last, the first ones with their agents.
        """
        with self._lock, gc_paused():
            return self._look(now_of(self.home, now), lost_after, limit, newest)

    def _look(self, now: str, lost_after: float, limit: int | None, newest: int) -> TopAnswer:
        index = self.home.index
        if self.home.journal.last > self.seen:
            self._notes = [each.message for each in index.catch_up()]
            self.seen = index.index.cursor
        self._refresh(self._list.states(newest), now)
        selection = self._list.select(sort="need", newest=newest, lost_after=lost_after, now=now)
        shown = selection.states[:limit]
        rows = self._rows(shown, now, lost_after)
        agents = [
            agent_row(state, row.status, now)
            for row in rows
            for state in self._agents_of(row).values()
        ]
        return TopAnswer(
            now=now,
            last=self.seen,
            counts=selection.counts,
            runs=rows,
            agents=sorted(agents, key=_by_need),
            more=selection.all - len(rows),
            older=selection.all >= newest,
            notes=list(self._notes),
        )

    def _agents_of(self, row: TopRunRow) -> dict[str, agents_fold.State]:
        known, agents = self._agents.get(row.key, (0, {}))
        if known != row.last_seq:
            agents = dict(self.home.index.states("agents", rows_of(row.family, row.run)))
            self._agents[row.key] = (row.last_seq, agents)
        return agents

    def _rows(
        self, states: Sequence[runs_fold.State], now: str, lost_after: float
    ) -> list[TopRunRow]:
        counted = self._list.counted(states)
        rates, marks = self._rates(now), self.home.cache(MarkList).by_run()
        rows = [
            row_of(
                TopRunRow,
                state,
                now,
                lost_after,
                each,
                marks.get((state.family, state.run), ()),
                calls_per_minute=rates.get(f"{state.family}:{state.run}", 0.0),
            )
            for state, each in zip(states, counted, strict=True)
        ]
        return [self._live(row, now) for row in rows]

    def _live(self, row: TopRunRow, now: str) -> TopRunRow:
        """The row with what the run said last, and of one that waits, the question."""
        run = (row.family, row.run)
        question = self._question(run, now) if row.status == "waiting" else None
        return replace(row, words=self._last_words(run, row.last_seq), question=question)

    def _refresh(self, states: Iterable[runs_fold.State], now: str) -> None:
        """Count the calls of the runs that changed since the last look; of all of them at first."""
        every = {f"{state.family}:{state.run}": state for state in states}
        is_first = not self._runs
        for key, state in every.items():
            before = self._runs.get(key)
            if is_first:
                if state.alive and silence(state.alive, now) <= WINDOW:
                    self._begin_count(key, state)
            elif before is None or before.last_seq != state.last_seq:
                self._count(key, before, state)
        for key in self._agents.keys() - every.keys():
            del self._agents[key]
        for run in self._words.keys() - {run_of(key) for key in every}:
            del self._words[run]
        self._runs = every

    def _begin_count(self, key: str, state: runs_fold.State) -> None:
        for _, call in self.home.index.states("calls", rows_of(state.family, state.run)):
            if call.called_ms is not None and call.copied is not True:
                self._calls.setdefault(key, deque(maxlen=MOST_CALLS)).append((call.called_ms, 1))

    def _count(self, key: str, before: runs_fold.State | None, state: runs_fold.State) -> None:
        known = before.tool_calls if before else 0
        if state.tool_calls > known:
            calls = self._calls.setdefault(key, deque(maxlen=MOST_CALLS))
            at = epoch_ms(state.last_at) or epoch_ms(state.last_received) or 0
            calls.append((at, state.tool_calls - known))

    def _rates(self, now: str) -> dict[str, float]:
        """By run, tool calls per minute."""
        asked = epoch_ms(now) or 0
        rates = {}
        for key, calls in list(self._calls.items()):
            n = sum(many for ms, many in calls if abs(asked - ms) <= WINDOW * 1000)
            rates[key] = n * 60 / WINDOW
            if not n:
                del self._calls[key]
        return rates

    def _last_words(self, run: Run, last_seq: int) -> str:
        known, text = self._words.get(run, (0, ""))
        if known != last_seq:
            # The last record mostly has words; else one of those just before it.
            text = self._words_in(run, last_seq, 1) or self._words_in(run, last_seq, NEAR) or text
            self._words[run] = (last_seq, text)
        return text

    def _words_in(self, run: Run, last_seq: int, count: int) -> str:
        """The last words of a run in so many records before its last, and in that one."""
        journal = self.home.journal_of(run)
        records = journal.read(max(0, last_seq - count * journal.step), count)
        near = [each for each in records if (each.family, each.run) == run and each.seq <= last_seq]
        superseded = self.home.index.silent([record.seq for record in near])
        texts = (
            summary([fact for fact in facts_in(record, self.home.dialects) if _has_words(fact)])
            for record in reversed(near)
            if record.seq not in superseded
        )
        return next(filter(None, texts), "")

    def _question(self, run: Run, now: str) -> str | None:
        """The question that has waited longest."""
        states = (state for _, state in self.home.index.states("inbox", rows_of(*run)))
        waiting = [row for row in inbox_fold.answer(states, now) if row["state"] == "open"]
        return next((row["text"] or row["question_id"] for row in waiting), None)


def agent_row(state: agents_fold.State, run_status: str | None, now: str) -> TopAgentRow:
    """An agent in one run; one that still works in a run that is over or lost is so, too."""
    status = state.phase or run_status or "working"
    if run_status in ("lost", "failed", "done") and status in ("working", "waiting"):
        status = run_status
    return TopAgentRow(
        family=state.family,
        run=state.run,
        agent=state.agent,
        status=status,
        says=state.status,
        reason=state.reason,
        task=state.task,
        outcome=state.outcome,
        model=state.model,
        silent_seconds=silence(state.alive, now) if state.alive else None,
        last_seq=state.last_seq,
    )


def _by_need(row: TopAgentRow) -> tuple[int, int]:
    return (runs_fold.RANK.get(row.status, len(runs_fold.RANK)), -row.last_seq)


def _has_words(fact: Fact) -> bool:
    return not isinstance(fact, QUIET) and fact.copied is not True


question = Question(
    name="top",
    about="Show runs and agents as they are now: who waits and for what, who failed, who is lost.",
    ask=top,
    params=(limit(SHOWN), newest(NEWEST), LOST),
    examples=(
        "top",
        "top --once          (one frame, then it ends; so does a pipe)",
        """top --json | jq '.runs[] | select(.status == "waiting")'""",
    ),
)
