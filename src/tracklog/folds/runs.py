"""What is every run doing, how did it end, and what did it take?"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from tracklog.folds import (
    NO_SIGN,
    Fold,
    Position,
    is_read,
    last_sign,
    moment,
    number,
    run_key,
    short,
    silence,
    text_in,
    text_of,
    when,
    word,
)
from tracklog.folds._calls import join_call
from tracklog.folds._cells import Cells, cell_key
from tracklog.folds._spends import DOLLAR, add_to, amounts, greater, spend_name, sum_of
from tracklog.folds._titles import titled
from tracklog.model.fact import (
    FACTS,
    Answered,
    Asked,
    Began,
    Called,
    Ended,
    Fact,
    Moved,
    Noted,
    Returned,
    Said,
    Spent,
)

LOST_AFTER = 900.0  # seconds of silence after which a working run counts as lost, by default

BY_NEED = ("waiting", "failed", "working", "done")
STATUSES = ("waiting", "failed", "lost", "working", "done")
"""The most urgent status first."""
RANK = {status: n for n, status in enumerate(STATUSES)}


@dataclass(slots=True)
class State:
    family: str = ""
    run: str = ""
    dialects: list[str] = field(default_factory=list)
    title: str | None = None
    task: str | None = None
    prompt: str | None = None
    """Its first task from another agent or program, where no person gave one."""
    model: str | None = None
    """The model that spoke last, else the one it began with."""
    models: list[str] = field(default_factory=list)  # in the order of their first words
    cwd: str | None = None
    branch: str | None = None
    first_seq: int = 0
    last_seq: int = 0
    first_received: str = ""
    last_received: str = ""
    alive: str = ""
    """Its last activity: the time of receipt of a live event, or the time in a file that was read.
    Empty as long as that is not known: a file without a clock may be of any age."""
    rests: bool = False
    """It is a conversation read from a file whose last turn came to its end."""
    first_at: str | None = None
    """The earliest and the latest time of its events, by its own clock."""
    last_at: str | None = None
    skew_ms: int = 0
    """The greatest distance between the emitter's clock and ours."""
    begun: bool = False
    """The begin of the run itself was recorded, so its end is expected."""
    began_ms: int | None = None
    ended: bool = False
    ended_ms: int | None = None
    seconds: float | None = None
    """Its duration, as its end reports it."""
    outcome: str | None = None
    passed: bool | None = None
    score: float | None = None
    agents: dict[str, str] = field(default_factory=dict)
    """Each agent's phase; empty where only acts of it were recorded."""
    ends: dict[str, list[Any]] = field(default_factory=dict)
    """Each agent's end: outcome, passed, score, when."""
    steps: dict[str, str] = field(default_factory=dict)
    turns: dict[str, list[Any]] = field(default_factory=dict)
    """Each agent's last step and how many it had, where steps do not begin and end."""
    asking: dict[str, str] = field(default_factory=dict)
    """Open questions, and who asks."""
    calls: dict[str, Any] = field(default_factory=dict)
    tool_calls: int = 0
    tool_failures: int = 0
    open_calls: int = 0
    """Calls that did not return: they dangle when the run is over."""
    torn_calls: int = 0
    """Calls of which only the return was recorded."""
    spent: dict[str, list[Any]] = field(default_factory=dict)
    """Each spend's group, whether it is the total of the group, its amounts, and its writer."""
    last_spent: str = ""
    """The last spend that has neither key nor group: only its own record can repeat it."""
    sums: dict[str, int] = field(default_factory=dict)
    """The sum of all such spends before it."""
    withdrawn: list[list[int]] = field(default_factory=list)
    """The withdrawn parts: the first and the last record of each."""
    source_gone: str | None = None
    """The time at which the file it was read from was found to be missing."""


def step(state: State, position: Position, fact: Fact) -> State:
    if position.withdrawn:
        _taken_back(state, position.seq)
    read = is_read(position, fact)
    _note_sign(state, position, fact, read=read)
    if fact.copied is True:
        return state
    agent = word(fact.agent)
    if agent is not None:
        state.agents.setdefault(agent, "")
        if fact.step is not None:
            _turned(state.turns.setdefault(agent, [None, 0]), text_of(fact.step))
    # An agent that reports a conversation without its begin reports no end either.
    endless = fact.fidelity == "reported" and not state.begun
    if (read or endless) and _is_latest(state, position):
        _rested(state, fact)
    match fact:
        case Began():
            _began(state, position, fact)
        case Ended():
            _ended(state, position, fact)
        case Moved():
            _phase(state, fact, text_of(fact.phase))
        case Called() | Returned():
            _counted(state, position, fact)
        case Asked():
            state.asking[text_of(fact.question_id)] = _subject(fact)
        case Answered():
            state.asking.pop(text_of(fact.question_id), None)
        case Spent():
            _spent(state, position, fact)
            _note_model(state, fact.model)
        case Said(role="user"):
            _asked_for(state, fact)
        case Said(role="assistant"):
            _note_model(state, fact.model)
        case Noted(label="title"):
            state.title = titled(fact.text) or state.title
        case Noted(label="source-gone"):
            state.source_gone = position.received
    return state


