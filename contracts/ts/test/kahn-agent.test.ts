import { describe, expect, test } from "vitest";

import { AgentRunEndSchema, KahnAgentEventSchema, parseKahnAgentEvent as parse } from "../src/dialects/kahn-agent.js";
import { accepts, agents, type Line, refuses, requires, takes, without } from "./lines.js";

const { start, transition, tool, audit, end } = agents;
const IDS = ["coder", "claude-subagent:explore", "0", "a".repeat(64)];
const NO_IDS = ["", "Coder", "a_b", "a.b", ":a", "-a", "a".repeat(65), "coder\n", 7];
const WHOLE = [0, 3, 12];
const NO_WHOLE = [-1, 1.5, "1", true, null];

describe("the envelope", () => {
  test("[KAHN-2] ts, run_id and event are on every event, all strings", () => {
    for (const line of Object.values(agents)) {
      requires(parse, line, ["ts", "run_id", "event"]);
      for (const key of ["ts", "run_id", "event"]) refuses(parse, { ...line, [key]: 7 }, `/${key}`);
    }
  });

  test("[KAHN-4] event is one of exactly five", () => {
    const kinds = KahnAgentEventSchema.options.map((shape) => shape.shape.event.value);
    expect(kinds.sort()).toEqual(
      Object.values(agents)
        .map((line) => line.event)
        .sort(),
    );
    takes(parse, start, "event", [], ["run_start", "agent_note", "", "agent_run_start\n"]);
  });

  test("ts has three fraction digits and Z, and names a moment that exists", () => {
    const good = ["2026-05-05T09:00:00.000Z", "2024-02-29T23:59:59.999Z"];
    const bad = ["2026-02-30T09:00:00.000Z", "2026-05-05T09:00:00Z", "2026-05-05T09:00:00.000+00:00"];
    takes(parse, start, "ts", good, [...bad, "2026-05-05T24:00:00.000Z", "2026-05-05T09:00:00.000Z\n"]);
  });

  test("[KAHN-56] the four example lines are accepted as they are", () => {
    const lines = [
      `{"ts":"2026-05-05T09:00:00.000Z","run_id":"agent-coder-1","event":"agent_run_start","agent_id":"coder","task":"Add /v2/health"}`,
      `{"ts":"2026-05-05T09:00:01.200Z","run_id":"agent-coder-1","event":"agent_transition","agent_id":"coder","step":0,"from":"thinking","to":"tool_call","reason":"tool_call:Read"}`,
      `{"ts":"2026-05-05T09:00:01.250Z","run_id":"agent-coder-1","event":"tool_invocation","agent_id":"coder","step":0,"tool_name":"Read","duration_s":0.04,"ok":true}`,
      `{"ts":"2026-05-05T09:01:05.000Z","run_id":"agent-coder-1","event":"agent_run_end","agent_id":"coder","outcome":"converged","total_steps":12,"total_tool_calls":7,"total_audit_checkpoints":2,"audits_passed":2,"audits_failed":0,"total_duration_s":65.0,"convergence_score":1.0}`,
    ];
    for (const line of lines) expect(parse(line)).toEqual({ ok: true, event: JSON.parse(line) });
  });

  test("[KAHN-40] null is refused everywhere but on an audit checkpoint's agent_id", () => {
    const full: Line[] = [
      { ...start, model: "m" },
      { ...transition, reason: "r" },
      { ...tool, input_summary: "i", output_summary: "o", error: "e" },
      { ...audit, agent_id: "coder", evidence: {} },
      { ...end, convergence_score: 1 },
    ];
    for (const line of full) {
      accepts(parse, line);
      for (const key of Object.keys(line)) {
        const nulled = { ...line, [key]: null };
        if (key === "agent_id" && line.event === "audit_checkpoint") accepts(parse, nulled);
        else refuses(parse, nulled, `/${key}`);
      }
    }
  });
});

