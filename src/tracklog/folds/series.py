"""What happened when: calls, turns, waits, verdicts and spends, minute by minute.

A state belongs to a run, because which of two reports is a copy is known in the run only: a cell is
corrected when it turns out that two reports were one. The index adds the runs' cells up, so that a
question about a time reads the cells of that time, however many runs there are.
"""

import operator
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tracklog.folds import (
    MARK,
    MINUTE,
    Fold,
    Position,
    add,
    audit_result,
    epoch_ms,
    integer,
    is_read,
    model_name,
    name_text,
    run_key,
    short,
    text_of,
    when,
)
from tracklog.folds._calls import Call, join_call
from tracklog.folds._cells import Cells, cell_key
from tracklog.folds._durations import bucket
from tracklog.folds._spends import amounts, greater, is_late, spend_name
from tracklog.model.fact import (
    Answered,
    Asked,
    Began,
    Called,
    Decided,
    Fact,
    Returned,
    Said,
    Spent,
)

CALLS = ("calls", "failures", "open")
"""The amounts of a cell of the kind `calls`, whose part says how long these calls took: see `lasted`.
Cells of the kinds `turns`, `waits` and `audits` have one, the number of them; their parts are classes
of durations, or results."""
SPENDS = (
    "spends", "calls", "input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens",
    "reasoning_tokens", "total_tokens", "cost", "fresh", "fresh_and_written", "longer", "lower",
    "upper", "tool_tokens",
)  # fmt: skip  # one row
"""The amounts of a cell of the kind `spends`, whose tool is the provider: `fresh` is input that no cache had, `longer` what is
written to a cache for an hour; `lower` and `upper` count the spends that are only a bound."""
RESULTS = ("pass", "fail", "warn")
TIERS = (0, 32_000, 64_000, 100_000, 128_000, 200_000, 256_000, 272_000, 512_000, 1_000_000)
"""The tiers of a price: spends with more input than each of these tokens are added up apart, because
a price may depend on it."""
NEXT = "\n"
"""Stands between the models whose costs a run does not report: the tool of its cell `unreported`."""
KNOWN = (
    "input_tokens", "output_tokens", "cost", "cached_tokens", "cache_write_tokens",
    "reasoning_tokens", "tool_tokens", "total_tokens",
)  # fmt: skip  # one row
"""The part of a spend has a bit for each of these that is known,"""
INPUT, OUTPUT, COST = 1, 2, 4
READ, LATE = 1 << len(KNOWN), 2 << len(KNOWN)
"""one for a cache that was read, and one for a spend that was recorded long after it was made,"""
TIER = len(KNOWN) + 2
"""and above these bits the number of its tier."""
SPENDERS: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2))
"""A run has a cell of the kind `spenders` for each agent, model and provider that it spent under,
at the first time. Its part has a bit for each of these choices of the three names: whether the
run spent nothing before under the chosen ones, so that runs can be counted by any of them."""


@dataclass(slots=True)
class State:
    family: str = ""
    run: str = ""
    project: str | None = None
    branch: str | None = None
    dialect: str = ""
    model: str | None = None
    calls: dict[str, Any] = field(default_factory=dict)
    inputs: dict[str, int] = field(default_factory=dict)
    """By agent, when it was last given something that it has not answered."""
    turns_by: str | None = None
    """The writer whose messages are the turns: another one may report the same."""
    asked: dict[str, list[Any]] = field(default_factory=dict)
    """The open questions: when, and who asks."""
    spent: dict[str, list[Any]] = field(default_factory=dict)
    """The spends that may be reported again, or that others of their group may replace."""
    last_spent: str = ""
    """The last spend that has neither key nor group: only its own record can repeat it."""
    writers: dict[str, list[int]] = field(default_factory=dict)
    """By writer, what the spends without a group come to."""
    spenders: dict[str, list[int]] = field(default_factory=dict)
    """By agent, model and provider, how many spends without a group there are, and the first
    minute."""
    unreported: dict[str, int] = field(default_factory=dict)
    """By model, how many spends have no reported cost."""
    spent_ms: int | None = None
    """When it spent something first."""
    cells: dict[str, list[int]] = field(default_factory=dict)


