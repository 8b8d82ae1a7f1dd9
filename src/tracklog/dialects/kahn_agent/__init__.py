"""kahn-agent: agents of a fleet that think, call tools, get audited and converge."""

from tracklog.dialects import Dialect, Policy, claim_by_kind, without_outputs
from tracklog.dialects.kahn_agent.meaning import facts
from tracklog.dialects.kahn_agent.rules import rest, rules
from tracklog.dialects.kahn_agent.shapes import (
    FLEET_POWERS,
    KINDS,
    AgentId,
    AgentOutcome,
    AgentRunEnd,
    AgentRunStart,
    AgentStatus,
    AgentTransition,
    AuditCheckpoint,
    AuditResult,
    CheckpointId,
    KahnAgentEnvelope,
    ToolInvocation,
)
from tracklog.dialects.kahn_agent.writing import write
from tracklog.model.event import Body, Envelope

__all__ = [
    "FLEET_POWERS",
    "KINDS",
    "AgentId",
    "AgentOutcome",
    "AgentRunEnd",
    "AgentRunStart",
    "AgentStatus",
    "AgentTransition",
    "AuditCheckpoint",
    "AuditResult",
    "CheckpointId",
    "ToolInvocation",
    "dialect",
    "facts",
]


claim = claim_by_kind("event", KINDS, ("ts", "run_id", "event"))


def read(body: Body) -> Envelope:
    get = body.get
    return get("run_id", ""), get("event", ""), get("ts"), None, get("agent_id"), None, None


dialect = Dialect(
    name="kahn-agent",
    about="Agents of a fleet that think, call tools, get audited and converge.",
    family="kahn",
    policy=Policy(kinds="closed", fields="open", redactable=False),
    kind_key="event",
    kinds=KINDS,
    frame=KahnAgentEnvelope,
    claim=claim,
    read=read,
    facts=facts,
    rules=rules,
    rest=rest,
    write=write,
    carries=without_outputs("kahn"),
    contract="agent_transitions",
    powers=FLEET_POWERS,
)
