"""The closed shapes of OpenWOP version 2, as its schemas have them; everything the host renders is
compared with them.

Only the types of events are here that the host writes, without the descriptions. The source is
`schemas/v2` of the published specification: `run-event`, `run-event-payloads`, `suspend-request`,
`run-snapshot`, `effect-ledger-projection`, `agent-ref`, `subject`.
"""

import jsonschema_rs
import orjson

from tracklog.hosts.openwop.wire_v2 import REGISTERED

TEXT, SOME, ANY, FLAG = (
    {"type": "string"},
    {"type": "string", "minLength": 1},
    {},
    {"type": "boolean"},
)
COUNT, FIRST = {"type": "integer", "minimum": 0}, {"type": "integer", "minimum": 1}
SHARE = {"type": "number", "minimum": 0, "maximum": 1}
OBJECT, TEXTS = {"type": "object"}, {"type": "array", "items": TEXT}
TIME = {"type": "string", "format": "date-time"}
BOUND = {"type": "string", "pattern": r"^[A-Za-z0-9._-]+/[A-Za-z0-9._-]{16,128}$"}
EVENT = {"type": "string", "pattern": r"^[A-Za-z0-9._~-]{16,128}$"}
AGENT = {"type": "string", "pattern": r"^[A-Za-z0-9._~:-]{1,128}$"}
HATCH = {"^(openwop-|x-|vendor\\.)": {}}


def enum(*values: str) -> dict:
    return {"enum": list(values)}


def closed(required: str, /, **properties: dict) -> dict:
    """An object with these members and no others."""
    return {
        "type": "object",
        "required": required.split(),
        "properties": properties,
        "additionalProperties": False,
    }


def hatched(required: str, /, **properties: dict) -> dict:
    """The same, which may also have members of the host's own."""
    return {**closed(required, **properties), "patternProperties": HATCH}


