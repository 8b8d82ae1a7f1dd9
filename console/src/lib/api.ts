/** Asking the collector: the same JSON that the command line prints with `--json`. */

/** An answer that is an error: what went wrong, and what to do about it. */
export class Trouble extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly hint = "",
  ) {
    super(message);
  }
}

declare global {
  /** What was asked for before this code was read, each once. */
  var early: Map<string, Promise<Response>> | undefined;
}

export async function ask<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await (await answer(path, signal)).json()) as T;
}

/** An answer that is not JSON, or is to be read as it stands. */
export async function answer(path: string, signal?: AbortSignal): Promise<Response> {
  const early = globalThis.early?.get(path);
  globalThis.early?.delete(path);
  const response = await (early ?? fetch(path, signal ? { signal } : {}));
  if (!response.ok) throw await trouble(response);
  return response;
}

export async function tell<T>(path: string, body: unknown): Promise<T> {
  const response = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw await trouble(response);
  return (await response.json()) as T;
}

async function trouble(response: Response): Promise<Trouble> {
  if (response.status === 401) location.reload(); // in place of this page there is one now that asks for the token
  const said: unknown = await response.json().catch(() => ({}));
  const { message, hint, error } = said as { message?: string; hint?: string; error?: string };
  return new Trouble(response.status, message ?? error ?? response.statusText, hint);
}

export function runPath(family: string, run: string, rest = ""): string {
  return `/api/runs/${encodeURIComponent(family)}/${encodeURIComponent(run)}${rest}`;
}

export type Status = "waiting" | "failed" | "lost" | "working" | "done";

/** A run as a list shows it. */
export interface Brief {
  family: string;
  run: string;
  dialects: string[];
  title: string | null;
  model: string | null;
  /** The folder that it worked in. */
  project: string | null;
  branch: string | null;
  status: Status;
  outcome: string | null;
  outcomes: Record<string, number>;
  agents: string[];
  tool_calls: number;
  tool_failures: number;
  tokens: number | null;
  cost_usd: number | null;
  /** By list prices, where no cost was reported. */
  computed_usd?: number | null;
  lower_bound?: boolean | null;
  upper_bound?: boolean | null;
  /** By the time of its events; null where its source has no clock. */
  last_activity: string | null;
  last_seq: number;
  last_received: string;
}

/** A run as its own page shows it. */
export interface Run extends Brief {
  ended: boolean;
  score: number | null;
  seconds: number | null;
  steps: number;
  first_at: string | null;
  first_received: string;
  last_at: string | null;
}

/** A part of the list of runs, and what stands around it. */
export interface Board {
  all: number;
  matching: number;
  after: number;
  counts: Record<Status, number>;
  choices: Record<"dialect" | "agent" | "outcome", string[]>;
  runs: Brief[];
}

export interface Question {
  family: string;
  run: string;
  title: string | null;
  question_id: string;
  agent: string | null;
  what: string | null;
  text: string | null;
  options: unknown[];
  state: string;
  waiting_seconds: number | null;
  asked_seq: number;
  answer: unknown;
  answered_by: string[];
}

export interface Finding {
  seq: number;
  family: string;
  run: string;
  name: string;
  level: "error" | "warning" | "info";
  message: string;
}

/** A fact as the server tells it: its name, in words, and whatever it says. */
export interface Fact {
  fact: string;
  words?: string;
  agent?: string;
  [key: string]: unknown;
}

/** A record of a run, understood. */
export interface Told {
  seq: number;
  received: string;
  at?: string;
  dialect: string;
  kind: string;
  agent?: string;
  bytes: number;
  words: string;
  facts: Fact[];
  /** Whether long texts of it were cut. */
  cut?: boolean;
  /** Whether it was taken back, or told again later: then it counts no more. */
  withdrawn?: boolean;
  superseded?: boolean;
}

export interface Story {
  family: string;
  run: string;
  last: number;
  next: number | null;
  records: Told[];
}
