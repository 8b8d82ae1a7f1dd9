"""kahn-agent: agents of a fleet that think, call tools, get audited and converge."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import MISSING, Field

from tracklog.dialects import (
    Count,
    Dialect,
    Policy,
    Scene,
    Seconds,
    Shape,
    Share,
    UtcMillis,
    extras,
    millis,
    share,
    slug,
    text,
)
from tracklog.model.event import Body, Envelope, Event, Finding
from tracklog.model.fact import (
    Answered,
    Asked,
    Began,
    Called,
    Decided,
    Ended,
    Fact,
    Moved,
    Noted,
    Phase,
    Returned,
    Said,
)

RUN_ID = r"^[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}$"
AGENT_ID = r"^[a-z0-9][a-z0-9:-]{0,63}$"
CHECKPOINT_ID = r"^[a-z0-9][a-z0-9:.-]{0,127}$"
SUMMARY = 2048

FLEET_POWERS = ("clarification", "audit", "convergence")
"""Actions that an agent may take and a CI node may not. The first (an agent pauses itself for an
operator) is in the seed; the other two are our interpretation.
"""

RunId = Annotated[
    str,
    Field(pattern=RUN_ID, description="1 to 64 of A-Z a-z 0-9 _ -, first a letter or a digit."),
]
AgentId = Annotated[
    str,
    Field(
        pattern=AGENT_ID,
        description="1 to 64 of a-z 0-9 : -, first a letter or a digit; colons are namespaces.",
    ),
]
"""The id of an agent."""
CheckpointId = Annotated[
    str,
    Field(
        pattern=CHECKPOINT_ID,
        description="1 to 128 of a-z 0-9 : . -, first a letter or a digit.",
    ),
]
"""The id of an audit checkpoint."""
AgentStatus = Literal[
    "thinking",
    "tool_call",
    "tool_result",
    "response",
    "reflect",
    "blocked-on-clarification",
    "converged",
    "failed",
]
"""What an agent is doing."""
AgentOutcome = Literal["converged", "partial", "escaped", "aborted"]
"""How the run of an agent ended."""
AuditResult = Literal["pass", "fail", "warn"]
"""What an audit found."""


class Frame(Shape):
    """The base that all kahn events share."""

    ts: UtcMillis
    run_id: RunId


class AgentRunStart(Frame):
    """An agent began its task."""

    event: Literal["agent_run_start"]
    agent_id: AgentId
    task: str
    model: str | MISSING = MISSING


class AgentTransition(Frame):
    """An agent changed its status."""

    event: Literal["agent_transition"]
    agent_id: AgentId
    step: Count
    """Never decreases within one run and agent."""
    from_: Annotated[AgentStatus, Field(alias="from")]
    to: AgentStatus
    reason: str | MISSING = MISSING
    """`kind` or `kind:detail`; free text."""


class ToolInvocation(Frame):
    """An agent used a tool; the tool's full output has no place here."""

    event: Literal["tool_invocation"]
    agent_id: AgentId
    step: Count
    tool_name: str
    duration_s: Seconds
    ok: bool
    input_summary: str | MISSING = MISSING
    output_summary: Annotated[str, Field(max_length=SUMMARY)] | MISSING = MISSING
    """At most 2048 characters; the emitter crops what is longer."""
    error: str | MISSING = MISSING


class AuditCheckpoint(Frame):
    """An assertion about an agent, or about the run when agent_id is null."""

    event: Literal["audit_checkpoint"]
    agent_id: AgentId | MISSING | None = MISSING
    """null: about the run as a whole. The one field of this contract that may be null."""
    checkpoint_id: CheckpointId
    result: AuditResult
    duration_s: Seconds
    evidence: dict[str, Any] | MISSING = MISSING
    """A JSON object."""


class AgentRunEnd(Frame):
    """An agent ended; success is the outcome, never an exit code."""

    event: Literal["agent_run_end"]
    agent_id: AgentId
    outcome: AgentOutcome
    total_steps: Count
    total_tool_calls: Count
    total_audit_checkpoints: Count
    audits_passed: Count
    audits_failed: Count
    total_duration_s: Seconds
    convergence_score: Share | MISSING = MISSING
    """The producer's own number; 1 means fully converged."""


KINDS: dict[str, type[Shape]] = {
    "agent_run_start": AgentRunStart,
    "agent_transition": AgentTransition,
    "tool_invocation": ToolInvocation,
    "audit_checkpoint": AuditCheckpoint,
    "agent_run_end": AgentRunEnd,
}

