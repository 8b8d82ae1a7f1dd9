"""Why something happened: from an event back to the prompt that caused it, and on to what it caused.

Causes are read from facts: ids of causes, of tool calls and of questions, handoffs, sub-runs; where
no fact names a cause, it is assumed that an agent acts on its last input; such a cause is marked
`order`.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tracklog.answers import Question, integer, run_param
from tracklog.answers.causality import CausalNode, How, MissingCause, RunCauses, Tie, causes_of
from tracklog.answers.phrases import summary
from tracklog.answers.related import related_runs
from tracklog.folds import loops as loops_fold
from tracklog.folds import run_of, short
from tracklog.folds import tree as tree_fold
from tracklog.home.home import Home
from tracklog.index.gc_paused import gc_paused
from tracklog.model.errors import NoSuchRecord
from tracklog.model.fact import Called
from tracklog.reading.replay import picked
from tracklog.reading.walk import facts_in, read_alone

MOST_RUNS = 64
"""Runs that are tied to one, and in which a cause is looked for that it does not hold itself."""


@dataclass(frozen=True, slots=True)
class WhyStep:
    """A record on the path, as a short text."""

    seq: int
    family: str
    run: str
    at: str | None
    received: str
    kind: str
    agent: str | None
    words: str
    prompt: bool
    how: How | None = None
    """Its link to `of`; None for the record that was asked about."""
    of: int | None = None
    """In `back`, the record that this one caused; in `forward`, the record that caused this one."""


@dataclass(frozen=True, slots=True)
class RepeatedCall:
    """A call that its run made several times with the same arguments."""

    tool: str
    times: int
    first_seq: int
    last_seq: int


@dataclass(frozen=True, slots=True)
class WhyAnswer:
    """The causes of a record, and what it caused."""

    record: WhyStep
    back: list[WhyStep]
    """From the cause of the record to the prompt, the nearest first."""
    ends: Literal["prompt", "start", "unseen"]
    """Whether the path back ends with a prompt, with something that nothing caused, or at a cause
    that was not seen."""
    unseen: list[MissingCause]
    forward: list[WhyStep]
    """All that it caused, in the order of the journal, sub-runs included."""
    left_out: dict[str, int]
    """How many steps in the middle of a path, `back` or `forward`, were left out as asked."""
    seen_before: list[RepeatedCall]
    """The calls of the record, or those that it returns from, as far as they were repeated."""


def why(home: Home, run: str, seq: int, limit: int | None = None) -> WhyAnswer:
    """From a record of a run back to the prompt that caused it, and on to what it caused.

    Of a path with more than `limit` steps its two ends are given.
    """
    with causes_of(home).lock, gc_paused():
        return _why(_Web(home), ":".join(home.run(run)), seq, limit)


def _why(web: "_Web", key: str, seq: int, most: int | None) -> WhyAnswer:
    causes = web.causes_in(key)
    if seq not in causes.nodes:
        family, run = run_of(key)
        hint = f"`tracklog events {run}` shows its records"
        found = web.home.journal.read(seq - 1, 1, (family, run))
        if any(each.seq == seq and read_alone(each, web.home.dialects).marks for each in found):
            raise NoSuchRecord(
                f"record {seq} is a mark that a person made: it has no cause in run {run!r}",
                f"`tracklog marks {run}` shows them",
            )
        raise NoSuchRecord(f"record {seq} is not of run {run!r} ({family})", hint)
    path, ends = web.back(seq)
    unseen = [note for each in (seq, *(cause for cause, _, _ in path)) for note in web.unseen(each)]
    onward = sorted(web.forward(seq))
    left_out = {"back": _cut(path, most), "forward": _cut(onward, most)}
    texts = web.words({seq, *(each[0] for each in path), *(each[0] for each in onward)})
    return WhyAnswer(
        record=web.step(seq, texts),
        back=[web.step(cause, texts, how, of) for cause, how, of in path],
        ends="unseen" if unseen and ends == "start" else ends,
        unseen=unseen,
        forward=[web.step(effect, texts, how, of) for effect, how, of in onward],
        left_out=left_out,
        seen_before=web.repeated(seq),
    )


def _cut(way: "list[_Way]", most: int | None) -> int:
    """Takes the middle out of a way that is too long; how many steps these were."""
    if most is None or len(way) <= most:
        return 0
    begin, end = (most + 1) // 2, len(way) - most // 2
    del way[begin:end]
    return end - begin


_Way = tuple[int, How, int]
"""A record, what ties it to another, and that other."""


class _Web:
    """The runs that are looked at, each read once and when it is needed."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._causes: dict[str, RunCauses] = {}
        self._of: dict[int, str] = {}
        self._states: dict[str, tree_fold.State] = {}
        self._tied: set[str] = set()
        self._nearby: dict[str, list[str]] = {}
        self._places: dict[tuple[str, str], int | None] = {}
        self._ties: dict[int, list[tuple[Tie, str]]] = {}

    def causes_in(self, key: str) -> RunCauses:
        if key not in self._causes:
            causes = causes_of(self.home).read(run_of(key))
            self._causes[key] = causes
            self._of.update(dict.fromkeys(causes.nodes, key))
        return self._causes[key]

    def _node(self, seq: int) -> CausalNode:
        return self._causes[self._of[seq]].nodes[seq]

    def words(self, seqs: Iterable[int]) -> dict[int, str]:
        """The texts of some records."""
        by_run: dict[str, list[int]] = {}
        for seq in sorted(seqs):
            by_run.setdefault(self._of[seq], []).append(seq)
        texts: dict[int, str] = {}
        for key, wanted in by_run.items():
            for record in picked(self.home.journal, run_of(key), set(wanted)):
                facts = facts_in(record, self.home.dialects)
                kind = "" if facts else self._node(record.seq).position.kind
                texts[record.seq] = short(summary(facts)) or kind
        return texts

    def step(
        self, seq: int, texts: dict[int, str], how: How | None = None, of: int | None = None
    ) -> WhyStep:
        node = self._node(seq)
        at = node.position
        return WhyStep(
            seq, at.family, at.run, at.at, at.received, at.kind, node.agent,
            texts.get(seq, ""), node.prompt, how, of,
        )  # fmt: skip  # in the order of the fields

    def repeated(self, seq: int) -> list[RepeatedCall]:
        """The calls that a record makes, or returns from, and that its run made several times."""
        called = [tie.seq for tie in self._causes[self._of[seq]].ties(seq) if tie.how == "call"]
        keys = [
            loops_fold.key(self._node(place).position, fact)
            for place in (seq, *called)
            for fact in self.home.index.facts_at(place)
            if isinstance(fact, Called)
        ]
        states = self.home.index.load("loops", [key for key in keys if key is not None]).values()
        return [
            RepeatedCall(each.tool, each.times, each.first_seq, each.last_seq)
            for each in states
            if each.times > 1
        ]

    def unseen(self, seq: int) -> list[MissingCause]:
        """Causes that this record names and that are not stored, in its run or in related runs."""
        key = self._of[seq]
        causes = self._causes[key]
        names = list(causes.unseen.get(seq, ()))
        elsewhere = {(tie.how, name) for tie, name in self._elsewhere(seq)}
        for how, name in causes.missing(seq):
            if (how, name) not in elsewhere:
                names.append(MissingCause(seq, f"its {how} {name.lstrip('=#')!r} was not seen"))
        parent = self._parent(key) if causes.nodes[seq].entry else None
        if parent is not None and not self.causes_in(parent).nodes:
            names.append(MissingCause(seq, f"there is no record of its parent run {parent}"))
        return names

    def causes(self, seq: int) -> list[Tie]:
        """The causes of a record, the most certain first; in another run, if its own began there."""
        key = self._of[seq]
        causes = self._causes[key]
        ties = [*(tie for tie, _ in self._elsewhere(seq)), *causes.ties(seq)]
        if causes.nodes[seq].entry and (parent := self._parent(key)) is not None:
            place = self._place_in(parent, key)
            if place is not None:
                ties.append(Tie(place, "sub-run"))
        return ties

    def back(self, seq: int) -> tuple[list[_Way], Literal["prompt", "start"]]:
        """The path to a prompt along the most certain links; else as far as they lead."""
        seen, way = {seq}, [seq]
        ties: list[_Way] = []
        left = [iter(self.causes(seq))]
        longest: list[_Way] | None = None
        while left:
            tie = next((each for each in left[-1] if each.seq not in seen), None)
            if tie is None:
                if longest is None:
                    longest = list(ties)
                if self._node(way[-1]).prompt and not self.causes(way[-1]):
                    return ties, "prompt"
                left.pop()
                way.pop()
                if ties:
                    ties.pop()
                continue
            seen.add(tie.seq)
            ties.append((tie.seq, tie.how, way[-1]))
            way.append(tie.seq)
            left.append(iter(self.causes(tie.seq)))
        return longest or [], "start"

    def forward(self, seq: int) -> list[_Way]:
        """All that a record caused, each with what ties it to a cause on the way."""
        effects: dict[int, list[Tie]] = {}
        looked = set[str]()
        ways: dict[int, _Way] = {}
        ahead = deque([seq])
        reached = set[str]()
        while ahead:
            cause = ahead.popleft()
            if (key := self._of[cause]) not in reached:
                reached.add(key)
                for near in [key, *self._near(key)]:
                    if near not in looked:
                        looked.add(near)
                        self._invert(near, effects)
            for far in self._caused(cause) - looked:
                looked.add(far)
                self._invert(far, effects)
            for effect, how in effects.get(cause, ()):
                if effect not in ways and effect != seq:
                    ways[effect] = (effect, how, cause)
                    ahead.append(effect)
        return list(ways.values())

    def _invert(self, key: str, effects: dict[int, list[Tie]]) -> None:
        for seq in self.causes_in(key).nodes:
            for place, how in self.causes(seq):
                effects.setdefault(place, []).append(Tie(seq, how))

    def _caused(self, seq: int) -> set[str]:
        """The runs that name a record as a cause, whether or not anything ties them to its run."""
        names = self._node(seq).called
        return {":".join(run) for name in names for run in self.home.index.caused_by(name)}

    def _elsewhere(self, seq: int) -> list[tuple[Tie, str]]:
        """Causes that this run names and that are in another run: a run that is linked to this one,
        or the only run that has an event of that name.
        """
        if seq not in self._ties:
            key = self._of[seq]
            missing = self._causes[key].missing(seq)
            ways = ((how, name, self._far_place(key, how, name, seq)) for how, name in missing)
            self._ties[seq] = [(Tie(at, how), name) for how, name, at in ways if at is not None]
        return self._ties[seq]

    def _far_place(self, key: str, how: How, name: str, seq: int) -> int | None:
        for run in self._near(key):
            if (place := self.causes_in(run).place(how, name, seq)) is not None:
                return place
        policy = self.home.dialects[self._node(seq).position.dialect].policy
        if how != "cause" or policy.identity != "refuse":  # it names something of its own run
            return None
        far = (":".join(run) for run in self.home.index.called(name))
        places = {self.causes_in(run).place(how, name, seq) for run in far} - {None}
        return places.pop() if len(places) == 1 else None  # of several it is nobody's to choose

    def _links(self, key: str) -> tuple[tree_fold.Links, tree_fold.Links]:
        if key not in self._tied:
            self._states |= related_runs(self.home.index, [key])
            self._tied |= {key, *self._states}
            self._resolve = tree_fold.resolver(self._states)
            self._tree = tree_fold.links(self._states)
        return self._tree

    def _parent(self, key: str) -> str | None:
        """The run that began this one as its sub-run; never the run itself."""
        parents = self._links(key)[1].get(key, {})
        return next(
            (run for run, kind in parents.items() if kind == "sub-run" and run != key), None
        )

    def _near(self, key: str) -> list[str]:
        """The runs that are linked to one, whichever end reported it: its parent first."""
        children, parents = self._links(key)
        if key in self._nearby:
            return self._nearby[key]
        near = [*parents.get(key, {}), *children.get(key, {})]
        for other, state in self._states.items():
            near += [other] if any(self._resolve(link[2]) == key for link in state.links) else []
        own = self._states.get(key)
        near += [self._resolve(link[2]) for link in own.links] if own else []
        self._nearby[key] = [run for run in dict.fromkeys(near) if run != key][:MOST_RUNS]
        return self._nearby[key]

    def _place_in(self, parent: str, child: str) -> int | None:
        if (parent, child) not in self._places:
            self._places[parent, child] = self._find_place(parent, child)
        return self._places[parent, child]

    def _find_place(self, parent: str, child: str) -> int | None:
        """The record of the parent that began the child: as the parent or the child reports it, else
        the last record of the parent before.
        """
        causes = self.causes_in(parent)
        self._links(child)
        for named, seq in causes.children.items():
            if self._resolve(named) == child:
                return seq
        state = self._states.get(child)
        for _, end, other, _, call in state.links if state else ():
            if end == "parent" and call is not None and self._resolve(other) == parent:
                place = causes.call(call)
                if place is not None:
                    return place
        first = next(iter(self.causes_in(child).nodes), 0)
        return max((seq for seq in causes.nodes if seq < first), default=None)


question = Question(
    name="why",
    about="Show what led to a record, from the prompt on, and what it caused. Each step says how "
    "its cause is known: by an id that the event names (call, question, message, cause), a "
    "handoff, a sub-run, or only by the order (an agent acts on its last input).",
    ask=why,
    params=(
        run_param(),
        integer("seq", "The record.", least=1, required=True),
        integer(
            "limit",
            "Of a long path, show at most this many steps: the first and the last ones.",
            least=2,
        ),
    ),
    refusals={404: "There is no such run, or no such record in it."},
    examples=(
        "why agent-coder-1 412",
        "why agent-coder-1 412 --all",
        "why kahn:nightly 97 --json | jq '.back[-1].words'",
    ),
)