def key(position: Position, fact: Fact) -> str | None:
    if fact.copied is True:
        return None
    match fact:
        case Began() if not (fact.cwd or fact.git or fact.model):
            return None
        case Said() if fact.role not in ("user", "assistant"):
            return None
    return run_key(position)


def step(state: State, position: Position, fact: Fact) -> State:
    if not state.dialect:
        state.family, state.run, state.dialect = position.family, position.run, position.dialect
    elif position.dialect < state.dialect:
        state.dialect = position.dialect
    match fact:
        case Called() | Returned():
            _call(state, position, fact)
        case Spent():
            _spend(state, position, fact)
        case Said():
            _say(state, position, fact)
        case Began() if fact.what != "step":
            state.model = model_name(fact.model) or state.model
            state.project = short(fact.cwd) or state.project
            git = fact.git if isinstance(fact.git, Mapping) else {}
            state.branch = short(git.get("branch")) or state.branch
        case Asked():
            _ask(state, position, fact)
        case Answered():
            _answer(state, position, fact)
        case Decided() if fact.name is not None and (verdict := audit_result(fact)) is not None:
            part = RESULTS.index(verdict)
            _count(state, "audits", position, name_text(fact.agent), part, text_of(fact.name))
    return state


def _add(state: State, key: str, amounts: list[int]) -> None:
    known = state.cells.get(key)
    if known is None:
        state.cells[key] = amounts
    else:
        after = [*map(operator.add, known, amounts)]
        if after[0]:
            state.cells[key] = after
        else:
            del state.cells[key]


def _count(
    state: State, kind: str, position: Position, agent: str | None, part: int, tool: str = ""
) -> None:
    _add(state, cell_key(kind, when(position), agent, state.model, tool, part), [1])


def _call(state: State, position: Position, fact: Called | Returned) -> None:
    def count(call: Call, one: int) -> None:
        if call.counts:
            part = 0 if call.micros is None else 1 + bucket(call.micros)
            key = cell_key("calls", call.at, call.agent, call.model, call.tool, part)
            _add(state, key, [one, one * (call.ok is False), one * call.open])

    join_call(state.calls, position, fact, count, places=True, model=state.model)
    if isinstance(fact, Returned):
        _give(state, position, fact)


def lasted(part: int) -> int | None:
    """The log bucket of the duration of the calls in a cell; None where that is not known."""
    return part - 1 if part else None


def _say(state: State, position: Position, fact: Said) -> None:
    """A turn lasts from the last message or result that an agent got to what it says next."""
    if fact.role == "assistant":
        state.model = model_name(fact.model) or state.model
        agent = name_text(fact.agent)
        given = state.inputs.pop(agent or "", None)
        if given is None:
            given = state.inputs.pop("", None)
        if given is None or position.withdrawn or not _is_timed(state, position, fact):
            return
        took = when(position) - given
        if took >= 0:
            state.turns_by = position.writer
            _count(state, "turns", position, agent, bucket(took * 1000))
    elif fact.role == "user":
        _give(state, position, fact)


def _give(state: State, position: Position, fact: Said | Returned) -> None:
    if _is_timed(state, position, fact):
        taker = fact.agent if isinstance(fact, Returned) else fact.to
        state.inputs[name_text(taker) or ""] = when(position)


def _is_timed(state: State, position: Position, fact: Fact) -> bool:
    """Whether its time is known, and its writer is the one whose messages are the turns."""
    if epoch_ms(position.at) is None and is_read(position, fact):
        return False
    return state.turns_by is None or state.turns_by == position.writer


def _ask(state: State, position: Position, fact: Asked) -> None:
    id = text_of(fact.question_id)
    if id not in state.asked:
        state.asked[id] = [when(position), name_text(fact.agent)]
        _count(state, "questions", position, name_text(fact.agent), 0)


def _answer(state: State, position: Position, fact: Answered) -> None:
    """An agent that reports only that it was answered closes its own open questions."""
    id = text_of(fact.question_id)
    closed = [id] if id in state.asked else [q for q, (_, who) in state.asked.items() if who == id]
    for each in closed:
        asked, agent = state.asked.pop(each)
        took = max(0, when(position) - asked)
        _count(state, "waits", position, agent, bucket(took * 1000))


