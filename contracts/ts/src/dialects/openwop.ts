/** openwop: a host's log of its workflow runs, and of the agents that act in them. */

import * as z from "zod";

import { tolerated } from "../openwop-tolerance.js";
import { Count, either, JsonObject, moment, Name, otherThan, Share, unique } from "../shape.js";
import { type Dialect, parser } from "../stream.js";

const Timestamp = moment(/^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$/);
const Id = z.string().min(1).max(128);
const Key = z.string().min(1).max(256);
/** vendor.org.pack.agent, core.name, or host:id. */
const AgentId = z.string().min(3).max(256);
const Amount = z.number().min(0);
const Text = z.string().optional();
const Flag = z.boolean().optional();
const Record = JsonObject.optional();
const Json = z.unknown().optional();
const Counted = Count.optional();

const ModelClass = z.enum(["reasoning", "writing", "coding", "research", "classification", "general"]);
const Verbosity = z.enum(["summary", "full", "off"]).optional();
const InterruptKind = z.enum([
  "approval",
  "clarification",
  "external-event",
  "custom",
  "conversation.start",
  "conversation.exchange",
  "conversation.close",
  "low-confidence",
]);

/** The envelope that all events share. */
const Frame = z.looseObject({
  eventId: Id,
  runId: Id,
  sequence: Count,
  timestamp: Timestamp,
  /** On events of a node; left out elsewhere, never null. */
  nodeId: Id.optional(),
  /** The eventId of the event that this one follows from. */
  causationId: Id.optional(),
  schemaVersion: Counted,
  engineVersion: Text,
});

/** Which agent acts. */
export const AgentRefSchema = z.looseObject({
  agentId: AgentId,
  /** isolated (the default), shared, or shared:<groupId>. */
  agentSharing: z
    .string()
    .regex(/^(isolated|shared|shared:[^\r\n]+)$/)
    .optional(),
  memoryRef: Text,
  modelClass: ModelClass.optional(),
  name: Text,
  version: Text,
  channel: Text,
  sourceManifestId: Text,
});

const ErrorBody = z.looseObject({
  code: Name,
  message: z.string(),
  details: Record,
  retryable: Flag,
});

/** An ErrorEnvelope, in either spelling of its code. */
const ToolError = either(
  z.looseObject({
    error: Name.optional(),
    code: Name.optional(),
    message: z.string(),
    details: Record,
    retryable: Flag,
  }),
  ["error", "code"],
);

const NodePayload = z.looseObject({ nodeId: Name });

const Question = z.strictObject({ id: Name, question: Name, schema: Record });
const OpenQuestion = z.looseObject({ id: z.string(), question: z.string(), schema: Record });

/** What all interrupts share; the node stands on the envelope. */
const interrupt = <Kind extends string, Data extends z.ZodType>(kind: Kind, data: Data) =>
  z.strictObject({
    key: Key,
    resumeSchema: Record,
    timeoutMs: Counted,
    kind: z.literal(kind),
    data,
  });

const OrchestratorDecision = z.union([
  z.strictObject({
    kind: z.literal("next-worker"),
    nextWorkerIds: z.array(Key).min(1),
    confidence: Share.optional(),
  }),
  z.strictObject({ kind: z.literal("ask-user"), prompt: Name }),
  z.strictObject({
    kind: z.literal("terminate"),
    reason: Name.optional(),
    confidence: Share.optional(),
    successCriteria: z.array(z.strictObject({ key: Name, met: z.boolean() })).optional(),
  }),
]);

