"""The shapes of OpenWOP events: the envelope, and the payload of each type that is understood."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import (
    MISSING,
    AfterValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    create_model,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from tracklog.dialects import ClosedShape, Count, Share, on_the_calendar
from tracklog.dialects import Shape as AnyShape
from tracklog.dialects.openwop.catalog import SHARING


def distinct(values: list[str]) -> list[str]:
    """The values unchanged, if they are distinct: what `uniqueItems` means in the schema."""
    if len(set(values)) < len(values):
        raise ValueError("a value occurs twice")
    return values


Timestamp = Annotated[
    str,
    Field(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?"
        r"(Z|[+-][0-9]{2}:[0-9]{2})$",
        json_schema_extra={"format": "date-time"},
        description="RFC 3339 with Z or an offset: 2026-05-11T09:00:00.000Z.",
    ),
    AfterValidator(on_the_calendar),
]
Name = Annotated[str, Field(min_length=1, description="Not empty.")]
Id = Annotated[str, Field(min_length=1, max_length=128, description="1 to 128 characters.")]
Key = Annotated[str, Field(min_length=1, max_length=256, description="1 to 256 characters.")]
AgentId = Annotated[
    str,
    Field(
        min_length=3,
        max_length=256,
        description="3 to 256 characters: vendor.org.pack.agent, core.name, or host:id.",
    ),
]
TOOL = "<scope>:<tool-id>; toolName is the same in the published spelling."
Amount = Annotated[float, Field(ge=0, description="A number, 0 or more.")]
Text: TypeAlias = str | MISSING
Flag: TypeAlias = bool | MISSING
Object: TypeAlias = dict[str, Any] | MISSING
Json: TypeAlias = Any | MISSING

ModelClass = Literal["reasoning", "writing", "coding", "research", "classification", "general"]
Verbosity = Literal["summary", "full", "off"]
InterruptKind = Literal[
    "approval",
    "clarification",
    "external-event",
    "custom",
    "conversation.start",
    "conversation.exchange",
    "conversation.close",
    "low-confidence",
]


class CamelShape(AnyShape):
    """A shape whose keys are written in camelCase on the wire."""

    model_config: ClassVar[ConfigDict] = ConfigDict(alias_generator=to_camel)


class Closed(ClosedShape):
    """A shape in camelCase in which an undeclared key is an error."""

    model_config: ClassVar[ConfigDict] = ConfigDict(alias_generator=to_camel)


class Either(CamelShape):
    """A shape with keys that replace each other: one of each group is required."""

    either: ClassVar[tuple[tuple[str, ...], ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def _has_one_of_each(cls, body: Any) -> Any:
        for keys in cls.either if isinstance(body, dict) else ():
            if not any(key in body for key in keys):
                raise ValueError(f"{' or '.join(keys)} is missing")
        return body

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        reference = handler(core_schema)
        handler.resolve_ref_schema(reference)["allOf"] = [
            {"anyOf": [{"required": [key]} for key in keys]} for keys in cls.either
        ]
        return reference


class OpenwopEnvelope(CamelShape):
    """The envelope that all events share."""

    event_id: Id
    """Opaque; unique within the run."""
    run_id: Id
    sequence: Count
    """The first event of a run has 0, each next one more."""
    timestamp: Timestamp
    type: str
    """A type of the catalog, or a dotted name under a prefix of the host's own."""
    node_id: Id | MISSING = MISSING
    """On events of a node; left out elsewhere, never null."""
    causation_id: Id | MISSING = MISSING
    """The eventId of the event that this one follows from."""
    payload: Any
    """Any JSON; an object in every type that is understood here."""
    schema_version: Count | MISSING = MISSING
    engine_version: Text = MISSING


