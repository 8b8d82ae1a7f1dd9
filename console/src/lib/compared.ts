/** Two runs side by side: stretches of equal steps folded, and the totals of both. */

import type { DiffAnswer, DiffRow, DiffStep, Shares, ShowAnswer } from "./answers";
import { cost, count, duration, money, percent, short } from "./time";

export type Line =
  | { readonly kind: "same"; readonly steps: number; readonly from: number }
  | {
      readonly kind: "row";
      readonly row: DiffRow;
      /** The results of its calls, where they follow at once: they stand in one row. */
      readonly results?: DiffRow;
      readonly first: boolean;
    };

/** The lines of a comparison: each difference, and between them how many steps are the same. */
export function linesOf({ rows, counts, at }: Pick<DiffAnswer, "rows" | "counts" | "at">): Line[] {
  const lines: Line[] = [];
  let [a, b, same] = [0, 0, 0];
  rows.forEach((row, n) => {
    const gap = row.a ? row.a.step - a - 1 : row.b ? row.b.step - b - 1 : 0;
    const steps = n === 0 ? Math.max(at, gap, 0) : Math.max(gap, 0);
    if (steps) lines.push({ kind: "same", steps, from: a + 1 });
    same += steps;
    a = row.a ? row.a.step : a + steps;
    b = row.b ? row.b.step : b + steps;
    lines.push({ kind: "row", row, first: n === 0 });
  });
  if (counts.same > same) lines.push({ kind: "same", steps: counts.same - same, from: a + 1 });
  return lines;
}

/** Whether a step is the result that the call before it returned. */
const returns = (call: DiffStep | null, result: DiffStep | null): boolean =>
  call === null
    ? result === null
    : result !== null &&
      call.fact === "Called" &&
      result.fact === "Returned" &&
      result.step === call.step + 1 &&
      result.words.startsWith(`${call.words.split("(")[0]} `);

/** The lines with each call and its result as one, where nothing stands between them. */
export function paired(lines: readonly Line[]): Line[] {
  const found: Line[] = [];
  for (const line of lines) {
    const last = found.at(-1);
    const joins =
      line.kind === "row" &&
      last?.kind === "row" &&
      !last.results &&
      line.row.kind === last.row.kind &&
      returns(last.row.a, line.row.a) &&
      returns(last.row.b, line.row.b);
    if (joins) found[found.length - 1] = { ...last, results: line.row };
    else found.push(line);
  }
  return found;
}

export interface Figure {
  readonly name: string;
  readonly a: string;
  readonly b: string;
  readonly change: string;
  /** By how many doublings B is more than A; negative where it is less. */
  readonly doublings: number;
}

const NAMES: Record<string, string> = {
  seconds: "Took",
  steps: "Steps",
  tool_calls: "Tool calls",
  tool_failures: "Failed calls",
  tokens_in: "Tokens in",
  tokens_out: "Tokens out",
  tokens_cached: "Tokens cached",
  tokens: "Tokens",
  cost_usd: "Cost, reported",
};

const spent = (run: ShowAnswer): number | null =>
  run.cost_usd === null && run.computed_usd === null ? null : (run.cost_usd ?? 0) + (run.computed_usd ?? 0);

const doubled = (a: number | null, b: number | null): number => (a && b && a > 0 && b > 0 ? Math.log2(b / a) : 0);

