"""What is every run doing, how did it end, and what did it take?"""

from collections.abc import Callable, Mapping
from typing import Any

from tracklog.folds import (
    LOST_AFTER,
    NO_SIGN,
    READ,
    UNREPORTED,
    Fold,
    Position,
    epoch_ms,
    is_own_note,
    is_read,
    last_sign,
    name_text,
    number,
    run_key,
    short,
    silence,
    text_in,
    text_of,
    when,
)
from tracklog.folds._calls import Call, join_call
from tracklog.folds._cells import Cells, cell_key
from tracklog.folds._run_state import State as State  # noqa: PLC0414  # the state of this fold
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

BY_NEED = ("waiting", "failed", "working", "done")
STATUSES = ("waiting", "failed", "lost", "working", "done")
"""The most urgent status first."""
RANK = {status: n for n, status in enumerate(STATUSES)}


def step(state: State, position: Position, fact: Fact) -> State:
    if position.withdrawn:
        _taken_back(state, position.seq)
    read = position.read or fact.fidelity in READ
    _note_sign(state, position, fact, read)
    if fact.copied is True:
        _note_history(state, fact)
        return state
    agent = name_text(fact.agent)
    if agent is not None:
        state.agents.setdefault(agent, "")
        if fact.step is not None:
            _count_turn(state.turns.setdefault(agent, [None, 0]), text_of(fact.step))
    # An agent that reports a conversation without its begin reports no end either.
    endless = fact.fidelity == "reported" and not state.begun
    if (read or endless) and _is_latest(state, position):
        _note_turn_end(state, position, fact)
    change = _CHANGES.get(type(fact))
    if change is not None:
        change(state, position, fact)
    return state


def _note_sign(state: State, position: Position, fact: Fact, read: bool) -> None:
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
    at = epoch_ms(position.at)
    if at is None or fact.copied is True:
        return
    if is_sign and position.at != state.last_at:
        first, last = epoch_ms(state.first_at), epoch_ms(state.last_at)
        state.first_at = position.at if first is None or at < first else state.first_at
        state.last_at = position.at if last is None or at >= last else state.last_at
    if not read and (received := epoch_ms(position.received)) is not None:
        state.skew_ms = max(state.skew_ms, abs(at - received))


def _when(state: State, position: Position, fact: Fact) -> int | None:
    """When it happened; of what was read from a file without a time, when the last thing did."""
    if epoch_ms(position.at) is None and is_read(position, fact):
        return epoch_ms(state.last_at)
    return when(position)


def _note_model(state: State, name: str | None) -> None:
    """Note a model's name; what stands in its place where no model spoke is none."""
    model = name_text(name)
    if model and model != state.model and model[0] != "<":
        state.model = model
        if model not in state.models and len(state.models) < 20:  # a state stays small
            state.models.append(model)


def _moved(state: State, position: Position, fact: Moved) -> None:
    state.failed_seq = position.seq if fact.phase == "failed" else state.failed_seq
    _phase(state, fact, text_of(fact.phase))


def _asked(state: State, _: Position, fact: Asked) -> None:
    state.asking[text_of(fact.question_id)] = _subject(fact)


def _answered(state: State, _: Position, fact: Answered) -> None:
    state.asking.pop(text_of(fact.question_id), None)


def _noted(state: State, position: Position, fact: Noted) -> None:
    if fact.label == "title" and fact.kind == "span":
        state.named = titled(fact.text) or state.named
    elif fact.label == "title":
        state.title = titled(fact.text) or state.title
    elif fact.label == "source-gone":
        state.source_gone = position.received


def _message(state: State, _: Position, fact: Said) -> None:
    if fact.role == "assistant":
        _note_model(state, fact.model)
    elif fact.role == "user":
        _asked_for(state, fact)


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


def _count_turn(turn: list[Any], name: str) -> None:
    if turn[0] != name:
        turn[:] = [name, turn[1] + 1]


