"""The causes of the records of one run, as far as its facts name them.

Causes are read from facts: ids of causes, of tool calls and of questions, handoffs, sub-runs; where
no fact names a cause, it is assumed that an agent acts on its last input; such a cause is marked
`order`.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tracklog.folds import Position, name_text, text_in, text_of
from tracklog.folds import tree as tree_fold
from tracklog.folds._calls import call_name
from tracklog.home.home import Home
from tracklog.journal.frame import Record, Run
from tracklog.journal.journal import Journal
from tracklog.model.fact import (
    Answered,
    Asked,
    Began,
    Called,
    Decided,
    Ended,
    Fact,
    Linked,
    Noted,
    Returned,
    Said,
)
from tracklog.reading.record import Dialects
from tracklog.reading.walk import Reading, Walker

How = Literal[
    "call", "question", "message", "parent-call", "cause", "about", "handoff", "sub-run", "order"
]
"""The link from an effect to its cause; `order` is a guess, the others were reported."""

RANKS: Mapping[How, int] = {
    "call": 0, "question": 1, "message": 2, "parent-call": 3, "cause": 4, "about": 5,
    "handoff": 6, "sub-run": 7, "order": 8,
}  # fmt: skip  # one row
LAST_RESORT = 9
MOST_CACHED = 60_000
"""Records of runs that are held to be read on: two kilobytes each."""
MOST_INPUTS = 32
"""The most inputs of an agent that count as causes of one act; of more, the last ones."""


@dataclass(frozen=True, slots=True)
class MissingCause:
    """A cause that was named and is not stored here."""

    seq: int
    """The record that names it."""
    message: str


class Tie(NamedTuple):
    """One end of a tie between two records: the other end, and its kind."""

    seq: int
    how: How


@dataclass(slots=True)
class CausalNode:
    """What is remembered of a record."""

    position: Position
    agent: str | None
    prompt: bool = False
    """A person asked for something, or a task was given."""
    entry: bool = False
    """The run, or a part of it, began here: what caused it may stand in another run."""
    start: bool = False
    """Something began with it: a cause of all that is in it, and the nearest of nothing."""
    ties: list[Tie] = field(default_factory=list)
    names: list[tuple[How, str]] = field(default_factory=list)
    """Causes by name, to be looked up when they are asked for."""
    called: Sequence[str] = ()
    """What it goes by itself."""


class _Resolved(NamedTuple):
    """What a record's causes came to."""

    ties: list[Tie]
    missing: list[tuple[How, str]]


@dataclass(slots=True)
class _Thread:
    """The inputs and acts of one agent, or of one step where no agent is named."""

    fresh: deque[Tie] = field(default_factory=lambda: deque(maxlen=MOST_INPUTS))
    """Its inputs since it last acted."""
    because: list[Tie] = field(default_factory=list)
    """The causes of its next act until a new input comes: its own message, or its last inputs."""
    acted: int = 0
    asked: int = 0


