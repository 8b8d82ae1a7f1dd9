/** Writes kahn CI transitions. */

import {
  BASE,
  BOOL,
  type Body,
  built,
  COUNT,
  type Contract,
  type Fields,
  isObject,
  matches,
  oneOf,
  optional,
  ordered,
  SECONDS,
  TEXT,
  text,
  wholeNumber,
} from "./contract.js";
import { at } from "./json.js";
import { type Base, type Options, Run } from "./run.js";

export const STATUSES = ["pending", "ready", "running", "done", "failed", "blocked"] as const;
/** How a run ended, from best to worst. */
export const OUTCOMES = ["clean", "clean_with_flake", "partial", "stuck", "catastrophic"] as const;
const SEVERITIES = ["none", "minor", "moderate", "major", "critical"] as const;

export type Status = (typeof STATUSES)[number];
export type Outcome = (typeof OUTCOMES)[number];
export type Severity = (typeof SEVERITIES)[number];

const TAIL = 4096;
const NODE_ID = matches(/^[a-z0-9][a-z0-9-]{0,63}$/, "1 to 64 of a-z 0-9 -, first a letter or a digit");
const NODE_STATUS = oneOf(STATUSES);
const RESULT: Fields = {
  cmd: TEXT,
  rc: wholeNumber(),
  duration_s: SECONDS,
  tail: optional(text(TAIL)),
  truncated: optional(BOOL),
};

export const KAHN_CI: Contract = {
  dialect: "kahn-ci",
  events: {
    run_start: { ...BASE, total_nodes: COUNT },
    node_transition: {
      ...BASE,
      node_id: NODE_ID,
      from: NODE_STATUS,
      to: NODE_STATUS,
      attempt: optional(wholeNumber(1)),
      reason: optional(TEXT),
    },
    node_attempt: {
      ...BASE,
      node_id: NODE_ID,
      attempt: wholeNumber(1),
      duration_s: SECONDS,
      converged: BOOL,
      done_when_results: {
        wanted: "a list of results, see doneWhenResult",
        fits: (value) => Array.isArray(value) && value.every(isObject),
        free: true,
        items: RESULT,
      },
      backoff_s: optional(SECONDS),
    },
    run_end: {
      ...BASE,
      outcome: oneOf(OUTCOMES),
      done: COUNT,
      failed: COUNT,
      blocked: COUNT,
      total_duration_s: SECONDS,
      total_attempts: optional(COUNT),
      flake_retries: optional(COUNT),
      exit_code: optional(wholeNumber()),
    },
  },
  start: "run_start",
  settle: settleNode,
};

export interface RunStart extends Base {
  total_nodes: number;
}

export interface NodeTransition extends Base {
  node_id: string;
  from: Status;
  to: Status;
  /** Goes with `to: "running"`, and only with it. */
  attempt?: number | undefined;
  reason?: string | undefined;
}

export interface DoneWhenResult {
  cmd: string;
  rc: number;
  duration_s: number;
  /** Give stderr + stdout; its end is kept, and nothing of it when the check passed. */
  tail?: string | undefined;
  [key: string]: unknown;
}

export interface NodeAttempt extends Base {
  node_id: string;
  attempt: number;
  duration_s: number;
  converged: boolean;
  done_when_results: readonly DoneWhenResult[];
  backoff_s?: number | undefined;
}

export interface RunEnd extends Base {
  outcome: Outcome;
  done: number;
  failed: number;
  blocked: number;
  total_duration_s: number;
  total_attempts?: number | undefined;
  flake_retries?: number | undefined;
  /** 1 on a bad outcome unless given, and never 0. */
  exit_code?: number | undefined;
}

export const runStart = (given: RunStart): Body => built(KAHN_CI, "run_start", given);
export const nodeTransition = (given: NodeTransition): Body => built(KAHN_CI, "node_transition", given);
export const nodeAttempt = (given: NodeAttempt): Body => built(KAHN_CI, "node_attempt", given);
export const runEnd = (given: RunEnd): Body => built(KAHN_CI, "run_end", given);

/** How one check of a node went. */
export const doneWhenResult = (given: DoneWhenResult): DoneWhenResult => given;

function settleNode(event: Body): Body {
  switch (event.event) {
    case "node_transition":
      return settledTransition(event);
    case "node_attempt":
      return settledAttempt(event);
    case "run_end":
      return settledEnd(event);
  }
  return event;
}

function settledTransition(event: Body): Body {
  const running = event.to === "running";
  if (running && !("attempt" in event))
    throw at("/attempt", "attempt is missing on the way to running", "add its number, from 1");
  if (!running && "attempt" in event)
    throw at("/attempt", `attempt goes with running, not with ${event.to}`, "leave it out");
  return event;
}

