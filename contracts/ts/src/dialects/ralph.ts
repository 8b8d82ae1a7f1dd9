/** ralph: prompt runs written as CI transitions; a layer above kahn-ci that forks nothing. */

import * as z from "zod";

import { Name, Share } from "../shape.js";
import { type Body, type Dialect, parser } from "../stream.js";
import {
  NodeTransitionSchema as KahnNodeTransitionSchema,
  RunStartSchema as KahnRunStartSchema,
  NodeAttemptSchema,
  OutcomeSchema,
  RunEndSchema,
} from "./kahn-ci.js";

export type { Outcome } from "./kahn-ci.js";
export { NodeAttemptSchema, OutcomeSchema, RunEndSchema };

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

/** The names of the frames in ralph's own model, and their kinds on the wire. */
const FRAMES: Readonly<Record<string, string>> = {
  RunStart: "run_start",
  NodeTransition: "node_transition",
  NodeAttempt: "node_attempt",
  RunEnd: "run_end",
};

/** The keys of upstream that ralph's own model of a frame does not have: read without them. */
const EXCUSED = {
  run_start: ["total_nodes"],
  node_transition: ["ts", "from", "to"],
  node_attempt: ["duration_s", "converged", "done_when_results"],
  run_end: ["done", "failed", "blocked", "total_duration_s"],
} as const;

/** A frame as it is read: the keys that a reader can do without may be absent. */
type Read<Frame, Keys extends keyof Frame> = { [Key in keyof Frame as Key extends Keys ? never : Key]: Frame[Key] } & {
  [Key in Keys]?: Frame[Key] | undefined;
};

export type RunStart = Read<z.infer<typeof RunStartSchema>, "total_nodes">;
export type NodeTransition = Read<z.infer<typeof NodeTransitionSchema>, "ts" | "from" | "to">;
export type NodeAttempt = Read<z.infer<typeof NodeAttemptSchema>, "duration_s" | "converged" | "done_when_results">;
export type RunEnd = Read<z.infer<typeof RunEndSchema>, "done" | "failed" | "blocked" | "total_duration_s">;
export type KahnEvent = RunStart | NodeTransition | NodeAttempt | RunEnd;

/** K23: the kind may stand under `type`; it is never written there. */
function tolerate(body: Body): Body {
  if ("event" in body || !("type" in body)) return body;
  const renamed = Object.entries(body).map(([key, value]) => [
    key === "type" ? "event" : key,
    key === "type" && typeof value === "string" && Object.hasOwn(FRAMES, value) ? FRAMES[value] : value,
  ]);
  return Object.fromEntries(renamed) as Body;
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
  excused: EXCUSED,
} satisfies Dialect;

export const parseKahnEvent = parser<KahnEvent>(dialect);
