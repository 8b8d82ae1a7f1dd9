"""The topology of a run: agents, the runs around it and people, and what passed between them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Literal

from tracklog.answers import Question, key_of, now_of, run_param
from tracklog.answers.related import read_spends, related_runs
from tracklog.answers.run_list import RunList, RunRow, Status
from tracklog.answers.run_turns import RunTimes, RunTurn, times_of
from tracklog.folds import costs
from tracklog.folds import tree as tree_fold
from tracklog.home.home import Home

NodeKind = Literal["run", "agent", "person"]
EdgeKind = Literal["acts", "sub-run", "fork", "resume", "branch", "handoff", "message", "question"]
PERSON = "person"
_SEQ = attrgetter("seq")
_Passed = tuple[int | None, int | None]
_UNKNOWN: _Passed = (None, None)
_TALK: tuple[EdgeKind, ...] = ("message", "question")
"""Edges on which words pass, and no work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """A run, an agent or people."""

    id: str
    kind: NodeKind
    name: str | None
    status: Status | None
    """Of a run; `waiting` for people who have not answered yet; else null."""
    model: str | None
    calls: int
    failures: int
    seconds: float | None
    """Of a run, the time since it began; of an agent, that of its turns."""
    cost_usd: float | None
    """As the source reported it."""
    computed_usd: float | None
    """From list prices, for what has no reported cost."""
    lower_bound: bool
    share: float | None
    """Of the cost of all runs of the graph; null where no cost is known."""


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """What passed from one node to another."""

    source: str
    target: str
    kind: EdgeKind
    """`acts`: the agent acts in the run; `question`: an agent, or the run, asks people."""
    count: int
    tokens_there: int | None
    """What the target was given: the input of its first model call. Null where that is unknown,
    and for messages and questions."""
    tokens_back: int | None
    """What came back: the output of its last model call."""


@dataclass(frozen=True, slots=True)
class GraphAnswer:
    """The topology of a run."""

    nodes: list[GraphNode]
    """The runs, parents before children, each agent behind its run."""
    edges: list[GraphEdge]


def graph(home: Home, run: str, *, now: str | None = None) -> GraphAnswer:
    """The agents of a run, and all runs of the tree that it is in."""
    key = key_of(home, run)
    times, now = times_of(home, key), now_of(home, now)
    states = related_runs(home.index, [key])
    branches = tree_fold.answer(states, tree_fold.root(states, key))
    known = home.index.load("runs", {branch.key for branch in branches})
    rows = {row.key: row for row in home.cache(RunList).rows(known.values(), now)}
    edges: Counter[tuple[str, str, EdgeKind]] = Counter()
    nodes: list[GraphNode] = []
    passed = _passed(times, read_spends(home.index, known.keys()))
    for branch in branches:
        if branch.parent is not None and branch.kind in tree_fold.DESCENT:
            edges[branch.parent, branch.key, _descent(branch.kind)] += 1
        if branch.again:
            continue
        nodes.append(_run_node(branch.key, rows.get(branch.key)))
        if branch.key == key:
            nodes += _agents(times)
    for node in nodes:
        if node.kind == "agent":
            edges[key, node.id, "acts"] = 1
    _pass_on(states[key].handoffs if key in states else (), edges)
    for wait in times.waits:
        edges[_agent_id(wait.agent) if wait.agent else key, PERSON, "question"] += 1
    names = {node.id for node in nodes}
    if times.waits:
        asked = any(wait.end is None for wait in times.waits)
        nodes.append(replace(_node(PERSON, "person", None), status="waiting" if asked else None))
    for source, target, _ in edges:
        for end in (source, target):
            if end not in names and end != PERSON:
                nodes.append(_node(end, "agent", end.removeprefix("agent ")))
                names.add(end)
    return GraphAnswer(
        nodes=_with_shares(nodes),
        edges=[
            GraphEdge(
                *edge, count, *(_UNKNOWN if edge[2] in _TALK else passed.get(edge[1], _UNKNOWN))
            )
            for edge, count in edges.items()
        ],
    )