SUBJECT = closed(
    "issuer subjectId tenant lane kind",
    issuer=SOME, subjectId={"type": "string", "pattern": r"^[^\s/]{1,256}$"},
    tenant={"type": "string", "pattern": "^[A-Za-z0-9._~-]{1,128}$"},
    lane=enum("api-key"), kind=enum("user", "agent", "workload"),
)  # fmt: skip
OWNER = closed("tenant subject", tenant=SOME, workspace=SOME, subject=SUBJECT)
ERROR = hatched("code message", code=SOME, message=SOME, details=OBJECT, retryable=FLAG)
KIND = enum("approval", "clarification", "external-event", "custom", "low-confidence")
VERBOSITY = enum("summary", "full", "off")
REASON = {"type": "string", "minLength": 1, "maxLength": 64}
FEEDBACK = closed(
    "scope",
    scope=enum("whole", "section", "items"), sectionPath=TEXT, itemIds=TEXTS, tags=TEXTS, text=TEXT,
)  # fmt: skip
RESOLVED = hatched(
    "nodeId interruptId",
    nodeId=SOME, interruptId=BOUND, kind=KIND, reason=REASON, resumeValue=ANY, resolvedBy=SUBJECT,
    decision=enum("granted", "rejected", "overridden"),
    action=enum("accept", "reject", "refine", "edit-accept", "timeout"),
    refineFeedback=FEEDBACK, editedArtifactData=ANY,
)  # fmt: skip
QUESTION = closed("id question", id=SOME, question=SOME, schema=OBJECT)
DATA = {
    "approval": closed(
        "artifactId artifactType title actions",
        artifactId=SOME, artifactType=SOME, title=SOME, description=TEXT, artifactData=ANY,
        onTimeout=enum("reject", "approve", "escalate"), requiredApprovals=FIRST,
        actions={"type": "array", "minItems": 1, "uniqueItems": True,
                 "items": enum("accept", "reject", "refine", "edit-accept", "ask")},
        approversList=TEXTS, rejectionPolicy=enum("single-veto", "majority"),
        overrideBypassesQuorum=FLAG, approverGroupRefs=TEXTS, approverRoleRefs=TEXTS,
        audience=OBJECT,
    ),
    "clarification": closed(
        "questions", questions={"type": "array", "minItems": 1, "items": QUESTION}, contextType=TEXT,
    ),
    "external-event": closed("eventType correlation", eventType=TEXT, correlation=OBJECT),
    "low-confidence": closed(
        "agentId threshold observed", agentId=AGENT, threshold=SHARE, observed=SHARE, decision=ANY,
    ),
}  # fmt: skip
REQUESTED = {
    **closed(
        "kind key data",
        kind=KIND, key={**SOME, "maxLength": 256}, data=ANY, resumeSchema=OBJECT, timeoutMs=COUNT,
    ),
    "allOf": [
        {"if": {"properties": {"kind": {"const": kind}}}, "then": {"properties": {"data": shape}}}
        for kind, shape in DATA.items()
    ],
}  # fmt: skip
META = closed(
    "",
    finishReason=enum("stop", "length", "tool_calls", "content_filter"), logprobs={"type": "array"},
    toolCalls={"type": "array"}, model=TEXT, provider=TEXT, providerExtensions=OBJECT,
    usage=closed("", promptTokens=COUNT, completionTokens=COUNT, totalTokens=COUNT),
)  # fmt: skip
SHAPES = {
    "run.started": hatched(
        "workflowId",
        workflowId=SOME, inputs=OBJECT, transport=enum("rest", "mcp", "a2a", "ui"),
        engineVersion=COUNT, owner=OWNER, tags=TEXTS, metadata=OBJECT,
    ),
    "run.completed": hatched("outputs", outputs=OBJECT, durationMs=COUNT),
    "run.failed": hatched("error", error=ERROR, failedNodeId=SOME, durationMs=COUNT),
    "run.cancelled": hatched(
        "", reason=TEXT, cancelledBy=TEXT, durationMs=COUNT, parentRunId=BOUND
    ),
    "run.paused": hatched(
        "", reason=TEXT, drainPolicy=enum("immediate", "drain-current-node"),
        interruptedNodeId=SOME, interruptedAttempt=FIRST,
    ),
    "run.resumed": OBJECT,
    "node.started": hatched("nodeId typeId", nodeId=SOME, typeId=SOME, attempt=COUNT),
    "node.completed": hatched("nodeId", nodeId=SOME, outputs=OBJECT, durationMs=COUNT),
    "node.failed": hatched("nodeId error", nodeId=SOME, error=ERROR, attempts=FIRST),
    "node.suspended": hatched(
        "nodeId interruptId", nodeId=SOME, interruptId=BOUND, kind=KIND, reason=REASON, key=SOME
    ),
    "node.resumed": hatched("nodeId", nodeId=SOME, interruptId=BOUND, resumeValue=ANY),
    "node.retried": hatched(
        "nodeId attempt", nodeId=SOME, attempt=FIRST, delayMs=COUNT, lastError=ERROR
    ),
    "node.skipped": hatched("nodeId", nodeId=SOME, reason=TEXT),
    "node.cancelled": hatched("nodeId", nodeId=SOME, reason=TEXT),
    "node.dispatched": closed(
        "childRunId childWorkflowId", childRunId=BOUND, childWorkflowId=SOME, childStatus=TEXT
    ),
    "interrupt.requested": REQUESTED,
    "interrupt.resolved": RESOLVED,
    "approval.received": RESOLVED,
    "clarification.resolved": RESOLVED,
    "channel.written": closed(
        "channel value reducer writtenAt",
        channel=SOME, value=ANY, reducer=SOME, nodeId=SOME, writtenAt=TIME, schemaVersion=FIRST,
        sourceEngineId=SOME, sourceRunId=SOME,
    ),
    "output.chunk": hatched(
        "nodeId runId chunk isLast",
        nodeId=SOME, runId=BOUND, chunk=TEXT, isLast=FLAG, channel=TEXT, meta=META,
    ),
    "log.appended": hatched(
        "level message",
        level=enum("debug", "info", "warn", "error"), message=TEXT, nodeId=SOME, fields=OBJECT,
    ),
    "cap.breached": hatched(
        "kind limit observed",
        kind=enum("clarification", "schema", "envelopes", "node-executions", "wasm-memory",
                  "wasm-fuel", "wasm-execution-time", "run-duration", "loop-iterations",
                  "budget-tokens", "budget-cost", "budget-tool-calls", "budget-retries"),
        limit={"type": "number", "minimum": 0}, observed={"type": "number", "minimum": 0},
        nodeId=SOME,
    ),
    "replay.diverged": hatched(
        "sourceRunId atSequence",
        sourceRunId=BOUND, atSequence=COUNT, originalEventId=EVENT, divergencePoint=TEXT,
        divergenceKind=enum("output", "missing", "extra", "type-mismatch"),
    ),
    "agent.reasoned": hatched(
        "agentId reasoning",
        agentId=AGENT, reasoning=TEXT, verbosity=VERBOSITY, causationHostId=SOME,
    ),
    "agent.reasoning-delta": hatched(
        "agentId delta sequence", agentId=AGENT, delta=TEXT, sequence=COUNT, verbosity=VERBOSITY
    ),
    "agent.tool-called": hatched(
        "agentId toolName callId",
        agentId=AGENT, toolName=SOME, callId=SOME, inputs=ANY, argsHash=TEXT, principal=TEXT,
        transport=enum("mcp", "http", "native"), causationHostId=SOME,
    ),
    "agent.tool-returned": hatched(
        "agentId toolName callId",
        agentId=AGENT, toolName=SOME, callId=SOME, outcome=ANY, error=ERROR, durationMs=COUNT,
        status=enum("ok", "error", "forbidden", "rate_limited"), causationHostId=SOME,
    ),
    "agent.handoff": hatched(
        "fromAgentId toAgentId",
        fromAgentId=AGENT, toAgentId=AGENT, reason=TEXT, causationHostId=SOME,
    ),
    "agent.decided": hatched(
        "agentId decision", agentId=AGENT, decision=ANY, confidence=SHARE, causationHostId=SOME
    ),
    "orchestrator.decided": closed(
        "agentId decision", agentId=AGENT, decision=OBJECT, iteration=FIRST, causationHostId=SOME
    ),
    "provider.usage": closed(
        "provider model inputTokens outputTokens",
        provider=SOME, model=SOME, inputTokens=COUNT, outputTokens=COUNT, totalTokens=COUNT,
        costEstimateUsd={"type": "number", "minimum": 0}, currency=TEXT, cacheHit=FLAG,
        cacheReadTokens=COUNT, cacheWriteTokens=COUNT, nodeId=SOME, traceId=TEXT,
    ),
}  # fmt: skip
ENVELOPE = closed(
    "eventId payload runId schemaVersion sequence timestamp type",
    eventId=EVENT, runId=BOUND, nodeId=SOME, type=enum(*SHAPES), payload=OBJECT, timestamp=TIME,
    sequence=COUNT, schemaVersion=FIRST, engineVersion=COUNT, causationId=EVENT,
)  # fmt: skip
_VALIDATORS = {
    kind: jsonschema_rs.Draft202012Validator(
        {**ENVELOPE, "properties": {**ENVELOPE["properties"], "payload": shape}},
        validate_formats=True,
    )
    for kind, shape in SHAPES.items()
}