BLOCKED = "blocked-on-clarification"
PHASES: dict[str, Phase] = {
    "thinking": "working",
    "tool_call": "working",
    "tool_result": "working",
    "response": "working",
    "reflect": "working",
    BLOCKED: "waiting",
    "converged": "done",
    "failed": "failed",
}

EDGES = frozenset(
    {
        ("thinking", "tool_call"),
        ("tool_call", "tool_result"),
        ("tool_result", "response"),
        ("response", "reflect"),
        ("reflect", "thinking"),
        ("reflect", "converged"),
        ("thinking", BLOCKED),
        (BLOCKED, "thinking"),
        ("thinking", "failed"),
    }
)
TERMINAL = ("converged", "failed")


def claim(body: Body) -> float:
    # The kinds are unique to this dialect: one is enough, whatever else is missing.
    known = body.get("event") in list(KINDS)
    return max(share(body, ("ts", "run_id", "event"), known), float(known))


def read(body: Body) -> Envelope:
    get = body.get
    return get("run_id", ""), get("event", ""), get("ts"), None, get("agent_id"), None, None


def facts(event: Event) -> Iterator[Fact]:
    body = event.body
    agent: Any = body.get("agent_id")
    match event.kind:
        case "agent_run_start":
            yield Began(what="agent", agent=agent, task=body["task"], model=body.get("model"))
        case "agent_transition":
            yield from _moved(agent, body)
        case "tool_invocation":
            yield from _used(agent, body)
        case "audit_checkpoint":
            yield Decided(
                agent=agent,
                name=body["checkpoint_id"],
                verdict=body["result"],
                passed={"pass": True, "fail": False}.get(body["result"]),
                evidence=body.get("evidence"),
            )
        case "agent_run_end":
            yield Ended(
                what="agent",
                agent=agent,
                outcome=body["outcome"],
                passed=body["outcome"] == "converged",
                score=body.get("convergence_score"),
                seconds=body["total_duration_s"],
            )
    yield from extras(body, agent)


def _moved(agent: str, body: Body) -> Iterator[Fact]:
    before, to, reason = body["from"], body["to"], body.get("reason")
    step = str(int(body["step"]))
    yield Moved(agent=agent, step=step, from_=before, to=to, phase=PHASES[to], reason=reason)
    if to == BLOCKED:
        yield Asked(
            agent=agent,
            step=step,
            question_id=_question("clarification", agent, reason),
            what="clarification",
            text=text(body.get("question")) or reason,
            expires=text(body.get("expires")),
        )
    elif before == BLOCKED and not (reason or "").startswith("timeout:"):
        yield Answered(
            agent=agent,
            step=step,
            question_id=_question("operator_response", agent, reason),
            answer=body.get("answer", reason),
        )


def _question(word: str, agent: str, reason: str | None) -> str:
    """K22: the question's id follows the word; without it the agent has one open question."""
    kind, _, detail = (reason or "").partition(":")
    return detail if kind == word and detail else agent


def _used(agent: str, body: Body) -> Iterator[Fact]:
    step = str(int(body["step"]))
    call_id = f"{agent}/{step}/{body['tool_name']}"
    yield Called(
        agent=agent,
        step=step,
        tool=body["tool_name"],
        call_id=call_id,
        synthetic_id=True,
        input=body.get("input_summary"),
    )
    yield Returned(
        agent=agent,
        step=step,
        tool=body["tool_name"],
        call_id=call_id,
        synthetic_id=True,
        ok=body["ok"],
        seconds=body["duration_s"],
        output=body.get("output_summary"),
        error=body.get("error"),
    )


@dataclass(slots=True)
class _Agent:
    begun: bool = False
    ended: bool = False
    status: str = "thinking"
    moved: bool = False
    step: int = 0
    tools: int = 0
    audits: int = 0


@dataclass(slots=True)
class _State:
    agents: dict[str, _Agent] = field(default_factory=dict)


