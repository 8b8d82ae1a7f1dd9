"""The turns of a run, its calls, waits, steps and spends, each with its times, from the index alone.

A turn is what a model said after its last input, and the tool calls that it made then.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tracklog.answers.prices import Prices, load
from tracklog.answers.spends import price_by, spends_of
from tracklog.folds import calls as calls_fold
from tracklog.folds import compactions as compactions_fold
from tracklog.folds import conversation as conversation_fold
from tracklog.folds import costs as costs_fold
from tracklog.folds import epoch_ms, rows_of, run_of
from tracklog.folds import inbox as inbox_fold
from tracklog.folds import runs as runs_fold
from tracklog.folds import steps as steps_fold
from tracklog.folds._spends import DOLLAR
from tracklog.home.home import Home
from tracklog.index.gc_paused import gc_paused

VOICES = ("assistant", "thought", "belief")
"""The roles of a model's messages."""
MOST_HELD = 8
"""Runs whose turns and calls stay in memory."""


class Money(NamedTuple):
    """A cost: what was reported, what was computed from list prices, and whether a part is unknown."""

    cost_usd: float | None = None
    computed_usd: float | None = None
    lower_bound: bool = False


NO_MONEY = Money()


class Timed(NamedTuple):
    """A tool call, a question to a person or a step, with its times in milliseconds since 1970."""

    seq: int
    id: str
    name: str | None
    """The tool, the question or the step."""
    agent: str | None
    begin: int
    end: int | None
    """None while it goes on."""
    end_seq: int | None
    """The record of its end."""
    failed: bool = False


@dataclass(slots=True)
class RunTurn:
    """One turn of a model."""

    seq: int
    agent: str | None
    model: str | None
    begin: int
    """When the model got its input, where that is known."""
    last_words: int
    """When it said its last words; the calls follow."""
    last_seq: int = 0
    """The last record of it."""
    has_words: bool = False
    messages: set[str] = field(default_factory=set)
    calls: list[Timed] = field(default_factory=list)
    spends: list[costs_fold.State] = field(default_factory=list)
    money: Money = NO_MONEY
    total_usd: float | None = None
    """The cost of this turn and of all turns before it, reported or computed."""
    compaction: compactions_fold.CompactionNote | None = None
    """That of the context that it began with."""

    @property
    def end(self) -> int:
        return max([self.last_words, *(call.end or call.begin for call in self.calls)])

    def add_call(self, call: Timed) -> None:
        self.calls.append(call)
        self.last_seq = max(self.last_seq, call.seq, call.end_seq or 0)

    def has_result_before(self, seq: int) -> bool:
        """Whether one of its calls had returned before a record."""
        return any(call.end_seq is not None and call.end_seq < seq for call in self.calls)


@dataclass(slots=True)
class RunTimes:
    """All of it for one run."""

    key: str
    state: runs_fold.State
    at: int | None
    """The record up to which it is shown; None for all of them."""
    turns: list[RunTurn]
    calls: list[Timed]
    waits: list[Timed]
    steps: list[Timed]
    inputs: list[tuple[int, int]]
    """Messages that no model of the run said: when, and their records."""
    spends: list[costs_fold.State]
    """What the run itself spent."""
    price: costs_fold.Price

    @property
    def begin(self) -> int:
        known = [turn.begin for turn in self.turns]
        known += [each.begin for each in self._timed]
        own = epoch_ms(self.state.first_at)
        return min([*known, *([] if own is None else [own])], default=0)

    @property
    def end(self) -> int:
        known = [turn.end for turn in self.turns]
        known += [each.begin if each.end is None else each.end for each in self._timed]
        own = epoch_ms(self.state.last_at) if self.at is None else None
        return max([self.begin, *known, *([] if own is None else [own])])

    @property
    def _timed(self) -> list[Timed]:
        return [*self.calls, *self.waits, *self.steps]

    def money(self, spends: Iterable[costs_fold.State]) -> Money:
        """What some spends cost together."""
        return _money(spends, self.price)


def _money(spends: Iterable[costs_fold.State], price: costs_fold.Price) -> Money:
    reported = computed = 0
    has_reported = has_computed = bounded = False
    for spend in spends:
        if "cost" in spend.amounts:
            reported, has_reported = reported + spend.amounts["cost"], True
            bounded |= spend.bound == "lower"
        elif (listed := price(spend)) is not None:
            computed, has_computed = computed + listed[0], True
            bounded |= not listed[1]
        else:
            bounded = True
    return Money(
        reported / DOLLAR if has_reported else None,
        computed / DOLLAR if computed else None,  # as in the row of the run
        bounded and (has_reported or has_computed),
    )


