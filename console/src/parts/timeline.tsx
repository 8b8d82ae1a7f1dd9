/** When things happened: one lane per agent, steps, calls, waits and sub-runs as bars of time. */

import { useEffect, useMemo, useRef, useState } from "react";
import type { Book } from "../lib/book";
import type { Span } from "../lib/shape";
import { inert, start } from "../lib/text";
import { clock, duration } from "../lib/time";
import { useKeys, useNow } from "../lib/use";

const WIDE = 1000; // columns of a drawing
const LANES = 6; // lanes of a strip
const HIGH = 18; // pixels of a row
const ROWS = 12; // rows of a lane
const BARS = 400; // bars that can be pressed; what is too small or too many is only drawn
const KINDS = ["step", "sub-run", "call", "wait", "bad"] as const;
type Kind = (typeof KINDS)[number];

export interface Window {
  readonly begin: number;
  readonly end: number;
}

/** From the first that began to the last that ended; what is open goes on until then. */
export function extent(spans: readonly Span[], until = -Infinity): Window {
  let [begin, end] = [Infinity, spans.some((span) => span.end === null) ? until : -Infinity];
  for (const span of spans) {
    if (span.begin < begin) begin = span.begin;
    const last = span.end ?? span.begin;
    if (last > end) end = last;
  }
  return { begin, end: Math.max(end, begin + 1) };
}

export interface Streaks {
  readonly name: string;
  readonly paths: Partial<Record<Kind, string>>;
}

/** One path per lane and kind; what falls on the same column is drawn once. */
export function streaks(spans: readonly Span[], { begin, end }: Window, most = Infinity): Streaks[] {
  const found = new Map<string, Map<Span["what"], Columns>>();
  for (const span of spans) {
    const last = span.end ?? end;
    if (last < begin || span.begin > end) continue;
    const name = found.has(span.lane) || found.size < most ? span.lane : "…";
    const lane = found.get(name) ?? new Map<Span["what"], Columns>();
    found.set(name, lane);
    const columns = lane.get(span.what) ?? { all: new Uint32Array(WIDE), failed: new Uint32Array(WIDE) };
    lane.set(span.what, columns);
    const from = Math.max(Math.floor(((span.begin - begin) / (end - begin)) * WIDE), 0);
    const to = Math.ceil(((last - begin) / (end - begin)) * WIDE);
    for (let n = Math.min(from, WIDE - 1); n < Math.max(Math.min(to, WIDE), from + 1); n++) {
      columns.all[n] = (columns.all[n] ?? 0) + 1;
      if (span.ok === false) columns.failed[n] = (columns.failed[n] ?? 0) + 1;
    }
  }
  return [...found].map(([name, kinds]) => {
    const paths = [...kinds].map(([what, { all }]): [Kind, string] => [what, path(heights(all, all), topOf(what))]);
    const bad = [...kinds].map(([what, { all, failed }]) => path(heights(failed, all), topOf(what))).join("");
    return { name, paths: Object.fromEntries(bad ? [...paths, ["bad", bad]] : paths) };
  });
}

/** How many spans cover each column of a drawing, and how many of them failed. */
interface Columns {
  readonly all: Uint32Array;
  readonly failed: Uint32Array;
}

const FULL = 5; // the height of a bar in a drawing
const topOf = (what: Span["what"]): number => (what === "step" ? 5 : 2);

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
  const far = (span: Span) => Math.max(span.begin - at, at - (span.end ?? span.begin), 0);
  let best = spans[0];
  for (const span of spans) if (best && far(span) < far(best)) best = span;
  return best;
}

function Drawn({ paths }: { paths: Streaks["paths"] }) {
  return KINDS.map((kind) => paths[kind] && <path key={kind} d={paths[kind]} className={`streak ${kind}`} />);
}

/** The whole run in a few lines: where one is reading is marked, and a click leads there. */
export function Strip(props: {
  spans: readonly Span[];
  version: number;
  from: number;
  to: number;
  choose: (seq: number) => void;
}) {
  const { spans, version, from, to, choose } = props;
  // The version is named because the spans grow.
  const { begin, end } = useMemo(() => extent(spans), [spans, version]);
  const drawn = useMemo(() => streaks(spans, { begin, end }, LANES), [spans, version, begin, end]);
  if (!spans.length) return null;
  const x = (at: number) => Math.min(Math.max(((at - begin) / (end - begin)) * WIDE, 0), WIDE);
  const high = drawn.length * 10;
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: j, k and the slider do the same by keyboard
    <svg
      className="strip"
      viewBox={`0 0 ${WIDE} ${high}`}
      style={{ height: Math.max(high, 20) }}
      preserveAspectRatio="none"
      role="img"
      aria-label="The run from beginning to end; the timeline has it in detail"
      onClick={(event) => {
        const box = event.currentTarget.getBoundingClientRect();
        const at = begin + ((event.clientX - box.left) / box.width) * (end - begin);
        choose(nearest(spans, at)?.seq ?? 0);
      }}
    >
      {drawn.map(({ name, paths }, n) => (
        <g key={name} transform={`translate(0 ${n * 10})`}>
          <Drawn paths={paths} />
        </g>
      ))}
      <rect className="here" x={x(from)} width={Math.max(x(to) - x(from), 2)} y={0} height={high} />
    </svg>
  );
}