SPEND = (
    "at_ms", "agent", "model", "bound", "calls", "amounts", "group", "whole", "writer", "provider",
    "late",
)  # fmt: skip  # one row
"""The fields of a spend."""
(
    _AT, _AGENT, _MODEL, _BOUND, _CALLS, _AMOUNTS, _GROUP, _REPLACES, _WRITER, _PROVIDER, _LATE,
) = range(len(SPEND))  # fmt: skip  # one row


def _spend(state: State, position: Position, fact: Spent) -> None:
    state.model = model_name(fact.model) or state.model
    name, known = spend_name(position, fact), amounts(fact)
    before = state.spent.get(name)
    if before is not None and not greater(known, before[_AMOUNTS]):
        return
    agent, model, provider = name_text(fact.agent), name_text(fact.model), name_text(fact.provider)
    at, writer = when(position), position.writer
    late = is_late(position, at)
    if before is not None:
        at, agent, model = before[_AT], agent or before[_AGENT], model or before[_MODEL]
        writer, provider, late = before[_WRITER], provider or before[_PROVIDER], before[_LATE]
        if before[_GROUP] is None:
            _add_spend(state, before, -1)
    else:
        state.spent_ms = at if state.spent_ms is None else min(at, state.spent_ms)
    _note_model(state, before, -1)
    bound, group = name_text(fact.bound), name_text(fact.group)
    calls, replaces = integer(fact.calls), fact.whole is True
    spend = [at, agent, model, bound, calls, known, group, replaces, writer, provider, late]
    if fact.key is None and group is None and name != state.last_spent:
        state.spent.pop(state.last_spent, None)
        state.last_spent = name
    state.spent[name] = spend
    _note_model(state, spend, 1)
    if group is None:
        _add_spend(state, spend, 1)


def _add_spend(state: State, spend: list[Any], one: int) -> None:
    _add(state, _spend_key(spend), [one * amount for amount in _spend_amounts(spend)])
    totals = state.writers.get(spend[_WRITER], [0, 0, 0])
    state.writers[spend[_WRITER]] = [
        total + one * amount for total, amount in zip(totals, _compared(spend), strict=True)
    ]
    names, minute = MARK.join(spender_names(spend)), spend[_AT] // MINUTE
    count, first = state.spenders.get(names, (0, minute))
    if count + one:
        state.spenders[names] = [count + one, min(first, minute)]
    else:
        del state.spenders[names]


def spender_names(spend: Sequence[Any]) -> tuple[str, str, str]:
    """The agent, the model and the provider of a spend."""
    agent, model, provider = (
        (spend[name] or "").replace(MARK, " ") for name in (_AGENT, _MODEL, _PROVIDER)
    )
    return agent, model, provider


def spender_cells(firsts: Mapping[tuple[str, ...], int]) -> dict[str, list[int]]:
    """What a run adds to the number of runs that spent, by the first minute under each names."""
    counts: dict[str, list[int]] = {}
    seen: set[tuple[int, tuple[str, ...]]] = set()
    for names, minute in sorted(firsts.items(), key=lambda each: (each[1], each[0])):
        chosen = {(n, tuple(names[each] for each in of)) for n, of in enumerate(SPENDERS)}
        part = sum(1 << n for n, _ in chosen - seen)
        seen |= chosen
        agent, model, provider = names
        counts[cell_key("spenders", minute * MINUTE, agent, model, provider, part)] = [1]
    return counts


def _note_model(state: State, spend: list[Any] | None, one: int) -> None:
    """Count the spends of a model without a reported cost."""
    if spend is not None and "cost" not in spend[_AMOUNTS]:
        model = (spend[_MODEL] or "").replace(NEXT, " ")
        count = state.unreported.get(model, 0) + one
        if count:
            state.unreported[model] = count
        else:
            del state.unreported[model]


def _compared(spend: list[Any]) -> list[int]:
    known = spend[_AMOUNTS]
    return [known.get(name, 0) for name in ("output_tokens", "total_tokens", "cost")]


