/** kahn-agent: agents of a fleet that think, call tools, get audited and converge. */

import * as z from "zod";

import { Count, JsonObject, Seconds, Share, UtcMillis } from "../shape.js";
import { type Dialect, parser } from "../stream.js";

export const RunIdSchema = z.string().regex(/^[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}$/);
export const AgentIdSchema = z.string().regex(/^[a-z0-9][a-z0-9:-]{0,63}$/);
export const CheckpointIdSchema = z.string().regex(/^[a-z0-9][a-z0-9:.-]{0,127}$/);
export const AgentStatusSchema = z.enum([
  "thinking",
  "tool_call",
  "tool_result",
  "response",
  "reflect",
  "blocked-on-clarification",
  "converged",
  "failed",
]);
export const AgentOutcomeSchema = z.enum(["converged", "partial", "escaped", "aborted"]);
export const AuditResultSchema = z.enum(["pass", "fail", "warn"]);

/** The base that all kahn events share. */
const Frame = z.looseObject({ ts: UtcMillis, run_id: RunIdSchema });

export const AgentRunStartSchema = Frame.extend({
  event: z.literal("agent_run_start"),
  agent_id: AgentIdSchema,
  task: z.string(),
  model: z.string().optional(),
});

export const AgentTransitionSchema = Frame.extend({
  event: z.literal("agent_transition"),
  agent_id: AgentIdSchema,
  /** Never decreases within one run and agent. */
  step: Count,
  from: AgentStatusSchema,
  to: AgentStatusSchema,
  /** `kind` or `kind:detail`; free text. */
  reason: z.string().optional(),
});

/** The tool's full output has no place here. */
export const ToolInvocationSchema = Frame.extend({
  event: z.literal("tool_invocation"),
  agent_id: AgentIdSchema,
  step: Count,
  tool_name: z.string(),
  duration_s: Seconds,
  ok: z.boolean(),
  input_summary: z.string().optional(),
  /** In code points; the emitter crops what is longer. */
  output_summary: z.string().max(2048).optional(),
  error: z.string().optional(),
});

export const AuditCheckpointSchema = Frame.extend({
  event: z.literal("audit_checkpoint"),
  /** KAHN-40: the one field that may be null; then it is about the run as a whole. */
  agent_id: AgentIdSchema.nullable().optional(),
  checkpoint_id: CheckpointIdSchema,
  result: AuditResultSchema,
  duration_s: Seconds,
  evidence: JsonObject.optional(),
});

export const AgentRunEndSchema = Frame.extend({
  event: z.literal("agent_run_end"),
  agent_id: AgentIdSchema,
  outcome: AgentOutcomeSchema,
  total_steps: Count,
  total_tool_calls: Count,
  total_audit_checkpoints: Count,
  audits_passed: Count,
  audits_failed: Count,
  total_duration_s: Seconds,
  /** The producer's own number; 1 reads as fully converged. */
  convergence_score: Share.optional(),
});

export const KahnAgentEventSchema = z.discriminatedUnion("event", [
  AgentRunStartSchema,
  AgentTransitionSchema,
  ToolInvocationSchema,
  AuditCheckpointSchema,
  AgentRunEndSchema,
]);

export type AgentStatus = z.infer<typeof AgentStatusSchema>;
export type AgentOutcome = z.infer<typeof AgentOutcomeSchema>;
export type AuditResult = z.infer<typeof AuditResultSchema>;
export type KahnAgentEvent = z.infer<typeof KahnAgentEventSchema>;

export const dialect = {
  name: "kahn-agent",
  kindKey: "event",
  kinds: {
    agent_run_start: AgentRunStartSchema,
    agent_transition: AgentTransitionSchema,
    tool_invocation: ToolInvocationSchema,
    audit_checkpoint: AuditCheckpointSchema,
    agent_run_end: AgentRunEndSchema,
  },
} satisfies Dialect;

export const parseKahnAgentEvent = parser<KahnAgentEvent>(dialect);