describe("the events", () => {
  test("[KAHN-5, KAHN-6] agent_run_start needs agent_id and task, may have model", () => {
    requires(parse, start, ["agent_id", "task"]);
    takes(parse, start, "task", ["", "x"], [7, {}]);
    takes(parse, start, "model", ["gpt"], [7]);
  });

  test("[KAHN-7, KAHN-8, KAHN-58] agent_transition needs agent_id, step, from, to; reason is free", () => {
    requires(parse, transition, ["agent_id", "step", "from", "to"]);
    takes(parse, transition, "reason", ["tool_call:Read", "because", ""], [7]);
  });

  test("[KAHN-9, KAHN-10] tool_invocation needs five keys and may have three texts", () => {
    requires(parse, tool, ["agent_id", "step", "tool_name", "duration_s", "ok"]);
    takes(parse, tool, "ok", [true, false], [1, "true"]);
    takes(parse, tool, "duration_s", [0, 1, 0.04], [-1, "1", true]);
    for (const key of ["input_summary", "output_summary", "error"]) takes(parse, tool, key, [""], [7]);
  });

  test("[KAHN-11, KAHN-12, KAHN-13] audit_checkpoint is about an agent or about the run", () => {
    requires(parse, audit, ["checkpoint_id", "result", "duration_s"]);
    takes(parse, audit, "agent_id", [null, ...IDS], NO_IDS);
    accepts(parse, without(audit, "agent_id"));
    takes(parse, audit, "evidence", [{}, { cycle: ["a", null] }], [[], "text", 7]);
  });

  test("[KAHN-14, KAHN-15] agent_run_end needs an outcome and its totals", () => {
    requires(parse, end, Object.keys(end));
    for (const key of ["total_steps", "total_tool_calls", "total_audit_checkpoints"])
      takes(parse, end, key, WHOLE, NO_WHOLE);
    for (const key of ["audits_passed", "audits_failed"]) takes(parse, end, key, WHOLE, NO_WHOLE);
  });

  test("[KAHN-42, KAHN-43] convergence_score is from 0 to 1, and declared on agent_run_end alone", () => {
    takes(parse, end, "convergence_score", [0, 0.5, 1], [-0.01, 1.01, "1", true]);
    for (const line of [start, transition, tool, audit]) accepts(parse, { ...line, convergence_score: "x" });
    expect("convergence_score" in AgentRunEndSchema.shape).toBe(true);
  });
});

describe("the words", () => {
  test("[KAHN-16, KAHN-19] a status is one of eight, the paused one with dashes", () => {
    const words = ["thinking", "tool_call", "tool_result", "response", "reflect", "converged", "failed"];
    const bad = ["blocked_on_clarification", "done", "Thinking", "", "thinking\n"];
    for (const key of ["from", "to"]) takes(parse, transition, key, [...words, "blocked-on-clarification"], bad);
  });

  test("[KAHN-17] an outcome is one of four", () => {
    const good = ["converged", "partial", "escaped", "aborted"];
    takes(parse, end, "outcome", good, ["failed", "unknown", "clean"]);
  });

  test("[KAHN-18] an audit result is one of three", () => {
    takes(parse, audit, "result", ["pass", "fail", "warn"], ["failed", "ok", "Pass"]);
  });

  test("[KAHN-31, KAHN-32] an agent id is 1 to 64 of its characters, colons among them", () => {
    for (const line of [start, transition, tool, end]) takes(parse, line, "agent_id", IDS, NO_IDS);
  });

  test("[KAHN-33, KAHN-34] a checkpoint id has colons and dots, up to 128 characters", () => {
    const good = ["audit:test-coverage.unit", "a".repeat(128)];
    takes(parse, audit, "checkpoint_id", good, [".a", "a_b", "a".repeat(129), "", "a\n"]);
  });

  test("[KAHN-35] a step is a whole number from 0", () => {
    for (const line of [transition, tool]) takes(parse, line, "step", WHOLE, NO_WHOLE);
  });

  test("[KAHN-51] a summary of 2048 characters is accepted, one more is refused, by code points", () => {
    const good = ["x".repeat(2048), "😀".repeat(2048), `${"x".repeat(2047)}😀`];
    takes(parse, tool, "output_summary", good, ["x".repeat(2049), "😀".repeat(2049)]);
  });
});
