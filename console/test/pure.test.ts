import { describe, expect, test, vi } from "vitest";
import type { Run, Told } from "../src/lib/api";

vi.stubGlobal("location", { hash: "" });
vi.stubGlobal("window", { addEventListener: () => undefined });

const { parse, href, runHref } = await import("../src/lib/route");
const { shape } = await import("../src/lib/story");
const { inert, start } = await import("../src/lib/text");
const { ago, duration, exact, money, percent } = await import("../src/lib/time");
const { lanes, nearest, strips } = await import("../src/parts/timeline");
const { cut } = await import("../src/parts/detail");
const { byNeed, filtered } = await import("../src/pages/fleet");
const { terms } = await import("../src/pages/search");
const { open } = await import("../src/pages/inbox");
const { parseFrame } = await import("../src/lib/frames");
const { parseKahnEvent } = await import("@tracklog/contracts/ralph");

const run = (name: string, more: Partial<Run> = {}): Run =>
  ({ run: name, family: "f", dialects: ["d"], title: null, status: "done", outcome: null, outcomes: {}, agents: [], last_seq: 1, last_received: "2026-05-05T09:00:00.000Z", ...more }) as Run;

describe("runs", () => {
  test("what needs a person comes first, and among equals what was heard last", () => {
    const runs = [
      run("done"),
      run("working", { status: "working" }),
      run("lost", { status: "lost" }),
      run("old", { status: "waiting", last_seq: 1 }),
      run("new", { status: "waiting", last_seq: 9 }),
      run("failed", { status: "failed" }),
    ];
    expect(runs.sort(byNeed).map((each) => each.run)).toEqual(["new", "old", "failed", "lost", "working", "done"]);
  });

  test("every filter narrows by itself, and all of them together", () => {
    const none = { status: "", dialect: "", agent: "", outcome: "", within: "", text: "" };
    const runs = [
      run("a", { status: "waiting", agents: ["coder"], outcomes: { partial: 2 }, title: "Mend It" }),
      run("b", { dialects: ["x"], outcome: "clean", last_received: "2026-05-04T00:00:00.000Z" }),
    ];
    const now = Date.parse("2026-05-05T09:30:00.000Z");
    const names = (filter: object) => filtered(runs, { ...none, ...filter }, now).map((each) => each.run);
    expect(names({})).toEqual(["a", "b"]);
    expect(names({ status: "waiting" })).toEqual(["a"]);
    expect(names({ dialect: "x" })).toEqual(["b"]);
    expect(names({ agent: "coder" })).toEqual(["a"]);
    expect(names({ outcome: "partial" })).toEqual(["a"]);
    expect(names({ outcome: "clean" })).toEqual(["b"]);
    expect(names({ within: "1h" })).toEqual(["a"]);
    expect(names({ text: "mend" })).toEqual(["a"]);
    expect(names({ text: "mend", dialect: "x" })).toEqual([]);
  });

  test("who has waited longest is asked for first, and what is not open is not waiting", () => {
    const question = (id: string, state: string, waited: number) => ({ question_id: id, state, waiting_seconds: waited }) as never;
    const found = open([question("a", "open", 1), question("b", "answered", 9), question("c", "open", 5)]);
    expect(found.map((each) => each.question_id)).toEqual(["c", "a"]);
  });
});

let seq = 0;
const told = (at: number, ...facts: object[]): Told =>
  ({ seq: ++seq, received: new Date(at).toISOString(), dialect: "d", kind: "k", bytes: 1, words: "", facts }) as unknown as Told;

