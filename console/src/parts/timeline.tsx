/** When things happened: one lane per agent, steps, calls, waits and sub-runs as bars of time. */

import { useEffect, useMemo, useRef, useState } from "react";
import type { RunRecords } from "../lib/run-records";
import { inert, start } from "../lib/text";
import { clock, duration } from "../lib/time";
import { useKeys } from "../lib/use";
import type { Row } from "../lib/waterfall";
import { useSpans } from "./waterfall";

const WIDE = 1000; // columns of a drawing
const HIGH = 18; // pixels of a row
const ROWS = 12; // rows of a lane
const BARS = 400; // bars that can be pressed; what is too small or too many is only drawn
const KINDS = ["step", "sub-run", "tool", "wait"] as const;
const DRAWN = [...KINDS, "bad"] as const;

/** What a bar shows of a row. */
export type Span = Pick<Row, "kind" | "name" | "agent" | "seq" | "begin" | "end" | "open" | "failed">;
const laneOf = (span: Span): string => span.agent ?? "";

export interface Window {
  readonly begin: number;
  readonly end: number;
}

/** From the first that began to the last that ended. */
export function extent(spans: readonly Span[]): Window {
  let [begin, end] = [Infinity, -Infinity];
  for (const span of spans) {
    if (span.begin < begin) begin = span.begin;
    if (span.end > end) end = span.end;
  }
  return { begin, end: Math.max(end, begin + 1) };
}

export interface Streaks {
  readonly name: string;
  readonly paths: Partial<Record<(typeof DRAWN)[number], string>>;
}

/** One path per lane and kind; what falls on the same column is drawn once. */
export function streaks(spans: readonly Span[], { begin, end }: Window): Streaks[] {
  const found = new Map<string, Map<Span["kind"], Columns>>();
  for (const span of spans) {
    if (span.end < begin || span.begin > end) continue;
    const name = laneOf(span);
    const lane = found.get(name) ?? new Map<Span["kind"], Columns>();
    found.set(name, lane);
    const columns = lane.get(span.kind) ?? { all: new Uint32Array(WIDE), failed: new Uint32Array(WIDE) };
    lane.set(span.kind, columns);
    const from = Math.max(Math.floor(((span.begin - begin) / (end - begin)) * WIDE), 0);
    const to = Math.ceil(((span.end - begin) / (end - begin)) * WIDE);
    for (let n = Math.min(from, WIDE - 1); n < Math.max(Math.min(to, WIDE), from + 1); n++) {
      columns.all[n] = (columns.all[n] ?? 0) + 1;
      if (span.failed) columns.failed[n] = (columns.failed[n] ?? 0) + 1;
    }
  }
  return [...found].map(([name, kinds]) => {
    const paths = [...kinds].map(([kind, { all }]): [string, string] => [kind, path(heights(all, all), topOf(kind))]);
    const bad = [...kinds].map(([kind, { all, failed }]) => path(heights(failed, all), topOf(kind))).join("");
    return { name, paths: Object.fromEntries(bad ? [...paths, ["bad", bad]] : paths) };
  });
}

/** How many spans cover each column of a drawing, and how many of them failed. */
interface Columns {
  readonly all: Uint32Array;
  readonly failed: Uint32Array;
}

const FULL = 5; // the height of a bar in a drawing
const topOf = (kind: Span["kind"]): number => (kind === "step" ? 5 : 2);

/** The height of each column: the share that some have of all, in tenths; the smallest is still seen. */
function heights(some: Uint32Array, all: Uint32Array): Uint8Array {
  return Uint8Array.from(some, (count, n) => Math.ceil((count / (all[n] || 1)) * 10));
}

/** A path of bars with these heights, in tenths, on one base line. */
function path(tenths: Uint8Array, top: number): string {
  let drawn = "";
  for (let from = 0, to = 0; from < tenths.length; from = to) {
    const height = ((tenths[from] ?? 0) / 10) * FULL;
    for (to = from + 1; tenths[to] === tenths[from]; ) to++;
    if (height) drawn += `M${from} ${top + FULL - height}h${to - from}v${height}h${from - to}z`;
  }
  return drawn;
}