class AgentRef(CamelShape):
    """The agent that acts: an object with agentId."""

    agent_id: AgentId
    agent_sharing: Annotated[str, Field(pattern=SHARING)] | MISSING = MISSING
    """isolated (the default), shared, or shared:<groupId>."""
    memory_ref: Text = MISSING
    """Opaque: a handle that the host resolves."""
    model_class: ModelClass | MISSING = MISSING
    name: Text = MISSING
    version: Text = MISSING
    channel: Text = MISSING
    source_manifest_id: Text = MISSING


class ErrorBody(CamelShape):
    """The error of a run or a node: an object with code and message."""

    code: Name
    message: str
    details: Object = MISSING
    retryable: Flag = MISSING


class ToolError(Either):
    """The error of a tool: an ErrorEnvelope, in either spelling of its code."""

    either: ClassVar[tuple[tuple[str, ...], ...]] = (("error", "code"),)
    error: Annotated[
        Name | MISSING,
        Field(description="The code; code is the same in the published spelling."),
    ] = MISSING
    code: Name | MISSING = MISSING
    message: str
    details: Object = MISSING
    retryable: Flag = MISSING


class RunStartedPayload(CamelShape):
    """A run began."""

    workflow_id: Name
    inputs: Object = MISSING
    transport: Literal["rest", "mcp", "a2a", "ui"] | MISSING = MISSING
    configurable: Object = MISSING
    """The run's options as resolved: escalationThreshold, reasoningVerbosity and others."""


class RunCompletedPayload(CamelShape):
    """A run ended."""

    outputs: Object = MISSING
    duration_ms: Count | MISSING = MISSING


class RunFailedPayload(CamelShape):
    """A run failed."""

    error: ErrorBody
    failed_node_id: Text = MISSING
    duration_ms: Count | MISSING = MISSING


class RunCancelledPayload(CamelShape):
    """A run was cancelled."""

    reason: Text = MISSING
    cancelled_by: Text = MISSING
    parent_run_id: Name | MISSING = MISSING
    duration_ms: Count | MISSING = MISSING


class NodePayload(CamelShape):
    """The keys that the payloads of a node's lifecycle share."""

    node_id: Name


class NodeStartedPayload(NodePayload):
    """A node began."""

    type_id: Name
    attempt: Count | MISSING = MISSING
    """The retry counter, from 0."""
    agent: AgentRef | MISSING = MISSING
    """The agent that the node delegated to."""


class NodeCompletedPayload(NodePayload):
    """A node ended."""

    outputs: Object = MISSING
    agent: AgentRef | MISSING = MISSING
    """The same as on node.started."""
    duration_ms: Count | MISSING = MISSING


class NodeFailedPayload(NodePayload):
    """A node failed."""

    error: ErrorBody
    """An object with code and message."""
    attempts: Annotated[int, Field(ge=1)] | MISSING = MISSING
    duration_ms: Count | MISSING = MISSING


class NodeSuspendedPayload(NodePayload):
    """A node waits for a person or an event."""

    interrupt_id: Name
    kind: InterruptKind | MISSING = MISSING
    key: Name | MISSING = MISSING
    reason: Text = MISSING
    """low-confidence: an agent was not sure enough; the keys below name the decision."""
    agent_id: AgentId | MISSING = MISSING
    threshold: Share | MISSING = MISSING
    observed: Share | MISSING = MISSING
    decision: Json = MISSING


class NodeResumedPayload(NodePayload):
    """A node continues."""

    interrupt_id: Text = MISSING
    resume_value: Json = MISSING


class NodeSkippedPayload(NodePayload):
    """A node was skipped."""

    reason: Text = MISSING


class NodeCancelledPayload(NodePayload):
    """A node was cancelled."""

    reason: Text = MISSING


class NodeDispatchedPayload(Closed):
    """A child run was started for a supervisor's decision."""

    child_run_id: Name
    child_workflow_id: Name
    child_status: Text = MISSING


class AgentPayload(Either):
    """The keys that the payloads of an agent's events share."""

    agent_id: AgentId