function settledAttempt(event: Body): Body {
  const { backoff_s, ...rest } = event;
  const first = event.attempt === 1;
  if (first && backoff_s) throw at("/backoff_s", "there is no backoff before the first attempt", "leave it out");
  const results = event.done_when_results;
  const settled = first ? rest : event;
  if (!Array.isArray(results)) return settled;
  const done_when_results = results.map((result) => (isObject(result) ? settledResult(result) : result));
  return { ...settled, done_when_results };
}

function settledResult(given: Body): Body {
  const { tail, truncated, ...rest } = given;
  if (given.rc === 0) return ordered(rest, RESULT);
  if (typeof tail !== "string" || tail.length * 4 <= TAIL) return ordered(given, RESULT);
  const bytes = new TextEncoder().encode(tail);
  if (bytes.length <= TAIL) return ordered(given, RESULT);
  return ordered({ ...given, tail: endOf(bytes), truncated: true }, RESULT);
}

/** K13: the last bytes, from a whole code point on. */
function endOf(bytes: Uint8Array): string {
  let start = bytes.length - TAIL;
  while (((bytes[start] ?? 0) & 0xc0) === 0x80) start += 1;
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes.subarray(start));
}

/** K14: never 0; none on a clean outcome; 1 on any other unless another was given. */
function settledEnd(event: Body): Body {
  const { exit_code, ...rest } = event;
  const outcome = event.outcome as Outcome;
  if (outcome === "clean" || outcome === "clean_with_flake") {
    if (exit_code) throw at("/exit_code", `${exit_code} does not go with ${outcome}`, "leave it out");
    return rest;
  }
  if (exit_code === 0) throw at("/exit_code", `0 does not go with ${outcome}`, "leave it out: 1 is written");
  if (exit_code !== undefined || !OUTCOMES.includes(outcome)) return event;
  return ordered({ ...event, exit_code: 1 }, KAHN_CI.events.run_end ?? BASE);
}

type NodeGiven<Event extends Base> = Omit<Event, "run_id"> & Partial<Base>;

/** Writes the CI transitions of one run; each method takes what its builder takes. */
export class Emitter extends Run {
  constructor(path?: string | undefined, options: Options = {}) {
    super(KAHN_CI, path, options);
  }

  runStart(given: NodeGiven<RunStart>): string {
    return this.say("run_start", given);
  }

  nodeTransition(given: NodeGiven<NodeTransition>): string {
    return this.say("node_transition", given);
  }

  nodeAttempt(given: NodeGiven<NodeAttempt>): string {
    return this.say("node_attempt", given);
  }

  runEnd(given: NodeGiven<RunEnd>): string {
    return this.say("run_end", given);
  }
}

/** The outcome of a run, from how its nodes ended. */
export function outcomeOf(counts: {
  done: number;
  failed: number;
  blocked: number;
  flake_retries?: number | undefined;
}): Outcome {
  const { done, failed, blocked, flake_retries = 0 } = counts;
  if (failed === 0 && blocked === 0) return flake_retries > 0 ? "clean_with_flake" : "clean";
  if (done === 0) return "catastrophic";
  return failed > 0 && blocked > 0 ? "stuck" : "partial";
}

/** The seconds to wait before an attempt: none before the first, then 2, 4, 8 … 60. */
export function backoffSeconds(attempt: number): number {
  return attempt > 1 ? Math.min(2 ** (attempt - 1), 60) : 0;
}

/** The outcome that a deviation of this severity means (K26); an unknown one is an error. */
export function severityOutcome(severity: Severity): Outcome {
  const outcome = OUTCOMES[SEVERITIES.indexOf(severity)];
  if (!outcome) throw at("/deviation/severity", `${severity} is no severity`, `one of ${SEVERITIES.join(", ")}`);
  return outcome;
}

/** The worst of the outcomes of a run's nodes; clean when there is none (K26). */
export function worst(outcomes: readonly Outcome[]): Outcome {
  const places = outcomes.map((outcome) => OUTCOMES.indexOf(outcome));
  return OUTCOMES[Math.max(0, ...places)] ?? "clean";
}

/** How many phases of one prompt failed and later succeeded (K25), from [phase, succeeded]. */
export function flakes(attempts: readonly (readonly [phase: string, succeeded: boolean])[]): number {
  const failed = new Set<string>();
  const healed = new Set<string>();
  for (const [phase, succeeded] of attempts) {
    if (!succeeded) failed.add(phase);
    else if (failed.has(phase)) healed.add(phase);
  }
  return healed.size;
}
