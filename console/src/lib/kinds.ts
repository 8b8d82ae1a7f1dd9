/** Which rows of a transcript are shown: all of them, or those of one kind. */

import { lowerBound, type RunRecords } from "./run-records";
import { KINDS, type Kind } from "./run-structure";

export type Shown = "all" | Kind;
export const LABELS: Record<Shown, string> = {
  all: "All",
  said: "Said",
  thinking: "Thinking",
  tools: "Tools",
  failed: "Failed",
  waits: "Waits",
  moves: "State moves",
};
export const CHIPS = ["all", ...KINDS] as const satisfies readonly Shown[];

/** Where a run says or calls anything, its moves between states are no rows. */
export function hidesMoves(runRecords: RunRecords): boolean {
  const { said, tools } = runRecords.kinds;
  return said.length + tools.length > 0;
}

/** The places of the rows, without those that only say what was spent; `moves` brings back those that only move between states. */
export function rowsOf(runRecords: RunRecords, shown: Shown, moves: boolean): readonly number[] {
  const { kinds } = runRecords;
  if (shown === "all") {
    if (!hidesMoves(runRecords)) return runRecords.rows;
    const gone = new Set(moves ? runRecords.spends : [...kinds.moves, ...runRecords.spends]);
    if (!gone.size) return runRecords.rows;
    return runRecords.rows.filter((place) => !gone.has(place));
  }
  // A result stands with its call.
  const rows = new Set(
    kinds[shown].map((place) => runRecords.rows[runRecords.row(runRecords.seqs[place] ?? 0)] ?? place),
  );
  return [...rows].sort((a, b) => a - b);
}

/** How many records of a kind there are before a place; of all, the rows that are shown. */
export function countOf(runRecords: RunRecords, shown: Shown, until: number): number {
  if (shown !== "all") return lowerBound(runRecords.kinds[shown], until);
  const { kinds, spends } = runRecords;
  const hidden = hidesMoves(runRecords) ? lowerBound(kinds.moves, until) + lowerBound(spends, until) : 0;
  return lowerBound(runRecords.rows, until) - hidden;
}
