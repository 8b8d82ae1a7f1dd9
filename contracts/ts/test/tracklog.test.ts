import { describe, expect, test } from "vitest";

import { parseTracklogEvent as parse, TracklogEventSchema } from "../src/dialects/tracklog.js";
import { accepts, refuses, requires, takes, without } from "./lines.js";

const line = (fact: string, fields: object) => ({
  id: "1",
  run: "any thing",
  fact,
  ...fields,
  origin: { writer: "cli", fidelity: "observed" },
});

describe("a native line", () => {
  test("is one of twelve facts, or a mark", () => {
    expect(TracklogEventSchema.options).toHaveLength(13);
    refuses(parse, line("Thought", {}), "/fact");
  });

  test("has an id, a run, a fact and an origin; a time only where there was a clock", () => {
    const noted = line("Noted", { label: "title" });
    requires(parse, noted, ["id", "run", "fact", "origin", "label"]);
    takes(parse, noted, "at", ["2026-05-05T09:00:00.123456789Z"], ["2026-02-30T09:00:00Z", null, "now"]);
    refuses(parse, { ...noted, origin: { writer: "cli" } }, "/origin/fidelity");
  });

  test("Said has blocks, each known type with its own keys", () => {
    const said = (block: object) => line("Said", { role: "assistant", blocks: [block] });
    accepts(parse, said({ type: "text", text: "hi", turn: 1 }));
    accepts(parse, said({ type: "image" }));
    accepts(parse, said({ type: "constructor" }));
    refuses(parse, said({ type: "tool_use", tool_name: "t", tool_id: "i" }), "/blocks/0/tool_input");
  });

  test("Decided has a verdict or a score, and null is a verdict", () => {
    accepts(parse, line("Decided", { verdict: null }));
    accepts(parse, line("Decided", { score: 3 }));
    refuses(parse, line("Decided", { passed: true }), "/verdict");
  });

  test("Linked has both its ends", () => {
    const link = (fields: object) => line("Linked", fields);
    accepts(parse, link({ kind: "fork", parent: { family: "kahn", run: "r" } }));
    accepts(parse, link({ kind: "handoff", from: "a", to: "b" }));
    accepts(parse, link({ kind: "alias", system: "otel", alias: "t" }));
    refuses(parse, link({ kind: "fork" }), "/parent");
    refuses(parse, link({ kind: "message", from: "a" }), "/to");
    refuses(parse, without(link({ kind: "alias", system: "s", alias: "t" }), "system"), "/system");
  });
});
