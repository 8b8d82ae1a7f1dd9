import { describe, expect, test } from "vitest";
import { tick, ticks, timeTicks } from "../src/charts/scale";
import type { GraphEdge, GraphNode, StoryRecord, TurnRow } from "../src/lib/answers";
import { axisOf, gapsOf } from "../src/lib/axis";
import { figuresOf, linesOf, paired } from "../src/lib/compared";
import { grouped, widthOf } from "../src/lib/graph";
import { rowsOf as kindRows } from "../src/lib/kinds";
import { RunRecords } from "../src/lib/run-records";
import { telling } from "../src/lib/text";
import { day } from "../src/lib/time";
import { tokensOf, turnOf } from "../src/lib/turns";
import { timed, unfolded } from "../src/lib/waterfall";

/** Numbers that look random and are the same in every run. */
function* noise(seed: number): Generator<number> {
  for (let n = seed; ; ) {
    n = (n * 1_103_515_245 + 12_345) % 2_147_483_648;
    yield n / 2_147_483_648;
  }
}

const take = (seed: number, many: number, most: number): number[] => {
  const source = noise(seed);
  return Array.from({ length: many }, () => Math.round((source.next().value as number) * most));
};

test("a place on the axis and its time belong together, later is further right, and long gaps are cut", () => {
  for (let seed = 1; seed < 40; seed++) {
    const moments = take(seed, 30, 36_000_000);
    const [first, last] = [Math.min(...moments), Math.max(...moments)];
    const axis = axisOf(gapsOf(moments, first, last), first, last);
    const sorted = [...moments].sort((a, b) => a - b);
    sorted.forEach((at, n) => {
      const x = axis.x(at);
      expect(x).toBeGreaterThanOrEqual(0);
      expect(x).toBeLessThanOrEqual(1.000001);
      expect(axis.time(x)).toBeCloseTo(at, -1);
      if (n) expect(x).toBeGreaterThanOrEqual(axis.x(sorted[n - 1]!));
    });
    for (const { from, to } of axis.breaks) expect(to - from).toBeGreaterThan(600_000);
  }
});

test("ticks begin at 0, reach the greatest value, are few and evenly spaced", () => {
  for (const unit of ["usd", "tokens", "runs", "seconds", "share"] as const)
    for (const most of [0.003, 0.4, 1, 3, 7, 12, 99, 101, 5_400, 1e6, 3.3e9]) {
      const found = ticks(most, unit);
      expect(found[0]).toBe(0);
      expect(found.at(-1)).toBeGreaterThanOrEqual(most * 0.999);
      expect(found.length).toBeLessThanOrEqual(6);
      if (unit === "runs") for (const each of found) expect(Number.isInteger(each)).toBe(true);
      expect(new Set(found.map((each) => tick(each, unit))).size, `${unit} ${most}`).toBeGreaterThan(1);
    }
});

test("points in time are in the range, in order, and not too many", () => {
  const from = Date.UTC(2026, 2, 27, 10, 20) / 1000;
  for (const length of [3, 32, 300, 3_600, 20_000, 86_400, 7 * 86_400, 90 * 86_400, 400 * 86_400]) {
    const found = timeTicks(from, from + length, 8);
    expect(found.length).toBeGreaterThan(0);
    expect(found.length).toBeLessThanOrEqual(10);
    found.forEach((each, n) => {
      expect(each.at).toBeGreaterThanOrEqual(from);
      expect(each.at).toBeLessThan(from + length);
      if (n) expect(each.at).toBeGreaterThan(found[n - 1]!.at);
    });
  }
});

let seq = 0;
const record = (at: number, facts: object[]): StoryRecord =>
  ({
    seq: ++seq,
    received: new Date(at).toISOString(),
    at: new Date(at).toISOString(),
    dialect: "tracklog",
    bytes: 1,
    kind: "x",
    agent: "coder",
    words: "",
    facts,
    findings: [],
    cut: false,
    withdrawn: false,
    superseded: false,
  }) as unknown as StoryRecord;
const said = (role: string, text = "x") => ({ fact: "Said", role, blocks: [{ type: "text", text }] });

/** A runRecords of a run: a question, two turns with a call each, the second fails, and a move between states. */
function runRecords(): RunRecords {
  seq = 0;
  const made = new RunRecords(() => Promise.reject(new Error("nothing to read")));
  made.add([
    record(0, [said("user")]),
    record(3_000, [said("assistant", "I look\nat it")]),
    record(3_000, [{ fact: "Called", tool: "Read", call_id: "a" }]),
    record(5_000, [{ fact: "Returned", call_id: "a", ok: true }]),
    record(6_000, [{ fact: "Moved", from: "thinking", to: "tool_call" }]),
    record(9_000, [{ fact: "Called", tool: "Bash", call_id: "b" }]),
    record(19_000, [{ fact: "Returned", call_id: "b", ok: false }]),
  ]);
  return made;
}

