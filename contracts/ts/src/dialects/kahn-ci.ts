/** kahn-ci: the transitions of a graph of shell-checked nodes being worked off. */

import * as z from "zod";

import { Count, Seconds, UtcMillis, unique } from "../shape.js";
import { type Dialect, parser } from "../stream.js";

export const RunIdSchema = z.string().regex(/^[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}$/);
export const NodeIdSchema = z.string().regex(/^[a-z0-9][a-z0-9-]{0,63}$/);
export const NodeStatusSchema = z.enum(["pending", "ready", "running", "done", "failed", "blocked"]);
export const OutcomeSchema = z.enum(["clean", "clean_with_flake", "partial", "stuck", "catastrophic"]);
const Attempt = z.int().min(1);

/** The base that all kahn events share. */
const Frame = z.looseObject({ ts: UtcMillis, run_id: RunIdSchema });

export const RunStartSchema = Frame.extend({
  event: z.literal("run_start"),
  total_nodes: Count,
});

export const NodeTransitionSchema = Frame.extend({
  event: z.literal("node_transition"),
  node_id: NodeIdSchema,
  from: NodeStatusSchema,
  to: NodeStatusSchema,
  /** Written if and only if `to` is running. */
  attempt: Attempt.optional(),
  /** `kind` or `kind:detail`; free text. */
  reason: z.string().optional(),
});

export const DoneWhenResultSchema = z.looseObject({
  cmd: z.string(),
  rc: z.int(),
  duration_s: Seconds,
  /** The end of stderr and stdout; only when rc is not 0. */
  tail: z.string().max(4096).optional(),
  truncated: z.boolean().optional(),
});

export const NodeAttemptSchema = Frame.extend({
  event: z.literal("node_attempt"),
  node_id: NodeIdSchema,
  attempt: Attempt,
  duration_s: Seconds,
  converged: z.boolean(),
  done_when_results: z.array(DoneWhenResultSchema),
  /** Omitted on attempt 1. */
  backoff_s: Seconds.optional(),
});

export const RunEndSchema = Frame.extend({
  event: z.literal("run_end"),
  outcome: OutcomeSchema,
  done: Count,
  failed: Count,
  blocked: Count,
  total_duration_s: Seconds,
  total_attempts: Count.optional(),
  flake_retries: Count.optional(),
  /** Never written as 0. */
  exit_code: z.int().optional(),
});

export const KahnCiEventSchema = z.discriminatedUnion("event", [
  RunStartSchema,
  NodeTransitionSchema,
  NodeAttemptSchema,
  RunEndSchema,
]);

export const NodeSchema = z.looseObject({
  id: NodeIdSchema,
  deliverable: z.string().min(1),
  /** The edges; [] marks a root. */
  depends_on: unique(z.array(NodeIdSchema)),
  touches: unique(z.array(z.string())),
  parallel_safe: z.boolean(),
  done_when: z.array(z.string().min(1)).min(1),
  /** 6 where it is not said. */
  max_ralph_iters: z.int().min(1).optional(),
  estimated_loc: Count.optional(),
});

/** The graph that a run works off, as it was when the run started. */
export const GraphSchema = z.looseObject({
  version: z.literal(1),
  nodes: z.array(NodeSchema).min(1),
});

export type Outcome = z.infer<typeof OutcomeSchema>;
export type NodeStatus = z.infer<typeof NodeStatusSchema>;
export type Graph = z.infer<typeof GraphSchema>;
export type KahnCiEvent = z.infer<typeof KahnCiEventSchema>;

export const dialect = {
  name: "kahn-ci",
  kindKey: "event",
  kinds: {
    run_start: RunStartSchema,
    node_transition: NodeTransitionSchema,
    node_attempt: NodeAttemptSchema,
    run_end: RunEndSchema,
  },
  documents: { graph: GraphSchema },
} satisfies Dialect;

export const parseKahnCiEvent = parser<KahnCiEvent>(dialect);