class AgentReasonedPayload(AgentPayload):
    """An agent's reasoning, before it acts on it."""

    either: ClassVar[tuple[tuple[str, ...], ...]] = (("reasoning", "trace", "summary"),)
    reasoning: Text = MISSING
    """The text. The retired names trace and summary are read, with a finding."""
    trace: Text = MISSING
    summary: Text = MISSING
    verbosity: Verbosity | MISSING = MISSING


class AgentReasoningDeltaPayload(CamelShape):
    """A piece of reasoning that is not complete yet."""

    agent_id: AgentId
    delta: str
    sequence: Count
    """The index in the block, from 0; the closing agent.reasoned ends the block."""
    verbosity: Verbosity | MISSING = MISSING


class AgentToolCalledPayload(AgentPayload):
    """A tool is about to be called."""

    either: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("toolId", "toolName"),
        # In the schema's spelling a call may have no inputs; in the RFC's it has its arguments.
        ("arguments", "inputs", "toolName"),
    )
    tool_id: Annotated[Name | MISSING, Field(description=TOOL)] = MISSING
    tool_name: Name | MISSING = MISSING
    call_id: Name
    """The same on the matching agent.toolReturned."""
    arguments: Json = MISSING
    """Any JSON; inputs is the same in the published spelling."""
    inputs: Json = MISSING
    args_hash: Text = MISSING
    principal: Text = MISSING
    transport: Literal["mcp", "http", "native"] | MISSING = MISSING


class AgentToolReturnedPayload(AgentPayload):
    """A tool call returned."""

    either: ClassVar[tuple[tuple[str, ...], ...]] = (("toolId", "toolName"),)
    tool_id: Annotated[Name | MISSING, Field(description=TOOL)] = MISSING
    tool_name: Name | MISSING = MISSING
    call_id: Name
    """The same as on its agent.toolCalled."""
    result: Json = MISSING
    """Any JSON, on success; outcome is the same in the published spelling."""
    outcome: Json = MISSING
    error: ToolError | MISSING = MISSING
    """On failure, an object with error (or code) and message."""
    status: Literal["ok", "error", "forbidden", "rate_limited"] | MISSING = MISSING
    duration_ms: Count | MISSING = MISSING


class AgentHandoffPayload(Either):
    """One agent hands over to another within a node."""

    either: ClassVar[tuple[tuple[str, ...], ...]] = (("from", "fromAgentId"), ("to", "toAgentId"))
    from_: Annotated[AgentRef | MISSING, Field(alias="from")] = MISSING
    """An AgentRef; fromAgentId is its id in the published spelling."""
    to: AgentRef | MISSING = MISSING
    """An AgentRef; toAgentId is its id in the published spelling."""
    from_agent_id: AgentId | MISSING = MISSING
    to_agent_id: AgentId | MISSING = MISSING
    reason: Text = MISSING
    context: Json = MISSING


class AgentDecidedPayload(CamelShape):
    """An agent decided what to do."""

    agent_id: AgentId
    decision: Any
    """Any JSON."""
    confidence: Share | MISSING = MISSING
    """A number from 0 to 1, never a word."""
    reasoning: Text = MISSING
    ratified: Flag = MISSING
    """True when a person confirmed or replaced it."""


class NextWorker(Closed):
    """The supervisor sends work to child workflows."""

    kind: Literal["next-worker"]
    next_worker_ids: Annotated[list[Key], Field(min_length=1)]
    confidence: Share | MISSING = MISSING


class AskUser(Closed):
    """The supervisor asks a person."""

    kind: Literal["ask-user"]
    prompt: Name


class Criterion(Closed):
    """Whether one criterion of success is met."""

    key: Name
    met: bool


class Terminate(Closed):
    """The supervisor ends the run."""

    kind: Literal["terminate"]
    reason: Name | MISSING = MISSING
    confidence: Share | MISSING = MISSING
    success_criteria: list[Criterion] | MISSING = MISSING