describe("the shape of a run", () => {
  test("a call is joined with its result, also when an id is used again", () => {
    const records = [
      told(0, { fact: "Called", tool: "A", call_id: "1" }),
      told(1000, { fact: "Returned", call_id: "1", ok: false }),
      told(2000, { fact: "Called", tool: "B", call_id: "1" }),
    ];
    const { calls, spans } = shape(records, new Set());
    expect(spans.map((span) => [span.name, span.end, span.ok])).toEqual([["A", 1000, false], ["B", null, null]]);
    expect(calls.get("1")?.tool).toBe("B");
  });

  test("a made-up id means something within its record only", () => {
    const both = (ok: boolean) => [
      { fact: "Called", tool: "A", call_id: "s", synthetic_id: true },
      { fact: "Returned", call_id: "s", synthetic_id: true, ok },
    ];
    const { calls } = shape([told(0, ...both(true)), told(1, ...both(false))], new Set());
    expect([...calls.values()].map((call) => call.result?.ok)).toEqual([true, false]);
  });

  test("moves are counted, and the illegal ones among them", () => {
    const move = { fact: "Moved", from: "a", to: "b", phase: "working" };
    const records = [told(0, move), told(1, move)];
    expect(shape(records, new Set([records[1]?.seq ?? 0])).moves).toMatchObject([{ from: "a", to: "b", count: 2, illegal: 1 }]);
  });

  test("a question is a wait until it is answered, and what was begun below a step ends with it", () => {
    const { spans } = shape(
      [
        told(0, { fact: "Began", what: "step", step: "s" }),
        told(1, { fact: "Asked", question_id: "q", text: "?" }),
        told(2, { fact: "Linked", kind: "sub-run", child: "c" }),
        told(5, { fact: "Answered", question_id: "q" }),
        told(9, { fact: "Ended", what: "step", step: "s", passed: true }),
      ],
      new Set(),
    );
    expect(spans.map((span) => [span.what, span.begin, span.end])).toEqual([["step", 0, 9], ["wait", 1, 5], ["sub-run", 2, 9]]);
  });
});

describe("the timeline", () => {
  const span = (lane: string, begin: number, end: number | null, n = 1) => ({ what: "call" as const, lane, name: "x", seq: n, begin, end, ok: null });

  test("one lane per agent, and nothing covers anything", () => {
    const found = lanes([span("a", 0, 5), span("b", 1, 2), span("a", 3, 8), span("a", 5, 6)], 10);
    expect(found.map((lane) => [lane.name, lane.rows.map((row) => row.length)])).toEqual([["a", [2, 1]], ["b", [1]]]);
  });

  test("the strip draws once what falls on the same point", () => {
    const many = Array.from({ length: 50_000 }, (_, n) => span("a", n % 100, (n % 100) + 1, n));
    const [lane] = strips(many, 0, 100);
    expect(lane?.paths.call?.length).toBeLessThan(3_000);
  });

  test("a click leads to what is nearest", () => {
    expect(nearest([span("a", 0, 1, 1), span("a", 10, 20, 2), span("a", 30, 31, 3)], 22).seq).toBe(2);
  });
});

describe("foreign text", () => {
  test("colour codes go, what is hidden or turns the line is spelled out", () => {
    expect(inert("\u001b[31mred\u001b[0m")).toBe("red");
    expect(inert("\u001b]0;title\u0007x")).toBe("x");
    expect(inert("a\u202eb")).toBe("a⟨U+202E⟩b");
    expect(inert("a\u0000b")).toBe("a␀b");
    expect(inert("line\n\ttab ünïcödé 👩‍🚀")).toBe("line\n\ttab ünïcödé 👩‍🚀");
  });

  test("no control character and no mark that turns text survives, whatever is thrown at it", () => {
    let state = 7;
    for (let round = 0; round < 500; round++) {
      const text = Array.from({ length: 40 }, () => String.fromCharCode((state = (state * 48271) % 2147483647) % 0x2100)).join("");
      expect(inert(text)).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]/);
    }
  });

  test("a beginning has whole characters only", () => {
    expect(start("abc", 3)).toBe("abc");
    expect(start("a👩b👩c", 4)).not.toMatch(/[\ud800-\udbff](?![\udc00-\udfff])/);
  });
});