def times_of(home: Home, key: str, at: int | None = None) -> RunTimes:
    """The turns, calls, waits and steps of a run; with `at`, as they were at that record."""
    return home.cache(_Times).of(key, at)


class _Parts(NamedTuple):
    """What the index has of a run, in the order of its records."""

    messages: list[conversation_fold.State]
    calls: list[Timed]
    waits: list[Timed]
    steps: list[Timed]
    spends: list[costs_fold.State]
    compactions: list[compactions_fold.CompactionNote]

    def until(self, seq: int) -> "_Parts":
        """The same as it was at a record."""
        return _Parts(
            [message for message in self.messages if message.seq <= seq],
            _until(self.calls, seq),
            _until(self.waits, seq),
            _until(self.steps, seq),
            [spend for spend in self.spends if spend.seq <= seq],
            [each for each in self.compactions if each.seq <= seq],
        )


def _until(timed: Iterable[Timed], seq: int) -> list[Timed]:
    return [
        each
        if each.end_seq is None or each.end_seq <= seq
        else each._replace(end=None, end_seq=None, failed=False)
        for each in timed
        if each.seq <= seq
    ]


class _CachedTurns(NamedTuple):
    last_seq: int
    prices: Prices
    parts: _Parts
    times: RunTimes


class _Times:
    """What was read of the runs that were asked for last, as long as they record nothing new."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._held: dict[str, _CachedTurns] = {}

    def of(self, key: str, at: int | None) -> RunTimes:
        state, prices = self._home.index.state("runs", key), load(self._home.path)
        held = self._held.pop(key, None)
        with gc_paused():
            if held is None or held.last_seq != state.last_seq or held.prices is not prices:
                parts = _read(self._home, key)
                held = _CachedTurns(
                    state.last_seq, prices, parts, _times(key, state, parts, prices)
                )
            self._held = {**dict(list(self._held.items())[1 - MOST_HELD :]), key: held}
            if at is None or at >= state.last_seq:
                return held.times
            return _times(key, state, held.parts.until(at), prices, at)


def _read(home: Home, key: str) -> _Parts:
    index, rows = home.index, rows_of(*run_of(key))
    messages = [
        state
        for _, state in index.states("conversation", rows)
        if not (state.copied or state.withdrawn) and state.parts
    ]
    spends = spends_of(index, [key])
    return _Parts(
        sorted(messages, key=lambda state: state.seq),
        _calls([state for _, state in index.states("calls", rows)]),
        _waits(state for _, state in index.states("inbox", rows)),
        _steps(index.state("steps", key)),
        [each for each in costs_fold.counted(*spends) if f"{each.family}:{each.run}" == key],
        compactions_fold.notes(index.state("compactions", key)),
    )


def _times(
    key: str, state: runs_fold.State, parts: _Parts, prices: Prices, at: int | None = None
) -> RunTimes:
    turns, inputs = _turns(parts.messages, parts.calls)
    _give_spends(turns, parts.spends)
    _give_compactions(turns, parts.compactions)
    price = price_by(prices)
    total: float | None = None
    for turn in turns:
        turn.money = _money(turn.spends, price)
        for cost in turn.money[:2]:
            total = total if cost is None else (total or 0.0) + cost
        turn.total_usd = total
    return RunTimes(
        key=key,
        state=state,
        at=at,
        turns=turns,
        calls=parts.calls,
        waits=parts.waits,
        steps=parts.steps,
        inputs=inputs,
        spends=parts.spends,
        price=price,
    )


def _calls(states: list[calls_fold.State]) -> list[Timed]:
    calls = []
    for copies in calls_fold.joined(states):
        call, end = calls_fold.both_ends(copies)
        begin = call.called_ms if call.called_ms is not None else end.returned_ms
        if begin is None or all(each.copied for each in copies):
            continue
        took = calls_fold.call_seconds(call, end)
        calls.append(
            Timed(
                calls_fold.first_seq(copies),
                copies[0].call_id,
                call.tool or end.tool,
                call.agent or end.agent,
                begin,
                None if end.returned_seq is None else begin + round((took or 0) * 1000),
                end.returned_seq,
                end.ok is False,
            )
        )
    return sorted(calls, key=lambda call: call.seq)


def _waits(states: Iterable[inbox_fold.State]) -> list[Timed]:
    waits = [
        Timed(
            state.asked_seq or 0,
            state.question_id,
            state.text,
            state.agent,
            state.asked_ms,
            state.answered_ms,
            state.answered_seq,
        )
        for state in states
        if state.asked_ms is not None
    ]
    return sorted(waits, key=lambda wait: wait.begin)


def _steps(state: steps_fold.State) -> list[Timed]:
    steps = [
        Timed(time.seq, name, name, time.agent, time.begin, time.end, time.end_seq, time.failed)
        for name, time in steps_fold.times(state)
    ]
    return sorted(steps, key=lambda step: step.seq)


def _turns(
    messages: Iterable[conversation_fold.State], calls: Iterable[Timed]
) -> tuple[list[RunTurn], list[tuple[int, int]]]:
    """The turns in the order of their records, and the messages that are inputs."""
    turns: list[RunTurn] = []
    inputs: list[tuple[int, int]] = []
    now: dict[str, RunTurn] = {}
    given: dict[str, int] = {}
    speaker: str | None = None
    items: list[conversation_fold.State | Timed] = [*messages, *calls]
    for item in sorted(items, key=lambda item: (item.seq, isinstance(item, Timed))):
        seq, agent = item.seq, item.agent or ""
        turn = now.get(agent)
        if isinstance(item, Timed):
            if turn is None or turn.has_result_before(seq):
                turn = now[agent] = _begin(seq, item.agent, item.begin, turn, given)
                turns.append(turn)
            turn.add_call(item)
        elif item.parts[0][1] not in VOICES:
            given[item.to or ""] = item.at_ms
            inputs.append((item.at_ms, seq))
            if item.to is None:
                now.clear()  # it is an input of every agent
            else:
                now.pop(item.to, None)
        else:
            if turn is None or turn.calls or speaker != agent:
                turn = now[agent] = _begin(seq, item.agent, item.at_ms, turn, given)
                turns.append(turn)
            speaker, turn.has_words = agent, True
            turn.last_words = max(turn.last_words, item.at_ms)
            turn.last_seq = max(turn.last_seq, item.parts[-1][0])
            turn.model = turn.model or item.model
            turn.messages |= {item.message_id} if item.message_id else set()
    return turns, inputs


def _begin(
    seq: int, agent: str | None, at: int, last: RunTurn | None, given: Mapping[str, int]
) -> RunTurn:
    """A turn begins with the last input of its model: a message, or the return of a call."""
    known = [given[each] for each in {agent or "", ""} if each in given]
    if last is not None:
        known += [call.end for call in last.calls if call.end is not None]
    begin = max((each for each in known if each <= at), default=at)
    return RunTurn(seq, agent, None, begin, at, seq)


def _give_spends(turns: list[RunTurn], spends: Iterable[costs_fold.State]) -> None:
    """Give each spend to its turn: by the id of its message, else to the last turn before it."""
    by_message = {name: turn for turn in turns for name in turn.messages}
    by_agent: dict[str | None, list[RunTurn]] = {}
    for turn in turns:
        by_agent.setdefault(turn.agent, []).append(turn)
    for spend in spends:
        named = by_message.get(spend.key.removeprefix("="))
        if named is not None:
            named.spends.append(spend)
        elif own := by_agent.get(spend.agent) or turns:
            place = bisect_right(own, spend.seq, key=lambda turn: turn.seq)
            own[max(place - 1, 0)].spends.append(spend)


def _give_compactions(
    turns: list[RunTurn], notes: Iterable[compactions_fold.CompactionNote]
) -> None:
    """Give each compaction to the turn that begins with its context, else to the last one.

    What a source notes of it at its begin and at its end, with no turn between, is one compaction.
    """
    by_agent: dict[str | None, list[RunTurn]] = {}
    for turn in turns:
        by_agent.setdefault(turn.agent, []).append(turn)
    for note in notes:
        if not (own := by_agent.get(note.agent) or turns):
            return
        place = bisect_right(own, note.seq, key=lambda turn: turn.seq)
        turn = own[min(place, len(own) - 1)]
        known = turn.compaction
        turn.compaction = (
            note
            if known is None
            else known._replace(
                before=note.before if known.before is None else known.before,
                after=known.after if note.after is None else note.after,
            )
        )
