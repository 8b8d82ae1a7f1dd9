/** The rows of a waterfall, as the collector answers them, with their times as numbers. */

import type { SpanRow } from "./answers";

export interface Row extends SpanRow {
  /** Milliseconds since 1970. */
  readonly begin: number;
  readonly end: number;
}

export function timed(rows: readonly SpanRow[]): Row[] {
  return rows.map((row) => {
    const begin = Date.parse(row.start);
    return { ...row, begin, end: begin + row.seconds * 1000 };
  });
}

/** What only holds other rows together. */
const FRAMES: readonly SpanRow["kind"][] = ["run", "turn", "step"];
export const isFrame = (row: Pick<SpanRow, "kind">): boolean => FRAMES.includes(row.kind);

/** The rows that are not below a closed one; parents stand before their children. */
export function unfolded<R extends Pick<SpanRow, "depth">>(rows: readonly R[], isOpen: (row: R) => boolean): R[] {
  let closed = Infinity; // the depth of the closed row that is looked into
  return rows.filter((row) => {
    if (row.depth > closed) return false;
    closed = isOpen(row) ? Infinity : row.depth;
    return true;
  });
}