describe("addresses", () => {
  test("what is in an address comes back, whatever the names hold", () => {
    for (const name of ["a", "a/b", "a?b#c", "ü %", "<script>", "..", "a:b"]) {
      const { parts, query } = parse(runHref("fam", name, { seq: 7, text: "x&y=z" }));
      expect(parts).toEqual(["run", "fam", name]);
      expect([query.get("seq"), query.get("text")]).toEqual(["7", "x&y=z"]);
    }
  });

  test("what is empty is left out, and nonsense is read as it stands", () => {
    expect(href(["inbox"], { a: "" })).toBe("#/inbox");
    expect(parse("#/run/%E0%A4%A").parts).toEqual(["run", "%E0%A4%A"]);
    expect(parse("").parts).toEqual([]);
  });
});

test("times and sizes as a person reads them", () => {
  expect(duration(0.25)).toBe("250 ms");
  expect(duration(59.4)).toBe("59 s");
  expect(duration(3_700)).toBe("1 h 1 min");
  expect(duration(null)).toBe("–");
  expect(ago("2026-05-05T09:00:00.000Z", Date.parse("2026-05-05T09:01:30.000Z"))).toBe("1 min ago");
  expect(ago("2026-05-05T09:00:00.000Z", Date.parse("2026-05-05T08:00:00.000Z"))).toBe("just now");
  expect(ago("nonsense", 0)).toBe("–");
  expect(exact("nonsense")).toBe("no time told");
  expect(exact("2026-05-05T09:00:00.123Z")).toContain("123");
  expect(money(0.004)).toBe("$0.0040");
  expect(percent(0.4)).toBe("40 %");
});

test("the words of a question are found as the index finds them", () => {
  expect(terms('"Connection refused" ti* x')).toEqual(["connection refused", "ti", "x"]);
});

test("the event's bytes are cut out of the page and not written anew", () => {
  const event = '{"n":1.0, "run_id":"r","deep":{"event":[1]}}';
  const page = `{"first":1,"last":2,"next":1,"events":[{"seq":1,"received":"t","dialect":"d","run":"r","event":${event}}]}`;
  expect(cut(page)?.event).toBe(event);
  expect(cut('{"first":1,"last":0,"next":0,"events":[]}')).toBe(null);
});

describe("the stream's boundary", () => {
  const frame = (event: unknown, dialect = "ralph") =>
    JSON.stringify({ seq: 1, received: "2026-05-05T09:00:00.000Z", dialect, family: "kahn", run: "r", event });

  test("[RALPH-45] frames are judged by the schemas of the contracts package, and by no other", () => {
    const good = { ts: "2026-05-05T09:00:00.000Z", run_id: "r", event: "run_start", total_nodes: 1, actor: "rocky" };
    const bad = [
      { ...good, actor: 7 },
      { ...good, total_nodes: -1 },
      { ...good, event: "run_began" },
      { ...good, ts: "yesterday" },
      {},
    ];
    for (const event of [good, ...bad]) {
      const theirs = parseKahnEvent(event);
      const ours = parseFrame(frame(event));
      if (!ours.ok) throw new Error(ours.message);
      expect(ours.heard.problems).toEqual(theirs.ok ? [] : theirs.problems);
    }
    const models = import.meta.glob<string>("../src/**/*.{ts,tsx}", { query: "?raw", import: "default", eager: true });
    const owners = Object.keys(models).filter((path) => models[path]?.includes("from \"zod\""));
    expect(owners).toEqual(["../src/lib/frames.ts"]);
    expect(models["../src/lib/frames.ts"]).not.toMatch(/node_id|run_start|outcome/);
  });

  test("what is no frame is told apart from a frame whose event is odd", () => {
    expect(parseFrame("no json").ok).toBe(false);
    expect(parseFrame('{"seq":0}').ok).toBe(false);
    const odd = parseFrame(frame({ what: "ever" }, "dialect-of-tomorrow"));
    expect(odd.ok && odd.heard.problems).toEqual([]);
  });
});