NODE, RUN_STATUS = {"type": "string", "pattern": r"^[A-Za-z0-9._~:-]{1,128}$"}, enum(
    "pending", "running", "paused", "waiting-approval", "waiting-input", "waiting-external",
    "completed", "failed", "cancelling", "cancelled",
)  # fmt: skip
AGENT_REF = closed(
    "agentId",
    agentId=AGENT, name=TEXT, memoryRef=SOME, version=TEXT, channel=SOME, sourceManifestId=TEXT,
    modelClass=enum("reasoning", "tool-using", "chat", "code", "vision", "multimodal",
                    "embedding", "classification", "retrieval"),
)  # fmt: skip
SNAPSHOT = jsonschema_rs.Draft202012Validator(
    closed(
        "runId workflowId status owner eventLogSchemaVersion",
        runId=BOUND, workflowId=SOME, status=RUN_STATUS, owner=OWNER, currentNodeId=NODE,
        startedAt=TIME, completedAt=TIME, agent=AGENT_REF, runOrchestrator=AGENT_REF,
        nodeStates=OBJECT, variables=OBJECT, channels=OBJECT, engineVersion=COUNT, metadata=OBJECT,
        error=closed("code message", code=SOME, message=SOME, details=OBJECT),
        eventLogSchemaVersion={"type": "integer", "minimum": 2}, configurable=OBJECT,
        tags={"type": "array", "maxItems": 100, "items": {"type": "string", "maxLength": 256}},
        parentRunId=BOUND, parentNodeId=NODE, interrupt=OBJECT,
        extensions={
            "type": "object", "additionalProperties": False,
            "patternProperties": {r"^[a-z][a-z0-9]*(-[a-z0-9]+)*\.[a-z][a-z0-9]*$": OBJECT},
        },
    ),
    validate_formats=True,
)  # fmt: skip
EFFECTS = jsonschema_rs.Draft202012Validator(
    closed(
        "runId effects",
        runId=BOUND,
        effects={"type": "array", "items": closed(
            "effectId nodeId attempt keying state at",
            effectId=BOUND, nodeId=NODE, attempt=FIRST, invocationId=TEXT, providerKey=TEXT,
            keying=enum("business-identity", "activity-recipe"), at=TIME,
            state=enum("claimed", "completed", "released", "escaped"),
        )},
    ),
    validate_formats=True,
)  # fmt: skip


def check_v2(raw: bytes) -> None:
    """An event as version 2 sends it is closed, and has the shape of its type."""
    event = orjson.loads(raw)
    assert event["type"] in SHAPES, event
    faults = [fault.message for fault in _VALIDATORS[event["type"]].iter_errors(event)]
    assert not faults, (event, faults)
    for name in ("error", "lastError"):
        error = event["payload"].get(name)
        assert error is None or error["code"] in REGISTERED, event
