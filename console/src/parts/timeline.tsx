/** When things happened: one lane per agent, steps, calls, waits and sub-runs as bars of time. */

import { useMemo } from "react";
import type { Span } from "../lib/story";
import { inert, start } from "../lib/text";
import { clock, duration } from "../lib/time";

const HIGH = 16;
const MOST = 3000;

interface Lane {
  name: string;
  rows: Span[][];
}

/** Spans of one agent, in as few rows as keep them from covering each other. */
export function lanes(spans: readonly Span[], end: number): Lane[] {
  const found = new Map<string, Lane>();
  for (const span of spans) {
    let lane = found.get(span.lane);
    if (!lane) found.set(span.lane, (lane = { name: span.lane, rows: [] }));
    const row = lane.rows.find((each) => {
      const last = each.at(-1);
      return last && (last.end ?? end) <= span.begin && each.length < MOST;
    });
    if (row) row.push(span);
    else if (lane.rows.length < 24) lane.rows.push([span]);
    else lane.rows[23]?.push(span);
  }
  return [...found.values()];
}

const WIDE = 1000;
const LANES = 6;

/** The whole run in a few lines: where one is reading is marked, and a click leads there. */
export function Strip(props: { spans: readonly Span[]; from: number; to: number; choose: (seq: number) => void }) {
  const { spans, from, to, choose } = props;
  const begin = useMemo(() => spans.reduce((a, s) => Math.min(a, s.begin), Infinity), [spans]);
  const end = useMemo(() => spans.reduce((a, s) => Math.max(a, s.end ?? s.begin), begin + 1), [spans, begin]);
  const drawn = useMemo(() => strips(spans, begin, end), [spans, begin, end]);
  if (!spans.length) return null;
  const x = (at: number) => Math.min(Math.max(((at - begin) / (end - begin)) * WIDE, 0), WIDE);
  const high = drawn.length * 10;
  return (
    <svg
      className="strip"
      viewBox={`0 0 ${WIDE} ${high}`}
      style={{ height: high }}
      preserveAspectRatio="none"
      role="img"
      aria-label="The run from beginning to end; the timeline has it in detail"
      onClick={(event) => {
        const box = event.currentTarget.getBoundingClientRect();
        const at = begin + ((event.clientX - box.left) / box.width) * (end - begin);
        choose(nearest(spans, at).seq);
      }}
    >
      {drawn.map(({ name, paths }, n) => (
        <g key={name} transform={`translate(0 ${n * 10})`}>
          {Object.entries(paths).map(([kind, path]) => (
            <path key={kind} d={path} className={`streak ${kind}`} />
          ))}
        </g>
      ))}
      <rect className="here" x={x(from)} width={Math.max(x(to) - x(from), 2)} y={0} height={high} />
    </svg>
  );
}

export function nearest(spans: readonly Span[], at: number): Span {
  const far = (span: Span) => Math.max(span.begin - at, at - (span.end ?? span.begin), 0);
  return spans.reduce((best, span) => (far(span) < far(best) ? span : best));
}

/** One path per lane and kind; what falls on the same point is drawn once. */
export function strips(spans: readonly Span[], begin: number, end: number) {
  const found = new Map<string, Record<string, Set<string>>>();
  for (const span of spans) {
    const name = found.has(span.lane) || found.size < LANES ? span.lane : "…";
    const lane = found.get(name) ?? {};
    found.set(name, lane);
    const from = Math.floor(((span.begin - begin) / (end - begin)) * WIDE);
    const to = Math.ceil((((span.end ?? end) - begin) / (end - begin)) * WIDE);
    const kind = span.ok === false ? "bad" : span.what;
    (lane[kind] ??= new Set()).add(`M${from} ${kind === "step" ? 5 : 2}h${Math.max(to - from, 1)}v5h-${Math.max(to - from, 1)}z`);
  }
  return [...found].map(([name, kinds]) => ({
    name,
    paths: Object.fromEntries(
      ["step", "sub-run", "call", "wait", "bad"].flatMap((kind) =>
        kinds[kind] ? [[kind, [...kinds[kind]].join("")]] : [],
      ),
    ) as Record<string, string>,
  }));
}

export function Timeline(props: {
  spans: readonly Span[];
  chosen: number;
  choose: (seq: number) => void;
}) {
  const { spans, chosen, choose } = props;
  const shown = spans.length > MOST ? spans.filter((s) => s.what !== "call" || s.ok === false) : spans;
  const begin = spans.reduce((a, span) => Math.min(a, span.begin), Infinity);
  const end = spans.reduce((a, span) => Math.max(a, span.end ?? span.begin), begin + 1);
  const found = useMemo(() => lanes(shown.slice(0, MOST), end), [shown, end]);
  if (!spans.length) return <p className="soft">Nothing here took time: no steps, calls or waits were told.</p>;
  const x = (at: number) => ((at - begin) / (end - begin)) * 100;
  return (
    <div className="timeline">
      <div className="row small soft">
        <span className="grow">{clock(new Date(begin).toISOString())}</span>
        <span>{duration((end - begin) / 1000)}</span>
        <span>{clock(new Date(end).toISOString())}</span>
      </div>
      {found.map((lane) => (
        <section key={lane.name} aria-label={`Lane of ${lane.name || "the run"}`}>
          <h3 className="small cut">{inert(lane.name || "the run")}</h3>
          <div className="lane" style={{ height: lane.rows.length * (HIGH + 3) }}>
            {lane.rows.flatMap((row, n) =>
              row.map((span) => {
                const left = x(span.begin);
                const wide = Math.max(x(span.end ?? end) - left, 0.15);
                const took = span.end === null ? "still open" : duration((span.end - span.begin) / 1000);
                return (
                  <button
                    key={`${span.what}-${span.seq}`}
                    className={`span ${span.what} ${span.ok === false ? "bad" : ""} ${span.end === null ? "open" : ""}`}
                    aria-pressed={span.seq === chosen}
                    title={`${span.what} ${inert(start(span.name, 120))} · ${took}`}
                    style={{ left: `${left}%`, width: `${wide}%`, top: n * (HIGH + 3), height: HIGH }}
                    onClick={() => choose(span.seq)}
                  >
                    {wide > 6 ? inert(start(span.name, 40)) : <span className="unseen">{inert(span.name)}</span>}
                  </button>
                );
              }),
            )}
          </div>
        </section>
      ))}
      {shown.length < spans.length && (
        <p className="soft small">Of {spans.length} spans, the calls that went well are left out.</p>
      )}
    </div>
  );
}
