import { describe, expect, it } from "vitest";
import { aboveOf, byTool, merged, type Row, unfolded } from "../src/lib/waterfall";

const row = (id: string, begin: number, more: Partial<Row> = {}): Row => ({
  id,
  parent: "run",
  depth: 1,
  kind: "tool",
  name: "Read",
  agent: null,
  seq: begin,
  start: "",
  seconds: 1,
  own: 1,
  open: false,
  failed: false,
  wait: false,
  on_path: false,
  cost_usd: null,
  computed_usd: null,
  lower_bound: false,
  begin,
  end: begin + 1,
  ...more,
});

describe("the rows of a waterfall", () => {
  it("stand below their tool, the one that took longest first, and nothing is lost", () => {
    const rows = [
      row("run", 0, { kind: "run", parent: null, depth: 0 }),
      row("t1", 0, { kind: "turn" }),
      row("a", 1, { depth: 2, parent: "t1" }),
      row("b", 5, { depth: 2, parent: "t1", name: "Bash", seconds: 9, end: 14, failed: true }),
      row("c", 8, { depth: 2, parent: "t1" }),
    ];
    const found = byTool(rows);
    expect(found.map((each) => [each.id, each.parent, each.depth, each.name])).toEqual([
      ["run", null, 0, "Read"],
      ["tool Bash", "run", 1, "Bash ×1"],
      ["b", "tool Bash", 2, "Bash"],
      ["tool Read", "run", 1, "Read ×2"],
      ["a", "tool Read", 2, "Read"],
      ["c", "tool Read", 2, "Read"],
    ]);
    expect(found[1]).toMatchObject({ seconds: 9, begin: 5, end: 14, failed: true });
    expect(found[3]).toMatchObject({ seconds: 2, begin: 1, end: 9, failed: false });
  });

  const pixel = (at: number) => Math.floor(at / 10);

  it("are one where they begin in the same pixel, with their count, and a failure stays apart", () => {
    const rows = [row("a", 0), row("b", 3), row("c", 8, { failed: true }), row("d", 12), row("e", 14), row("f", 30)];
    const found = merged(rows, pixel);
    expect(found.map((each) => [each.id, each.times ?? 1])).toEqual([
      ["a", 2],
      ["c", 1],
      ["d", 2],
      ["f", 1],
    ]);
    expect(found[0]?.seconds).toBe(2);
    expect(found.reduce((sum, each) => sum + (each.times ?? 1), 0)).toBe(rows.length); // none is lost
  });

  it("stay where others are shown below them, and are not merged with those of another parent", () => {
    const rows = [
      row("t1", 0, { kind: "turn" }),
      row("a", 0, { depth: 2, parent: "t1" }),
      row("t2", 1, { kind: "turn" }),
      row("b", 1, { depth: 2, parent: "t2" }),
    ];
    expect(merged(rows, pixel)).toHaveLength(4);
    const closed = unfolded(rows, () => false);
    expect(merged(closed, pixel).map((each) => each.times)).toEqual([2]);
  });

  it("keep a long bar: it is no point", () => {
    expect(merged([row("a", 0, { end: 400 }), row("b", 2)], pixel)).toHaveLength(2);
  });

  it("above a record are known, so that a link to it opens them, and no others", () => {
    const rows = [
      row("run", 1, { parent: null, depth: 0 }),
      row("one", 2),
      row("in one", 3, { parent: "one", depth: 2 }),
      row("two", 4),
      row("in two", 5, { parent: "two", depth: 2 }),
      row("deep in two", 6, { parent: "in two", depth: 3 }),
    ];
    expect([...aboveOf(rows, 6)].toSorted()).toEqual(["in two", "run", "two"]);
    expect([...aboveOf(rows, 1)]).toEqual([]);
    expect([...aboveOf(rows, 7)]).toEqual([]);
    expect([...aboveOf(rows, 0)]).toEqual([]);
  });
});