def _is_latest(state: State, position: Position) -> bool:
    """Whether nothing is known to have happened later: spans of a trace come in any order."""
    at, last = epoch_ms(position.at), epoch_ms(state.last_at)
    return at is None or last is None or at >= last


def _note_turn_end(state: State, position: Position, fact: Fact) -> None:
    """A turn ends with an answer, or with an event of its end; then a person is expected to go on."""
    match fact:
        case Said(role="assistant"):
            blocks = fact.blocks if isinstance(fact.blocks, tuple | list) else ()
            answered = any(
                isinstance(each, Mapping) and (each.get("text") or each.get("withheld") is True)
                for each in blocks
            )
            is_open = state.steps.get(name_text(fact.step) or "") == "working"
            state.if_silent = "done" if answered and not is_open else "lost"
        case Ended(what="step"):
            state.if_silent = "done"
        case Noted(label="error"):
            state.if_silent, state.failed_seq = "failed", position.seq
        case Called() | Returned() | Began(what="step") | Said(role="user", injected=False):
            state.if_silent = "lost"


def _note_history(state: State, fact: Fact) -> None:
    """A run that only copied the history of another did nothing yet, and nothing is expected of it."""
    if state.first_at is None:
        state.if_silent = "done"
    if state.history is None and isinstance(fact, Said) and fact.role == "user":
        state.history = titled(text_in(fact.blocks, typed=True))


def _subject(fact: Fact) -> str:
    """Who a status belongs to: the agent, else the step."""
    agent, of = name_text(fact.agent), name_text(fact.step)
    return f"agent {agent}" if agent is not None else f"step {of}" if of is not None else ""


def _phase(state: State, fact: Fact, phase: str) -> None:
    agent, of = name_text(fact.agent), name_text(fact.step)
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
        state.begun = True
        if not _is_late(state, position, fact):
            # A run that begins again goes on: what it had come to is no longer its end.
            state.ended, state.ended_ms, state.seconds = False, None, None
            state.outcome = state.passed = state.score = None
    elif fact.what == "agent":
        state.ends.pop(name_text(fact.agent) or "", None)
        _phase(state, fact, "working")
    elif fact.step is not None:
        state.steps[text_of(fact.step)] = "working"


def _is_late(state: State, position: Position, fact: Began) -> bool:
    """Whether it reports a begin that happened before the known end: another source may be slower."""
    began = None if epoch_ms(position.at) is None else _when(state, position, fact)
    return began is not None and state.ended_ms is not None and began < state.ended_ms


def _ended(state: State, position: Position, fact: Ended) -> None:
    passed = fact.passed if isinstance(fact.passed, bool) else None
    phase = "failed" if passed is False or fact.error is not None else "done"
    if phase == "failed":
        state.failed_seq = position.seq
    outcome, score = short(fact.outcome), number(fact.score)
    if fact.what == "run":
        state.ended, state.ended_ms = True, _when(state, position, fact)
        state.seconds = number(fact.seconds)
        state.outcome, state.score = outcome, score
        state.passed = False if phase == "failed" else passed
    elif fact.what == "agent":
        state.ends[name_text(fact.agent) or ""] = [
            outcome,
            passed,
            score,
            _when(state, position, fact),
        ]
        _phase(state, fact, phase)
    elif (name := name_text(fact.step)) in state.steps and name is not None:
        state.steps[name] = phase
        _forget(state, f"step {name}")


def _counted(state: State, position: Position, fact: Called | Returned) -> None:
    def count(call: Call, one: int) -> None:
        is_called, is_open = call.called != UNREPORTED, call.open
        if is_called or call.counts:
            state.tool_calls += one
            if is_open:
                state.open_calls += one
            elif call.ok is False:
                state.tool_failures += one
        if not is_called and call.torn:
            state.torn_calls += one

    join_call(state.calls, position, fact, count)


