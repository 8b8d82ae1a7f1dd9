/** ralph: prompt runs written as CI transitions; a layer above kahn-ci that forks nothing. */

import * as z from "zod";

import { Name, Share } from "../shape.js";
import { type Body, type Dialect, parser } from "../stream.js";
import {
  NodeAttemptSchema,
  NodeTransitionSchema as KahnNodeTransitionSchema,
  OutcomeSchema,
  RunEndSchema,
  RunStartSchema as KahnRunStartSchema,
} from "./kahn-ci.js";

export { NodeAttemptSchema, OutcomeSchema, RunEndSchema };
export type { Outcome } from "./kahn-ci.js";

export const RunStartSchema = KahnRunStartSchema.extend({
  /** Who drives the run. */
  actor: Name,
});

export const NodeTransitionSchema = KahnNodeTransitionSchema.extend({
  /** The prompt's worst so far. */
  outcome: OutcomeSchema,
  /** A KILN slot: absent where KILN is absent, never null. */
  convergence_score: Share.optional(),
  /** A KILN slot. */
  early_stop_reason: z.string().optional(),
});

export const KahnEventSchema = z.discriminatedUnion("event", [
  RunStartSchema,
  NodeTransitionSchema,
  NodeAttemptSchema,
  RunEndSchema,
]);

export type RunStart = z.infer<typeof RunStartSchema>;
export type NodeTransition = z.infer<typeof NodeTransitionSchema>;
export type NodeAttempt = z.infer<typeof NodeAttemptSchema>;
export type RunEnd = z.infer<typeof RunEndSchema>;
export type KahnEvent = z.infer<typeof KahnEventSchema>;

/** K23: the kind may stand under `type`; it is never written there. */
function tolerate(body: Body): Body {
  if ("event" in body || !("type" in body)) return body;
  return Object.fromEntries(
    Object.entries(body).map(([key, value]) => [key === "type" ? "event" : key, value]),
  );
}

export const dialect = {
  name: "ralph",
  kindKey: "event",
  kinds: {
    run_start: RunStartSchema,
    node_transition: NodeTransitionSchema,
    node_attempt: NodeAttemptSchema,
    run_end: RunEndSchema,
  },
  tolerate,
} satisfies Dialect;

export const parseKahnEvent = parser<KahnEvent>(dialect);