class RunOrchestratorDecidedPayload(Closed):
    """The supervisor of a run decided."""

    agent_id: AgentId
    decision: NextWorker | AskUser | Terminate
    iteration: Annotated[int, Field(ge=1)] | MISSING = MISSING
    causation_host_id: Name | MISSING = MISSING


class Question(Closed):
    """One question to a person."""

    id: Name
    question: Name
    schema_: Annotated[dict[str, Any] | MISSING, Field(alias="schema")] = MISSING


class ApprovalData(CamelShape):
    """What is to be approved."""

    artifact_id: Name
    artifact_type: Name
    title: Name
    description: Text = MISSING
    actions: Annotated[
        list[Literal["accept", "reject", "refine", "edit-accept", "ask"]],
        Field(min_length=1, json_schema_extra={"uniqueItems": True}),
        AfterValidator(distinct),
    ]


class ClarificationData(Closed):
    """What is to be clarified."""

    questions: Annotated[list[Question], Field(min_length=1)]
    context_type: Text = MISSING


class ExternalEventData(Closed):
    """The external event that is waited for."""

    event_type: str
    correlation: dict[str, Any]


class CustomData(Closed):
    """An interrupt of a kind that the host defines."""

    custom_kind: Name
    payload: Json = MISSING


class ConversationStartData(Closed):
    """A conversation is to begin."""

    conversation_id: Key
    title: Text = MISSING
    initial_prompt: Text = MISSING


class ConversationExchangeData(Closed):
    """A conversation waits for its next turn."""

    conversation_id: Key
    prompt: Name
    outcome_schema: Object = MISSING
    turn_index: Count | MISSING = MISSING


class ConversationCloseData(Closed):
    """A conversation is to end."""

    conversation_id: Key
    reason: Text = MISSING


class LowConfidenceData(Closed):
    """An agent was not sure enough of its decision."""

    agent_id: AgentId
    threshold: Share
    observed: Share
    decision: Json = MISSING


class Interrupt(Closed):
    """The keys that all interrupts share; the node stands on the envelope."""

    key: Key
    resume_schema: Object = MISSING
    timeout_ms: Count | MISSING = MISSING


class Approval(Interrupt):
    """Someone has to approve."""

    kind: Literal["approval"]
    data: ApprovalData


class Clarification(Interrupt):
    """Someone has to answer."""

    kind: Literal["clarification"]
    data: ClarificationData


class ExternalEvent(Interrupt):
    """Something has to happen outside of the run."""

    kind: Literal["external-event"]
    data: ExternalEventData


class Custom(Interrupt):
    """An interrupt of a kind that the host defines."""

    kind: Literal["custom"]
    data: CustomData


class ConversationStart(Interrupt):
    """Someone has to begin a conversation."""

    kind: Literal["conversation.start"]
    data: ConversationStartData


class ConversationExchange(Interrupt):
    """Someone has to take a turn."""

    kind: Literal["conversation.exchange"]
    data: ConversationExchangeData


class ConversationClose(Interrupt):
    """Someone has to end a conversation."""

    kind: Literal["conversation.close"]
    data: ConversationCloseData


class LowConfidence(Interrupt):
    """Someone has to confirm or replace a decision."""

    kind: Literal["low-confidence"]
    data: LowConfidenceData


InterruptRequestedPayload = (
    Approval
    | Clarification
    | ExternalEvent
    | Custom
    | ConversationStart
    | ConversationExchange
    | ConversationClose
    | LowConfidence
)


class InterruptResolvedPayload(CamelShape):
    """Someone answered."""

    node_id: str
    interrupt_id: str
    kind: InterruptKind | MISSING = MISSING
    resume_value: Json = MISSING


class ClarificationRequestedPayload(CamelShape):
    """The older spelling of a clarification interrupt: read, never written."""

    node_id: str
    interrupt_id: Text = MISSING
    questions: list["OpenQuestion"]


class OpenQuestion(CamelShape):
    """One question, with further keys allowed."""

    id: str
    question: str
    schema_: Annotated[dict[str, Any] | MISSING, Field(alias="schema")] = MISSING


