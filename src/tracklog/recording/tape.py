"""A recorded run as a tape: replays the answers of models and tools without calling them.

    tape = tape_of(home, home.run("nightly-41"), by="match")
    played = tape.play("model", {"prompt": "what is x?"}, lane="reviewer")
    answer = played.answer if played else ask_the_model()
    tape.unconsumed

A host asks the tape before it makes a call. A missing answer is a `TapeMiss`, or, where
misses may go live, None: the host then makes the call itself. `tape_report` returns the result.
"""

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NotRequired, TypedDict

from tracklog.answers.run_steps import without_names
from tracklog.folds import short, text_of
from tracklog.home.home import Home
from tracklog.journal.frame import Run
from tracklog.model.errors import TapeMiss
from tracklog.model.fact import Called, Fact, Returned, Said
from tracklog.reading.walk import walk

TAPE_LABEL = "tape"
"""The label of the note about its tape that a host writes beside a run."""
ServeBy = Literal["order", "match"]
"""How a tape finds an answer: the next in order, or the one to the same question."""
OnMiss = Literal["error", "live"]
"""What a tape does when it has no answer: raise `TapeMiss`, or let the call be made live."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAnswer:
    """One recorded answer."""

    kind: str
    """`model`, `tool`, or another kind of call of a host."""
    lane: str | None
    """The caller: an agent, a step, a tool; None answers any caller. Each lane is served
    separately.
    """
    asked: Any
    """The request; None where it is not known."""
    answer: Any
    seq: int
    """The record that holds the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """A call that differs from the recorded run."""

    kind: str
    lane: str | None
    asked: Any
    recorded: RecordedAnswer | None
    """The answer that was served all the same; None when there was none."""

    def __str__(self) -> str:
        who = f" of {self.lane}" if self.lane else ""
        text = f"a {self.kind} call{who} was not recorded: {short(self.asked, 200)}"
        if self.recorded is not None:
            text = f"a {self.kind} call{who} differs: {short(self.asked, 200)}"
            text += f"; recorded was: {short(self.recorded.asked, 200)}"
        return text


class Tape:
    """Serves each recorded answer once; thread-safe.

    A lane is one caller: an agent, a step or a tool.
    By `order`, a lane gets its answers one after the other, whatever it asks, and a different
    request is noted. By `match`, it gets the first answer to the same request; generated ids and
    times are ignored in the comparison.
    """

    def __init__(
        self, recorded: Iterable[RecordedAnswer], *, by: ServeBy = "order", miss: OnMiss = "error"
    ) -> None:
        self._by, self._miss = by, miss
        self._waiting: dict[str, dict[str | None, deque[RecordedAnswer]]] = {}
        for each in recorded:
            lanes = self._waiting.setdefault(each.kind, {})
            lanes.setdefault(each.lane, deque()).append(each)
        self._mutex = threading.Lock()
        self.divergences: list[Divergence] = []
        """Every call that differs from the recorded run, in order; the first is the most important.
        """
        self.served = 0

    def play(self, kind: str, asked: Any, lane: str | None = None) -> RecordedAnswer | None:
        """The recorded answer; where there is none, None for a live call, or a TapeMiss."""
        with self._mutex:
            answer = self._find(kind, asked, lane)
            if answer is None:
                self._note(kind, lane, asked, None)
            else:
                self._waiting[kind][answer.lane].remove(answer)
                self.served += 1
                if answer.asked is not None and not same(answer.asked, asked):
                    self._note(kind, lane, asked, answer)
                return answer
        if self._miss == "live":
            return None
        raise TapeMiss(
            str(self.divergences[-1]),
            "record the run again, serve by match, or allow live calls for missing answers",
        )

    def next(self, kind: str, lane: str | None = None) -> RecordedAnswer | None:
        """The next answer in order; it is not consumed."""
        with self._mutex:
            return self._first(kind, lane)

    @property
    def unconsumed(self) -> list[RecordedAnswer]:
        """The recorded answers that were not requested, in the order of the records."""
        with self._mutex:
            lanes = (lane for kind in self._waiting.values() for lane in kind.values())
            return sorted((each for lane in lanes for each in lane), key=_place)

    def _lanes(self, kind: str, lane: str | None) -> list[deque[RecordedAnswer]]:
        known = self._waiting.get(kind, {})
        names = known.keys() if lane is None else [name for name in (lane, None) if name in known]
        return [known[name] for name in names]

    def _first(self, kind: str, lane: str | None) -> RecordedAnswer | None:
        heads = (each[0] for each in self._lanes(kind, lane) if each)
        return min(heads, key=_place, default=None)

    def _find(self, kind: str, asked: Any, lane: str | None) -> RecordedAnswer | None:
        if self._by == "order":
            return self._first(kind, lane)
        waiting = [each for served in self._lanes(kind, lane) for each in served]
        exact = (each for each in waiting if each.asked == asked)
        alike = (each for each in waiting if same(each.asked, asked))
        return next(exact, None) or next(alike, None)

    def _note(
        self, kind: str, lane: str | None, asked: Any, recorded: RecordedAnswer | None
    ) -> None:
        self.divergences.append(Divergence(kind=kind, lane=lane, asked=asked, recorded=recorded))


class UnusedAnswer(TypedDict):
    """A recorded answer that a replayed run did not request."""

    kind: str
    lane: str | None
    seq: int