class RunCauses:
    """The records of one run and what ties them together."""

    def __init__(self, walker: Walker) -> None:
        self._walker = walker
        self.nodes: dict[int, CausalNode] = {}
        self.called: dict[str, list[int]] = {}
        """The records of a call, by every id of it."""
        self.children: dict[str, int] = {}
        """The record that began each sub-run."""
        self._voiced: set[int] = set()
        self._by: dict[str, str] = {}
        self._asked: dict[str, int] = {}
        self._askers: dict[str, str] = {}
        self._named: dict[str, list[int]] = {}
        self._threads: dict[str, _Thread] = {}
        self._common: deque[Tie] = deque(maxlen=MOST_INPUTS)
        self._spoke: dict[str, int] = {}
        self._last = 0
        self._began = 0
        self._steps: set[str] = set()
        self.unseen: dict[int, list[MissingCause]] = {}
        self._erasures = 0
        self._settled: dict[int, _Resolved] = {}
        self._loose: dict[int, _Resolved] = {}
        """Of those that name a cause: what comes later may be what they name."""

    def add(self, records: Iterable[Record]) -> bool:
        """Add the next records; returns whether the causes so far are still valid.

        They are not when a record was erased or no longer counts: then the run is read again.
        """
        known, erasures = bool(self.nodes), self._erasures
        self.take(map(self._walker.read, records))
        return not self._walker.changed and not (known and self._erasures > erasures)

    def take(self, readings: Iterable[Reading]) -> None:
        for reading in readings:
            if not reading.marks:
                self._add(reading)
        self._loose.clear()
        if self.nodes:
            self.nodes[next(iter(self.nodes))].entry = True

    def ties(self, seq: int) -> list[Tie]:
        """The causes of a record in this run, the most certain first."""
        return self._resolved(seq).ties

    def missing(self, seq: int) -> list[tuple[How, str]]:
        """Causes that a record names and that are not in this run."""
        return self._resolved(seq).missing

    def call(self, id: str) -> int | None:
        """The record of a call, by its id."""
        return self.place("call", f"={id}", 0)

    def _add(self, reading: Reading) -> None:
        record, event, facts, _, position, *_ = reading
        if event is None or position is None:
            kind = "erased" if record.erased is not None else "not understood"
            position = Position(*record[:2], *record[3:5], None, kind, None, None, record.dialect)
            self.nodes[record.seq] = CausalNode(position, None)
            return
        agent = next((each.agent for each in facts if each.agent is not None), event.actor)
        node = self.nodes[record.seq] = CausalNode(position, name_text(agent))
        if not reading.stands:
            message = "it does not count: another record replaces or withdraws it"
            self.unseen[record.seq] = [MissingCause(record.seq, message)]
            if reading.original is not None:  # what names it means the first report of the message
                for name in reading.names:
                    self._named.setdefault(name, []).append(reading.original)
            return
        node.called = reading.names
        for name in node.called:
            self._named.setdefault(name, []).append(record.seq)
        if event.cause is not None:
            node.names.append(("cause", event.cause))
        own = {name for each in facts if type(each) is Called for name in _ids(position, each)}
        for fact in facts:
            self._tie(record.seq, node, fact, own)
        for fact in facts:
            self._learn(record.seq, position, fact, own)

    def _thread(self, position: Position, fact: Fact) -> _Thread:
        return self._thread_of(self._name(position, fact))

    def _thread_of(self, name: str) -> "_Thread":
        thread = self._threads.get(name)
        if thread is None:
            thread = self._threads[name] = _Thread()
        return thread

    def _name(self, position: Position, fact: Fact) -> str:
        """Whose thread a fact belongs to: the agent's, else that of the call or question, else
        that of a step whose begin was recorded: others are turns of one conversation.
        """
        if fact.agent is not None:
            return f"agent {text_of(fact.agent)}"
        by: str | None = None
        if isinstance(fact, Returned):
            by = self._by.get(call_name(position, fact))
        elif isinstance(fact, Answered):
            by = self._askers.get(text_of(fact.question_id))
        if by is not None:
            return by
        step = None if fact.step is None else text_of(fact.step)
        return f"step {step}" if step in self._steps else ""

    def _tie(self, seq: int, node: CausalNode, fact: Fact, own: set[str]) -> None:
        """The causes of this record, by this fact of it."""
        match fact:
            case Said(role="user" | "system" | "world"):
                if fact.role == "user" and fact.injected is not True and text_in(fact.blocks):
                    node.prompt = node.entry = True
                elif fact.role != "user" or fact.injected is True:
                    self._follow(seq, node, fact)
            case Said() | Decided():
                self._act(node, fact, own)
                if isinstance(fact, Decided) and fact.about is not None:
                    node.names.append(("about", text_of(fact.about)))
            case Called():
                self._act(node, fact, own)
                node.names += [("message", name) for name in _ids(node.position, fact)]
                if fact.parent_call_id is not None:
                    node.names.append(("parent-call", f"={text_of(fact.parent_call_id)}"))
            case Returned():
                if (name := call_name(node.position, fact)) not in own:
                    node.names.append(("call", name))
            case Asked():
                self._act(node, fact, own)
                if fact.call_id is not None:
                    node.names.append(("call", f"={text_of(fact.call_id)}"))
            case Answered():
                self._answer(node, fact)
            case Linked():
                if fact.call_id is not None:
                    node.names.append(("call", f"={text_of(fact.call_id)}"))
                if fact.kind in ("handoff", "message"):
                    self._act(node, fact, own)
                else:
                    self._follow(seq, node, fact)
            case Began():
                if fact.what == "step" and fact.step is not None:
                    self._steps.add(text_of(fact.step))
                node.start = True
                node.prompt = node.prompt or (fact.what != "step" and bool(fact.task))
                if fact.what == "run":
                    node.entry = True
                else:
                    self._begin(seq, node, fact)
            case Ended():
                self._end(seq, node, fact)
            case Noted(label="erasure"):
                self._erasures += 1
                self._follow(seq, node, fact)
            case _:
                self._follow(seq, node, fact)

    def _act(self, node: CausalNode, fact: Fact, own: set[str]) -> None:
        """The causes of an act: the inputs since the last act, else those of the last act."""
        thread = self._thread(node.position, fact)
        ties = [tie for tie in self._inputs(thread) if not self._is_own(tie, own)]
        node.ties += ties or self._others(thread, node.position, fact) or thread.because
        if not node.ties and self._began:
            node.ties.append(Tie(self._began, "order"))

    def _inputs(self, thread: _Thread) -> list[Tie]:
        if self._common and self._common[-1].seq > thread.acted:
            common = (tie for tie in self._common if tie.seq > thread.acted)
            return sorted({*thread.fresh, *common})
        return sorted(set(thread.fresh)) if len(thread.fresh) > 1 else list(thread.fresh)

    def _is_own(self, tie: Tie, own: set[str]) -> bool:
        """A message that is recorded after the calls it made was not caused by their results."""
        names = (name for how, name in self.nodes[tie.seq].names if how == "call")
        return bool(own) and any(name in own for name in names)

    def _others(self, thread: _Thread, position: Position, fact: Fact) -> list[Tie]:
        """The messages of others since its last act, where none was sent to it."""
        me = self._name(position, fact)
        messages = [seq for name, seq in self._spoke.items() if name != me and seq > thread.acted]
        return [Tie(max(messages), "order")] if messages and me.startswith("agent ") else []

    def _follow(self, seq: int, node: CausalNode, fact: Fact) -> None:
        """What changes nothing by itself comes of what came before it in its thread."""
        if node.ties:
            return
        thread = self._thread(node.position, fact)
        before = self._inputs(thread)[-1:] or thread.because[-1:]
        place = before[0].seq if before else self._began
        if place and place != seq:
            node.ties.append(Tie(place, "order"))

    def _begin(self, seq: int, node: CausalNode, fact: Began) -> None:
        """An agent or a step begins because it was handed over to, or because its run did."""
        thread = self._thread(node.position, fact)
        handed = [tie for tie in thread.fresh if tie.how == "handoff"]
        ties = handed or list(self._common)[-1:]
        place = self._began
        node.ties += ties or ([Tie(place, "order")] if place and place != seq else [])

    def _end(self, seq: int, node: CausalNode, fact: Ended) -> None:
        if fact.what == "run":
            if self._last:
                node.ties.append(Tie(self._last, "order"))
        else:
            self._follow(seq, node, fact)

    def _answer(self, node: CausalNode, fact: Answered) -> None:
        question = text_of(fact.question_id)
        asked = self._asked.get(question)
        if asked is None and (thread := self._thread(node.position, fact)).asked:
            # An agent may report only that it was answered, not the answer.
            node.ties.append(Tie(thread.asked, "question"))
        else:
            node.names.append(("question", question))

    def _learn(self, seq: int, position: Position, fact: Fact, own: set[str]) -> None:
        """What the agents of this run know after the fact."""
        thread = self._thread(position, fact)
        tie = Tie(seq, "order")
        match fact:
            case Said(role="user" | "system" | "world"):
                if fact.to is not None:
                    self._thread_of(f"agent {fact.to}").fresh.append(tie)
                elif fact.role == "world" or self._name(position, fact) == "":
                    self._common.append(tie)
                else:
                    thread.fresh.append(tie)
            case Said():
                self._voiced.add(seq)
                returned = [each for each in thread.fresh if self._is_own(each, own)]
                self._did(thread, seq, [tie])
                thread.fresh.extend(returned)
                if fact.to is not None:
                    self._thread_of(f"agent {fact.to}").fresh.append(tie)
                elif fact.role == "assistant":
                    self._spoke[self._name(position, fact)] = seq
            case Called():
                for name in _ids(position, fact):
                    self._by.setdefault(name, self._name(position, fact))
                    self.called.setdefault(name, []).append(seq)
                if thread.acted != seq:
                    self._did(thread, seq, list(self.nodes[seq].ties))
            case Decided():
                self._did(thread, seq, [tie])
            case Asked():
                question = text_of(fact.question_id)
                self._asked[question] = thread.asked = seq
                self._askers[question] = self._name(position, fact)
                self._did(thread, seq, [tie])
            case Returned() | Answered():
                thread.fresh.append(tie)
            case Linked(kind="handoff" | "message") if fact.to is not None:
                taker = self._thread_of(f"agent {fact.to}")
                taker.fresh.append(Tie(seq, "handoff"))
            case Linked():
                self._link(seq, position, fact)
            case Began():
                if fact.what == "run":
                    self._began = self._began or seq
                    self._common.append(tie)
                else:  # it began again: earlier inputs no longer count
                    thread.fresh = deque([tie], MOST_INPUTS)
                    thread.because = []
        if isinstance(fact, Said | Called | Returned | Ended | Decided) or not self._last:
            self._last = seq

    @staticmethod
    def _did(thread: _Thread, seq: int, because: list[Tie]) -> None:
        thread.because = because or thread.because
        thread.acted = seq
        thread.fresh.clear()

    def _link(self, seq: int, position: Position, fact: Linked) -> None:
        child = tree_fold.key_of(fact.child, position.family)
        if child is not None and fact.kind == "sub-run":
            self.children.setdefault(child, seq)

    def _resolved(self, seq: int) -> "_Resolved":
        known = self._settled.get(seq) or self._loose.get(seq)
        if known is None:
            node = self.nodes[seq]
            known = self._resolve(seq, node)
            (self._loose if node.names else self._settled)[seq] = known
        return known

    def _resolve(self, seq: int, node: CausalNode) -> "_Resolved":
        """Names become places; what was named and not seen is noted."""
        if node.prompt and not node.start:
            return _Resolved([], [])  # a person began something new here
        ties, missing = list(node.ties), []
        for how, name in node.names:
            place = self.place(how, name, seq)
            if place is not None and place != seq:
                ties.append(Tie(place, how))
            elif place is None and how not in ("message", "about"):
                missing.append((how, name))
        return _Resolved(self._ranked(seq, ties), missing)

    def place(self, how: How, name: str, seq: int) -> int | None:
        """The record of this run that another names, by its kind of tie."""
        match how:
            case "call" | "parent-call":
                return _before(self.called.get(name), seq)
            case "message":
                return self._message(name, seq)
            case "question":
                return self._asked.get(name)
            case "about":
                place = _before(self._named.get(name), seq)
                return _before(self.called.get(f"={name}"), seq) if place is None else place
            case _:
                return _before(self._named.get(name), seq)

    def _message(self, name: str, seq: int) -> int | None:
        """The message that made a call, where the call is also recorded by itself."""
        if seq in self._voiced:
            return None
        places = self.called.get(name, [])
        voiced = (each for each in places if each in self._voiced)
        return next(voiced, places[0] if places and places[0] < seq else None)

    def _ranked(self, seq: int, ties: list[Tie]) -> list[Tie]:
        """The links without copies, the most certain first.

        The step is no closer cause than the messages in it meanwhile.
        """
        if len(ties) < 2:
            return [tie for tie in ties if tie.seq != seq]
        best: dict[int, How] = {}
        for place, how in ties:
            if place != seq and (place not in best or RANKS[how] < RANKS[best[place]]):
                best[place] = how
        latest = max(best, default=0)

        def rank(tie: Tie) -> tuple[int, int]:
            start = self.nodes[tie.seq].start and tie.seq < latest
            return (LAST_RESORT if start else RANKS[tie.how], -tie.seq)

        return sorted((Tie(*each) for each in best.items()), key=rank)


