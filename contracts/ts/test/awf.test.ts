import { describe, expect, test } from "vitest";

import { BlockSchema, parseAwfEvent as parse, StepStartedSchema, ToolCallSchema } from "../src/dialects/awf.js";
import { accepts, type Line, refuses, requires, takes, without } from "./lines.js";

const frame = {
  seq: 4,
  run_id: "3f1c1f2e-9a5b-4c7d-8e21-0a1b2c3d4e5f",
  path: "each_file.check",
  iteration: 2,
  timestamp: "2026-05-05T09:00:00.123456Z",
};
const step = { ...frame, type: "step.started", payload: { name: "check", kind: "agent" } };
const use = {
  type: "tool_use",
  fidelity: "router",
  tool_name: "read",
  tool_id: "u",
  tool_input: null,
};
const tool = {
  ...frame,
  type: "tool.call",
  payload: {
    name: "read",
    call_id: "u",
    input: { path: "a.py" },
    output: null,
    fidelity: "router",
    blocks: [use],
  },
};
const reply = (...blocks: Line[]) => ({
  ...frame,
  type: "message.assistant",
  payload: { role: "assistant", blocks },
});

describe("the envelope", () => {
  test("[AWF-9, AWF-10] has seq, run_id, type, path at the top", () => {
    requires(parse, step, ["seq", "run_id", "type", "path", "timestamp", "payload"]);
    takes(parse, step, "seq", [1, 2], [0, -1, 1.5, "1", true, null]);
    takes(parse, step, "timestamp", ["2026-05-05T09:00:00Z"], ["2026-02-30T09:00:00Z", "now"]);
  });

  test("[AWF-67] a call of a workflow names its child at the top", () => {
    const called = { ...step, type: "step.call_workflow.started", child_run_id: "child" };
    requires(parse, called, ["child_run_id"]);
  });

  test("[AWF-25] an event of an unknown type is surfaced with its type intact", () => {
    accepts(parse, { ...frame, type: "step.paused", payload: ["anything"] });
    accepts(parse, without({ ...step, type: "step.paused" }, "payload"));
    refuses(parse, { ...step, type: "" }, "/type");
  });
});

describe("what the original left on disk", () => {
  const read = (line: Line) => {
    const parsed = parse(line);
    return parsed.ok ? parsed.event : parsed.problems;
  };

  test("is read as it was meant: local times in UTC", () => {
    const local = { ...step, timestamp: "2026-05-05T01:30:00.25+02:00" };
    expect(read(local)).toEqual({ ...step, timestamp: "2026-05-04T23:30:00.25Z" });
    for (const timestamp of ["2026-02-30T00:00:00+02:00", "0001-01-01T00:00:00+02:00", "x"])
      refuses(parse, { ...step, timestamp }, "/timestamp");
  });

  test("is read as it was meant: null payloads of a run, null blocks, blocks without their keys", () => {
    const started = { ...step, type: "run.started" };
    expect(read({ ...started, payload: null })).toEqual({
      ...started,
      payload: { name: "", kind: "" },
    });
    const said = { role: "assistant", blocks: null };
    expect(read({ ...reply(), payload: said })).toEqual(reply());
    const [bare, whole] = [without(use, "tool_input"), use];
    expect(read(reply(bare))).toEqual(reply(whole));
    const chunk = { type: "stream", fidelity: "router", text: "{}" };
    expect(read(reply(chunk))).toEqual(reply({ ...chunk, chunk: "{}" }));
  });

  test("is read as it was meant: no iteration, no blocks of a tool, an empty payload of a run", () => {
    expect(read(without(step, "iteration"))).toEqual({ ...step, iteration: 0 });
    const bare = { ...tool, payload: without(tool.payload, "blocks") };
    const restated = { ...use, tool_input: tool.payload.input };
    expect(read(bare)).toEqual({ ...tool, payload: { ...tool.payload, blocks: [restated] } });
    const started = { ...step, type: "run.started" };
    expect(read({ ...started, payload: {} })).toEqual({
      ...started,
      payload: { name: "", kind: "" },
    });
    expect(StepStartedSchema.safeParse(without(step, "iteration")).success).toBe(false);
    expect(ToolCallSchema.safeParse(bare).success).toBe(false);
  });

  test("is read as it was meant: a line with only what the transcript's guide names", () => {
    const brief = (type: string, payload: Line) => ({
      ...without(frame, "iteration"),
      type,
      payload,
    });
    const whole = { ...frame, iteration: 0 };
    expect(read(brief("step.started", { kind: "agent" }))).toEqual({
      ...whole,
      type: "step.started",
      payload: { name: "check", kind: "agent" },
    });
    expect(read(brief("tool.call", { fidelity: "router", blocks: [use] }))).toEqual({
      ...whole,
      type: "tool.call",
      payload: { ...tool.payload, input: null, blocks: [use] },
    });
    expect(read(brief("message.user", { prompt: "a", system_prompt: "b" }))).toMatchObject({
      payload: { role: "user", blocks: [{ part: "prompt" }, { part: "system_prompt" }] },
    });
    refuses(parse, brief("step.started", {}), "/payload/kind");
    refuses(parse, brief("message.assistant", {}), "/payload/blocks");
  });
});

describe("a payload", () => {
  test("[AWF-12, AWF-66] has the shape that its type fixes", () => {
    refuses(parse, { ...step, payload: { kind: "agent" } }, "/payload/name");
    refuses(parse, { ...step, payload: { name: "check" } }, "/payload/kind");
    refuses(parse, { ...step, payload: null }, "/payload");
    refuses(parse, { ...tool, payload: step.payload }, "/payload/call_id");
  });

  test("[AWF-65, AWF-74] of a tool has its fidelity and its blocks", () => {
    accepts(parse, tool);
    for (const key of Object.keys(tool.payload).filter((name) => name !== "blocks"))
      refuses(parse, { ...tool, payload: without(tool.payload, key) }, `/payload/${key}`);
    refuses(parse, { ...tool, payload: { ...tool.payload, fidelity: "guess" } }, "/payload/fidelity");
  });
});

describe("a block", () => {
  const blocks: Line[] = [
    { type: "text", fidelity: "agent_emitted", text: "ok" },
    { type: "thinking", fidelity: "agent_emitted", thinking: "hm" },
    use,
    { type: "tool_result", fidelity: "router", tool_id: "u", tool_content: null },
    { type: "command", fidelity: "router", command: "ls" },
    { type: "stream", fidelity: "agent_emitted", chunk: "{}" },
  ];

  test("[AWF-27, AWF-28, AWF-29, AWF-30, AWF-31, AWF-32, AWF-33] has the keys of its type and a fidelity", () => {
    accepts(parse, reply(...blocks));
    for (const block of blocks)
      for (const key of Object.keys(block).filter((name) => name !== "type"))
        if (key === "fidelity") refuses(parse, reply(without(block, key)), "/payload/blocks/0/fidelity");
        else expect(BlockSchema.safeParse(without(block, key)).success).toBe(false);
  });

  test("[AWF-34] has one of two fidelities", () => {
    for (const block of blocks)
      refuses(parse, reply(block, { ...block, fidelity: "guess" }), "/payload/blocks/1/fidelity");
  });

  test("of an unknown type is accepted unchanged, and so are unknown keys", () => {
    accepts(parse, reply({ type: "image", url: "x" }, { ...use, turn: 0 }));
    refuses(parse, reply({ text: "no type" }), "/payload/blocks/0/type");
  });
});
