/** Writes kahn agent transitions. */

import {
  BASE,
  BOOL,
  type Body,
  between,
  built,
  COUNT,
  type Contract,
  cropped,
  isObject,
  matches,
  oneOf,
  optional,
  ordered,
  SECONDS,
  TEXT,
  text,
} from "./contract.js";
import { type HttpSink, URL_ENV } from "./http.js";
import { type Base, type Options, Run } from "./run.js";
import { seconds } from "./waiting.js";

export const AGENT_STATUSES = [
  "thinking",
  "tool_call",
  "tool_result",
  "response",
  "reflect",
  "blocked-on-clarification",
  "converged",
  "failed",
] as const;
/** Success is `converged`, never an exit code; `aborted` was ended from outside. */
export const AGENT_OUTCOMES = ["converged", "partial", "escaped", "aborted"] as const;
export const AUDIT_RESULTS = ["pass", "fail", "warn"] as const;

export type AgentStatus = (typeof AGENT_STATUSES)[number];
export type AgentOutcome = (typeof AGENT_OUTCOMES)[number];
export type AuditResult = (typeof AUDIT_RESULTS)[number];

const SUMMARY = 2048;
const AGENT_ID = matches(/^[a-z0-9][a-z0-9:-]{0,63}$/, "1 to 64 of a-z 0-9 : -, first a letter or a digit");
const CHECKPOINT_ID = matches(/^[a-z0-9][a-z0-9:.-]{0,127}$/, "1 to 128 of a-z 0-9 : . -, first a letter or a digit");
const AGENT_STATUS = oneOf(AGENT_STATUSES);
const AGENT = { ...BASE, agent_id: AGENT_ID };

export const KAHN_AGENT: Contract = {
  dialect: "kahn-agent",
  events: {
    agent_run_start: { ...AGENT, task: TEXT, model: optional(TEXT) },
    agent_transition: { ...AGENT, step: COUNT, from: AGENT_STATUS, to: AGENT_STATUS, reason: optional(TEXT) },
    tool_invocation: {
      ...AGENT,
      step: COUNT,
      tool_name: TEXT,
      duration_s: SECONDS,
      ok: BOOL,
      input_summary: optional(TEXT),
      output_summary: optional(text(SUMMARY)),
      error: optional(TEXT),
    },
    audit_checkpoint: {
      ...BASE,
      // K2: always written, null when it is about the run as a whole.
      agent_id: {
        wanted: "an agent id, or null",
        fits: (value) => value === null || AGENT_ID.fits(value),
      },
      checkpoint_id: CHECKPOINT_ID,
      result: oneOf(AUDIT_RESULTS),
      duration_s: SECONDS,
      evidence: { wanted: "a JSON object", fits: isObject, free: true, optional: true },
    },
    agent_run_end: {
      ...AGENT,
      outcome: oneOf(AGENT_OUTCOMES),
      total_steps: COUNT,
      total_tool_calls: COUNT,
      total_audit_checkpoints: COUNT,
      audits_passed: COUNT,
      audits_failed: COUNT,
      total_duration_s: SECONDS,
      convergence_score: optional(between(0, 1, "a number from 0 to 1")),
    },
  },
  start: "agent_run_start",
  settle: settleAgent,
};

interface AgentBase extends Base {
  agent_id: string;
}

export interface AgentRunStart extends AgentBase {
  task: string;
  model?: string | undefined;
}

export interface AgentTransition extends AgentBase {
  step: number;
  from: AgentStatus;
  to: AgentStatus;
  /** May read `kind:detail`. */
  reason?: string | undefined;
}

/** A long summary is cropped, and a key beside it says so. */
export interface ToolInvocation extends AgentBase {
  step: number;
  tool_name: string;
  duration_s: number;
  ok: boolean;
  input_summary?: string | undefined;
  output_summary?: string | undefined;
  error?: string | undefined;
}

export interface AuditCheckpoint extends Base {
  /** null: about the run as a whole. */
  agent_id: string | null;
  checkpoint_id: string;
  result: AuditResult;
  duration_s: number;
  evidence?: Body | undefined;
}

export interface AgentRunEnd extends AgentBase {
  outcome: AgentOutcome;
  total_steps: number;
  total_tool_calls: number;
  total_audit_checkpoints: number;
  audits_passed: number;
  audits_failed: number;
  total_duration_s: number;
  convergence_score?: number | undefined;
}

export const agentRunStart = (given: AgentRunStart): Body => built(KAHN_AGENT, "agent_run_start", given);
export const agentTransition = (given: AgentTransition): Body => built(KAHN_AGENT, "agent_transition", given);
export const toolInvocation = (given: ToolInvocation): Body => built(KAHN_AGENT, "tool_invocation", given);
export const auditCheckpoint = (given: AuditCheckpoint): Body => built(KAHN_AGENT, "audit_checkpoint", given);
export const agentRunEnd = (given: AgentRunEnd): Body => built(KAHN_AGENT, "agent_run_end", given);

/** What the builders add to the contract: the crop of K11, and a key that tells of it. */
function settleAgent(event: Body): Body {
  if (event.event === "audit_checkpoint" && !("agent_id" in event))
    return ordered({ ...event, agent_id: null }, KAHN_AGENT.events.audit_checkpoint ?? BASE);
  if (event.event !== "tool_invocation") return event;
  const crops = [
    ["input_summary", "input_truncated"],
    ["output_summary", "output_truncated"],
    ["error", "error_truncated"],
  ] as const;
  const body: Record<string, unknown> = { ...event };
  for (const [key, mark] of crops) {
    const value = body[key];
    const short = typeof value === "string" ? cropped(value, SUMMARY) : value;
    if (short === value) continue;
    body[key] = short;
    body[mark] = true;
  }
  return body;
}

