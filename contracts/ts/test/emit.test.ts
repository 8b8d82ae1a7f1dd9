import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";

import { describe, expect, test } from "vitest";

import { parseKahnAgentEvent } from "../src/dialects/kahn-agent.js";
import { parseKahnCiEvent } from "../src/dialects/kahn-ci.js";
import {
  AgentEmitter,
  agentRunEnd,
  agentRunStart,
  type Body,
  Emitter,
  Invalid,
  KAHN_AGENT,
  lineOf,
  nowTs,
  severityOutcome,
  TracklogEmitter,
  toolInvocation,
} from "../src/emit.js";
import { agents } from "./lines.js";

const folder = mkdtempSync(`${tmpdir()}/emit-`);
let files = 0;
const fresh = () => `${folder}/${++files}.jsonl`;
const start = { run_id: "r1", agent_id: "coder", task: "t", ts: "2026-05-05T09:00:00.000Z" };
const tool = { ...start, step: 0, tool_name: "Read", duration_s: 1, ok: true };
const written = (event: Body) => lineOf(KAHN_AGENT, event);

describe("a line", () => {
  test("[KAHN-55] has a time of milliseconds and Z", () => {
    const line = written(agentRunStart({ run_id: "r1", agent_id: "coder", task: "t" }));
    expect(line).toMatch(/^\{"ts":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z",/);
    expect(Math.abs(Date.now() - Date.parse(nowTs()))).toBeLessThan(5000);
  });

  test("[KAHN-57] starts with ts, run_id, event, compact, on one line", () => {
    const given = { zeta: "a\nb", 7: "first in JavaScript", ...start };
    const head = '{"ts":"2026-05-05T09:00:00.000Z","run_id":"r1","event":"agent_run_start",';
    const tail = '"agent_id":"coder","task":"t","7":"first in JavaScript","zeta":"a\\nb"}\n';
    expect(written(agentRunStart(given))).toBe(head + tail);
  });

  test("[KAHN-56] of the example comes out with its own digits", () => {
    const end = { ...agents.end, total_duration_s: 65, convergence_score: 1 } as const;
    const { event: _, ...given } = end;
    const line = written(agentRunEnd({ ...given, outcome: "converged" }));
    expect(line).toContain('"total_duration_s":65.0,"convergence_score":1.0}');
  });

  test("[KAHN-52] holds no more of a tool's output than 2048 characters, and says so", () => {
    const whole = `${"x".repeat(2047)}😀😀`;
    const event = toolInvocation({ ...tool, output_summary: whole, error: whole });
    const line = written(event);
    expect(event.output_summary).toBe(`${"x".repeat(2047)}😀`);
    expect(line).not.toContain("😀😀");
    expect(line).toContain('"output_truncated":true,"error_truncated":true}');
    expect(parseKahnAgentEvent(line).ok).toBe(true);
  });

  test("has no key for what is undefined, and refuses what is no JSON at its place", () => {
    expect(written(agentRunStart({ ...start, model: undefined, x: undefined }))).not.toMatch(/model|"x"/);
    const itself: Record<string, unknown> = {};
    itself.self = itself;
    for (const [x, pointer] of [
      [{ y: new Date() }, "/x/y"],
      [[undefined], "/x/0"],
      [itself, "/x/self"],
      [{ "a/b": NaN }, "/x/a~1b"],
    ] as const) {
      const faults = () => written(agentRunStart({ ...start, x }));
      expect(faults).toThrow(Invalid);
      try {
        faults();
      } catch (error) {
        expect((error as Invalid).faults.map((fault) => fault.pointer)).toEqual([pointer]);
      }
    }
  });

  test("refuses an integer that no double holds where a float is declared", () => {
    const event = toolInvocation({ ...tool, duration_s: (10n ** 400n) as never });
    expect(() => written(event)).toThrow("/duration_s");
  });

  test("[RALPH-8] has an outcome for each severity of a deviation, and none for an unknown one", () => {
    const words = ["none", "minor", "moderate", "major", "critical"] as const;
    const outcomes = ["clean", "clean_with_flake", "partial", "stuck", "catastrophic"];
    expect(words.map(severityOutcome)).toEqual(outcomes);
    expect(() => severityOutcome("blocker" as never)).toThrow(Invalid);
  });
});

describe("a file", () => {
  test("only grows, by complete lines", () => {
    const path = fresh();
    for (const task of ["one", "two"]) {
      const run = new AgentEmitter(path, { runId: "r1", environ: {} });
      run.agentRunStart({ agent_id: "coder", task });
      run.close();
    }
    const lines = readFileSync(path, "utf8").split("\n");
    expect(lines.map((line) => line && JSON.parse(line).task)).toEqual(["one", "two", ""]);
  });

  test("whose last line was torn goes on behind it", () => {
    const path = fresh();
    writeFileSync(path, '{"torn":');
    const run = new Emitter(path, { runId: "r1", environ: {}, durability: "sync" });
    const line = run.runStart({ total_nodes: 0 });
    run.close();
    expect(readFileSync(path, "utf8")).toBe(`{"torn":\n${line}`);
  });

  test("that is closed takes nothing more, and can be closed again", () => {
    const run = new Emitter(fresh(), { environ: {} });
    const bound = run.bind({ lane: "blue" });
    bound.close();
    run.close();
    expect(() => run.runStart({ total_nodes: 0 })).toThrow("closed");
  });

  test("of a native emitter is private", () => {
    const path = fresh();
    TracklogEmitter.file(path, "os", {}).close();
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  test("gets no byte of an event that is refused", () => {
    const path = fresh();
    const run = new Emitter(path, { runId: "r1", environ: {}, validate: true });
    expect(() => run.runStart({ total_nodes: -1 })).toThrow(/total_nodes/);
    expect(() => run.emit({ event: "run_begin" })).toThrow(/event/);
    run.close();
    expect(readFileSync(path, "utf8")).toBe("");
  });
});

describe("an emitter", () => {
  test("hands its run to a child process, which names it as its parent", () => {
    const path = fresh();
    const run = new Emitter(path, {
      runId: "parent-1",
      traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
      environ: {},
    });
    const code = `
      import { Emitter } from "@tracklog/contracts/emit";
      const run = new Emitter(${JSON.stringify(path)});
      run.runStart({ total_nodes: 0 });
      run.close();
      console.log(run.traceparent);
    `;
    const done = spawnSync(process.execPath, ["--input-type=module", "-e", code], {
      encoding: "utf8",
      env: { ...process.env, ...run.childEnv("child-1") },
    });
    run.close();
    expect(done.stderr).toBe("");
    expect(done.stdout.trim()).toBe(run.traceparent);
    const parsed = parseKahnCiEvent(readFileSync(path, "utf8").trimEnd());
    expect(parsed).toMatchObject({
      ok: true,
      event: { run_id: "child-1", parent_run_id: "parent-1" },
    });
  });

  test("gives each child another run, unless one is given", () => {
    const emitter = TracklogEmitter.file(fresh(), "os", { TRACKLOG_RUN_ID: "p" });
    const [one, other] = [emitter.childEnv(), emitter.childEnv()];
    expect(one.TRACKLOG_RUN_ID).not.toBe(other.TRACKLOG_RUN_ID);
    expect(one.TRACKLOG_PARENT_RUN_ID).toBe("p");
    expect("TRACEPARENT" in one).toBe(false);
    emitter.close();
  });

  test("redacts what the hook names, before the crop, and no id or word of the contract", () => {
    const redact = (text: string) => text.replaceAll("secret", "***").replaceAll("coder", "!");
    const run = new AgentEmitter(fresh(), { runId: "r1", environ: {}, redact });
    const line = run.toolInvocation({
      ...tool,
      tool_name: "secret",
      output_summary: `${"x".repeat(2044)}secret`,
      deep: [{ key: "secret" }],
      constructor: "secret",
    });
    run.close();
    expect(line).not.toContain("secret");
    expect(line).toContain('"agent_id":"coder"');
    expect(line).not.toContain("output_truncated");
    expect(line).toContain('"deep":[{"key":"***"}]');
  });

  test("numbers the events of a run across all that is bound to its file", () => {
    const path = fresh();
    const emitter = TracklogEmitter.file(path, "os", {});
    const [one, same] = [emitter.bind({ run: "a" }), emitter.bind({ run: "a", node: "n" })];
    expect([one.openwop("x.y"), same.openwop("x.y"), emitter.bind({ run: "b" }).openwop("x.y")]).toEqual([
      "evt-a-0",
      "evt-a-1",
      "evt-b-0",
    ]);
    emitter.close();
  });

  test("links a run that begins under a parent", () => {
    const path = fresh();
    const emitter = TracklogEmitter.file(path, "os", { TRACKLOG_PARENT_RUN_ID: "p" });
    emitter.bind({ run: "c" }).tracklog("Began", { what: "run" });
    emitter.close();
    const [, link] = readFileSync(path, "utf8")
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(link).toMatchObject({ run: "c", fact: "Linked", kind: "sub-run", parent: "p" });
  });
});

describe("the package", () => {
  test("can be vendored: its emitters import nothing but Node", () => {
    const sources = new URL("../src/emit/", import.meta.url);
    const files = [...readdirSync(sources).map((file) => `emit/${file}`), "emit.ts"];
    const imported = files.flatMap((file) => {
      const text = readFileSync(new URL(`../src/${file}`, import.meta.url), "utf8");
      return [...text.matchAll(/from "([^"]+)"/g)].map(([, from]) => from ?? "");
    });
    expect(imported.filter((from) => !from.startsWith("./") && !from.startsWith("node:"))).toEqual([]);
    expect(imported).toContain("node:fs");
  });

  test("emits what its README shows", () => {
    const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
    const [, emitting = ""] = [...readme.matchAll(/```ts\n(.*?)```/gs)].map(([, code]) => code);
    const path = fresh();
    const run = (code: string) =>
      spawnSync(process.execPath, ["--input-type=module", "-e", code], { encoding: "utf8" });

    const emitted = run(`const spawn = (...given) => console.log(JSON.stringify(given));
      ${emitting.replace('"transitions.jsonl"', JSON.stringify(path))}`);
    expect(emitted.stderr).toBe("");
    expect(emitted.stdout).toContain('"TRACKLOG_PARENT_RUN_ID":"agent-coder-1"');
    const lines = readFileSync(path, "utf8").trimEnd().split("\n");
    expect(lines.map((line) => parseKahnAgentEvent(line).ok)).toEqual([true, true]);
  });

  test("has a lock that names no registry, and every package for every platform", () => {
    const text = readFileSync(new URL("../package-lock.json", import.meta.url), "utf8");
    type Locked = { integrity?: string; resolved?: string; optionalDependencies?: object };
    const { packages } = JSON.parse(text) as { packages: Record<string, Locked> };
    const { "": _, ...locked } = packages;
    for (const [name, { integrity, resolved, optionalDependencies = {} }] of Object.entries(locked)) {
      expect(integrity, name).toMatch(/^sha512-/);
      expect(resolved, name).toBeUndefined();
      for (const wanted of Object.keys(optionalDependencies))
        expect(locked, name).toHaveProperty([`node_modules/${wanted}`]);
    }
  });

  test("[RALPH-34] owns its models: nothing is generated, and zod is all it needs", () => {
    const text = readFileSync(new URL("../package.json", import.meta.url), "utf8");
    const { scripts, dependencies } = JSON.parse(text) as Record<string, Record<string, string>>;
    expect(Object.keys(dependencies ?? {})).toEqual(["zod"]);
    for (const script of Object.values(scripts ?? {})) expect(script).toMatch(/^(tsc|vitest)\b/);
  });
});
