import { describe, expect, test } from "vitest";

import { AgentManifestSchema, parseOpenwopEvent as parse } from "../src/dialects/openwop.js";
import { accepts, type Line, refuses, requires, takes, without } from "./lines.js";

const of = (type: string, payload: unknown): Line => ({
  eventId: "evt-r-1",
  runId: "r",
  sequence: 1,
  timestamp: "2026-05-11T09:00:00.000Z",
  type,
  payload,
});
const AGENT = "vendor.acme.pack.coder";
const needs = (type: string, payload: Line, keys: readonly string[]) => {
  accepts(parse, of(type, payload));
  for (const key of keys) refuses(parse, of(type, without(payload, key)), `/payload/${key}`);
};
const admits = (type: string, payload: Line, key: string, good: unknown[], bad: unknown[]) => {
  for (const value of good) accepts(parse, of(type, { ...payload, [key]: value }));
  for (const value of bad) refuses(parse, of(type, { ...payload, [key]: value }), `/payload/${key}`);
};

const reasoned = { agentId: AGENT, reasoning: "because" };
const called = { agentId: AGENT, toolId: "mcp:read", callId: "c", arguments: [null] };
const returned = { agentId: AGENT, toolId: "mcp:read", callId: "c", result: null };
const decided = { agentId: AGENT, decision: { go: true }, confidence: 0.5 };
const handoff = { from: { agentId: AGENT }, to: { agentId: "core.writer" } };

describe("the envelope", () => {
  test("needs its six keys, and takes no null for a node", () => {
    const keys = ["eventId", "runId", "sequence", "timestamp", "type", "payload"];
    requires(parse, of("agent.reasoned", reasoned), keys);
    takes(parse, of("agent.reasoned", reasoned), "nodeId", ["n"], ["", 7]);
    takes(parse, of("agent.reasoned", reasoned), "sequence", [0, 7], [-1, 1.5, "1", null]);
  });

  test("[WOP-39] an unknown type is read with whatever it carries", () => {
    for (const payload of [{}, null, [1], "text"]) accepts(parse, of("acme.thing", payload));
  });
});

describe("what real hosts write", () => {
  const read = (line: Line) => {
    const parsed = parse(line);
    return parsed.ok ? parsed.event : parsed.problems;
  };

  test("is read as the contract has it: seq, data, a null node, a null payload", () => {
    const { sequence, payload, ...rest } = of("agent.reasoned", reasoned);
    const written = { ...rest, seq: sequence, data: payload, nodeId: null };
    expect(read(written)).toEqual(of("agent.reasoned", reasoned));
    expect(read(of("run.completed", null))).toEqual(of("run.completed", {}));
    expect(read(of("acme.thing", null))).toEqual(of("acme.thing", null));
  });

  test("is read as the contract has it: bare suspensions, errors of one string, published classes", () => {
    const suspended = { ...of("node.suspended", {}), nodeId: "n" };
    const whole = { nodeId: "n", interruptId: "int:n" };
    expect(read(suspended)).toEqual({ ...suspended, payload: whole });
    const failed = of("node.failed", { nodeId: "n", error: "boom" });
    expect(read(failed)).toMatchObject({
      payload: { error: { code: "node_failed", message: "boom" } },
    });
    const chatty = { ...handoff, to: { agentId: "core.writer", modelClass: "chat" } };
    expect(read(of("agent.handoff", chatty))).toEqual(of("agent.handoff", handoff));
  });
});

