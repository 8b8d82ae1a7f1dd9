"""The shapes of the events."""

from typing import Annotated, Any, Literal

from pydantic import MISSING, Field

from tracklog.dialects import Count, Seconds, Shape, Share, UtcMillis
from tracklog.model.fact import Phase

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


class KahnAgentEnvelope(Shape):
    """The base that all kahn events share."""

    ts: UtcMillis
    run_id: RunId


class AgentRunStart(KahnAgentEnvelope):
    """An agent began its task."""

    event: Literal["agent_run_start"]
    agent_id: AgentId
    task: str
    model: str | MISSING = MISSING


class AgentTransition(KahnAgentEnvelope):
    """An agent changed its status."""

    event: Literal["agent_transition"]
    agent_id: AgentId
    step: Count
    """Never decreases within one run and agent."""
    from_: Annotated[AgentStatus, Field(alias="from")]
    to: AgentStatus
    reason: str | MISSING = MISSING
    """`kind` or `kind:detail`; free text."""


class ToolInvocation(KahnAgentEnvelope):
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


class AuditCheckpoint(KahnAgentEnvelope):
    """An assertion about an agent, or about the run when agent_id is null."""

    event: Literal["audit_checkpoint"]
    agent_id: AgentId | MISSING | None = MISSING
    """null: about the run as a whole. The one field of this contract that may be null."""
    checkpoint_id: CheckpointId
    result: AuditResult
    duration_s: Seconds
    evidence: dict[str, Any] | MISSING = MISSING
    """A JSON object."""


class AgentRunEnd(KahnAgentEnvelope):
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
