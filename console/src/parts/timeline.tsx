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

export function Timeline(props: {
  spans: readonly Span[];
  chosen: number;
  choose: (seq: number) => void;
}) {
  const { spans, chosen, choose } = props;
  const shown = spans.length > MOST ? spans.filter((s) => s.what !== "call" || s.ok === false) : spans;
  const begin = Math.min(...spans.map((span) => span.begin));
  const end = Math.max(...spans.map((span) => span.end ?? span.begin), begin + 1);
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
