/** Counts over time and size, and amounts over days: the darker, the more. */

import { useMemo } from "react";
import { href, type Query } from "../lib/route";
import { MONTHS, spanText, timeTicks } from "./scale";

const STEPS = 5;

/** The 95th percentile of what is not nothing: one great value must not make all others pale. */
export function great(values: readonly number[]): number {
  const known = values.filter((each) => each > 0).sort((a, b) => a - b);
  return known[Math.min(Math.floor(known.length * 0.95), known.length - 1)] ?? 0;
}

/** The colour of a value: q0 is nothing. */
export function shade(value: number | null, most: number): string {
  if (!value || !most) return "var(--q0)";
  return `var(--q${Math.min(Math.max(Math.ceil((value / most) * STEPS), 1), STEPS)})`;
}

export function Scale({ from, to }: { from: string; to: string }) {
  return (
    <span className="heat-scale soft" aria-hidden="true">
      {from}
      {Array.from({ length: STEPS + 1 }, (_, n) => (
        <i key={n} style={{ background: `var(--q${n})` }} />
      ))}
      {to}
    </span>
  );
}

interface Heat {
  readonly label: string;
  readonly edges: readonly number[];
  readonly rows: readonly { readonly name: string; readonly values: readonly (number | null)[] }[];
  readonly link: (from: number, to: number) => Query;
}

const [LEFT, CELL] = [58, 22];

export function HeatMap({ label, edges, rows, link }: Heat) {
  const most = useMemo(() => great(rows.flatMap((row) => row.values.map((each) => each ?? 0))), [rows]);
  const buckets = edges.length - 1;
  const [first = 0, last = 1] = [edges[0], edges.at(-1)];
  const times = timeTicks(first, last, 8, true);
  return (
    <div className="heat">
      <div className="heat-rows" style={{ gridTemplateColumns: `${LEFT}px 1fr` }} role="img" aria-label={label}>
        {rows.map((row) => (
          <div key={row.name} className="heat-row" style={{ height: CELL }}>
            <span className="soft num">{row.name}</span>
            <svg viewBox={`0 0 ${buckets} 1`} preserveAspectRatio="none" aria-hidden="true">
              {row.values.map((value, n) => (
                <rect key={n} x={n + 0.04} y="0.02" width="0.92" height="0.96" style={{ fill: shade(value, most) }}>
                  <title>{`${spanText(edges[n] ?? 0, edges[n + 1] ?? 0)}, ${row.name}: ${value ?? "no record"}`}</title>
                </rect>
              ))}
            </svg>
          </div>
        ))}
      </div>
      <div className="heat-links" style={{ left: LEFT }}>
        {edges.slice(0, -1).map((from, n) => (
          <a
            key={n}
            tabIndex={-1}
            href={href([], link(from, edges[n + 1] ?? from))}
            title={`runs of ${spanText(from, edges[n + 1] ?? from)}`}
          >
            <span className="unseen">{spanText(from, edges[n + 1] ?? from)}</span>
          </a>
        ))}
      </div>
      <div className="heat-times soft" style={{ marginLeft: LEFT }} aria-hidden="true">
        {times.map((each) => (
          <span key={each.at} style={{ left: `${((each.at - first) / (last - first)) * 100}%` }}>
            {each.label}
          </span>
        ))}
      </div>
    </div>
  );
}

interface Days {
  readonly label: string;
  /** The begin of each day, in seconds since 1970; the last is today. */
  readonly days: readonly number[];
  readonly values: readonly (number | null)[];
  readonly say: (value: number | null) => string;
  readonly link: (from: number, to: number) => Query;
}

const [SIDE, ROOM] = [12, 3];

/** A field for each day, a column for each week; weeks begin on Monday. */
export function Calendar({ label, days, values, say, link }: Days) {
  const most = great(values.map((each) => each ?? 0));
  const weekday = (at: number) => (new Date(at * 1000).getDay() + 6) % 7;
  const lead = weekday(days[0] ?? 0);
  const place = (n: number) => [Math.floor((n + lead) / 7), (n + lead) % 7] as const;
  const weeks = place(days.length - 1)[0] + 1;
  const step = SIDE + ROOM;
  const months = days.flatMap((at, n) => {
    const day = new Date(at * 1000);
    return day.getDate() <= 7 && place(n)[1] === 0 ? [[place(n)[0], MONTHS[day.getMonth()] ?? ""] as const] : [];
  });
  return (
    <svg className="calendar" viewBox={`-26 -14 ${weeks * step + 26} ${7 * step + 14}`}>
      <title>{label}</title>
      {["Mon", "Wed", "Fri"].map((name, n) => (
        <text key={name} x="-4" y={n * 2 * step + SIDE - 2} className="end">
          {name}
        </text>
      ))}
      {months.map(([week, name]) => (
        <text key={week} x={week * step} y="-4">
          {name}
        </text>
      ))}
      {days.map((at, n) => {
        const [week, day] = place(n);
        return (
          <a
            key={at}
            href={href([], link(at, days[n + 1] ?? at + 86_400))}
            tabIndex={-1}
            aria-label={spanText(at, at + 86_400)}
          >
            <rect
              className={n === days.length - 1 ? "today" : ""}
              x={week * step}
              y={day * step}
              width={SIDE}
              height={SIDE}
              rx="2.5"
              style={{ fill: shade(values[n] ?? null, most) }}
            >
              <title>{`${spanText(at, at + 86_400)}: ${say(values[n] ?? null)}`}</title>
            </rect>
          </a>
        );
      })}
    </svg>
  );
}
