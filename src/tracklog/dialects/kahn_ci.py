"""kahn-ci: the transitions of a graph of nodes, each checked by shell commands."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args

from pydantic import MISSING, Field

from tracklog.dialects import (
    Count,
    Dialect,
    Policy,
    Scene,
    Seconds,
    Shape,
    UtcMillis,
    extras,
    millis,
    share,
    slug,
)
from tracklog.model.event import Body, Envelope, Event, Finding
from tracklog.model.fact import Began, Ended, Fact, Moved, Noted, Phase, Returned, Said

RUN_ID = r"^[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}$"
NODE_ID = r"^[a-z0-9][a-z0-9-]{0,63}$"

RunId = Annotated[
    str,
    Field(pattern=RUN_ID, description="1 to 64 of A-Z a-z 0-9 _ -, first a letter or a digit."),
]
NodeId = Annotated[
    str,
    Field(pattern=NODE_ID, description="1 to 64 of a-z 0-9 -, first a letter or a digit."),
]
NodeStatus = Literal["pending", "ready", "running", "done", "failed", "blocked"]
"""The state of a node of the graph."""
Outcome = Literal["clean", "clean_with_flake", "partial", "stuck", "catastrophic"]
"""How a run of the graph ended."""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
Attempt = Annotated[int, Field(ge=1, description="Counted from 1.")]


class Frame(Shape):
    """The base that all kahn events share."""

    ts: UtcMillis
    run_id: RunId


class RunStart(Frame):
    """The first line of a run."""

    event: Literal["run_start"]
    total_nodes: Count


class NodeTransition(Frame):
    """A node changed its status."""

    event: Literal["node_transition"]
    node_id: NodeId
    from_: Annotated[NodeStatus, Field(alias="from")]
    to: NodeStatus
    attempt: Attempt | MISSING = MISSING
    """Written if and only if `to` is running."""
    reason: str | MISSING = MISSING
    """`kind` or `kind:detail`; free text."""


class DoneWhenResult(Shape):
    """The result of one check of a node."""

    cmd: str
    rc: int
    duration_s: Seconds
    tail: Annotated[str, Field(max_length=4096)] | MISSING = MISSING
    """The end of stderr and stdout, at most 4096 characters; only when rc is not 0."""
    truncated: bool | MISSING = MISSING
    """True beside a tail that was cropped."""


class NodeAttempt(Frame):
    """A node was tried, and its checks were run."""

    event: Literal["node_attempt"]
    node_id: NodeId
    attempt: Attempt
    duration_s: Seconds
    converged: bool
    """True only if every check exited 0."""
    done_when_results: list[DoneWhenResult]
    backoff_s: Seconds | MISSING = MISSING
    """Omitted on attempt 1."""


class RunEnd(Frame):
    """The last line of a run."""

    event: Literal["run_end"]
    outcome: Outcome
    done: Count
    failed: Count
    blocked: Count
    total_duration_s: Seconds
    total_attempts: Count | MISSING = MISSING
    flake_retries: Count | MISSING = MISSING
    exit_code: int | MISSING = MISSING
    """Never written as 0."""


class Node(Shape):
    """One node of a graph."""

    id: NodeId
    """Stable across runs."""
    deliverable: Annotated[str, Field(min_length=1)]
    depends_on: Annotated[list[NodeId], Field(json_schema_extra={"uniqueItems": True})]
    """The edges; [] marks a root."""
    touches: Annotated[list[str], Field(json_schema_extra={"uniqueItems": True})]
    parallel_safe: bool
    done_when: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]
    max_ralph_iters: Annotated[int, Field(ge=1)] | MISSING = MISSING
    """6 where it is absent."""
    estimated_loc: Count | MISSING = MISSING


class Graph(Shape):
    """The graph that a run works through, as it was when the run started."""

    version: Literal[1]
    nodes: Annotated[list[Node], Field(min_length=1)]


KINDS: dict[str, type[Shape]] = {
    "run_start": RunStart,
    "node_transition": NodeTransition,
    "node_attempt": NodeAttempt,
    "run_end": RunEnd,
}

PHASES: dict[str, Phase] = {
    "pending": "working",
    "ready": "working",
    "running": "working",
    "done": "done",
    "failed": "failed",
    "blocked": "failed",
}

EDGES = frozenset(
    {
        ("pending", "ready"),
        ("ready", "running"),
        ("running", "running"),  # K15: a retry may be marked
        ("running", "done"),
        ("running", "failed"),
        ("pending", "blocked"),
        ("ready", "blocked"),
    }
)


def claim(body: Body) -> float:
    # The kinds are unique to this dialect: one is enough, whatever else is missing.
    known = body.get("event") in list(KINDS)
    return max(share(body, ("ts", "run_id", "event"), known), float(known))


def read(body: Body) -> Envelope:
    get = body.get
    return get("run_id", ""), get("event", ""), get("ts"), None, get("node_id"), None, None


def facts(event: Event) -> Iterator[Fact]:
    body = event.body
    match event.kind:
        case "run_start":
            nodes = body.get("total_nodes")
            yield Began(what="run", counts=None if nodes is None else {"total_nodes": int(nodes)})
        case "node_transition" if "to" in body:
            yield from _moved(body)
        case "node_attempt":
            yield from _attempted(body)
        case "run_end":
            outcome = body["outcome"]
            # With these two outcomes the process exits 0, and the exit code is not written.
            passed = outcome in ("clean", "clean_with_flake")
            yield Ended(
                what="run",
                outcome=outcome,
                passed=passed,
                exit_code=body.get("exit_code", int(not passed)),
                seconds=body.get("total_duration_s"),
                counts={key: int(body[key]) for key in TOTALS if key in body} or None,
            )
    yield from extras(body)


TOTALS = ("done", "failed", "blocked", "total_attempts", "flake_retries")
DECISIVE = ("done", "failed", "blocked", "flake_retries")


def _moved(body: Body) -> Iterator[Fact]:
    node, to = body["node_id"], body["to"]
    yield Moved(
        step=node, from_=body.get("from"), to=to, phase=PHASES[to], reason=body.get("reason")
    )
    if to == "running":
        yield Began(what="step", step=node)
    elif to in ("done", "failed", "blocked"):
        yield Ended(
            what="step", step=node, outcome=to, passed=to == "done", reason=body.get("reason")
        )


def _attempted(body: Body) -> Iterator[Fact]:
    node, attempt = body["node_id"], int(body["attempt"])
    converged = body.get("converged")
    for number_, result in enumerate(body.get("done_when_results", ())):
        yield Returned(
            step=node,
            call_id=f"{node}/{attempt}/{number_}",
            synthetic_id=True,
            tool=result["cmd"],
            ok=result["rc"] == 0,
            exit_code=result["rc"],
            seconds=result["duration_s"],
            output=result.get("tail"),
        )
    yield Ended(
        what="step",
        step=f"{node}#{attempt}",
        passed=converged,
        outcome=None if converged is None else "converged" if converged else "not converged",
        seconds=body.get("duration_s"),
        attempt=attempt,
    )


@dataclass(slots=True)
class State:
    """The state of a run."""

    begun: bool = False
    ended: bool = False
    status: dict[str, str] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    tried: int = 0
    untried: dict[tuple[str, int], None] = field(default_factory=dict)
    """Attempts that a transition announced and that have no node_attempt yet."""
    flaky: set[str] = field(default_factory=set)
    """Nodes that converged on a later attempt than their first."""


def rules(state: State | None, event: Event) -> tuple[State, list[Finding]]:
    state = state or State()
    found: list[Finding] = []
    body = event.body
    if state.ended:
        found.append(Finding("after-end", "an event after run_end", "error"))
    if event.kind == "run_start":
        if state.begun:
            found.append(Finding("second-start", "a second run_start in this run", "error"))
        state.begun = True
    elif not state.begun:
        state.begun = True
        found.append(Finding("no-start", f"the run begins with {event.kind}, not run_start"))
    match event.kind:
        case "node_transition" if "to" in body:
            _check_move(state, body, found)
        case "node_attempt":
            _check_attempt(state, body, found)
        case "run_end":
            _check_end(state, body, found)
            state.ended = True
    return state, found


def _check_move(state: State, body: Body, found: list[Finding]) -> None:
    node, to = body["node_id"], body["to"]
    was = state.status.get(node, "pending")
    before = body.get("from", was)
    if before != was:
        found.append(
            Finding("from-mismatch", f"{node} moved from {before}, but was {was}", "error")
        )
    if (before, to) not in EDGES:
        found.append(
            Finding("illegal-transition", f"{node}: {before} -> {to} is no legal move", "error")
        )
    if to == "running":
        if "attempt" not in body:
            found.append(Finding("attempt-missing", f"{node} -> running without attempt"))
        else:
            state.untried[node, body["attempt"]] = None
    elif "attempt" in body:
        found.append(Finding("attempt-misplaced", f"{node} -> {to} carries attempt"))
    # An impossible transition is accepted: the status follows the last `to`.
    state.status[node] = to


def _check_attempt(state: State, body: Body, found: list[Finding]) -> None:
    node, attempt = body["node_id"], body["attempt"]
    expected = state.attempts.get(node, 0) + 1
    if attempt != expected:
        found.append(
            Finding("attempt-order", f"{node}: attempt {attempt} where {expected} was next")
        )
    state.attempts[node] = attempt
    state.tried += 1
    state.untried.pop((node, attempt), None)
    if attempt == 1 and "backoff_s" in body:
        found.append(Finding("backoff-first", f"{node}: backoff_s on attempt 1"))
    results, converged = body.get("done_when_results", ()), body.get("converged")
    clean = all(result["rc"] == 0 for result in results)
    if converged and attempt > 1:
        state.flaky.add(node)
    if converged and not clean:
        found.append(
            Finding("converged-mismatch", f"{node}: converged, though a check failed", "error")
        )
    for result in results:
        if "tail" in result and result["rc"] == 0:
            found.append(Finding("tail-misplaced", f"{node}: a tail beside rc 0"))
        elif result.get("truncated") and "tail" not in result:
            found.append(Finding("tail-misplaced", f"{node}: truncated without a tail"))


def _check_end(state: State, body: Body, found: list[Finding]) -> None:
    for status in ("done", "failed", "blocked"):
        shown = sum(value == status for value in state.status.values())
        if state.status and body.get(status, shown) != shown:
            found.append(
                Finding("totals", f"{status} is {body[status]}, the log shows {shown}", "error")
            )
    if state.tried and body.get("total_attempts", state.tried) != state.tried:
        message = f"total_attempts is {body['total_attempts']}, the log shows {state.tried}"
        found.append(Finding("totals", message, "error"))
    if state.tried and body.get("flake_retries", len(state.flaky)) != len(state.flaky):
        message = f"flake_retries is {body['flake_retries']}, the log shows {len(state.flaky)}"
        found.append(Finding("flake-count", message))
    counted = {"done", "failed", "blocked"} <= body.keys()
    derived = outcome_of(*(body.get(key, 0) for key in DECISIVE)) if counted else body["outcome"]
    same = body["outcome"] == derived or (
        # Without the count, no flake and an unknown number of flakes look the same.
        "flake_retries" not in body and {body["outcome"], derived} == {"clean", "clean_with_flake"}
    )
    if not same:
        found.append(
            Finding("outcome-mismatch", f"outcome {body['outcome']}, the counts give {derived}")
        )
    if body.get("exit_code") == 0:
        found.append(Finding("exit-code-zero", "exit_code 0 is never written"))
    elif "exit_code" in body and body["outcome"] in ("clean", "clean_with_flake"):
        found.append(Finding("exit-code-misplaced", f"{body['outcome']} with an exit_code"))
    elif "exit_code" not in body and body["outcome"] in ("stuck", "catastrophic"):
        # K14: a partial without it is tolerated
        found.append(Finding("exit-code-missing", f"{body['outcome']} without exit_code"))


def rest(state: State) -> list[Finding]:
    found = [
        Finding("attempt-missing", f"{node} went to running (attempt {n}), no node_attempt follows")
        for node, n in state.untried
    ]
    if not state.ended:
        found.append(Finding("no-end", "no run_end", "info"))
    return found


def outcome_of(done: int, failed: int, blocked: int, flake_retries: int) -> Outcome:
    """The outcome of a run, from its counts alone; the first match wins."""
    if not failed and not blocked:
        return "clean_with_flake" if flake_retries else "clean"
    if not done:
        return "catastrophic"
    return "stuck" if failed and blocked else "partial"


def lint_graph(graph: Body) -> list[Finding]:
    """K32: the rules of a graph that its schema cannot express."""
    found: list[Finding] = []
    edges: dict[str, list[str]] = {}
    for node in graph["nodes"]:
        if node["id"] in edges:
            found.append(Finding("node-id-reused", f"two nodes are called {node['id']}", "error"))
        edges[node["id"]] = [*edges.get(node["id"], ()), *node["depends_on"]]
    for name, parents in edges.items():
        found += [
            Finding(
                "unknown-dependency", f"{name} depends on {parent}, which is not there", "error"
            )
            for parent in parents
            if parent not in edges
        ]
    if all(node["depends_on"] for node in graph["nodes"]):
        found.append(Finding("no-root", "no node without dependencies", "error"))
    if cycle := _cycle(edges):
        found.append(Finding("cycle", f"a cycle: {' -> '.join(cycle)}", "error"))
    return found


def _cycle(edges: dict[str, list[str]]) -> list[str]:
    """A cycle in the dependencies; [] where there is none."""
    waits = {name: sum(parent in edges for parent in set(edges[name])) for name in edges}
    children: dict[str, list[str]] = {name: [] for name in edges}
    for name, parents in edges.items():
        for parent in set(parents) & edges.keys():
            children[parent].append(name)
    free = [name for name, count in waits.items() if not count]
    while free:
        name = free.pop()
        del waits[name]
        for child in children[name]:
            waits[child] -= 1
            if not waits[child]:
                free.append(child)
    if not waits:
        return []
    # Each remaining node depends on another remaining node, so the path must reach one twice.
    way: dict[str, None] = {}
    following = min(waits)
    while following not in way:
        way[following] = None
        following = next(each for each in edges[following] if each in waits)
    names = list(way)
    return [*names[names.index(following) :], following]


def say(fact: Fact, scene: Scene) -> Body | None:
    base: Body = {"ts": millis(scene.at), "run_id": slug(scene.run, RUN_ID, "run")}
    memory = scene.memory
    nodes = memory.setdefault("nodes", {})
    name, _, attempt = (fact.step or "").rpartition("#")
    whole = isinstance(fact, Began | Ended) and fact.what == "agent"
    node = slug((fact.agent if whole else fact.step) or "", NODE_ID, "node")
    match fact:
        case Began(what="run"):
            return {
                **base,
                "event": "run_start",
                "total_nodes": (fact.counts or {}).get("total_nodes", 0),
            }
        case Moved(agent=None, step=str(), to=to) if to in PHASES:
            before = fact.from_ if fact.from_ in PHASES else nodes.get(node, "pending")
            return {**base, **_say_move(node, before, to, fact.reason, memory)}
        case Began(what="step" | "agent") if nodes.get(node) != "running":
            return {**base, **_say_move(node, "ready", "running", None, memory)}
        case Ended(what="step") if name and attempt.isdecimal():
            return {**base, **_say_attempt(fact, slug(name, NODE_ID, "node"), memory)}
        case Ended(what="step" | "agent") if nodes.get(node, "running") == "running":
            to = "failed" if fact.passed is False else "done"
            return {**base, **_say_move(node, "running", to, fact.reason, memory)}
        case Returned(exit_code=int(code)):
            check: Body = {"cmd": fact.tool or "unknown", "rc": code}
            check["duration_s"] = float(fact.seconds or 0)
            if isinstance(fact.output, str) and code:
                # K13: bytes, without cutting a code point
                whole_tail = fact.output.encode(errors="replace")
                check |= {"tail": whole_tail[-TAIL:].decode(errors="ignore")}
                check |= {"truncated": True} if len(whole_tail) > TAIL else {}
            memory.setdefault("checks", {}).setdefault(node, []).append(check)
        case Ended(what="run"):
            return {**base, "event": "run_end", **_end(fact, memory)}
    return None


TAIL = 4096


def _say_move(node: str, before: str, to: str, reason: str | None, memory: dict[str, Any]) -> Body:
    memory["nodes"][node] = to
    body: Body = {"event": "node_transition", "node_id": node, "from": before, "to": to}
    if to == "running":
        attempts = memory.setdefault("attempts", {})
        body["attempt"] = attempts[node] = attempts.get(node, 0) + 1
    return body | ({"reason": reason} if reason else {})


def _say_attempt(fact: Ended, node: str, memory: dict[str, Any]) -> Body:
    checks = memory.get("checks", {}).pop(node, [])
    memory["tried"] = memory.get("tried", 0) + 1
    return {
        "event": "node_attempt",
        "node_id": node,
        "attempt": int((fact.step or "").rpartition("#")[2][:9]) or 1,
        "duration_s": float(fact.seconds or 0),
        "converged": fact.passed is True,
        "done_when_results": checks,
    }


def carries(event: Event, facts: Iterable[Fact]) -> bool:
    """A line with a tool's output is not carried: a check has a tail, and nothing more."""
    if event.family == dialect.family:
        return True
    blocks = (block for fact in facts if isinstance(fact, Said) for block in fact.blocks)
    return not any(isinstance(fact, Returned | Noted) for fact in facts) and not any(
        block.get("type") not in ("text", "thinking") for block in blocks
    )


