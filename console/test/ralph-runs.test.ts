import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { aggregateRuns24h, type RalphRun } from "../src/lib/workspace/ralph-runs";

interface Vector {
  name: string;
  arguments: { now: string; runs: RalphRun[] };
  result: unknown;
}

const path = new URL("../../contracts/vectors/aggregate24h.json", import.meta.url);
const { vectors } = JSON.parse(readFileSync(path, "utf8")) as { vectors: Vector[] };

test("there are vectors", () => expect(vectors.length).toBeGreaterThan(5));

test.each(vectors)("$name", ({ arguments: { runs, now }, result }) => {
  expect(aggregateRuns24h(runs, now)).toEqual(result);
});