const InterruptPayload = z.union([
  interrupt(
    "approval",
    z.looseObject({
      artifactId: Name,
      artifactType: Name,
      title: Name,
      description: Text,
      actions: unique(z.array(z.enum(["accept", "reject", "refine", "edit-accept", "ask"])).min(1)),
    }),
  ),
  interrupt("clarification", z.strictObject({ questions: z.array(Question).min(1), contextType: Text })),
  interrupt("external-event", z.strictObject({ eventType: z.string(), correlation: JsonObject })),
  interrupt("custom", z.strictObject({ customKind: Name, payload: Json })),
  interrupt("conversation.start", z.strictObject({ conversationId: Key, title: Text, initialPrompt: Text })),
  interrupt(
    "conversation.exchange",
    z.strictObject({
      conversationId: Key,
      prompt: Name,
      outcomeSchema: Record,
      turnIndex: Counted,
    }),
  ),
  interrupt("conversation.close", z.strictObject({ conversationId: Key, reason: Text })),
  interrupt("low-confidence", z.strictObject({ agentId: AgentId, threshold: Share, observed: Share, decision: Json })),
]);

/** One message; appended, never changed. */
export const ConversationMessageSchema = z.looseObject({
  /** The same message again has the same id and counts once. */
  messageId: Key,
  /** An agentId, or the word user. */
  from: Key,
  to: Text,
  groupId: Text,
  content: z.unknown(),
  /** Milliseconds since 1970. */
  ts: Count,
});

const Turn = ConversationMessageSchema.extend({
  turnIndex: Count,
  agent: AgentRefSchema.optional(),
});

/** A message with its place in a conversation; an agent's turn says who speaks. */
export const ConversationTurnSchema = z.union([
  Turn.extend({ role: z.enum(["user", "system"]), speakerId: Key.optional() }),
  Turn.extend({ role: z.literal("agent"), speakerId: Key }),
]);

