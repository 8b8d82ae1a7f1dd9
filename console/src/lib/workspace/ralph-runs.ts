/** Of the runs that ended in the last 24 hours, how many passed; feeds `dash/ralph-runs`. */

import type { OutcomesAnswer } from "../answers";

export interface RalphRun {
  readonly run_id: string;
  readonly outcome?: unknown;
  readonly ended_at?: unknown;
  readonly convergence_score?: unknown;
}

const FLAKE = "clean_with_flake";

/** K28: five outcomes fold to pass or fail. K27: an outcome that is none of them folds to fail. */
const PASSES: ReadonlyMap<unknown, boolean> = new Map([
  ["clean", true],
  [FLAKE, true],
  ["partial", false],
  ["stuck", false],
  ["catastrophic", false],
]);

const DAY = 24 * 3_600_000;

/** The pass rate of the runs that ended within (now - 24 h, now], and what stands beside it. */
export function aggregateRuns24h(runs: Iterable<RalphRun>, now: string): OutcomesAnswer {
  const end = Date.parse(now);
  const counts = { passed: 0, failed: 0, in_flight: 0, flakes: 0 };
  const scores: number[] = [];
  for (const run of runs) {
    if (run.ended_at === undefined || run.ended_at === null) {
      counts.in_flight += 1;
      continue;
    }
    const at = Date.parse(String(run.ended_at));
    if (!(end - DAY < at && at <= end)) continue;
    counts[PASSES.get(run.outcome) ? "passed" : "failed"] += 1;
    if (run.outcome === FLAKE) counts.flakes += 1;
    if (typeof run.convergence_score === "number") scores.push(run.convergence_score);
  }
  const decided = counts.passed + counts.failed;
  return {
    ...counts,
    pass_rate: decided ? counts.passed / decided : null,
    convergence_mean: scores.length ? scores.reduce((a, b) => a + b) / scores.length : null,
  };
}
