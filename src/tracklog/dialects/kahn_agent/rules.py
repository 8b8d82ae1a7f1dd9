"""The rules across the events of a run."""

from dataclasses import dataclass, field

from tracklog.dialects.kahn_agent.shapes import BLOCKED
from tracklog.model.event import Body, Event, Finding

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


@dataclass(slots=True)
class _AgentState:
    begun: bool = False
    ended: bool = False
    status: str = "thinking"
    moved: bool = False
    step: int = 0
    tools: int = 0
    audits: int = 0


@dataclass(slots=True)
class _State:
    agents: dict[str, _AgentState] = field(default_factory=dict)


def rules(state: _State | None, event: Event) -> tuple[_State, list[Finding]]:
    state = state or _State()
    findings: list[Finding] = []
    body, name = event.body, event.body.get("agent_id")
    if event.kind == "audit_checkpoint" and "agent_id" not in body:
        findings.append(
            Finding(
                "agent-id-absent", "agent_id is missing: read as an event of the run; write null"
            )
        )
    if name is None:
        return state, findings
    agent = state.agents.setdefault(name, _AgentState())
    if agent.ended:
        findings.append(
            Finding("after-end", f"{name} has an event after its agent_run_end", "error")
        )
    if event.kind == "agent_run_start":
        if agent.begun:
            findings.append(Finding("second-start", f"{name} starts a second time", "error"))
        # A new start after an end begins a new lifecycle with new totals.
        agent = state.agents[name] = _AgentState(begun=True, step=agent.step)
    elif not agent.begun:
        agent.begun = True
        findings.append(
            Finding("no-start", f"{name} begins with {event.kind}, not agent_run_start")
        )
    if "step" in body:
        if body["step"] < agent.step:
            message = f"{name}: step {body['step']} after step {agent.step}"
            findings.append(Finding("step-decreased", message, "error"))
        agent.step = max(agent.step, body["step"])
    match event.kind:
        case "agent_transition":
            _check_move(name, agent, body, findings)
        case "tool_invocation":
            agent.tools += 1
        case "audit_checkpoint":
            agent.audits += 1
        case "agent_run_end":
            _check_end(name, agent, body, findings)
            agent.ended = True
    return state, findings


def _check_move(name: str, agent: _AgentState, body: Body, findings: list[Finding]) -> None:
    before, to = body["from"], body["to"]
    if not agent.moved and before != "thinking":
        message = f"{name}: the first status is {before}, not thinking"
        findings.append(Finding("first-status", message, "error"))
    elif agent.moved and before != agent.status:
        message = f"{name} moved from {before}, but was {agent.status}"
        findings.append(Finding("from-mismatch", message, "error"))
    if (before, to) not in EDGES:
        message = f"{name}: {before} -> {to} is not an allowed transition"
        findings.append(Finding("illegal-transition", message, "error"))
    # An impossible transition is accepted: the status follows the last `to`.
    agent.status, agent.moved = to, True


def _check_end(name: str, agent: _AgentState, body: Body, findings: list[Finding]) -> None:
    outcome = body["outcome"]
    if outcome != "aborted" and agent.status not in TERMINAL:
        message = f"{name} ended as {outcome} while {agent.status}"
        # KAHN-49: an agent that leaves its scope gracefully may end while it decides what to do
        # next.
        graceful = outcome == "escaped" and agent.status == "thinking"
        findings.append(Finding("end-from-status", message, "info" if graceful else "error"))
    if outcome == "converged" and agent.status != "converged":
        message = f"{name}: outcome converged, last status {agent.status}"
        findings.append(Finding("outcome-status", message))
    for key, counted in (
        ("total_tool_calls", agent.tools),
        ("total_audit_checkpoints", agent.audits),
    ):
        if body[key] != counted:
            message = f"{name}: {key} is {body[key]}, the log shows {counted}"
            findings.append(Finding("totals", message, "error"))
    if body["audits_passed"] + body["audits_failed"] > body["total_audit_checkpoints"]:
        message = f"{name}: more audits passed and failed than there were checkpoints"
        findings.append(Finding("audit-totals", message, "error"))


def rest(state: _State) -> list[Finding]:
    return [
        Finding("no-end", f"{name}: no agent_run_end", "info")
        for name, agent in state.agents.items()
        if agent.begun and not agent.ended
    ]
