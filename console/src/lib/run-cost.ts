/** What a run spent, turn by turn: the figures of its charts, and what was expensive for no gain. */

import type { Series, SpendRow, TurnRow } from "./answers";

/** One step of the axis: a turn, or a spend where a run has no turns. */
export interface Point {
  readonly agent: string | null;
  readonly cost_usd: number | null;
  readonly computed_usd: number | null;
  readonly lower_bound: boolean;
  /** All input of the last model call. */
  readonly context: number | null;
  readonly read: number | null;
  readonly written: number | null;
  /** Neither read from a cache nor written to one. */
  readonly fresh: number | null;
  readonly output: number | null;
  readonly compaction: TurnRow["compaction"];
}

export const ofTurn = (turn: TurnRow): Point => ({
  agent: turn.agent,
  cost_usd: turn.cost_usd,
  computed_usd: turn.computed_usd,
  lower_bound: turn.lower_bound,
  context: turn.context_tokens,
  read: turn.cache_read_tokens,
  written: turn.cache_write_tokens,
  fresh: turn.input_tokens,
  output: turn.output_tokens,
  compaction: turn.compaction,
});

export const ofSpend = (spend: SpendRow): Point => ({
  agent: spend.agent,
  cost_usd: spend.cost_usd,
  computed_usd: spend.computed_usd,
  lower_bound: spend.lower_bound,
  context: spend.input_tokens,
  read: spend.cached_tokens,
  written: spend.cache_write_tokens,
  fresh:
    spend.input_tokens === null
      ? null
      : Math.max(spend.input_tokens - (spend.cached_tokens ?? 0) - (spend.cache_write_tokens ?? 0), 0),
  output: spend.output_tokens,
  compaction: null,
});

export const isPriced = ({ cost_usd, computed_usd }: Pick<Point, "cost_usd" | "computed_usd">): boolean =>
  cost_usd !== null || computed_usd !== null;

/** The share of the input that came from a cache; null where there was no input, or none is known. */
export function hits({ read, written, fresh }: Pick<Point, "read" | "written" | "fresh">): number | null {
  const input = (read ?? 0) + (written ?? 0) + (fresh ?? 0);
  return fresh === null || !input ? null : (read ?? 0) / input;
}

export interface Rewrite {
  /** Counted from 1. */
  readonly turn: number;
  readonly compacted: boolean;
  /** What writing it came to; null where that is not known. */
  readonly usd: number | null;
}

/**
 * The turns that wrote again what their agent had in the cache a turn before: they read less than half
 * of it, and wrote at least half as much.
 */
export function rewritten(points: readonly Point[], costs: Series | undefined): Rewrite[] {
  const writing = costs?.keys.find((each) => each.key === "cache write")?.values;
  const before = new Map<string | null, number>();
  return points.flatMap(({ agent, read, written, compaction }, n) => {
    const held = before.get(agent) ?? 0;
    if (read !== null || written !== null) before.set(agent, (read ?? 0) + (written ?? 0));
    if (!written || (read ?? 0) * 2 >= held || written * 2 < (compaction ? 1 : held)) return [];
    return [{ turn: n + 1, compacted: compaction !== null, usd: writing?.[n] || null }];
  });
}
