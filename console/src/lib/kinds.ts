/** Which rows of a transcript are shown: all of them, or those of one kind. */

import { type Book, lowerBound } from "./book";
import { KINDS, type Kind } from "./shape";

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
export function hidesMoves(book: Book): boolean {
  const { said, tools } = book.kinds;
  return said.length + tools.length > 0;
}

/** The places of the rows; `moves` brings back those that only move between states. */
export function rowsOf(book: Book, shown: Shown, moves: boolean): readonly number[] {
  const { kinds } = book;
  if (shown === "all") {
    if (moves || !kinds.moves.length || !hidesMoves(book)) return book.rows;
    const gone = new Set(kinds.moves);
    return book.rows.filter((place) => !gone.has(place));
  }
  // A result stands with its call.
  const rows = new Set(kinds[shown].map((place) => book.rows[book.row(book.seqs[place] ?? 0)] ?? place));
  return [...rows].sort((a, b) => a - b);
}

/** How many records of a kind there are before a place; of all, the rows that are shown. */
export function countOf(book: Book, shown: Shown, until: number): number {
  if (shown !== "all") return lowerBound(book.kinds[shown], until);
  const hidden = hidesMoves(book) ? lowerBound(book.kinds.moves, until) : 0;
  return lowerBound(book.rows, until) - hidden;
}
