/** Lines to begin with, and what tests do to them. */

import { expect } from "vitest";

import type { Parsed } from "../src/stream.js";

export type Line = Record<string, unknown>;
export type Parse = (line: unknown) => Parsed<unknown>;

/** A line without a key. */
export function without(line: Line, key: string): Line {
  return Object.fromEntries(Object.entries(line).filter(([name]) => name !== key));
}

/** That a line is accepted, and comes out as the JSON that it was. */
export function accepts(parse: Parse, line: Line): void {
  const text = JSON.stringify(line);
  const parsed = parse(text);
  expect(parsed, text).toMatchObject({ ok: true });
  expect(parsed.ok && JSON.stringify(parsed.event)).toBe(text);
}

/** That a line is refused at a place. */
export function refuses(parse: Parse, line: unknown, pointer: string): void {
  const parsed = parse(typeof line === "string" ? line : JSON.stringify(line));
  expect(parsed.ok, JSON.stringify(line)).toBe(false);
  const pointers = parsed.ok ? [] : parsed.problems.map((problem) => problem.pointer);
  expect(pointers, JSON.stringify(line)).toContain(pointer);
}

/** That each of these keys must be there. */
export function requires(parse: Parse, line: Line, keys: readonly string[]): void {
  accepts(parse, line);
  for (const key of keys) refuses(parse, without(line, key), `/${key}`);
}

/** That a key takes these values and no others. */
export function takes(parse: Parse, line: Line, key: string, good: readonly unknown[], bad: readonly unknown[]): void {
  for (const value of good) accepts(parse, { ...line, [key]: value });
  for (const value of bad) refuses(parse, { ...line, [key]: value }, `/${key}`);
}

const kahn = { ts: "2026-05-05T09:00:00.000Z", run_id: "rocky-7" };

export const ci = {
  start: { ...kahn, event: "run_start", total_nodes: 2 },
  transition: {
    ...kahn,
    event: "node_transition",
    node_id: "prompt-1",
    from: "ready",
    to: "running",
    attempt: 1,
  },
  attempt: {
    ...kahn,
    event: "node_attempt",
    node_id: "prompt-1",
    attempt: 1,
    duration_s: 1.5,
    converged: false,
    done_when_results: [{ cmd: "make test", rc: 2, duration_s: 1.25, tail: "boom" }],
  },
  end: {
    ...kahn,
    event: "run_end",
    outcome: "partial",
    done: 1,
    failed: 1,
    blocked: 0,
    total_duration_s: 12.5,
  },
} satisfies Record<string, Line>;

export const ralph = {
  ...ci,
  start: { ...ci.start, actor: "rocky" },
  transition: { ...ci.transition, outcome: "clean" },
} satisfies Record<string, Line>;

const agent = { ts: "2026-05-05T09:00:00.000Z", run_id: "agent-coder-1" };

export const agents = {
  start: { ...agent, event: "agent_run_start", agent_id: "coder", task: "Add /v2/health" },
  transition: {
    ...agent,
    event: "agent_transition",
    agent_id: "coder",
    step: 0,
    from: "thinking",
    to: "tool_call",
  },
  tool: {
    ...agent,
    event: "tool_invocation",
    agent_id: "coder",
    step: 0,
    tool_name: "Read",
    duration_s: 0.04,
    ok: true,
  },
  audit: {
    ...agent,
    event: "audit_checkpoint",
    agent_id: null,
    checkpoint_id: "audit:rls",
    result: "pass",
    duration_s: 0.5,
  },
  end: {
    ...agent,
    event: "agent_run_end",
    agent_id: "coder",
    outcome: "converged",
    total_steps: 12,
    total_tool_calls: 7,
    total_audit_checkpoints: 2,
    audits_passed: 2,
    audits_failed: 0,
    total_duration_s: 65.5,
  },
} satisfies Record<string, Line>;
