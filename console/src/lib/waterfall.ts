/** The rows of a waterfall, as the collector answers them, with their times as numbers. */

import type { SpanRow } from "./answers";

export interface Row extends SpanRow {
  /** Milliseconds since 1970. */
  readonly begin: number;
  readonly end: number;
  /** How many rows it stands for, where they were merged. */
  readonly times?: number;
}

export function timed(rows: readonly SpanRow[]): Row[] {
  return rows.map((row) => {
    const begin = Date.parse(row.start);
    return { ...row, begin, end: begin + row.seconds * 1000 };
  });
}

/** Siblings of one kind that begin in the same pixel, as one row; what holds rows that are shown stays. */
export function merged(rows: readonly Row[], pixel: (at: number) => number): Row[] {
  const found: Row[] = [];
  rows.forEach((row, n) => {
    const last = found.at(-1);
    const holds = (rows[n + 1]?.depth ?? 0) > row.depth;
    const same =
      last?.parent === row.parent &&
      last.kind === row.kind &&
      last.depth === row.depth &&
      last.failed === row.failed &&
      pixel(last.begin) === pixel(row.begin) &&
      pixel(last.end) - pixel(last.begin) <= 1;
    if (!last || !same || holds) found.push(row);
    else
      found[found.length - 1] = {
        ...last,
        times: (last.times ?? 1) + 1,
        end: Math.max(last.end, row.end),
        seconds: last.seconds + row.seconds,
        on_path: last.on_path || row.on_path,
      };
  });
  return found;
}

/** The rows of tool calls below their tool, the one that took longest first; the run stays on top. */
export function byTool(rows: readonly Row[]): Row[] {
  const calls = new Map<string, Row[]>();
  for (const row of rows) {
    if (row.kind !== "tool") continue;
    const name = row.name ?? "a tool";
    calls.set(name, [...(calls.get(name) ?? []), row]);
  }
  const root = rows.find((row) => row.depth === 0);
  const sum = (all: readonly Row[]) => all.reduce((seconds, row) => seconds + row.seconds, 0);
  const groups = [...calls].sort(([, a], [, b]) => sum(b) - sum(a));
  return [
    ...(root ? [root] : []),
    ...groups.flatMap(([name, all]): Row[] => {
      const first = all.reduce((a, b) => (b.begin < a.begin ? b : a));
      const id = `tool ${name}`;
      const group: Row = {
        ...first,
        id,
        parent: root?.id ?? null,
        depth: 1,
        kind: "step",
        name: `${name} ×${all.length}`,
        end: Math.max(...all.map((row) => row.end)),
        seconds: sum(all),
        own: 0,
        failed: all.some((row) => row.failed),
        on_path: all.some((row) => row.on_path),
        cost_usd: null,
        computed_usd: null,
      };
      return [group, ...all.map((row) => ({ ...row, parent: id, depth: 2 }))];
    }),
  ];
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

/** The rows above those of a record, so that a link to it finds them open. */
export function aboveOf(rows: readonly Pick<SpanRow, "id" | "parent" | "seq">[], seq: number): ReadonlySet<string> {
  const parents = new Map(rows.map((row) => [row.id, row.parent]));
  const above = new Set<string>();
  for (const row of rows)
    for (let up = seq && row.seq === seq ? row.parent : null; up && !above.has(up); up = parents.get(up) ?? null)
      above.add(up);
  return above;
}
