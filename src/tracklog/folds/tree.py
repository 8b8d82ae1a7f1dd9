"""Which runs and agents began which others?"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tracklog.folds import Fold, Position, Sums, name_text, run_key, run_of, short, text_of
from tracklog.model.fact import Began, Ended, Fact, Linked, Moved, Said

DESCENT = ("sub-run", "fork", "resume", "branch")
"""The links that lead from a parent to a child."""


@dataclass(slots=True)
class State:
    family: str = ""
    run: str = ""
    first_seq: int = 0
    links: list[list[Any]] = field(default_factory=list)
    """Kind, which end the other run is (parent, child, other), its key, the first seq, the call."""
    handoffs: list[list[Any]] = field(default_factory=list)
    """Kind (handoff, message), from, to, seq, reason."""
    aliases: list[list[Any]] = field(default_factory=list)
    """System and this run's name there."""


def step(state: State, position: Position, fact: Fact) -> State:
    if not state.first_seq:
        state.family, state.run, state.first_seq = position.family, position.run, position.seq
    if not isinstance(fact, Linked) or fact.copied is True:
        return state
    kind = text_of(fact.kind)
    if kind in ("handoff", "message"):
        giver, taker = name_text(fact.from_), name_text(fact.to)
        state.handoffs.append([kind, giver, taker, position.seq, short(fact.reason)])
    elif kind == "alias":
        known = [name_text(fact.system), name_text(fact.alias)]
        if known not in state.aliases:
            state.aliases.append(known)
    else:
        for end in ("parent", "child", "other"):
            if (other := key_of(getattr(fact, end), position.family)) is not None:
                _link(state, [kind, end, other, position.seq, name_text(fact.call_id)])
    return state


def _link(state: State, link: list[Any]) -> None:
    # A child may name its parent in every line.
    if all(known[:3] != link[:3] for known in state.links):
        state.links.append(link)


def key_of(named: Any, family: str) -> str | None:
    """The key of a run that was named: by its id, or as {family, run}."""
    if isinstance(named, Mapping):
        named, family = named.get("run"), text_of(named.get("family") or family)
    return None if named is None or named == "" else f"{family}:{text_of(named)}"


def sums(key: str, state: State) -> Sums:
    """The runs by each name that they bear, or call another run by that they are tied to."""
    return {name: {key: 1} for name in names(state)}


def names(state: State) -> set[str]:
    """The names that link a run to others: its own names, and those it calls."""
    own = {state.run, *(text_of(alias) for _, alias in state.aliases)}
    return own | {run_of(other)[1] for _, _, other, *_ in state.links}


@dataclass(slots=True)
class Branch:
    """A run in the tree, at its depth, below its parent."""

    key: str
    depth: int
    parent: str | None
    kind: str | None
    missing: bool
    """It was named, and has no record."""
    again: bool
    """It appears higher up or earlier, too, so its sub-runs are not listed again."""
    handoffs: list[list[Any]]


def answer(
    states: Mapping[str, State], root: str | None = None, known: Mapping[str, int] | None = None
) -> list[Branch]:
    """The tree below a run, or all trees: parents before children, in the order of the journal.

    A link counts whichever end reported it. Cycles and second parents are cut, and marked so.
    Runs in `known` have records, too, the first at that number, although they have no state here.
    """
    states = placeholders(known or {}) | dict(states)
    children, parents = links(states)
    firsts = {key: state.first_seq for key, state in states.items()}
    if root is not None:
        roots = [resolver(states)(root)]
    else:
        first_record = sorted(firsts, key=lambda key: (firsts[key], key))
        every = dict.fromkeys([*first_record, *children])
        roots = [key for key in every if not parents.get(key)]
        reached = {branch.key for branch in _walk(roots, children, firsts, states)}
        for key in every:  # a cycle has no root: its earliest run takes that place
            if key not in reached:
                roots.append(key)
                reached |= {branch.key for branch in _walk([key], children, firsts, states)}
    return list(_walk(roots, children, firsts, states))


def _walk(
    roots: list[str],
    children: Mapping[str, Mapping[str, str]],
    firsts: Mapping[str, int],
    states: Mapping[str, State],
) -> Iterator[Branch]:
    seen: set[str] = set()
    ahead: list[tuple[str, int, str | None, str | None]]
    ahead = [(key, 0, None, None) for key in reversed(roots)]
    while ahead:
        key, depth, parent, kind = ahead.pop()
        again = key in seen
        seen.add(key)
        handoffs = states[key].handoffs if key in states else []
        yield Branch(key, depth, parent, kind, key not in firsts, again, handoffs)
        if not again:
            below = [(child, depth + 1, key, how) for child, how in children.get(key, {}).items()]
            ahead += reversed(below)


Links = dict[str, dict[str, str]]
"""By run: the runs at the other end, each with the kind of the link."""


def links(states: Mapping[str, State]) -> tuple[Links, Links]:
    """The children and the parents of every run that was named, as either end reports them."""
    resolve = resolver(states)
    every = sorted(
        (seq, kind, *((key, resolve(other)) if end == "child" else (resolve(other), key)))
        for key, state in states.items()
        for kind, end, other, seq, _ in state.links
        if kind in DESCENT and end in ("parent", "child")
    )
    children: Links = {}
    parents: Links = {}
    for _, kind, parent, child in every:
        children.setdefault(parent, {}).setdefault(child, kind)
        parents.setdefault(child, {}).setdefault(parent, kind)
    return children, parents


def placeholders(known: Mapping[str, int]) -> dict[str, State]:
    """States for runs of which only the first record is known, each under its own key.

    No other name leads to them, so a placeholder changes nothing for any other run.
    """
    return {key: State(first_seq=seq) for key, seq in known.items()}


class resolver:  # noqa: N801  # it is called like a function, and prepared once
    """From the name of a run, or an alias of it, to the key it is known by."""

    def __init__(self, states: Mapping[str, State]) -> None:
        self.known = states
        self.aliases: dict[str, set[str]] = {}
        for key, state in states.items():
            for _, alias in state.aliases:
                self.aliases.setdefault(text_of(alias), set()).add(key)
            if state.run:
                self.aliases.setdefault(state.run, set()).add(key)

    def __call__(self, key: str) -> str:
        named = key.partition(":")[2]
        others = self.aliases.get(named, set())
        return next(iter(others)) if key not in self.known and len(others) == 1 else key


def root(states: Mapping[str, State], key: str) -> str:
    """The first ancestor of a run."""
    _, parents = links(states)
    top, known = key, {key}
    while above := [parent for parent in parents.get(top, {}) if parent not in known]:
        top = above[0]
        known.add(top)
    return top


def below(states: Mapping[str, State], root: str) -> list[str]:
    """A run and every run below it, each once."""
    return [branch.key for branch in answer(states, root) if not branch.again]


fold = Fold(
    name="tree",
    about="Which runs and agents began which others?",
    State=State,
    facts=(Began, Ended, Moved, Said, Linked),
    key=lambda position, _: run_key(position),
    step=step,
    sums=sums,
)