const payloads = {
  "run.started": z.looseObject({
    workflowId: Name,
    inputs: Record,
    transport: z.enum(["rest", "mcp", "a2a", "ui"]).optional(),
    /** The run's options as resolved: escalationThreshold, reasoningVerbosity and others. */
    configurable: Record,
  }),
  "run.completed": z.looseObject({ outputs: Record, durationMs: Counted }),
  "run.failed": z.looseObject({ error: ErrorBody, failedNodeId: Text, durationMs: Counted }),
  "run.cancelled": z.looseObject({
    reason: Text,
    cancelledBy: Text,
    parentRunId: Name.optional(),
    durationMs: Counted,
  }),
  "node.started": NodePayload.extend({
    typeId: Name,
    /** The retry counter, from 0. */
    attempt: Counted,
    /** The agent that the node delegated to. */
    agent: AgentRefSchema.optional(),
  }),
  "node.completed": NodePayload.extend({
    outputs: Record,
    agent: AgentRefSchema.optional(),
    durationMs: Counted,
  }),
  "node.failed": NodePayload.extend({
    error: ErrorBody,
    attempts: z.int().min(1).optional(),
    durationMs: Counted,
  }),
  "node.suspended": NodePayload.extend({
    interruptId: Name,
    kind: InterruptKind.optional(),
    key: Name.optional(),
    /** low-confidence: an agent was not sure enough; the keys below say of what. */
    reason: Text,
    agentId: AgentId.optional(),
    threshold: Share.optional(),
    observed: Share.optional(),
    decision: Json,
  }),
  "node.resumed": NodePayload.extend({ interruptId: Text, resumeValue: Json }),
  "node.skipped": NodePayload.extend({ reason: Text }),
  "node.cancelled": NodePayload.extend({ reason: Text }),
  "node.dispatched": z.strictObject({
    childRunId: Name,
    childWorkflowId: Name,
    childStatus: Text,
  }),
  "agent.reasoned": either(
    z.looseObject({
      agentId: AgentId,
      /** The retired names trace and summary are read, and found amiss. */
      reasoning: Text,
      trace: Text,
      summary: Text,
      verbosity: Verbosity,
    }),
    ["reasoning", "trace", "summary"],
  ),
  "agent.reasoning.delta": z.looseObject({
    agentId: AgentId,
    delta: z.string(),
    /** The index in the block, from 0; the closing agent.reasoned ends the block. */
    sequence: Count,
    verbosity: Verbosity,
  }),
  "agent.toolCalled": either(
    z.looseObject({
      agentId: AgentId,
      /** <scope>:<tool-id>; toolName is the same in the published spelling. */
      toolId: Name.optional(),
      toolName: Name.optional(),
      /** The same on the matching agent.toolReturned. */
      callId: Name,
      arguments: Json,
      inputs: Json,
      argsHash: Text,
      principal: Text,
      transport: z.enum(["mcp", "http", "native"]).optional(),
    }),
    ["toolId", "toolName"],
    // The schema's spelling may leave a call without inputs; the RFC's has its arguments.
    ["arguments", "inputs", "toolName"],
  ),
  "agent.toolReturned": either(
    z.looseObject({
      agentId: AgentId,
      toolId: Name.optional(),
      toolName: Name.optional(),
      callId: Name,
      result: Json,
      outcome: Json,
      error: ToolError.optional(),
      status: z.enum(["ok", "error", "forbidden", "rate_limited"]).optional(),
      durationMs: Counted,
    }),
    ["toolId", "toolName"],
  ),
  "agent.handoff": either(
    z.looseObject({
      from: AgentRefSchema.optional(),
      to: AgentRefSchema.optional(),
      fromAgentId: AgentId.optional(),
      toAgentId: AgentId.optional(),
      reason: Text,
      context: Json,
    }),
    ["from", "fromAgentId"],
    ["to", "toAgentId"],
  ),
  "agent.decided": z.looseObject({
    agentId: AgentId,
    decision: z.unknown(),
    /** Never a word. */
    confidence: Share.optional(),
    reasoning: Text,
    /** True when a person confirmed or replaced it. */
    ratified: Flag,
  }),
  "runOrchestrator.decided": z.strictObject({
    agentId: AgentId,
    decision: OrchestratorDecision,
    iteration: z.int().min(1).optional(),
    causationHostId: Name.optional(),
  }),
  "interrupt.requested": InterruptPayload,
  "interrupt.resolved": z.looseObject({
    nodeId: z.string(),
    interruptId: z.string(),
    kind: InterruptKind.optional(),
    resumeValue: Json,
  }),
  /** Older spellings of an interrupt: read, never written. */
  "clarification.requested": z.looseObject({
    nodeId: z.string(),
    interruptId: Text,
    questions: z.array(OpenQuestion),
  }),
  "clarification.resolved": z.looseObject({
    nodeId: z.string(),
    answers: JsonObject,
    answeredBy: Text,
  }),
  "approval.requested": z.looseObject({
    nodeId: z.string(),
    interruptId: Text,
    artifactId: z.string(),
    artifactType: z.string(),
    title: Text,
    actions: z.array(z.enum(["accept", "reject", "refine", "edit", "ask"])).min(1),
  }),
  "approval.received": z.looseObject({
    nodeId: z.string(),
    action: z.enum(["accept", "reject", "refine", "edit-accept", "timeout"]),
    decidedBy: Text,
    decidedAt: Text,
  }),
  "cap.breached": z.looseObject({
    kind: z.enum([
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
    ]),
    limit: Amount,
    observed: Amount,
    nodeId: Text,
  }),
  "channel.written": z.strictObject({
    channel: Key,
    /** On a message channel a ConversationMessage. */
    value: z.unknown(),
    reducer: Name,
    writtenAt: Timestamp,
    nodeId: Id.optional(),
    schemaVersion: z.int().min(1).optional(),
    sourceEngineId: Key.optional(),
    sourceRunId: Id.optional(),
  }),
  "conversation.opened": z.looseObject({
    conversationId: Key,
    initialTurn: ConversationTurnSchema.optional(),
  }),
  "conversation.exchanged": z.looseObject({
    conversationId: Key,
    turnIndex: Count,
    turn: ConversationTurnSchema.optional(),
  }),
  "conversation.closed": z.looseObject({
    conversationId: Key,
    turnIndex: Counted,
    finalTurn: ConversationTurnSchema.optional(),
  }),
  "log.appended": z.looseObject({
    level: z.enum(["debug", "info", "warn", "error"]),
    message: z.string(),
    nodeId: Text,
    fields: Record,
  }),
  "variable.changed": z.looseObject({ name: Name, previous: Json, next: Json, nodeId: Text }),
  "replay.diverged": z.looseObject({
    sourceRunId: Name,
    atSequence: Count,
    originalEventId: Text,
    divergenceKind: z.enum(["output", "missing", "extra", "type-mismatch"]).optional(),
    divergencePoint: Text,
  }),
  "provider.usage": z.strictObject({
    provider: Name,
    model: Name,
    inputTokens: Count,
    outputTokens: Count,
    totalTokens: Counted,
    costEstimateUsd: Amount.optional(),
    currency: z
      .string()
      .regex(/^[A-Z]{3}$/)
      .optional(),
    /** True: a cached reply with the figures of the original call; nothing was spent. */
    cacheHit: Flag,
    cacheReadTokens: Counted,
    cacheWriteTokens: Counted,
    nodeId: Text,
    traceId: Text,
  }),
};