def rules(state: _State | None, event: Event) -> tuple[_State, list[Finding]]:
    state = state or _State()
    found: list[Finding] = []
    body, name = event.body, event.body.get("agent_id")
    if event.kind == "audit_checkpoint" and "agent_id" not in body:
        found.append(
            Finding("agent-id-absent", "no agent_id: read as about the run; write null instead")
        )
    if name is None:
        return state, found
    agent = state.agents.setdefault(name, _Agent())
    if agent.ended:
        found.append(Finding("after-end", f"{name} has an event after its agent_run_end", "error"))
    if event.kind == "agent_run_start":
        if agent.begun:
            found.append(Finding("second-start", f"{name} starts a second time", "error"))
        # A new start after an end begins a new lifecycle with new totals.
        agent = state.agents[name] = _Agent(begun=True, step=agent.step)
    elif not agent.begun:
        agent.begun = True
        found.append(Finding("no-start", f"{name} begins with {event.kind}, not agent_run_start"))
    if "step" in body:
        if body["step"] < agent.step:
            message = f"{name}: step {body['step']} after step {agent.step}"
            found.append(Finding("step-decreased", message, "error"))
        agent.step = max(agent.step, body["step"])
    match event.kind:
        case "agent_transition":
            _check_move(name, agent, body, found)
        case "tool_invocation":
            agent.tools += 1
        case "audit_checkpoint":
            agent.audits += 1
        case "agent_run_end":
            _check_end(name, agent, body, found)
            agent.ended = True
    return state, found


def _check_move(name: str, agent: _Agent, body: Body, found: list[Finding]) -> None:
    before, to = body["from"], body["to"]
    if not agent.moved and before != "thinking":
        message = f"{name}: the first status is {before}, not thinking"
        found.append(Finding("first-status", message, "error"))
    elif agent.moved and before != agent.status:
        message = f"{name} moved from {before}, but was {agent.status}"
        found.append(Finding("from-mismatch", message, "error"))
    if (before, to) not in EDGES:
        message = f"{name}: {before} -> {to} is no legal move"
        found.append(Finding("illegal-transition", message, "error"))
    # An impossible transition is accepted: the status follows the last `to`.
    agent.status, agent.moved = to, True


def _check_end(name: str, agent: _Agent, body: Body, found: list[Finding]) -> None:
    outcome = body["outcome"]
    if outcome != "aborted" and agent.status not in TERMINAL:
        message = f"{name} ended as {outcome} while {agent.status}"
        # KAHN-49: an agent that leaves its scope gracefully may end while it decides what to do
        # next.
        graceful = outcome == "escaped" and agent.status == "thinking"
        found.append(Finding("end-from-status", message, "info" if graceful else "error"))
    if outcome == "converged" and agent.status != "converged":
        message = f"{name}: outcome converged, last status {agent.status}"
        found.append(Finding("outcome-status", message))
    for key, counted in (
        ("total_tool_calls", agent.tools),
        ("total_audit_checkpoints", agent.audits),
    ):
        if body[key] != counted:
            message = f"{name}: {key} is {body[key]}, the log shows {counted}"
            found.append(Finding("totals", message, "error"))
    if body["audits_passed"] + body["audits_failed"] > body["total_audit_checkpoints"]:
        message = f"{name}: more audits passed and failed than there were checkpoints"
        found.append(Finding("audit-totals", message, "error"))


def rest(state: _State) -> list[Finding]:
    return [
        Finding("no-end", f"{name}: no agent_run_end", "info")
        for name, agent in state.agents.items()
        if agent.begun and not agent.ended
    ]


def say(fact: Fact, scene: Scene) -> Body | None:
    agent = slug(fact.agent or "", AGENT_ID, "agent")
    base: Body = {"ts": millis(scene.at), "run_id": slug(scene.run, RUN_ID, "run")}
    memory = scene.memory.setdefault(agent, {"steps": 0, "tools": 0, "status": "thinking"})
    audits = memory.setdefault("audits", {"pass": 0, "fail": 0, "warn": 0})
    match fact:
        case Began(what="agent" | "run"):
            body = {**base, "event": "agent_run_start", "agent_id": agent, "task": fact.task or ""}
            return body | ({"model": fact.model} if fact.model else {})
        case Moved(agent=str()):  # a status of a step, without an agent, has no event here
            move = _say_move(fact, agent, memory)
            return None if move is None else {**base, **move}
        case Asked() if memory["status"] != BLOCKED:
            asked = Moved(from_=None, to=BLOCKED, phase="waiting")
            reason = {"reason": f"clarification:{fact.question_id}"}
            words = {"question": fact.text} if fact.text else {}
            return {**base, **(_say_move(asked, agent, memory) or {}), **reason, **words}
        case Answered() if memory["status"] == BLOCKED:
            answered = Moved(from_=BLOCKED, to="thinking", phase="working")
            told = {"reason": f"operator_response:{fact.question_id}", "answer": fact.answer}
            return {**base, **(_say_move(answered, agent, memory) or {}), **told}
        case Called():
            scene.memory[f"tool {fact.call_id}"] = (fact.tool, fact.input)
        case Returned():
            memory["tools"] += 1
            return {**base, **_say_tool(fact, agent, memory, scene)}
        case Decided(name=str(name)) if fact.passed is not None or fact.verdict == "warn":
            result = {True: "pass", False: "fail", None: "warn"}[fact.passed]
            audits[result] += 1
            return {
                **base,
                "event": "audit_checkpoint",
                "agent_id": slug(fact.agent, AGENT_ID, "agent") if fact.agent else None,
                "checkpoint_id": slug(name, CHECKPOINT_ID, "checkpoint"),
                "result": result,
                "duration_s": 0.0,
            } | ({"evidence": fact.evidence} if isinstance(fact.evidence, dict) else {})
        case Ended(what="agent" | "run"):
            return {**base, **_say_end(fact, agent, memory, audits)}
    return None