/** Figures that the rows of two runs have and their difference has not: cost with list prices, cache hits, score. */
export function moreFigures(a: ShowAnswer, b: ShowAnswer): Figure[] {
  const figures: Figure[] = [];
  const [one, two] = [spent(a), spent(b)];
  if ((a.computed_usd !== null || b.computed_usd !== null) && (one !== null || two !== null))
    figures.push({
      name: "Cost",
      a: cost(a),
      b: cost(b),
      change: one && two ? `${two >= one ? "+" : "−"}${Math.abs(Math.round((two / one - 1) * 100))} %` : "–",
      doublings: doubled(one, two),
    });
  const [hitsA, hitsB] = [a, b].map((run) =>
    run.tokens_in ? Math.min((run.tokens_cached ?? 0) / run.tokens_in, 1) : null,
  ) as [number | null, number | null];
  if (hitsA || hitsB)
    figures.push({
      name: "Cache hits",
      a: percent(hitsA),
      b: percent(hitsB),
      change: hitsA !== null && hitsB !== null ? points((hitsB - hitsA) * 100) : "–",
      doublings: doubled(hitsA, hitsB),
    });
  const [scoreA, scoreB] = [a.marks.score ?? a.score, b.marks.score ?? b.score];
  if (scoreA !== null || scoreB !== null)
    figures.push({
      name: "Score",
      a: scored(scoreA),
      b: scored(scoreB),
      change: scoreA !== null && scoreB !== null ? signed(scoreB - scoreA) : "–",
      doublings: doubled(scoreA, scoreB),
    });
  return figures;
}

/** The figures of two runs in the order of the table: time, work, failures, tokens, cost. */
const ORDER = [
  "Took",
  "Of that, model",
  "Of that, tools",
  "Waiting for a person",
  "Turns",
  "Steps",
  "Tool calls",
  "Failed calls",
  "Tokens in",
  "Tokens out",
  "Tokens cached",
  "Tokens",
  "Cache hits",
  "Cost, reported",
  "Cost",
  "Score",
];

export function ordered(figures: readonly Figure[]): Figure[] {
  return [...figures].sort((a, b) => ORDER.indexOf(a.name) - ORDER.indexOf(b.name));
}

const seconds = (name: string, a: number, b: number): Figure[] =>
  a || b
    ? [
        {
          name,
          a: duration(a),
          b: duration(b),
          change: a ? `${b >= a ? "+" : "−"}${Math.abs(Math.round((b / a - 1) * 100))} %` : "–",
          doublings: doubled(a, b),
        },
      ]
    : [];

/** What the time of two runs was spent on. */
export function shareFigures(a: Shares, b: Shares): Figure[] {
  return [
    ...seconds("Of that, model", a.model, b.model),
    ...seconds("Of that, tools", a.tools, b.tools),
    ...seconds("Waiting for a person", a.waiting, b.waiting),
  ];
}

export function turnFigures(a: number, b: number): Figure[] {
  if (!a && !b) return [];
  const change = a === b ? "same" : `${b > a ? "+" : "−"}${count(Math.abs(b - a))}`;
  return [{ name: "Turns", a: count(a), b: count(b), change, doublings: doubled(a, b) }];
}

const scored = (value: number | null): string => (value === null ? "–" : String(Number(value.toFixed(3))));
const signed = (value: number): string =>
  value === 0 ? "same" : `${value > 0 ? "+" : "−"}${Number(Math.abs(value).toFixed(3))}`;
const points = (value: number): string =>
  Math.round(value) === 0 ? "same" : `${value > 0 ? "+" : "−"}${Math.abs(Math.round(value))} pt`;

/** Whether a step of a row is the result of a failed call. */
export const hasFailed = ({ a, b }: DiffRow): boolean => Boolean(a?.failed || b?.failed);

export function figuresOf(deltas: DiffAnswer["deltas"]): Figure[] {
  return Object.entries(deltas)
    .filter(([, { a, b }]) => a || b)
    .map(([key, { a, b }]) => {
      const say = (value: number | null) =>
        key.includes("usd")
          ? money(value)
          : key.includes("second")
            ? duration(value)
            : key.includes("token")
              ? short(value)
              : count(value);
      const both = a !== null && b !== null;
      const small = key === "steps" || key.startsWith("tool_");
      const percentage = both && a ? `${b >= a ? "+" : "−"}${Math.abs(Math.round((b / a - 1) * 100))} %` : "";
      const change = !both
        ? "–"
        : a === b
          ? "same"
          : small
            ? `${b > a ? "+" : "−"}${count(Math.abs(b - a))}`
            : percentage;
      return {
        name: NAMES[key] ?? key.replace(/_/g, " "),
        a: say(a),
        b: say(b),
        change: change || "–",
        doublings: both && a > 0 && b > 0 ? Math.log2(b / a) : both && b > 0 ? 4 : 0,
      };
    });
}