interface Lane {
  readonly name: string;
  readonly rows: Span[][];
}

/** Spans of one agent, in as few rows as keep them from covering each other. */
export function lanes(spans: readonly Span[], end: number): Lane[] {
  const found = new Map<string, Lane>();
  for (const span of spans) {
    const lane = found.get(span.lane) ?? { name: span.lane, rows: [] };
    found.set(span.lane, lane);
    const free = lane.rows.find((row) => {
      const last = row.at(-1);
      return last && (last.end ?? end) <= span.begin;
    });
    if (free) free.push(span);
    else if (lane.rows.length < ROWS) lane.rows.push([span]);
    else lane.rows[ROWS - 1]?.push(span);
  }
  return [...found.values()];
}

/** The spans that a person can press: those in view, the widest first where there are too many. */
export function pressable(spans: readonly Span[], { begin, end }: Window): Span[] {
  const seen = spans.filter((span) => span.begin <= end && (span.end ?? end) >= begin);
  if (seen.length <= BARS) return seen;
  const weight = (span: Span) =>
    (span.end ?? end) - span.begin + (span.ok === false || span.what === "wait" ? end - begin : 0);
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
  book: Book;
  version: number;
  /** Whether the run goes on no more: then nothing that is open does. */
  over: boolean;
  /** The record that is chosen, and the one that was being read; 0 for none. */
  chosen: number;
  reading: number;
  at: number;
  choose: (seq: number) => void;
}) {
  const { book, version, over, chosen, reading, at, choose } = props;
  const spans = useMemo(
    () => (at ? book.shaping.spans.filter((span) => span.seq <= at) : [...book.shaping.spans]),
    [book, version, at],
  );
  const [times, setTimes] = useState(1);
  const now = useNow(10_000);
  const last = book.moments[at ? book.place(at) : book.moments.length - 1] ?? 0;
  const whole = useMemo(() => extent(spans, over ? last : now), [spans, over, last, now]);
  const cursor = book.moments[book.place(chosen || reading)] ?? whole.begin;
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
  const found = useMemo(() => lanes(bars, view.end), [bars, view]);
  // What cannot be pressed is drawn behind what can.
  const drawn = useMemo(() => {
    const pressed = new Set(bars);
    const rest = bars.length < spans.length ? spans.filter((span) => !pressed.has(span)) : [];
    return new Map(streaks(rest, view).map((lane) => [lane.name, lane.paths]));
  }, [spans, bars, view]);
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
          <h3 className="small cut">{inert(lane.name || "the run")}</h3>
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
                  spans.filter((span) => span.lane === lane.name),
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
                  key={`${span.what}-${span.seq}-${span.name}`}
                  span={span}
                  row={n}
                  x={x}
                  end={view.end}
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
        {["step", "call", "wait", "sub-run", "bad"].map((kind) => (
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
  end: number;
  chosen: number;
  choose: (seq: number) => void;
}) {
  const { span, row, x, end, chosen, choose } = props;
  const left = Math.max(x(span.begin), 0);
  const wide = Math.max(Math.min(x(span.end ?? end), 100) - left, 0.2);
  const took = span.end === null ? "still open" : duration((span.end - span.begin) / 1000);
  const box = useRef<HTMLButtonElement>(null);
  const here = span.seq === chosen;
  useEffect(() => {
    if (here) box.current?.scrollIntoView({ block: "nearest" });
  }, [here]);
  return (
    <button
      ref={box}
      className={`span ${span.what} ${span.ok === false ? "bad" : ""} ${span.end === null ? "open" : ""}`}
      aria-pressed={here}
      title={`${span.what} ${inert(start(span.name, 120))} · ${took}${span.ok === false ? " · failed" : ""}`}
      style={{ left: `${left}%`, width: `${wide}%`, top: row * (HIGH + 3) + 3, height: HIGH }}
      onClick={() => choose(span.seq)}
    >
      {wide > 4 ? inert(start(span.name, 60)) : <span className="unseen">{inert(span.name)}</span>}
    </button>
  );
}