def _end(fact: Ended, memory: dict[str, Any]) -> dict[str, Any]:
    ends = list(memory["nodes"].values())
    counts = {status: ends.count(status) for status in ("done", "failed", "blocked")}
    if fact.passed is False and not counts["failed"] and not counts["blocked"]:
        counts["failed"] = 1
    counts |= {key: n for key, n in (fact.counts or {}).items() if key in TOTALS}
    told = [word for word in OUTCOMES if word == fact.outcome]
    outcome = told[0] if told else outcome_of(*(counts.get(key, 0) for key in DECISIVE))
    end: dict[str, Any] = {"outcome": outcome, **counts}
    end["total_duration_s"] = float(fact.seconds or 0)
    clean = outcome in ("clean", "clean_with_flake")
    return end | ({} if clean else {"exit_code": fact.exit_code or 1})


dialect = Dialect(
    name="kahn-ci",
    about="CI runs: a graph of nodes, each checked by shell commands.",
    family="kahn",
    policy=Policy(kinds="closed", fields="open", redactable=False),
    kind_key="event",
    kinds=KINDS,
    frame=Frame,
    claim=claim,
    read=read,
    facts=facts,
    rules=rules,
    rest=rest,
    say=say,
    carries=carries,
    documents={"graph": Graph},
    document_rules={"graph": lint_graph},
)
