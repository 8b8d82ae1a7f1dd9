import { describe, expect, test } from "vitest";

import { FishbowlEventSchema, parseFishbowlEvent as parse } from "../src/dialects/fishbowl.js";
import { refuses, requires, takes } from "./lines.js";

const spoke = {
  id: "e-1",
  run_id: "evening 1",
  turn: 3,
  kind: "agent.spoke",
  actor: "cara",
  payload: { text: "Good evening.", mood: null },
  created_at: "2026-05-05T09:00:00Z",
  schema_version: 1,
};

describe("the envelope", () => {
  test("[BOWL-1, BOWL-8] has eight fields, and all of them", () => {
    requires(parse, spoke, Object.keys(spoke));
    takes(parse, spoke, "schema_version", [], [0, 2, "1", null, true]);
  });

  test("[BOWL-59] has no others", () => {
    refuses(parse, { ...spoke, mood: "bright" }, "/mood");
    refuses(parse, JSON.stringify(spoke).replace("{", '{"__proto__":1,'), "/__proto__");
    expect(FishbowlEventSchema.safeParse({ ...spoke, mood: "bright" }).success).toBe(false);
  });

  test.each(["session_id", "model_profile", "model_id"])("[BOWL-59] has no %s", (key) => {
    refuses(parse, { ...spoke, [key]: "x" }, `/${key}`);
    refuses(parse, { ...spoke, [key]: null }, `/${key}`);
    expect(parse({ ...spoke, payload: { [key]: "x" } }).ok).toBe(true);
  });

  test("[BOWL-4, BOWL-6, BOWL-7] has a counter, an object and a moment in UTC", () => {
    takes(parse, spoke, "turn", [0, 12], [-1, 1.5, true, "1", null]);
    takes(parse, spoke, "payload", [{}, { deep: [{ a: null }] }], [[], "x", null]);
    const good = ["2026-05-05T09:00:00.123456Z", "2026-05-05T09:00:00+00:00"];
    takes(parse, spoke, "created_at", good, ["2026-05-05T11:00:00+02:00", "2026-05-05T09:00:00", ""]);
  });
});

describe("a kind", () => {
  test("[BOWL-9, BOWL-10, BOWL-14, BOWL-21] is open, and any well-formed one is accepted", () => {
    const good = ["agent.spoke", "clue.found", "episode.published", "oracle.spoke", "a.b.c", "a1.b2"];
    takes(parse, spoke, "kind", good, ["agent.spoke\n", "1a.b", "a.1b", "ä.b", ""]);
  });

  test("[BOWL-11, BOWL-12, BOWL-13] without a dot, with uppercase or with symbols is refused", () => {
    takes(parse, spoke, "kind", [], ["nodot", "Bad.Kind", "bad kind", "a-b.c", "a_b.c"]);
    takes(parse, spoke, "kind", [], ["trailing.", ".leading", "two..dots"]);
  });
});