def _spend_key(spend: Sequence[Any], tiers: Sequence[int] = TIERS) -> str:
    known = spend[_AMOUNTS]
    flags = READ * bool(known.get("cached_tokens")) | LATE * spend[_LATE]
    for n, name in enumerate(KNOWN):
        if name in known:
            flags |= 1 << n
    part = tier(known.get("input_tokens", 0), tiers) << TIER | flags
    names = (spend[_AGENT], spend[_MODEL], spend[_PROVIDER])
    return cell_key("spends", spend[_AT], *names, part, spend[_WRITER])


def tier(tokens: int, tiers: Sequence[int] = TIERS) -> int:
    """The number of the tier that so much input is in."""
    return bisect_left(tiers, tokens)


def _spend_amounts(spend: Sequence[Any]) -> list[int]:
    known = spend[_AMOUNTS]
    given, read = known.get("input_tokens", 0), known.get("cached_tokens", 0)
    written = known.get("cache_write_tokens", 0)
    return [
        1,
        spend[_CALLS] or 0,
        *(known.get(name, 0) for name in SPENDS[2:9]),
        max(0, given - read - written),
        max(0, given - read),
        min(written, known.get("cache_write_1h_tokens", 0)),
        spend[_BOUND] == "lower",
        spend[_BOUND] == "upper",
        known.get("tool_tokens", 0),
    ]


def spend_cell(spend: Sequence[Any], tiers: Sequence[int] = TIERS) -> tuple[str, list[int]]:
    """The cell of a spend, and what it adds to it; its fields are in the order of `SPEND`."""
    return _spend_key(spend, tiers), _spend_amounts(spend)


def cells(state: State) -> Cells:
    """What a run adds: of a group the spends that are its total, and of several writers the one that
    records more.
    """
    names = (state.project or "", state.branch or "", state.dialect, state.family)
    grouped = [each for each in state.spent.values() if each[_GROUP] is not None]
    counts = dict(state.cells)
    if state.unreported and state.spent_ms is not None:
        models = NEXT.join(sorted(state.unreported))
        counts[cell_key("unreported", state.spent_ms, None, None, models)] = [1]
    if not grouped and len(state.writers) < 2:
        firsts = {tuple(of.split(MARK)): first for of, (_, first) in state.spenders.items()}
        return Cells(names, counts | spender_cells(firsts))
    replaced = {each[_GROUP] for each in grouped if each[_REPLACES]}
    counted = [each for each in grouped if each[_REPLACES] or each[_GROUP] not in replaced]
    totals = {writer: list(known) for writer, known in state.writers.items()}
    for each in counted:
        known = totals.setdefault(each[_WRITER], [0, 0, 0])
        totals[each[_WRITER]] = [
            add(one, other) for one, other in zip(known, _compared(each), strict=True)
        ]
    best = max(sorted(totals), key=totals.__getitem__, default="")
    apart = State(cells={key: each for key, each in counts.items() if _is_by(key, best)})
    for each in counted:
        if each[_WRITER] == best:
            _add(apart, _spend_key(each), _spend_amounts(each))
    return Cells(names, apart.cells | spender_cells(_firsts(apart.cells)))


def _firsts(cells: Mapping[str, list[int]]) -> dict[tuple[str, ...], int]:
    """By agent, model and provider, the first minute in which something was spent."""
    firsts: dict[tuple[str, ...], int] = {}
    for key in cells:
        kind, minute, *rest = key.split(MARK, 6)
        if kind == "spends":
            of = tuple(rest[:3])
            firsts[of] = min(firsts.get(of, int(minute)), int(minute))
    return firsts


def _is_by(key: str, writer: str) -> bool:
    """Whether a cell is none of spends, or of those that a writer reports."""
    return not key.startswith("spends") or key.rpartition(MARK)[2] == writer


fold = Fold(
    name="series",
    about="What happened when: calls, turns, waits, verdicts and spends?",
    State=State,
    facts=(Called, Returned, Spent, Said, Began, Asked, Answered, Decided),
    key=key,
    step=step,
    cells=cells,
)