describe("a run", () => {
  test("shows each record in the turn that it is a part of, and what that read and wrote", () => {
    const row = (turn: number, seq: number, last_seq: number, agent: string) =>
      ({ turn, seq, last_seq, agent, input_tokens: 5, cache_read_tokens: 15, output_tokens: 7 }) as TurnRow;
    const turns = [row(1, 2, 9, "coder"), row(2, 4, 6, "critic"), row(3, 10, 10, "coder")];
    const found = (seq: number, fact: object, agent?: string) =>
      turnOf(turns, { ...record(0, [fact]), seq, ...(agent ? { agent } : {}) })?.turn;
    expect(found(1, said("assistant"))).toBeUndefined();
    expect(found(5, { fact: "Called", agent: "critic" })).toBe(2);
    expect(found(5, { fact: "Called" })).toBe(1); // by the agent of the record
    expect(found(5, { fact: "Noted" }, "somebody")).toBe(2);
    expect(found(7, said("user"))).toBeUndefined();
    expect(found(10, said("assistant"))).toBe(3);
    expect(tokensOf({ ...row(1, 1, 1, ""), cache_write_tokens: null })).toBe("20 in, 75 % cached · 7 out");
  });

  test("hides moves between states unless they are asked for, and shows a failure with its call", () => {
    const made = runRecords();
    const seqs = (places: readonly number[]) => places.map((place) => made.seqs[place]);
    expect(seqs(kindRows(made, "all", false))).toEqual([1, 2, 3, 6]);
    expect(seqs(kindRows(made, "all", true))).toEqual([1, 2, 3, 5, 6]);
    expect(seqs(kindRows(made, "failed", false))).toEqual([6]);
  });

  test("has rows with a begin and an end; what is below a closed one is hidden", () => {
    const row = (id: string, depth: number) =>
      ({ id, depth, kind: "turn", start: "2026-05-05T09:00:00.500Z", seconds: 1.5 }) as never;
    const rows = timed([row("run", 0), row("a", 1), row("b", 2), row("c", 3), row("d", 1), row("e", 2)]);
    const begin = Date.parse("2026-05-05T09:00:00.500Z");
    expect([rows[0]?.begin, rows[0]?.end]).toEqual([begin, begin + 1500]);
    expect(unfolded(rows, () => true)).toEqual(rows);
    expect(unfolded(rows, ({ id }) => id !== "a").map(({ id }) => id)).toEqual(["run", "a", "d", "e"]);
    expect(unfolded(rows, ({ id }) => id !== "b").map(({ id }) => id)).toEqual(["run", "a", "b", "d", "e"]);
  });
});

test("of many siblings one node is drawn, which has the sum of their numbers", () => {
  const node = (id: string, status: GraphNode["status"] = "done"): GraphNode =>
    ({ id, kind: "run", status, calls: 2, failures: 0, cost_usd: 1, computed_usd: null, share: 0.01 }) as GraphNode;
  const edge = (source: string, target: string): GraphEdge => ({
    ...{ source, target, kind: "sub-run", count: 1 },
    ...{ tokens_there: target === "f:below" ? null : 2, tokens_back: 1 },
  });
  const ids = Array.from({ length: 90 }, (_, n) => `f:${n}`);
  const graph = {
    nodes: [node("f:top"), ...ids.map((id, n) => node(id, n % 3 ? "done" : "failed")), node("f:below")],
    edges: [...ids.map((id) => edge("f:top", id)), edge("f:0", "f:below")],
  };
  const drawn = grouped(graph);
  expect(drawn.nodes.map((each) => [each.times, each.cost_usd, each.calls])).toEqual([
    [1, 1, 2],
    [1, 1, 2], // it has a run below it
    [60, 60, 120],
    [29, 29, 58],
    [1, 1, 2],
  ]);
  expect(drawn.edges.map((each) => each.count)).toEqual([1, 60, 29, 1]);
  expect(drawn.edges.map((each) => [each.tokens_there, each.tokens_back])).toEqual([
    [2, 1],
    [120, 60],
    [58, 29],
    [null, 1],
  ]);
  const wide = drawn.edges.map((each) => widthOf(each, drawn.edges));
  expect([Math.max(...wide), wide.indexOf(5), wide.every((each) => each > 1)]).toEqual([5, 1, true]);
  const few = { nodes: graph.nodes.slice(0, 9), edges: graph.edges.slice(0, 8) };
  expect(grouped(few).nodes.map((each) => each.id)).toEqual(few.nodes.map((each) => each.id));
});