type Payloads = typeof payloads;
type KnownType = keyof Payloads;

const event = <Type extends KnownType>(type: Type) => Frame.extend({ type: z.literal(type), payload: payloads[type] });

const kinds = Object.fromEntries((Object.keys(payloads) as KnownType[]).map((type) => [type, event(type)])) as {
  [Type in KnownType]: ReturnType<typeof event<Type>>;
};

/** An event of a type that is not known here: folded best-effort, never dropped. */
export const OtherOpenwopEventSchema = Frame.extend({
  type: otherThan(Object.keys(kinds)),
  payload: z.unknown(),
});

/** An agent as a pack declares it. */
export const AgentManifestSchema = z
  .strictObject({
    agentId: z
      .string()
      .min(3)
      .max(256)
      .regex(
        /^(core\.[a-z][a-z0-9_-]*(\.[a-z][a-zA-Z0-9_-]*)*|(vendor|community|private|local)\.[a-z][a-z0-9_-]*(\.[a-z][a-zA-Z0-9_-]*){2})$/,
      ),
    persona: z.string().min(1).max(200),
    modelClass: ModelClass,
    /** Either this or systemPromptRef, not both. */
    systemPrompt: Name.optional(),
    systemPromptRef: Name.optional(),
    /** The only tools that the agent may use. */
    toolAllowlist: z.array(Name).optional(),
    requiresCapabilities: unique(z.array(Name)).optional(),
    memoryShape: z.strictObject({ scratchpad: Flag, conversation: Flag, longTerm: Flag }).optional(),
    confidence: z.strictObject({ defaultThreshold: Share.optional() }).optional(),
    handoff: z.strictObject({ taskSchemaRef: Name.optional(), returnSchemaRef: Name.optional() }).optional(),
    label: z.string().min(1).max(100).optional(),
    description: z.string().max(500).optional(),
    evalSuiteRef: Name.optional(),
    promptLibraryRef: Name.optional(),
    promptOverrides: Record,
  })
  .refine((manifest) => "systemPrompt" in manifest !== "systemPromptRef" in manifest, {
    path: ["systemPrompt"],
    error: "exactly one of systemPrompt and systemPromptRef is needed",
  })
  .meta({ oneOf: [{ required: ["systemPrompt"] }, { required: ["systemPromptRef"] }] });

export type AgentRef = z.infer<typeof AgentRefSchema>;
export type AgentManifest = z.infer<typeof AgentManifestSchema>;
export type KnownOpenwopEvent = z.infer<(typeof kinds)[KnownType]>;
export type OtherOpenwopEvent = z.infer<typeof OtherOpenwopEventSchema>;
export type OpenwopEvent = KnownOpenwopEvent | OtherOpenwopEvent;

export const dialect = {
  name: "openwop",
  kindKey: "type",
  kinds,
  other: OtherOpenwopEventSchema,
  tolerate: (given) => tolerated(given, kinds),
  documents: { agent_manifest: AgentManifestSchema },
} satisfies Dialect;

export const parseOpenwopEvent = parser<OpenwopEvent>(dialect);