class ClarificationResolvedPayload(CamelShape):
    """The answers to a clarification."""

    node_id: str
    answers: dict[str, Any]
    """By the id of the question."""
    answered_by: Text = MISSING


class ApprovalRequestedPayload(CamelShape):
    """The older spelling of an approval interrupt: read, never written."""

    node_id: str
    interrupt_id: Text = MISSING
    artifact_id: str
    artifact_type: str
    title: Text = MISSING
    actions: Annotated[
        list[Literal["accept", "reject", "refine", "edit", "ask"]], Field(min_length=1)
    ]


class ApprovalReceivedPayload(CamelShape):
    """The answer to an approval."""

    node_id: str
    action: Literal["accept", "reject", "refine", "edit-accept", "timeout"]
    decided_by: Text = MISSING
    decided_at: Text = MISSING


class CapBreachedPayload(CamelShape):
    """A limit was reached."""

    kind: Literal[
        "clarification",
        "schema",
        "envelopes",
        "node-executions",
        "wasm-memory",
        "wasm-fuel",
        "wasm-execution-time",
        "run-duration",
        "loop-iterations",
        "budget-tokens",
        "budget-cost",
        "budget-tool-calls",
        "budget-retries",
        "confidence-escalation-suppressed",
    ]
    limit: Amount
    observed: Amount
    node_id: Text = MISSING


class ChannelWrittenPayload(Closed):
    """A value was written to a channel."""

    channel: Key
    value: Any
    """What was written; on a message channel a ConversationMessage."""
    reducer: Name
    written_at: Timestamp
    node_id: Id | MISSING = MISSING
    schema_version: Annotated[int, Field(ge=1)] | MISSING = MISSING
    source_engine_id: Key | MISSING = MISSING
    source_run_id: Id | MISSING = MISSING


class ConversationMessage(CamelShape):
    """One message; appended, never changed."""

    message_id: Key
    """The same message again has the same id and counts once."""
    from_: Annotated[Key, Field(alias="from")]
    """An agentId, or the word user."""
    to: Text = MISSING
    group_id: Text = MISSING
    content: Any
    """Any JSON."""
    ts: Count
    """Milliseconds since 1970, a whole number."""


class ConversationTurn(ConversationMessage):
    """A message with its place in a conversation."""

    turn_index: Count
    agent: AgentRef | MISSING = MISSING
    speaker_id: Key | MISSING = MISSING


class PersonTurn(ConversationTurn):
    """A turn of a person or the system."""

    role: Literal["user", "system"]


class AgentTurn(ConversationTurn):
    """A turn of an agent."""

    role: Literal["agent"]
    speaker_id: Key


class ConversationOpenedPayload(CamelShape):
    """A conversation began."""

    conversation_id: Key
    initial_turn: PersonTurn | AgentTurn | MISSING = MISSING


class ConversationExchangedPayload(CamelShape):
    """A turn of a conversation."""

    conversation_id: Key
    turn_index: Count
    turn: PersonTurn | AgentTurn | MISSING = MISSING


class ConversationClosedPayload(CamelShape):
    """A conversation ended."""

    conversation_id: Key
    turn_index: Count | MISSING = MISSING
    final_turn: PersonTurn | AgentTurn | MISSING = MISSING


class LogAppendedPayload(CamelShape):
    """A note of the host."""

    level: Literal["debug", "info", "warn", "error"]
    message: str
    node_id: Text = MISSING
    fields: Object = MISSING


class VariableChangedPayload(CamelShape):
    """A variable of the run got another value."""

    name: Name
    previous: Json = MISSING
    next: Json = MISSING
    node_id: Text = MISSING


class ReplayDivergedPayload(CamelShape):
    """A replay differs from its source."""

    source_run_id: Name
    at_sequence: Count
    original_event_id: Text = MISSING
    divergence_kind: Literal["output", "missing", "extra", "type-mismatch"] | MISSING = MISSING
    divergence_point: Text = MISSING


