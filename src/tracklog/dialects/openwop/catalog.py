"""The vocabulary of OpenWOP: event types, prefixes, and the two vocabularies of model classes."""

TYPES = frozenset(
    """
    run.started run.completed run.failed run.cancelled run.resuming run.paused run.resumed
    run.restored-from-snapshot run.dead_lettered
    node.started node.completed node.failed node.suspended node.suspend-failed node.resumed
    node.retried node.skipped node.cancelled node.dispatched
    approval.requested approval.received approval.granted approval.rejected approval.overridden
    clarification.requested clarification.resolved interrupt.requested interrupt.resolved
    channel.written artifact.created output.chunk variable.changed log.appended version.pinned
    workflow.restored workflow.loopback-limit workflow.stalled cap.breached
    lease.acquired lease.renewed lease.lost lease.handed-off
    replay.diverged replay.divergedAtRefusal
    agent.reasoned agent.reasoning.delta agent.promptResolved agent.toolCalled agent.toolReturned
    agent.handoff agent.decided agent.verified agent.invocation.started
    agent.invocation.completed agent.memory.consolidated
    provider.usage prompt.composed model.capability.substituted model.capability.insufficient
    envelope.retry.attempted envelope.retry.exhausted envelope.refusal envelope.truncated
    envelope.nlToFormat.engaged envelope.recovery.applied
    eval.started eval.scored eval.completed
    deployment.promoted deployment.rolled-back deployment.canary.adjusted
    deployment.state.changed roster.run.initiated tool.session.opened tool.session.closed
    egress.decided trigger.subscription.state.changed trigger.delivery.attempted
    budget.reserved budget.consumed budget.threshold.crossed budget.exhausted
    runOrchestrator.decided conversation.opened conversation.exchanged conversation.closed
    memory.compacted memory.written commitment.fired workspace.updated
    core.workflowChain.event core.workflowChain.confidence-escalated
    connector.authorized connector.auth_expired authorization.decided
    proposal.created proposal.activated goal.evaluated goal.closed import.applied
    voice.speech_start voice.transcript voice.endpoint_candidate voice.turn_commit
    voice.synthesis_chunk voice.barge_in voice.cancelled
    """.split()  # noqa: SIM905  # a hundred quoted words are harder to read
)
"""The catalog of event types; a host may add types under a prefix of its own."""

PUBLISHED_KEYS = {
    kind: tuple(keys.split())
    for kind, _, keys in (
        row.partition(":")
        for row in """
agent.invocation.completed: invocationId agentId outcome
agent.invocation.started: invocationId agentId source
agent.memory.consolidated: memoryRef inputCount outputCount
agent.promptResolved: nodeId kind chain resolved
agent.verified: agentId target verdict
approval.granted: gateId principal
approval.overridden: gateId principal reason
approval.rejected: gateId principal
artifact.created: artifactId artifactType
authorization.decided: principal action resource allowed
budget.consumed: dimension consumed limit
budget.exhausted: dimension consumed limit
budget.reserved: effectiveBudget scope
budget.threshold.crossed: dimension consumed limit percent
commitment.fired: commitmentId memoryRef condition
connector.auth_expired: provider credentialRef
connector.authorized: provider credentialRef
core.workflowChain.confidence-escalated: confidence floor escalationKind parentRunId
core.workflowChain.event: phase workerId parentRunId
deployment.canary.adjusted: agentId version fromPercent toPercent
deployment.promoted: agentId toVersion toState
deployment.rolled-back: agentId fromVersion toVersion rollbackPointer
deployment.state.changed: agentId version fromState toState
egress.decided: decision destination
envelope.nlToFormat.engaged: nodeId originalEnvelopeType
envelope.recovery.applied: nodeId path
envelope.refusal: nodeId provider model
envelope.retry.attempted: nodeId attempt reason
envelope.retry.exhausted: nodeId totalAttempts finalReason
envelope.truncated: nodeId provider model stopReason
eval.completed: aggregateScore passed taskCount passedCount
eval.scored: taskId score passed
eval.started: suiteId suiteVersion taskCount modes
goal.closed: goalId finalState
goal.evaluated: goalId satisfied runId iterations
import.applied: bundleOrigin counts
lease.acquired: leaseId host
lease.handed-off: leaseId fromHost toHost
lease.lost: leaseId host
lease.renewed: leaseId host
memory.compacted: memoryRef outputId sourceCount trigger byteSize
memory.written: memoryRef memoryId
model.capability.insufficient: nodeId provider model missingCapabilities
model.capability.substituted: nodeId originalProvider originalModel fallbackProvider fallbackModel missingCapabilities
node.retried: nodeId attempt
node.suspend-failed: nodeId error
output.chunk: nodeId runId chunk isLast
prompt.composed: nodeId refs kind hash
proposal.activated: proposalId kind installedArtifactRef
proposal.created: proposalId kind
replay.divergedAtRefusal: sourceRunId atSequence originalEnvelopeKind replayEnvelopeKind
roster.run.initiated: rosterId persona agentId workflowId triggerSource
run.dead_lettered: runId reason attempts
tool.session.closed: sessionId toolId outcome
tool.session.opened: sessionId toolId
trigger.delivery.attempted: subscriptionId dedupKey attempt outcome
trigger.subscription.state.changed: subscriptionId source fromState toState
version.pinned: changeId version
voice.barge_in: atMs
voice.cancelled: atMs
voice.endpoint_candidate: atMs
voice.speech_start: atMs
voice.synthesis_chunk: seq mimeType
voice.transcript: text isFinal atMs contentTrust
voice.turn_commit: atMs finalText
workflow.loopback-limit: nodeId iterations
workspace.updated: path version
""".strip().splitlines()
    )
}
"""Keys that the published schemas require in types that have no shape here."""

OWN_TYPE = r"[a-z][a-zA-Z0-9_-]*(\.[a-zA-Z0-9_-]+)+"
RESERVED = ("openwop", "core", "community", "vendor", "private", "local")
"""Prefixes that no type of a host's own may have."""

MANIFEST_ID = (
    r"^(core\.[a-z][a-z0-9_-]*(\.[a-z][a-zA-Z0-9_-]*)*"
    r"|(vendor|community|private|local)\.[a-z][a-z0-9_-]*(\.[a-z][a-zA-Z0-9_-]*){2})$"
)
HOST_ID = r"^host:[^\r\n]+$"
SHARING = r"^(isolated|shared|shared:[^\r\n]+)$"
PUBLISHED_ONLY_CLASSES = frozenset(
    {"tool-using", "chat", "code", "vision", "multimodal", "embedding", "retrieval"}
)
"""Model classes of the published AgentRef that RFC 0002 does not have."""
RFC_ONLY_CLASSES = frozenset({"writing", "coding", "research", "general"})
"""Model classes of RFC 0002 that the published AgentRef does not have."""
REDUCER = (
    r"replace|append|merge|counter|votes|feedback"
    r"|vendor\.[a-z][a-z0-9_-]*\.[a-z][a-z0-9_-]*"
)
SUPPRESSED = "confidence-escalation-suppressed"
LOW = "low-confidence"