export function nearest(spans: readonly Span[], at: number): Span | undefined {
  const far = (span: Span) => Math.max(span.begin - at, at - (span.open ? span.begin : span.end), 0);
  let best = spans[0];
  for (const span of spans) if (best && far(span) < far(best)) best = span;
  return best;
}

function Drawn({ paths }: { paths: Streaks["paths"] }) {
  return DRAWN.map((kind) => paths[kind] && <path key={kind} d={paths[kind]} className={`streak ${kind}`} />);
}

interface Lane {
  readonly name: string;
  readonly rows: Span[][];
}

/** Spans of one agent, in as few rows as keep them from covering each other. */
export function lanes(spans: readonly Span[]): Lane[] {
  const found = new Map<string, Lane>();
  for (const span of spans) {
    const lane = found.get(laneOf(span)) ?? { name: laneOf(span), rows: [] };
    found.set(lane.name, lane);
    const free = lane.rows.find((row) => {
      const last = row.at(-1);
      return last && last.end <= span.begin;
    });
    if (free) free.push(span);
    else if (lane.rows.length < ROWS) lane.rows.push([span]);
    else lane.rows[ROWS - 1]?.push(span);
  }
  return [...found.values()];
}

/** The spans that a person can press: those in view, the widest first where there are too many. */
export function pressable(spans: readonly Span[], { begin, end }: Window): Span[] {
  const seen = spans.filter((span) => span.begin <= end && span.end >= begin);
  if (seen.length <= BARS) return seen;
  const weight = (span: Span) => span.end - span.begin + (span.failed || span.kind === "wait" ? end - begin : 0);
  const chosen = new Set([...seen].sort((a, b) => weight(b) - weight(a)).slice(0, BARS));
  return seen.filter((span) => chosen.has(span));
}

/** A part of the whole, so many times smaller, with a moment in its middle. */
export function zoomed(whole: Window, times: number, at: number): Window {
  const wide = (whole.end - whole.begin) / times;
  const begin = Math.min(Math.max(at - wide / 2, whole.begin), whole.end - wide);
  return { begin, end: begin + wide };
}

const CLOSEST = 4096;