def _before(places: list[int] | None, seq: int = 0) -> int | None:
    """Of some places the last before a record; the first, where none is."""
    if not places:
        return None
    return max((place for place in places if place < seq), default=places[0])


def _ids(position: Position, fact: Called) -> Iterator[str]:
    yield call_name(position, fact)
    if fact.provider_call_id is not None:
        yield f"={text_of(fact.provider_call_id)}"


class CauseCache:
    """The runs that were asked about last, read on from where they were; `lock` is held meanwhile."""

    def __init__(self, journal: Journal, dialects: Dialects) -> None:
        self._journal, self._dialects = journal, dialects
        self._cache: OrderedDict[Run, RunCauses] = OrderedDict()
        self.lock = threading.Lock()

    def read(self, run: Run) -> RunCauses:
        """A run up to its last record."""
        causes = self._cache.pop(run, None)
        if causes is None or next(iter(causes.nodes)) < self._journal.first:
            causes = RunCauses(Walker(self._dialects, rules=False))
        after = next(reversed(causes.nodes), 0)
        if not causes.add(self._journal.records(after, run)):
            causes = self._reread(run)
        if 0 < len(causes.nodes) <= MOST_CACHED:
            self._cache[run] = causes
            while sum(len(each.nodes) for each in self._cache.values()) > MOST_CACHED:
                self._cache.popitem(last=False)
        return causes

    def _reread(self, run: Run) -> RunCauses:
        """A run from its first record on, with all revisions known from the beginning."""
        walker = Walker(self._dialects, rules=False)
        for record in self._journal.records(run=run):
            walker.note(record)
        causes = RunCauses(walker)
        causes.take(map(walker.reread, self._journal.records(run=run)))
        return causes


def causes_of(home: Home) -> CauseCache:
    """The causes in the runs of a home, shared by all who ask it."""
    return home.cache(_cache)


def _cache(home: Home) -> CauseCache:
    return CauseCache(home.journal, home.dialects)