def _note_sign(state: State, position: Position, fact: Fact, *, read: bool) -> None:
    if not state.first_seq:
        state.family, state.run = position.family, position.run
        state.first_seq, state.first_received = position.seq, position.received
    state.last_seq, state.last_received = position.seq, position.received
    state.source_gone = None
    if position.dialect not in state.dialects:
        state.dialects = sorted([*state.dialects, position.dialect])
    is_sign = not (isinstance(fact, Noted) and fact.label in NO_SIGN)
    if is_sign:
        state.alive = last_sign(state.alive, position, fact) if read else position.received
    at = moment(position.at)
    if at is None or fact.copied is True:
        return
    if is_sign and position.at != state.last_at:
        first, last = moment(state.first_at), moment(state.last_at)
        state.first_at = position.at if first is None or at < first else state.first_at
        state.last_at = position.at if last is None or at >= last else state.last_at
    if not read and (received := moment(position.received)) is not None:
        state.skew_ms = max(state.skew_ms, abs(at - received))


def _when(state: State, position: Position, fact: Fact) -> int | None:
    """When it happened; of what was read from a file without a time, when the last thing did."""
    if moment(position.at) is None and is_read(position, fact):
        return moment(state.last_at)
    return when(position)


def _note_model(state: State, name: str | None) -> None:
    """Note a model's name; what stands in its place where no model spoke is none."""
    model = word(name)
    if model and model != state.model and model[0] != "<":
        state.model = model
        if model not in state.models and len(state.models) < 20:  # a state stays small
            state.models.append(model)


def _asked_for(state: State, fact: Said) -> None:
    if fact.injected is not True and state.task is None:
        state.task = titled(text_in(fact.blocks, typed=True))
    elif fact.injected is True and state.prompt is None:
        state.prompt = titled(text_in(fact.blocks))


def _taken_back(state: State, seq: int) -> None:
    if state.withdrawn and state.withdrawn[-1][1] == state.last_seq:
        state.withdrawn[-1][1] = seq
    else:
        state.withdrawn.append([seq, seq])


def _turned(turn: list[Any], name: str) -> None:
    if turn[0] != name:
        turn[:] = [name, turn[1] + 1]


def _is_latest(state: State, position: Position) -> bool:
    """Whether nothing is known to have happened later: spans of a trace come in any order."""
    at, last = moment(position.at), moment(state.last_at)
    return at is None or last is None or at >= last


def _rested(state: State, fact: Fact) -> None:
    """A turn ends with an answer, or with an event of its end; then a person is expected to go on."""
    match fact:
        case Said(role="assistant"):
            blocks = fact.blocks if isinstance(fact.blocks, tuple | list) else ()
            answered = any(
                isinstance(each, Mapping) and (each.get("text") or each.get("withheld") is True)
                for each in blocks
            )
            state.rests = answered and state.steps.get(word(fact.step) or "") != "working"
        case Ended(what="step"):
            state.rests = True
        case Called() | Returned() | Began(what="step") | Said(role="user", injected=False):
            state.rests = False


def _subject(fact: Fact) -> str:
    """Who a status belongs to: the agent, else the step."""
    agent, of = word(fact.agent), word(fact.step)
    return f"agent {agent}" if agent is not None else f"step {of}" if of is not None else ""


def _phase(state: State, fact: Fact, phase: str) -> None:
    agent, of = word(fact.agent), word(fact.step)
    if agent is not None:
        state.agents[agent] = phase
    elif of is not None:
        state.steps[of] = phase
    if phase != "waiting":
        _forget(state, _subject(fact))


def _forget(state: State, subject: str) -> None:
    """An agent that goes on no longer waits for the answers it asked for."""
    if state.asking:
        state.asking = {each: who for each, who in state.asking.items() if who != subject}