type AgentGiven<Event extends AgentBase | AuditCheckpoint> = Omit<Event, "run_id" | "agent_id"> &
  Partial<Pick<Event, "run_id" | "agent_id">>;

const BLOCKED = "blocked-on-clarification";

/** What may be said beside a question. */
export interface Asking {
  readonly questionId?: string | undefined;
  readonly agent_id?: string | undefined;
  readonly step?: number | undefined;
  readonly [key: string]: unknown;
}

const who = ({ run_id, agent_id }: Body): string => JSON.stringify([run_id, agent_id]);

/** The answer by then, or undefined; at once, undefined also means that there is none yet. */
async function answered(
  http: HttpSink,
  path: string,
  until: number,
  atOnce = false,
): Promise<{ answer: unknown } | undefined> {
  let failures = 0;
  for (;;) {
    let left = Math.max(0, (until - Date.now()) / 1000);
    if (failures > 0 && left === 0) return undefined;
    const wait = atOnce ? 0 : Math.floor(Math.min(30, left));
    const began = Date.now();
    let pause = 0.2;
    try {
      const { status, body, pause: asked } = await http.get(`${path}&wait=${wait}`, Math.min(wait + 2, left));
      if (status === 200) return { answer: (JSON.parse(body) as { answer: unknown }).answer };
      const isOpen = status === 204 || status === 404;
      if (status === 410 || (atOnce && isOpen)) return undefined;
      failures = isOpen ? 0 : failures + 1;
      pause = asked;
    } catch {
      failures += 1;
    }
    left = Math.max(0, (until - Date.now()) / 1000);
    if (left === 0) return undefined;
    pause = Math.max(pause, Math.min(5, 0.1 * 2 ** Math.min(failures, 6)));
    if (failures > 0 || wait === 0 || Date.now() - began < wait * 500) await seconds(Math.min(pause, left));
  }
}

/** Writes the agent transitions of one run; `bind({agent_id})` speaks for one agent. */
export class AgentEmitter extends Run {
  /** The step of each agent's last event; shared by all that is bound to one place. */
  private readonly steps = new Map<string, number>();

  constructor(path?: string | undefined, options: Options = {}) {
    super(KAHN_AGENT, path, options);
  }

  agentRunStart(given: AgentGiven<AgentRunStart>): string {
    return this.say("agent_run_start", given);
  }

  agentTransition(given: AgentGiven<AgentTransition>): string {
    return this.say("agent_transition", given);
  }

  toolInvocation(given: AgentGiven<ToolInvocation>): string {
    return this.say("tool_invocation", given);
  }

  auditCheckpoint(given: AgentGiven<AuditCheckpoint>): string {
    return this.say("audit_checkpoint", given);
  }

  agentRunEnd(given: AgentGiven<AgentRunEnd>): string {
    return this.say("agent_run_end", given);
  }

  /**
   * Asks a person through the collector, and resolves to the answer, or to null without one.
   *
   * From the question to the answer the agent is blocked on the record, at the step of its last
   * event unless another is given. Null comes after `timeout` seconds, or as soon as the question
   * can no longer be answered; the agent then goes on with the reason `timeout`. Of two answers the
   * first counts. While the collector is away the question waits in the spool. An agent that was
   * restarted asks again under its old `questionId`, and gets the answer that was given meanwhile.
   * Without a timeout it waits for ever; without a collector it throws, and nothing is written.
   */
  async ask(question: string, timeout = Infinity, given: Asking = {}): Promise<unknown> {
    const { http } = this;
    if (!http)
      throw new TypeError(`nobody can answer an emitter that only writes a file: give a url, or set ${URL_ENV}`);
    const { questionId, ...rest } = given;
    const fields = this.withStep(rest);
    const until = Date.now() + timeout * 1000;
    const id = questionId ?? crypto.randomUUID();
    const path = `/api/inbox/${encodeURIComponent(id)}/answer?run=kahn:${String(fields.run_id)}`;
    // Asked before it is told again: an answer that is there already belongs to the first asking.
    const early = questionId ? await answered(http, path, until, true) : undefined;
    const expires = Number.isFinite(timeout) ? { expires: new Date(until).toISOString() } : {};
    this.say("agent_transition", {
      ...{ from: "thinking", to: BLOCKED, reason: `clarification:${id}`, question, ...expires },
      ...fields,
    });
    http.hurry();
    const found = early ?? (await answered(http, path, until));
    const reason = found ? `operator_response:${id}` : `timeout:${id}`;
    const answer = found ? { answer: found.answer } : {};
    this.say("agent_transition", { ...fields, from: BLOCKED, to: "thinking", reason, ...answer });
    http.hurry();
    return found ? found.answer : null;
  }

  protected override append(event: Body): string {
    if (typeof event.step === "number") this.steps.set(who(event), event.step);
    return super.append(event);
  }

  /** The fields of a question beside its text: its run, its agent and its step. */
  private withStep(given: Body): Body {
    const fields = { run_id: this.runId, ...this.fields, ...given };
    return { step: this.steps.get(who(fields)) ?? 0, ...fields };
  }
}