test("a graph whose only agent does all of its run draws it once, under the agent's name", () => {
  const node = (id: string, kind: GraphNode["kind"], calls: number, name: string): GraphNode =>
    ({ id, kind, name, calls, failures: 0, cost_usd: 1, computed_usd: null, share: 1, status: "done" }) as GraphNode;
  const edge = (source: string, target: string, kind: GraphEdge["kind"]): GraphEdge =>
    ({ source, target, kind, count: 1, tokens_there: null, tokens_back: null }) as GraphEdge;
  const nodes = [
    node("f:r", "run", 3, "Repair"),
    node("agent coder", "agent", 3, "coder"),
    node("person", "person", 0, ""),
  ];
  const edges = [edge("f:r", "agent coder", "acts"), edge("agent coder", "person", "question")];
  const drawn = grouped({ nodes, edges });
  expect(drawn.nodes.map((each) => [each.id, each.name])).toEqual([
    ["f:r", "coder"],
    ["person", ""],
  ]);
  expect(drawn.edges.map((each) => [each.source, each.target])).toEqual([["f:r", "person"]]);
  const partly = grouped({
    nodes: [...nodes.slice(0, 1), node("agent coder", "agent", 2, "coder")],
    edges: edges.slice(0, 1),
  });
  expect(partly.nodes).toHaveLength(2); // somebody else called a tool, too
});

test("every equal step of a comparison is counted once, between the differences", () => {
  const step = (n: number) => ({ step: n, seq: n, fact: "Said", agent: null, words: "", failed: false, seconds: null });
  const rows = [
    { kind: "changed" as const, a: step(3), b: step(3), changes: [], more: 0 },
    { kind: "only_b" as const, a: null, b: step(4), changes: [], more: 0 },
    { kind: "only_a" as const, a: step(6), b: null, changes: [], more: 0 },
  ];
  const lines = linesOf({ rows, at: 2, counts: { same: 9, changed: 1, only_a: 1, only_b: 1 } });
  const same = lines.reduce((sum, line) => sum + (line.kind === "same" ? line.steps : 0), 0);
  expect(same).toBe(9);
  expect(lines.filter((line) => line.kind === "row")).toHaveLength(3);
  const [took] = figuresOf({ seconds: { a: 10, b: 40, delta: 30 } });
  expect(took).toMatchObject({ name: "Took", a: "10 s", b: "40 s", change: "+300 %", doublings: 2 });
});

test("a call and the result that follows it at once are one line of a comparison", () => {
  const step = (n: number, fact: string, words: string, failed = false) => ({
    step: n,
    seq: n,
    fact,
    agent: null,
    words,
    failed,
    seconds: fact === "Returned" ? 2 : null,
  });
  const row = (b: ReturnType<typeof step>) => ({ kind: "only_b" as const, a: null, b, changes: [], more: 0 });
  const lines = linesOf({
    rows: [
      row(step(1, "Called", "Bash(command=ls)")),
      row(step(2, "Returned", "Bash failed: no", true)),
      row(step(3, "Called", "Read(path=a)")),
      row(step(4, "Called", "Grep(pattern=b)")),
      row(step(5, "Returned", "Read returned: c")), // not that of the call before it
    ],
    at: 0,
    counts: { same: 0, changed: 0, only_a: 0, only_b: 5 },
  });
  const found = paired(lines).map((line) => (line.kind === "row" ? [line.row.b?.step, line.results?.b?.step] : []));
  expect(found).toEqual([
    [1, 2],
    [3, undefined],
    [4, undefined],
    [5, undefined],
  ]);
});

test("a day is named by how far it is away, on the clock of who looks", () => {
  const at = (...parts: [number, number, number, number]) => new Date(...parts).toISOString();
  const now = new Date(2026, 10, 18, 0, 30).getTime(); // half an hour after midnight
  expect(day(at(2026, 10, 18, 0), now)).toBe("today");
  expect(day(at(2026, 10, 17, 23), now)).toBe("yesterday");
  expect(day(at(2026, 10, 13, 12), now)).toBe("Fri 13");
  expect(day(at(2026, 10, 11, 23), now)).toBe("11 Nov");
  expect(day(null, now)).toBe("–");
});

test("of an input that was told as JSON, whole or cut, the argument that says most is shown", () => {
  expect(telling('{"command":"pytest -q \\"tests\\"","timeout":5}')).toBe('pytest -q "tests"');
  expect(telling('{"content":"x","file_path":"src/a.py","old')).toBe("src/a.py");
  expect(telling('{"file_path":"src/cut')).toBe("src/cut");
  expect(telling("plain words")).toBe("plain words");
  expect(telling('{"depth":3}')).toBe('{"depth":3}');
});
