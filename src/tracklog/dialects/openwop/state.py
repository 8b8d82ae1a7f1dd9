"""The state of a run that the rules need, and the levels of the findings."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tracklog.model.event import Body, Event, Finding, Level

THRESHOLD = 0.7
TOKENS = 512

LEVELS: Mapping[str, Level] = {
    "sequence-not-increasing": "error",
    "event-after-terminal": "error",
    "second-terminal": "error",
    "sequence-gap": "warning",
    "first-not-run-started": "warning",
    "unknown-causation": "warning",
    "tolerated-envelope": "warning",
    "reserved-type": "warning",
    "undotted-type": "warning",
    "unknown-type": "info",
    "alias-mismatch": "error",
    "retired-field": "error",
    "published-schema": "warning",
    "seed-over-schema": "info",
    "one-spelling-only": "info",
    "return-without-call": "error",
    "tool-causation": "error",
    "result-and-error": "error",
    "neither-result-nor-error": "error",
    "call-not-returned": "warning",
    "tool-id-form": "warning",
    "delta-order": "error",
    "delta-agent": "error",
    "delta-after-close": "error",
    "delta-not-closed": "warning",
    "summary-too-long": "warning",
    "escalation-missing": "error",
    "escalation-duplicate": "error",
    "escalation-not-needed": "warning",
    "escalation-form": "warning",
    "host-id-in-manifest": "error",
    "group-id-missing": "error",
    "version-and-channel": "error",
    "agent-id-form": "warning",
    "published-model-class": "warning",
    "orchestrator-changed": "error",
    "decision-after-terminate": "error",
    "effect-before-decision": "error",
    "secret-shape": "error",
}
"""Every finding of this dialect except those of identity, and its level."""


@dataclass(slots=True)
class Decision:
    """An agent's decision, and the actions that followed it."""

    agent: str
    confidence: float | None
    threshold: float
    actions: int = 0
    hinted: bool = False
    """Something looks like an escalation, but does not name this decision as its cause."""

    @property
    def low(self) -> bool:
        return self.confidence is not None and self.confidence < self.threshold


@dataclass(slots=True)
class OpenBlock:
    """An open block of reasoning."""

    agent: str
    next: int


@dataclass(slots=True)
class NodeExecution:
    """One execution of a node, from its start to its end."""

    type_id: str | None = None
    acted: set[str] = field(default_factory=set)
    """Agents that have reasoned or called a tool in it."""
    block: OpenBlock | None = None
    closed: bool = False
    """Whether a block of reasoning was closed in it."""
    decision: Decision | None = None
    """The last one of an agent, until something settles it."""
    directed: bool = False
    """Whether a supervisor has decided in it."""


@dataclass(slots=True)
class OpenwopRunState:
    """The state of a run."""

    last: int | None = None
    ended: str | None = None
    events: dict[str, Decision | None] = field(default_factory=dict)
    """Every event by its id, and the decision of an agent.decided."""
    nodes: dict[str, NodeExecution] = field(default_factory=dict)
    calls: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Open calls: the event and the node of each, by call id."""
    groups: dict[str, str] = field(default_factory=dict)
    """The group of each agent that shares its context with one."""
    known: set[str] = field(default_factory=set)
    """Agent ids whose form was checked."""
    options: Body = field(default_factory=dict)
    supervisor: str | None = None
    directed: bool = False
    terminated: bool = False


def finding(name: str, message: str) -> Finding:
    """A finding of this dialect, with the level of its name."""
    return Finding(name, message, LEVELS[name])


@dataclass(slots=True)
class RuleCheck:
    """One event and the state of its run."""

    state: OpenwopRunState
    event: Event
    payload: Body
    node: str
    findings: list[Finding] = field(default_factory=list)

    def add(self, name: str, message: str) -> None:
        self.findings.append(finding(name, message))

    def execution(self) -> NodeExecution:
        return self.state.nodes.setdefault(self.node, NodeExecution())