describe("the reasoning events", () => {
  test("[WOP-40, WOP-41] agent.reasoned has agentId and reasoning, and a verbosity of three", () => {
    needs("agent.reasoned", reasoned, ["agentId", "reasoning"]);
    admits("agent.reasoned", reasoned, "reasoning", [""], [7, null]);
    admits("agent.reasoned", reasoned, "verbosity", ["summary", "full", "off"], ["terse", null]);
  });

  test("[WOP-49, WOP-52, WOP-53] agent.toolCalled has its four keys, arguments being any JSON", () => {
    needs("agent.toolCalled", called, ["agentId", "toolId", "callId", "arguments"]);
    admits("agent.toolCalled", called, "arguments", [null, 7, "x", {}, []], []);
    accepts(parse, of("agent.toolCalled", { ...called, argsHash: "h", principal: "p", transport: "mcp" }));
  });

  test("either spelling alone is read", () => {
    accepts(parse, of("agent.toolCalled", { agentId: AGENT, toolName: "read", callId: "c" }));
    accepts(parse, of("agent.handoff", { fromAgentId: AGENT, toAgentId: "core.writer" }));
    const error = { code: "boom", message: "" };
    accepts(parse, of("agent.toolReturned", { agentId: AGENT, toolName: "read", callId: "c", error }));
  });

  test("[WOP-57, WOP-59, WOP-60] agent.toolReturned has its three keys and an error envelope", () => {
    needs("agent.toolReturned", returned, ["agentId", "toolId", "callId"]);
    const failed = { ...without(returned, "result"), error: { error: "timeout", message: "late" } };
    accepts(parse, of("agent.toolReturned", failed));
    const bare = { ...failed, error: { message: "late" } };
    refuses(parse, of("agent.toolReturned", bare), "/payload/error/error");
    admits("agent.toolReturned", returned, "error", [], ["late", null, []]);
    admits("agent.toolReturned", returned, "durationMs", [0, 12], [-1, 1.5, "1"]);
  });

  test("[WOP-62] unknown keys of the tool events are accepted", () => {
    for (const [type, payload] of [
      ["agent.toolCalled", called],
      ["agent.toolReturned", returned],
    ] as const)
      accepts(parse, of(type, { extra: { deep: [null] }, ...payload }));
  });

  test("[WOP-64, WOP-65] agent.handoff goes from one AgentRef to another", () => {
    needs("agent.handoff", handoff, ["from", "to"]);
    admits("agent.handoff", handoff, "context", [null, 7, {}], []);
    admits("agent.handoff", handoff, "reason", ["tired"], [7]);
  });

  test("[WOP-20, WOP-67, WOP-68, WOP-89] agent.decided has any decision and a confidence from 0 to 1", () => {
    needs("agent.decided", decided, ["agentId", "decision"]);
    admits("agent.decided", decided, "decision", [null, "x", [7]], []);
    admits("agent.decided", decided, "confidence", [0, 0.7, 1], [-0.1, 1.1, "high", true, null]);
  });
});

describe("an AgentRef", () => {
  const started = (agent: unknown) => of("node.started", { nodeId: "n", typeId: "t", agent });

  test("[WOP-2, WOP-3, WOP-6, WOP-70] needs an agentId alone, and conforms wherever it stands", () => {
    accepts(parse, started({ agentId: AGENT, memoryRef: "m", name: "coder" }));
    refuses(parse, started({ memoryRef: "m" }), "/payload/agent/agentId");
    refuses(parse, of("agent.handoff", { ...handoff, to: {} }), "/payload/to/agentId");
  });

  test("[WOP-5] has a model class of six", () => {
    const good = ["reasoning", "writing", "coding", "research", "classification", "general"];
    for (const modelClass of good) accepts(parse, started({ agentId: AGENT, modelClass }));
    for (const modelClass of ["sorcery", "", null])
      refuses(parse, started({ agentId: AGENT, modelClass }), "/payload/agent/modelClass");
  });

  test("[WOP-12] is isolated, shared, or shared with a group", () => {
    for (const agentSharing of ["isolated", "shared", "shared:g 1"])
      accepts(parse, started({ agentId: AGENT, agentSharing }));
    for (const agentSharing of ["shared:", "group", "isolated\n", ""])
      refuses(parse, started({ agentId: AGENT, agentSharing }), "/payload/agent/agentSharing");
  });
});

describe("a union", () => {
  test("reports the branch whose tag matched", () => {
    const data = { questions: [{ id: "q", question: "" }] };
    const asked = { kind: "clarification", key: "k", data };
    refuses(parse, of("interrupt.requested", asked), "/payload/data/questions/0/question");
    refuses(parse, of("interrupt.requested", { ...asked, extra: 1 }), "/payload/extra");
    const verdict = { agentId: AGENT, decision: { kind: "terminate", why: 1 } };
    refuses(parse, of("runOrchestrator.decided", verdict), "/payload/decision/why");
  });
});

describe("a manifest", () => {
  const manifest = {
    agentId: AGENT,
    persona: "coder",
    modelClass: "coding",
    systemPrompt: "Code.",
  };
  const fits = (body: unknown) => AgentManifestSchema.safeParse(body).success;

  test("[WOP-8] names its agent by tier, org, pack and agent, or by core; never by host", () => {
    for (const agentId of [AGENT, "core.system", "core.a.b"]) expect(fits({ ...manifest, agentId })).toBe(true);
    for (const agentId of ["host:x", "vendor.acme.coder", "acme.a.b.c", `${AGENT}\n`])
      expect(fits({ ...manifest, agentId })).toBe(false);
  });

  test("has exactly one system prompt and no unknown key", () => {
    expect(fits(without(manifest, "systemPrompt"))).toBe(false);
    expect(fits({ ...manifest, systemPromptRef: "r" })).toBe(false);
    expect(fits({ ...manifest, extra: 1 })).toBe(false);
  });
});