def _say_move(fact: Moved, agent: str, memory: dict[str, Any]) -> Body | None:
    words = {"working": "thinking", "waiting": BLOCKED, "done": "converged", "failed": "failed"}
    to = fact.to if fact.to in PHASES else words[fact.phase]
    before = fact.from_ if fact.from_ in PHASES else memory["status"]
    if to == memory["status"] and fact.to not in PHASES:
        return None  # the question, or its answer, was written as this event
    memory["status"] = to
    body: Body = {"event": "agent_transition", "agent_id": agent, "step": _step(fact, memory)}
    body |= {"from": before, "to": to}
    return body | ({"reason": fact.reason} if fact.reason else {})


def _step(fact: Fact, memory: dict[str, Any]) -> int:
    """The number of the step where it has one; it never decreases."""
    if (fact.step or "").isdecimal() and len(fact.step or "") < 16:
        memory["steps"] = max(memory["steps"], int(fact.step or 0))
    return int(memory["steps"])


def _say_tool(fact: Returned, agent: str, memory: dict[str, Any], scene: Scene) -> Body:
    body: Body = {"event": "tool_invocation", "agent_id": agent, "step": _step(fact, memory)}
    memory["steps"] += not (fact.step or "").isdecimal()
    tool, given = scene.memory.pop(f"tool {fact.call_id}", ("unknown", None))
    body["tool_name"] = fact.tool or tool
    body["duration_s"] = float(fact.seconds or 0)
    body["ok"] = fact.ok is not False
    if isinstance(given, str):
        body["input_summary"] = given[:SUMMARY]
    if isinstance(fact.output, str):  # KAHN-52: a summary, never the complete output
        body["output_summary"] = fact.output[:SUMMARY]
    if isinstance(fact.error, str):
        body["error"] = fact.error[:SUMMARY]
    return body


def carries(event: Event, facts: Iterable[Fact]) -> bool:
    """KAHN-52: a line with a tool's output is not carried, not even in an extension key.

    A line of this family has no output, only a summary.
    """
    if event.family == dialect.family:
        return True
    blocks = (block for fact in facts if isinstance(fact, Said) for block in fact.blocks)
    kinds = (Returned, Noted)
    return not any(isinstance(fact, kinds) for fact in facts) and not any(
        block.get("type") not in ("text", "thinking") for block in blocks
    )


def _say_end(fact: Ended, agent: str, memory: dict[str, Any], audits: dict[str, int]) -> Body:
    outcome = fact.outcome
    if outcome not in ("converged", "partial", "escaped", "aborted"):
        outcome = "converged" if fact.passed else "partial"
    body: Body = {
        "event": "agent_run_end",
        "agent_id": agent,
        "outcome": outcome,
        "total_steps": memory["steps"],
        "total_tool_calls": memory["tools"],
        "total_audit_checkpoints": sum(audits.values()),
        "audits_passed": audits["pass"],
        "audits_failed": audits["fail"],
        "total_duration_s": float(fact.seconds or 0),
    }
    if fact.score is not None and 0 <= fact.score <= 1:
        body["convergence_score"] = fact.score
    return body


dialect = Dialect(
    name="kahn-agent",
    about="Agents of a fleet that think, call tools, get audited and converge.",
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
    contract="agent_transitions",
    powers=FLEET_POWERS,
)