def _began(state: State, position: Position, fact: Began) -> None:
    if state.began_ms is None:
        state.began_ms = _when(state, position, fact)
    state.task = state.task or titled(fact.task)
    if fact.what != "step":
        _note_model(state, fact.model)
        state.cwd = short(fact.cwd) or state.cwd
        git = fact.git if isinstance(fact.git, Mapping) else {}
        state.branch = short(git.get("branch")) or state.branch
    if fact.what == "run":
        # A run that begins again goes on: what it had come to is no longer its end.
        state.begun, state.ended, state.ended_ms, state.seconds = True, False, None, None
        state.outcome = state.passed = state.score = None
    elif fact.what == "agent":
        state.ends.pop(word(fact.agent) or "", None)
        _phase(state, fact, "working")
    elif fact.step is not None:
        state.steps[text_of(fact.step)] = "working"


def _ended(state: State, position: Position, fact: Ended) -> None:
    passed = fact.passed if isinstance(fact.passed, bool) else None
    phase = "failed" if passed is False or fact.error is not None else "done"
    outcome, score = short(fact.outcome), number(fact.score)
    if fact.what == "run":
        state.ended, state.ended_ms = True, _when(state, position, fact)
        state.seconds = number(fact.seconds)
        state.outcome, state.score = outcome, score
        state.passed = False if phase == "failed" else passed
    elif fact.what == "agent":
        state.ends[word(fact.agent) or ""] = [outcome, passed, score, _when(state, position, fact)]
        _phase(state, fact, phase)
    elif (name := word(fact.step)) in state.steps and name is not None:
        state.steps[name] = phase
        _forget(state, f"step {name}")


def _counted(state: State, position: Position, fact: Called | Returned) -> None:
    before, after = join_call(state.calls, position, fact)
    for calls, one in ((before, -1), (after, 1)):
        for call in calls:
            if call.counts:
                state.tool_calls += one
                state.tool_failures += one * (call.ok is False)
                state.open_calls += one * call.open
            state.torn_calls += one * call.torn


def _spent(state: State, position: Position, fact: Spent) -> None:
    name, known = spend_name(position, fact), amounts(fact)
    if fact.key is None and fact.group is None and name != state.last_spent:
        if state.last_spent:
            add_to(state.sums, state.spent.pop(state.last_spent)[2])
        state.last_spent = name
    if name not in state.spent or greater(known, state.spent[name][2]):
        state.spent[name] = [word(fact.group), fact.whole is True, known, position.writer]


def answer(
    states: Iterable[State], now: str, lost_after: float = LOST_AFTER
) -> list[dict[str, Any]]:
    """One row per run, the latest active first: by the time of its events, not of their import."""
    rows = [(last_active(state), row(state, now, lost_after)) for state in states]
    return [row for _, row in sorted(rows, key=itemgetter(0), reverse=True)]


def last_active(state: State) -> tuple[int, int]:
    """The sort key of runs: the last activity, then the number of the last record."""
    return moment(state.alive) or 0, state.last_seq


def row(state: State, now: str, lost_after: float = LOST_AFTER) -> dict[str, Any]:
    """The row of one run at the time `now`."""
    outcomes = Counter(end[0] for end in state.ends.values() if end[0] is not None)
    alone = next(iter(state.ends.values())) if len(state.ends) == 1 else [None] * 4
    tokens = sum_of(state.spent.values(), state.sums)
    began, ended = began_ms(state), ended_ms(state)
    took = max(0, ended - began) / 1000 if began is not None and ended is not None else None
    return {
        "family": state.family,
        "run": state.run,
        "dialects": state.dialects,
        "title": title(state),
        "model": state.model,
        "models": state.models,
        "project": state.cwd,
        "branch": state.branch,
        "status": status(state, now, lost_after),
        "outcome": state.outcome if state.ended else alone[0],
        "outcomes": dict(sorted(outcomes.items())),
        "passed": state.passed if state.ended else _passed(state),
        "score": state.score if state.score is not None else alone[2],
        "ended": is_over(state),
        "seconds": took if state.seconds is None else state.seconds,
        "silent_seconds": silence(state.alive, now) if state.alive else None,
        "last_activity": state.alive or None,
        "agents": sorted(state.agents),
        "steps": len(state.steps) or sum(turn[1] for turn in state.turns.values()),
        "tool_calls": state.tool_calls,
        "tool_failures": state.tool_failures,
        "open_calls": state.open_calls,
        "torn_calls": state.torn_calls,
        "questions": len(state.asking),
        "tokens_in": tokens.get("input_tokens"),
        "tokens_out": tokens.get("output_tokens"),
        "tokens_cached": tokens.get("cached_tokens"),
        "tokens": tokens.get("total_tokens"),
        "cost_usd": tokens["cost"] / DOLLAR if "cost" in tokens else None,
        "first_seq": state.first_seq,
        "last_seq": state.last_seq,
        "first_received": state.first_received,
        "last_received": state.last_received,
        "first_at": state.first_at,
        "last_at": state.last_at,
        "skew_ms": state.skew_ms,
        "source_gone": state.source_gone,
    }


