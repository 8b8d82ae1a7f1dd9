/** What was expensive for no gain, and what the cache gave. */

import { expect, test } from "vitest";
import type { Series } from "../src/lib/answers";
import { hits, ofSpend, type Point, rewritten } from "../src/lib/run-cost";

const point = (read: number | null, written: number | null, more: Partial<Point> = {}): Point => ({
  agent: "coder",
  cost_usd: null,
  computed_usd: 1,
  lower_bound: false,
  context: (read ?? 0) + (written ?? 0),
  read,
  written,
  fresh: 10,
  output: 1,
  compaction: null,
  ...more,
});

test("a turn that writes again what was in the cache is named, with what the writing cost", () => {
  const compaction = { seq: 9, at: "2026-01-01T00:00:00Z", before_tokens: 90_000, after_tokens: 20_000 };
  const points = [
    point(0, 50_000), // the first writes, nothing was there
    point(50_000, 2_000),
    point(1_000, 52_000), // the cache had lapsed
    point(53_000, 500, { agent: "critic" }), // another agent, with a cache of its own
    point(53_000, 500),
    point(0, 20_000, { compaction }),
    point(20_000, 100),
    point(null, null),
  ];
  const values = points.map((_, n) => n / 10);
  const costs = { keys: [{ key: "cache write", values }] } as unknown as Series;
  expect(rewritten(points, costs)).toEqual([
    { turn: 3, compacted: false, usd: 0.2 },
    { turn: 6, compacted: true, usd: 0.5 },
  ]);
  expect(rewritten(points, undefined)[0]?.usd).toBeNull();
});

test("the share of the cache is of all input, and unknown where no input is told", () => {
  expect(hits({ read: 80, written: 10, fresh: 10 })).toBe(0.8);
  expect(hits({ read: null, written: null, fresh: null })).toBeNull();
  const spend = { input_tokens: 100, cached_tokens: 60, cache_write_tokens: 10 };
  expect(ofSpend(spend as Parameters<typeof ofSpend>[0])).toMatchObject({ fresh: 30, read: 60, context: 100 });
});
