import { spawnSync } from "node:child_process";

import { describe, expect, test } from "vitest";

import { KahnCiEventSchema, parseKahnCiEvent } from "../src/dialects/kahn-ci.js";
import {
  KahnEventSchema,
  NodeAttemptSchema,
  type NodeTransition,
  NodeTransitionSchema,
  OutcomeSchema,
  parseKahnEvent,
  RunEndSchema,
  RunStartSchema,
} from "../src/dialects/ralph.js";
import { accepts, ci, ralph, refuses, requires, takes, without } from "./lines.js";

const OUTCOMES = ["clean", "clean_with_flake", "partial", "stuck", "catastrophic"];

describe("the ralph entry", () => {
  test("[RALPH-14] gives the schemas and the parser by their names", () => {
    const code = `import * as ralph from "@tracklog/contracts/ralph"; console.log(Object.keys(ralph).join(" "));`;
    const done = spawnSync(process.execPath, ["--input-type=module", "-e", code], {
      encoding: "utf8",
    });
    expect(done.stderr).toBe("");
    expect(done.stdout.trim().split(" ")).toEqual(
      expect.arrayContaining([
        "KahnEventSchema",
        "RunStartSchema",
        "NodeAttemptSchema",
        "NodeTransitionSchema",
        "RunEndSchema",
        "OutcomeSchema",
        "parseKahnEvent",
      ]),
    );
  });

  test("[RALPH-15, RALPH-43] is a union of exactly four frames, distinguished by event", () => {
    const kinds = KahnEventSchema.options.map((frame) => frame.shape.event.value);
    expect(kinds.sort()).toEqual(["node_attempt", "node_transition", "run_end", "run_start"]);
    expect(KahnEventSchema.def.discriminator).toBe("event");
  });
});

describe("a frame at the boundary", () => {
  test("[RALPH-33] is parsed and checked", () => {
    for (const frame of Object.values(ralph)) accepts(parseKahnEvent, frame);
    refuses(parseKahnEvent, { ...ralph.start, ts: "yesterday" }, "/ts");
  });

  test("[RALPH-16, RALPH-33] is refused when it is none of the four", () => {
    refuses(parseKahnEvent, { ...ralph.start, event: "prompt_start" }, "/event");
    refuses(parseKahnEvent, { ...ralph.start, event: 4 }, "/event");
    refuses(parseKahnEvent, { ...ralph.start, event: "toString" }, "/event");
    refuses(parseKahnEvent, without(ralph.start, "event"), "/event");
    refuses(parseKahnEvent, "[]", "");
    refuses(parseKahnEvent, "{", "");
  });

  test("[RALPH-11, RALPH-10] keeps unknown keys unchanged, nested ones too", () => {
    const deviation = { severity: "minor", summary: "späte Änderung", seen: [{ by: null }] };
    const results = [{ ...ralph.attempt.done_when_results[0], host: { cpu: 2, load: [0.5] } }];
    accepts(parseKahnEvent, { deviation, ...ralph.transition, phase: "plan", empty: {} });
    accepts(parseKahnEvent, { ...ralph.attempt, done_when_results: results });
  });

  test("[RALPH-12, RALPH-13] with keys of the profile is a kahn frame as it is", () => {
    const kiln = { convergence_score: 0.75, early_stop_reason: "plateau" };
    accepts(parseKahnCiEvent, ralph.start);
    accepts(parseKahnCiEvent, { ...ralph.transition, ...kiln, deviation: { severity: "none" } });
    refuses(parseKahnEvent, ci.transition, "/outcome");
    accepts(parseKahnCiEvent, ci.transition);
  });

  test("may have its kind under type, which is read as event", () => {
    const { event, ...rest } = ralph.start;
    const parsed = parseKahnEvent({ type: event, ...rest });
    expect(parsed).toEqual({ ok: true, event: ralph.start });
    accepts(parseKahnEvent, { ...ralph.start, type: "kept beside event" });
  });
});