export function Timeline(props: {
  family: string;
  run: string;
  runRecords: RunRecords;
  /** The record that is chosen, and the one that was being read; 0 for none. */
  chosen: number;
  reading: number;
  at: number;
  choose: (seq: number) => void;
}) {
  const { family, run, runRecords, chosen, reading, at, choose } = props;
  const answer = useSpans(family, run, at);
  const spans = useMemo(
    () => (answer?.rows ?? []).filter((row) => KINDS.some((kind) => kind === row.kind)).sort((a, b) => a.seq - b.seq),
    [answer],
  );
  const [times, setTimes] = useState(1);
  const whole = useMemo(() => extent(spans), [spans]);
  const cursor = runRecords.moments[runRecords.place(chosen || reading)] ?? whole.begin;
  const held = useRef(cursor);
  const view = useMemo(() => {
    const now = zoomed(whole, times, held.current);
    if (cursor < now.begin || cursor > now.end) held.current = cursor;
    return zoomed(whole, times, held.current);
  }, [whole, times, cursor]);
  const zoom = (by: number) => {
    held.current = cursor;
    setTimes((now) => Math.min(Math.max(now * by, 1), CLOSEST));
  };
  const step = (by: number) => {
    const order = spans.findIndex((span) => span.seq >= chosen);
    const next = spans[chosen ? Math.min(Math.max(order + by, 0), spans.length - 1) : 0];
    if (next) choose(next.seq);
  };
  useKeys({
    "+": () => zoom(4),
    "-": () => zoom(1 / 4),
    "0": () => setTimes(1),
    j: () => step(1),
    k: () => step(-1),
    ArrowDown: () => step(1),
    ArrowUp: () => step(-1),
  });
  const bars = useMemo(() => pressable(spans, view), [spans, view]);
  const found = useMemo(() => lanes(bars), [bars]);
  // What cannot be pressed is drawn behind what can.
  const drawn = useMemo(() => {
    const pressed = new Set(bars);
    const rest = bars.length < spans.length ? spans.filter((span) => !pressed.has(span)) : [];
    return new Map(streaks(rest, view).map((lane) => [lane.name, lane.paths]));
  }, [spans, bars, view]);
  if (!answer) return <p className="soft">Loading …</p>;
  if (!spans.length) return <p className="soft">No steps, calls or waits were recorded.</p>;
  const x = (moment: number) => ((moment - view.begin) / (view.end - view.begin)) * 100;
  return (
    <div className="timeline card">
      <div className="row small soft">
        <span className="grow num left">{clock(new Date(view.begin).toISOString())}</span>
        <span>{duration((view.end - view.begin) / 1000)}</span>
        <button onClick={() => zoom(4)} disabled={times >= CLOSEST} aria-label="Zoom in" title="zoom in  +">
          +
        </button>
        <button onClick={() => zoom(1 / 4)} disabled={times === 1} aria-label="Zoom out" title="zoom out  −">
          −
        </button>
        <span className="grow num">{clock(new Date(view.end).toISOString())}</span>
      </div>
      {found.map((lane) => (
        <section key={lane.name} aria-label={`Lane of ${inert(lane.name) || "the run"}`}>
          <h2 className="small cut">{inert(lane.name || "the run")}</h2>
          {/* biome-ignore lint/a11y/useKeyWithClickEvents: each span in it is a button */}
          {/* biome-ignore lint/a11y/noStaticElementInteractions: each span in it is a button */}
          <div
            className="lane"
            style={{ height: lane.rows.length * (HIGH + 3) + 6 }}
            onClick={(event) => {
              if (event.target !== event.currentTarget) return;
              const box = event.currentTarget.getBoundingClientRect();
              const moment = view.begin + ((event.clientX - box.left) / box.width) * (view.end - view.begin);
              choose(
                nearest(
                  spans.filter((span) => laneOf(span) === lane.name),
                  moment,
                )?.seq ?? 0,
              );
            }}
          >
            <svg viewBox={`0 0 ${WIDE} 10`} preserveAspectRatio="none" aria-hidden="true">
              <Drawn paths={drawn.get(lane.name) ?? {}} />
            </svg>
            {lane.rows.flatMap((row, n) =>
              row.map((span) => (
                <Bar
                  key={`${span.kind}-${span.seq}-${span.name}`}
                  span={span}
                  row={n}
                  x={x}
                  chosen={chosen}
                  choose={choose}
                />
              )),
            )}
            {cursor >= view.begin && cursor <= view.end && (
              <span className="cursor" style={{ left: `${x(cursor)}%` }} data-testid="cursor" />
            )}
          </div>
        </section>
      ))}
      <p className="legend small soft" aria-hidden="true">
        {DRAWN.map((kind) => (
          <span key={kind}>
            <span className={`swatch ${kind}`} /> {kind === "bad" ? "failed" : kind}
          </span>
        ))}
      </p>
      {bars.length < spans.length && times < CLOSEST && (
        <p className="soft small">
          {bars.length} of {spans.length} bars are shown as buttons; zoom in (+) for the others.
        </p>
      )}
    </div>
  );
}

function Bar(props: {
  span: Span;
  row: number;
  x: (moment: number) => number;
  chosen: number;
  choose: (seq: number) => void;
}) {
  const { span, row, x, chosen, choose } = props;
  const name = span.name ?? span.kind;
  const left = Math.max(x(span.begin), 0);
  const wide = Math.max(Math.min(x(span.end), 100) - left, 0.2);
  const took = span.open ? "still open" : duration((span.end - span.begin) / 1000);
  const box = useRef<HTMLButtonElement>(null);
  const here = span.seq === chosen;
  useEffect(() => {
    if (here) box.current?.scrollIntoView({ block: "nearest" });
  }, [here]);
  return (
    <button
      ref={box}
      className={`span ${span.kind} ${span.failed ? "bad" : ""} ${span.open ? "open" : ""}`}
      aria-pressed={here}
      title={`${span.kind} ${inert(start(name, 120))} · ${took}${span.failed ? " · failed" : ""}`}
      style={{ left: `${left}%`, width: `${wide}%`, top: row * (HIGH + 3) + 3, height: HIGH }}
      onClick={() => choose(span.seq)}
    >
      {wide > 4 ? inert(start(name, 60)) : <span className="unseen">{inert(name)}</span>}
    </button>
  );
}