def status(state: State, now: str, lost_after: float = LOST_AFTER) -> str:
    """Of waiting, failed, lost, working and done, that of the agent or step that needs a person most.

    A run is lost when it works and was silent for longer than `lost_after` seconds; a conversation
    that fell silent at the end of a turn is done. Events from a file are as old as their own time,
    and a run without times is at rest.
    """
    phase = _phase_of(state)
    if phase != "working":
        return phase
    return _silent(not state.alive or silence(state.alive, now) > lost_after, state.rests)


def _phase_of(state: State) -> str:
    """The status as if something had just been recorded."""
    if state.ended:
        return "failed" if state.passed is False else "done"
    phases = {*state.agents.values(), *state.steps.values()}
    if state.asking:
        phases.add("waiting")
    if state.begun or phases.isdisjoint(BY_NEED):
        phases.add("working")
    return next(filter(phases.__contains__, BY_NEED))


def title(state: State) -> str | None:
    """The title of a run: its own, else its first task."""
    return state.title or state.task or state.prompt


def has_spent(state: State) -> bool:
    """Whether it recorded a spend, of a known amount or not."""
    return bool(state.spent)


SEVERAL = "\n"
"""Stands for the agent of a run that has several."""
PHASES = ("done", "failed", "waiting")


def cells(state: State) -> Cells:
    """One run in the minute of its begin; the part is its status. Several agents have a cell each."""
    began = began_ms(state)
    if began is None:
        began = moment(state.first_at)
    if began is None:
        began = moment(state.first_received) or 0
    phase = _phase_of(state)
    if phase == "working":
        part = len(PHASES) + 2 * (moment(state.alive) or 0) + state.rests
    else:
        part = PHASES.index(phase)
    agents = list(state.agents)
    alone = SEVERAL if len(agents) > 1 else next(iter(agents), None)
    found = {cell_key("runs", began, alone, state.model, None, part): [1]}
    for agent in agents if alone is SEVERAL else ():
        found[cell_key("runs_by_agent", began, agent, state.model, None, part)] = [1]
    dialect = next(iter(state.dialects), "")
    return Cells((state.cwd or "", state.branch or "", dialect, state.family), found)


def status_of(part: int, now_ms: int, lost_after: float = LOST_AFTER) -> str:
    """The status that the part of such a cell means at a time."""
    if part < len(PHASES):
        return PHASES[part]
    alive, rests = divmod(part - len(PHASES), 2)
    return _silent(now_ms - alive > lost_after * 1000, bool(rests))


def _silent(silent: bool, rests: bool) -> str:
    """The status of a run that works, or worked as long as something was recorded."""
    if not silent:
        return "working"
    return "done" if rests else "lost"


def began_ms(state: State) -> int | None:
    """Its begin: as reported, else the earliest time of a run whose begin was recorded."""
    if state.began_ms is not None or not state.begun:
        return state.began_ms
    return moment(state.first_at)


def is_over(state: State) -> bool:
    """Whether it ended: the run itself, or, where only agents begin and end, all of them."""
    return state.ended or _all_ended(state)


def ended_ms(state: State) -> int | None:
    """When it ended; None while it goes on, or where its source has no clock."""
    if not _all_ended(state):
        return state.ended_ms
    ends = [end[3] for end in state.ends.values() if end[3] is not None]
    return max(map(int, ends), default=None)


def _all_ended(state: State) -> bool:
    acting = [name for name, phase in state.agents.items() if phase]
    return not (state.ended or state.begun) and bool(acting) and state.ends.keys() >= set(acting)


def _passed(state: State) -> bool | None:
    verdicts = [end[1] for end in state.ends.values()]
    if False in verdicts:
        return False
    return True if verdicts and all(verdicts) else None


fold = Fold(
    name="runs",
    about="What is every run doing, how did it end, and what did it take?",
    State=State,
    facts=FACTS,
    key=lambda position, _: run_key(position),
    step=step,
    listed=True,
    rewound=True,
    cells=cells,
)