class ProviderUsagePayload(Closed):
    """The usage of one model call."""

    provider: Name
    model: Name
    input_tokens: Count
    output_tokens: Count
    total_tokens: Count | MISSING = MISSING
    cost_estimate_usd: Amount | MISSING = MISSING
    """In US dollars, unless currency says otherwise."""
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] | MISSING = MISSING
    cache_hit: Flag = MISSING
    """True: a cached reply with the figures of the original call; nothing was spent."""
    cache_read_tokens: Count | MISSING = MISSING
    cache_write_tokens: Count | MISSING = MISSING
    node_id: Text = MISSING
    trace_id: Text = MISSING


class KnownEvent(OpenwopEnvelope):
    """An envelope whose payload is understood."""


WANTED = "An object with the keys of this type; `tracklog schema openwop` has them."


def _event(kind: str, payload: Any) -> type[KnownEvent]:
    """The envelope around the payload of one type."""
    word = Literal[kind]  # type: ignore[valid-type]  # a word that is known when this runs
    name = "".join(part[0].upper() + part[1:] for part in kind.split("."))
    doc = payload.__doc__ if isinstance(payload, type) else "Someone is asked, or waited for."
    return create_model(
        name,
        __base__=KnownEvent,
        __doc__=doc,
        type=(word, ...),
        payload=(payload, Field(description=WANTED)),
    )


class _Events(Mapping[str, type[AnyShape]]):
    """The shapes of all events by kind; each is made when it is first asked for."""

    def __init__(self, payloads: Mapping[str, Any]) -> None:
        self._payloads = payloads
        self._made: dict[str, type[AnyShape]] = {}

    def __getitem__(self, kind: str) -> type[AnyShape]:
        if kind not in self._made:
            self._made[kind] = _event(kind, self._payloads[kind])
        return self._made[kind]

    def __contains__(self, kind: object) -> bool:
        return kind in self._payloads

    def __iter__(self) -> Iterator[str]:
        return iter(self._payloads)

    def __len__(self) -> int:
        return len(self._payloads)


KINDS: Mapping[str, type[AnyShape]] = _Events(
    {
        "run.started": RunStartedPayload,
        "run.completed": RunCompletedPayload,
        "run.failed": RunFailedPayload,
        "run.cancelled": RunCancelledPayload,
        "node.started": NodeStartedPayload,
        "node.completed": NodeCompletedPayload,
        "node.failed": NodeFailedPayload,
        "node.suspended": NodeSuspendedPayload,
        "node.resumed": NodeResumedPayload,
        "node.skipped": NodeSkippedPayload,
        "node.cancelled": NodeCancelledPayload,
        "node.dispatched": NodeDispatchedPayload,
        "agent.reasoned": AgentReasonedPayload,
        "agent.reasoning.delta": AgentReasoningDeltaPayload,
        "agent.toolCalled": AgentToolCalledPayload,
        "agent.toolReturned": AgentToolReturnedPayload,
        "agent.handoff": AgentHandoffPayload,
        "agent.decided": AgentDecidedPayload,
        "runOrchestrator.decided": RunOrchestratorDecidedPayload,
        "interrupt.requested": InterruptRequestedPayload,
        "interrupt.resolved": InterruptResolvedPayload,
        "clarification.requested": ClarificationRequestedPayload,
        "clarification.resolved": ClarificationResolvedPayload,
        "approval.requested": ApprovalRequestedPayload,
        "approval.received": ApprovalReceivedPayload,
        "cap.breached": CapBreachedPayload,
        "channel.written": ChannelWrittenPayload,
        "conversation.opened": ConversationOpenedPayload,
        "conversation.exchanged": ConversationExchangedPayload,
        "conversation.closed": ConversationClosedPayload,
        "log.appended": LogAppendedPayload,
        "variable.changed": VariableChangedPayload,
        "replay.diverged": ReplayDivergedPayload,
        "provider.usage": ProviderUsagePayload,
    }
)