def _descent(kind: str) -> EdgeKind:
    match kind:
        case "fork" | "resume" | "branch":
            return kind
    return "sub-run"


def _pass_on(handoffs: Iterable[list[object]], edges: Counter[tuple[str, str, EdgeKind]]) -> None:
    for kind, giver, taker, *_ in handoffs:
        if giver is not None and taker is not None:
            how: EdgeKind = "handoff" if kind == "handoff" else "message"
            edges[_agent_id(str(giver)), _agent_id(str(taker)), how] += 1


def _agent_id(name: str) -> str:
    return f"agent {name}"


def _passed(times: RunTimes, spends: Iterable[costs.State]) -> dict[str, _Passed]:
    """By run and by agent of this run, the input of its first model call and the output of its last."""
    by: dict[str, list[costs.State]] = {}
    for spend in spends:
        by.setdefault(f"{spend.family}:{spend.run}", []).append(spend)
    for spend in times.spends:
        if spend.agent is not None:
            by.setdefault(_agent_id(spend.agent), []).append(spend)
    passed: dict[str, _Passed] = {}
    for id, own in by.items():
        first, last = min(own, key=_SEQ), max(own, key=_SEQ)
        passed[id] = first.amounts.get("input_tokens"), last.amounts.get("output_tokens")
    return passed


def _agents(times: RunTimes) -> list[GraphNode]:
    turns: dict[str, list[RunTurn]] = {name: [] for name in times.state.agents}
    for turn in times.turns:
        if turn.agent is not None:
            turns.setdefault(turn.agent, []).append(turn)
    nodes = []
    for name, own in turns.items():
        calls = [call for call in times.calls if call.agent == name]
        spends = [spend for spend in times.spends if spend.agent == name]
        money = times.money(spends)
        models = [turn.model for turn in own if turn.model]
        models += [spend.model for spend in spends if spend.model]
        nodes.append(
            GraphNode(
                id=_agent_id(name),
                kind="agent",
                name=name,
                status=None,
                model=models[-1] if models else None,
                calls=len(calls),
                failures=sum(call.failed for call in calls),
                seconds=sum(turn.end - turn.begin for turn in own) / 1000 if own else None,
                share=None,
                **money._asdict(),
            )
        )
    return nodes


def _run_node(key: str, row: RunRow | None) -> GraphNode:
    if row is None:
        return _node(key, "run", key)
    return GraphNode(
        id=key,
        kind="run",
        name=row.title or row.run,
        status=row.status,
        model=row.model,
        calls=row.tool_calls,
        failures=row.tool_failures,
        seconds=row.age_seconds,
        cost_usd=row.cost_usd,
        computed_usd=row.computed_usd,
        lower_bound=row.lower_bound,
        share=None,
    )


def _node(id: str, kind: NodeKind, name: str | None) -> GraphNode:
    return GraphNode(
        id=id,
        kind=kind,
        name=name,
        status=None,
        model=None,
        calls=0,
        failures=0,
        seconds=None,
        cost_usd=None,
        computed_usd=None,
        lower_bound=False,
        share=None,
    )


def _with_shares(nodes: list[GraphNode]) -> list[GraphNode]:
    """The nodes with their shares of the cost of all runs."""
    total = sum(_cost(node) or 0 for node in nodes if node.kind == "run")
    return [
        node if (cost := _cost(node)) is None or not total else replace(node, share=cost / total)
        for node in nodes
    ]


def _cost(node: GraphNode) -> float | None:
    known = [each for each in (node.cost_usd, node.computed_usd) if each is not None]
    return sum(known) if known else None


question = Question(
    name="graph",
    about="Show the agents of a run, the tree of runs that it is in, people who are asked, and what "
    "passed between them.",
    ask=graph,
    params=(run_param(),),
    paths=("/api/runs/{family}/{run}/graph",),
    examples=("graph agent-coder-1 --json", "graph agent-coder-1 --json | jq .edges"),
)