def _spent(state: State, position: Position, fact: Spent) -> None:
    _note_model(state, fact.model)
    name, known = spend_name(position, fact), amounts(fact)
    if fact.key is None and fact.group is None and name != state.last_spent:
        if state.last_spent:
            add_to(state.sums, state.spent.pop(state.last_spent)[2])
        state.last_spent = name
    if name not in state.spent or greater(known, state.spent[name][2]):
        state.spent[name] = [name_text(fact.group), fact.whole is True, known, position.writer]


_CHANGES: Mapping[type[Fact], Callable[[State, Position, Any], None]] = {
    Began: _began,
    Ended: _ended,
    Moved: _moved,
    Called: _counted,
    Returned: _counted,
    Asked: _asked,
    Answered: _answered,
    Spent: _spent,
    Said: _message,
    Noted: _noted,
}


def last_active(state: State) -> tuple[int, int]:
    """The sort key of runs: the last activity, then the number of the last record."""
    return epoch_ms(state.alive) or 0, state.last_seq


def row(state: State, now: str, lost_after: float = LOST_AFTER) -> dict[str, Any]:
    """The row of one run at the time `now`."""
    outcomes: dict[str, int] = {}
    for outcome, *_ in state.ends.values():
        if outcome is not None:
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
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
    that fell silent at the end of a turn is done, and one that broke off with an error has failed.
    Events from a file are as old as their own time, and a run without times is silent.
    """
    return status_in(phase_of(state), state, now, lost_after)


def status_in(phase: str, state: State, now: str, lost_after: float = LOST_AFTER) -> str:
    """The same where the phase of the run is known."""
    if phase != "working":
        return phase
    is_silent = not state.alive or silence(state.alive, now) > lost_after
    return state.if_silent if is_silent else "working"


def phase_of(state: State) -> str:
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
    """The title of a run: its own, else its first task, else the name of its span, else its history."""
    return state.title or state.task or state.named or state.prompt or state.history


def has_spent(state: State) -> bool:
    """Whether it recorded a spend, of a known amount or not."""
    return bool(state.spent)


SEVERAL = "\n"
"""Stands for the agent of a run that has several."""
PHASES = ("done", "failed", "waiting")
SILENT = ("lost", "done", "failed")


def cells(state: State) -> Cells:
    """One run in the minute of its begin; the part is its status. Several agents have a cell each."""
    began = began_ms(state)
    if began is None:
        began = epoch_ms(state.first_at)
    if began is None:
        began = epoch_ms(state.first_received) or 0
    phase = phase_of(state)
    if phase == "working":
        silent = SILENT.index(state.if_silent)
        part = len(PHASES) + len(SILENT) * (epoch_ms(state.alive) or 0) + silent
    else:
        part = PHASES.index(phase)
    agents = list(state.agents)
    alone = SEVERAL if len(agents) > 1 else next(iter(agents), None)
    counts = {cell_key("runs", began, alone, state.model, None, part): [1]}
    for agent in agents if alone is SEVERAL else ():
        counts[cell_key("runs_by_agent", began, agent, state.model, None, part)] = [1]
    dialect = next(iter(state.dialects), "")
    return Cells((state.cwd or "", state.branch or "", dialect, state.family), counts)


def status_of(part: int, now_ms: int, lost_after: float = LOST_AFTER) -> str:
    """The status that the part of such a cell means at a time."""
    if part < len(PHASES):
        return PHASES[part]
    alive, silent = divmod(part - len(PHASES), len(SILENT))
    return SILENT[silent] if now_ms - alive > lost_after * 1000 else "working"


def began_ms(state: State) -> int | None:
    """Its begin: as reported, else the earliest time of a run whose begin was recorded."""
    if state.began_ms is not None or not state.begun:
        return state.began_ms
    return epoch_ms(state.first_at)


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
    key=lambda position, fact: None if is_own_note(position, fact) else run_key(position),
    step=step,
    listed=True,
    rewound=True,
    cells=cells,
)