describe("the frames", () => {
  test("[RALPH-17] RunStart has run_id, ts and an actor that is not empty", () => {
    requires(parseKahnEvent, ralph.start, ["run_id", "ts", "actor"]);
    takes(parseKahnEvent, ralph.start, "actor", ["rocky"], ["", 7, null]);
    takes(parseKahnEvent, ralph.start, "run_id", ["A-1_b"], ["", "a b", "a\n", null]);
  });

  test("[RALPH-18] NodeAttempt has run_id, node_id, attempt and ts", () => {
    requires(parseKahnEvent, ralph.attempt, ["run_id", "node_id", "attempt", "ts"]);
    takes(parseKahnEvent, ralph.attempt, "attempt", [1, 12], [0, 1.5, "1", true, null]);
    takes(parseKahnEvent, ralph.attempt, "node_id", ["p-1"], ["P", "p_1", "", "p\n"]);
  });

  test("[RALPH-19] NodeTransition has run_id, node_id and an outcome", () => {
    requires(parseKahnEvent, ralph.transition, ["run_id", "node_id", "outcome"]);
    takes(parseKahnEvent, ralph.transition, "outcome", OUTCOMES, ["failed", "", null]);
  });

  test("[RALPH-20, RALPH-22, RALPH-24] the KILN slots are optional, never null, and get no default", () => {
    const scores = [0, 0.5, 1];
    takes(parseKahnEvent, ralph.transition, "convergence_score", scores, [-0.1, 1.1, "1", null]);
    takes(parseKahnEvent, ralph.transition, "early_stop_reason", ["plateau"], [3, null]);
    const parsed = parseKahnEvent(JSON.stringify(ralph.transition));
    expect(parsed.ok && Object.keys(parsed.event)).toEqual(Object.keys(ralph.transition));
  });

  test("[RALPH-42] a consumer can read the KILN slots", () => {
    const parsed = parseKahnEvent({ ...ralph.transition, convergence_score: 0.75 });
    expect(parsed.ok && (parsed.event as NodeTransition).convergence_score).toBe(0.75);
  });

  test("[RALPH-21] RunEnd has run_id, outcome and ts", () => {
    requires(parseKahnEvent, ralph.end, ["run_id", "outcome", "ts"]);
  });

  test("[RALPH-9, RALPH-41] Outcome has five values, with the slots and without", () => {
    expect(OutcomeSchema.options).toEqual(OUTCOMES);
    takes(parseKahnEvent, ralph.end, "outcome", OUTCOMES, ["converged", "Clean", "clean\n"]);
    const kiln = { ...ralph.transition, convergence_score: 0.5, early_stop_reason: "plateau" };
    takes(parseKahnEvent, kiln, "outcome", OUTCOMES, ["plateau", "converged"]);
  });

  test("[RALPH-39] drop and rename nothing of upstream, and the published shapes require it", () => {
    for (const { shape } of KahnEventSchema.options) {
      const upstream = KahnCiEventSchema.options.find((frame) => frame.shape.event.value === shape.event.value);
      for (const [key, type] of Object.entries(upstream?.shape ?? {}))
        expect((shape as Record<string, unknown>)[key], key).toBe(type);
    }
    for (const [frame, line] of [
      [RunStartSchema, ralph.start],
      [NodeTransitionSchema, ralph.transition],
      [NodeAttemptSchema, ralph.attempt],
      [RunEndSchema, ralph.end],
    ] as const)
      for (const key of Object.keys(line).filter((name) => name !== "attempt"))
        expect(frame.safeParse(without(line, key)).success, key).toBe(false);
  });

  const ts = ralph.start.ts;
  const diagram = [
    { event: "run_start", run_id: "r1", ts, actor: "rocky" },
    { event: "node_attempt", run_id: "r1", node_id: "p", attempt: 1, ts },
    { event: "node_transition", run_id: "r1", node_id: "p", outcome: "partial" },
    {
      event: "node_transition",
      run_id: "r1",
      node_id: "p",
      outcome: "partial",
      convergence_score: 0.5,
      early_stop_reason: "plateau",
    },
    { event: "run_end", run_id: "r1", outcome: "partial", ts },
  ];

  test("with exactly the keys of the class diagram are read, by event, type or class name", () => {
    for (const { event, ...rest } of diagram) {
      accepts(parseKahnEvent, { event, ...rest });
      const name = event.replace(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase());
      for (const type of [event, name])
        expect(parseKahnEvent({ type, ...rest })).toEqual({ ok: true, event: { event, ...rest } });
      expect(parseKahnCiEvent({ event, ...rest }).ok).toBe(false);
    }
  });

  test("may miss a key of upstream alone, and none may be null", () => {
    refuses(parseKahnEvent, { ...ralph.start, total_nodes: null }, "/total_nodes");
    refuses(parseKahnEvent, { ...ralph.transition, to: null }, "/to");
    refuses(parseKahnEvent, without(ralph.attempt, "node_id"), "/node_id");
  });
});