class TapeReport(TypedDict):
    """The result of a replayed run."""

    served: int
    divergences: int
    first: NotRequired[str]
    """The first divergence, if there is one."""
    unconsumed: list[UnusedAnswer]


def tape_report(tapes: Iterable[Tape]) -> TapeReport:
    """The result of a replayed run: its first divergence, and the answers that were not requested."""
    tapes = list(tapes)
    left = [str(each) for tape in tapes for each in tape.divergences]
    rest: list[UnusedAnswer] = [
        {"kind": each.kind, "lane": each.lane, "seq": each.seq}
        for tape in tapes
        for each in tape.unconsumed
    ]
    served = sum(tape.served for tape in tapes)
    report: TapeReport = {"served": served, "divergences": len(left), "unconsumed": rest}
    return {**report, "first": left[0]} if left else report


def for_any_lane(recorded: Iterable[RecordedAnswer]) -> Iterator[RecordedAnswer]:
    """The answers of a run whose lanes are unknown to the host: those of its models answer any
    caller.
    """
    for each in recorded:
        yield each if each.kind == "tool" else replace(each, lane=None, asked=None)


def _place(recorded: RecordedAnswer) -> int:
    return recorded.seq


def same(one: Any, other: Any) -> bool:
    """Whether two requests are equal, apart from generated ids and times."""
    return text_of(without_names(one)) == text_of(without_names(other))


def tape_of(home: Home, run: Run, *, by: ServeBy = "order", miss: OnMiss = "error") -> Tape:
    """Any recorded run of a home, in any dialect, as a tape.

    A `model` answer is {"text", "blocks", "calls"}: the messages and calls of an agent until the
    next message of somebody else; its request is {"prompt"}. A `tool` answer is {"output"} or
    {"error"}; its request is {"tool", "input"}. The lane of a model is its agent or step, the lane
    of a tool its name.
    """
    return Tape(recorded_in(home, run), by=by, miss=miss)


def recorded_in(home: Home, run: Run) -> Iterator[RecordedAnswer]:
    """The answers of models and tools in a run, each once, in the order of the records."""
    listener = _Listener()
    for reading in walk(lambda: home.journal.records(run=run), home.dialects):
        for fact in reading.own_facts if reading.stands else ():
            listener.add(reading.record.seq, fact)
    yield from listener.answers()


class _Listener:
    """Collects messages and calls into answers."""

    def __init__(self) -> None:
        self._prompts: dict[str | None, list[str]] = {}
        self._replies: dict[str | None, dict[str, Any]] = {}
        self._calls: dict[str, tuple[int, Called]] = {}
        self._known: set[str] = set()
        self._found: list[RecordedAnswer] = []

    def add(self, seq: int, fact: Fact) -> None:
        lane = fact.agent or fact.step
        match fact:
            case Said(role="user" | "system" | "world"):
                self._flush(lane)
                if fact.role != "system":
                    self._prompts.setdefault(lane, []).append(_text(fact))
            case Said(role="assistant" | "thought"):
                reply = self._reply(seq, lane)
                reply["blocks"] += [dict(block) for block in fact.blocks]
                if fact.role == "assistant":
                    reply["text"] += _text(fact)
            case Called():
                self._call(seq, lane, fact)
            case Returned():
                self._return(seq, lane, fact)

    def answers(self) -> list[RecordedAnswer]:
        for lane in list(self._replies):
            self._flush(lane)
        return sorted(self._found, key=_place)

    def _reply(self, seq: int, lane: str | None) -> dict[str, Any]:
        return self._replies.setdefault(lane, {"seq": seq, "text": "", "blocks": [], "calls": []})

    def _call(self, seq: int, lane: str | None, fact: Called) -> None:
        names = {fact.call_id, fact.provider_call_id or fact.call_id}
        if names & self._known:
            return  # reported before, by the agent or the router
        self._known |= names
        self._calls[fact.call_id] = seq, fact
        if fact.fidelity != "observed" and lane in self._replies:
            call = {"id": fact.call_id, "tool": fact.tool, "input": fact.input}
            self._replies[lane]["calls"].append(call)

    def _return(self, seq: int, lane: str | None, fact: Returned) -> None:
        call = self._calls.pop(fact.call_id, None)
        if call is None:
            return
        asked = {"tool": call[1].tool, "input": call[1].input}
        answer: dict[str, Any] = {"output": fact.output}
        if fact.error is not None:
            answer["error"] = fact.error
        if fact.ok is not None:
            answer["ok"] = fact.ok
        self._found.append(
            RecordedAnswer(kind="tool", lane=call[1].tool, asked=asked, answer=answer, seq=seq)
        )
        self._flush(lane)  # the next message answers the tool

    def _flush(self, lane: str | None) -> None:
        reply = self._replies.pop(lane, None)
        if reply is not None:
            seq = reply.pop("seq")
            prompts = self._prompts.pop(lane, None)
            asked = {"prompt": "\n".join(prompts)} if prompts else None
            self._found.append(
                RecordedAnswer(kind="model", lane=lane, asked=asked, answer=reply, seq=seq)
            )


def _text(fact: Said) -> str:
    texts = (block.get("text") for block in fact.blocks)
    return "".join(each for each in texts if isinstance(each, str))
