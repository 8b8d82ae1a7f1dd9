/** The time of a run from its first to its last event: how busy it was, where it failed, who waited; and the playhead. */

import { type PointerEvent, useEffect, useMemo, useRef, useState } from "react";
import { timeTicks } from "../charts/scale";
import type { DensityAnswer, ShowAnswer } from "../lib/answers";
import { address, ask } from "../lib/api";
import { type Axis, axisOf } from "../lib/axis";
import { useReading } from "../lib/reading";
import { setQuery } from "../lib/route";
import { lowerBound, type RunRecords } from "../lib/run-records";
import { clock, count, duration, exact } from "../lib/time";
import { useAnswer, useKeys, useLast } from "../lib/use";
import { Icon } from "./icons";

const SLICES = 120;
const STEADY = 150; // milliseconds between two moments that are asked for while the playhead is drawn
const MARKS = 60; // failures that are marked one by one
const PLAYED = 500; // milliseconds between two records
const HIGH = 34;
const FRESH = 60_000; // milliseconds since the last event in which that is called now
const [TIMES, APART] = [8, 0.08]; // times below the track, and how far they are apart

interface Props {
  readonly family: string;
  readonly run: string;
  readonly runRecords: RunRecords;
  readonly shown: ShowAnswer | undefined;
  readonly reading: boolean;
  /** Everything is shown as it was at this record; 0 for now. */
  readonly at: number;
  /** The record that is chosen; 0 for none. */
  readonly seq: number;
  readonly choose: (seq: number) => void;
  /** Whether it is to be seen; its keys act without it, too. */
  readonly drawn: boolean;
  /** Whether what happened over time may be asked for: of a long run that takes a while. */
  readonly ready: boolean;
}

/** The bars of one kind as a path; `below` is what they stand upon. */
function bars(places: readonly number[], values: readonly number[], below: readonly number[], most: number): string {
  return values
    .map((value, n) => {
      if (!value) return "";
      const [low, high] = [((below[n] ?? 0) / most) * HIGH, (value / most) * HIGH];
      return `M${((places[n] ?? 0) + 0.1).toFixed(1)} ${(HIGH - low).toFixed(1)}v${(-high).toFixed(1)}h.8v${high.toFixed(1)}z`;
    })
    .join("");
}

/** The bars of models and tools, and how many failures each mark stands for. */
function pictureOf(density: DensityAnswer | undefined, axis: Axis) {
  const { at, model, tool, failed, failed_steps } = density ?? NOTHING;
  const places = at.map((each) => axis.x(Date.parse(each)) * SLICES);
  const most = Math.max(...tool.map((each, n) => each + (model[n] ?? 0)), 1);
  const marks = new Array<number>(MARKS).fill(0);
  places.forEach((place, n) => {
    const mark = Math.min(Math.floor((place / SLICES) * MARKS), MARKS - 1);
    marks[mark] = (marks[mark] ?? 0) + (failed[n] ?? 0) + (failed_steps[n] ?? 0);
  });
  return { model: bars(places, model, [], most), tools: bars(places, tool, model, most), failed: marks };
}

const NOTHING = { at: [], model: [], tool: [], failed: [], failed_steps: [] };

export function Scrubber(props: Props) {
  const { family, run, runRecords, shown, reading, at, seq, choose, drawn: seen, ready } = props;
  const [first = 0] = runRecords.seqs;
  const end = reading ? (shown?.last_seq ?? 0) : 0;
  const loading = end > (runRecords.seqs.at(-1) ?? 0);
  const last = loading ? end : runRecords.seqs.length - 1;
  const seqOf = (place: number) => (loading ? place : (runRecords.seqs[place] ?? 0));
  const [drawn, draw] = useState<number | null>(null);
  const [playing, play] = useState(false);
  const newest = useRef("");
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const track = useRef<HTMLDivElement>(null);
  useEffect(() => () => clearTimeout(timer.current), []);
  const [begin, until] = [
    Date.parse(shown?.first_at ?? shown?.first_received ?? "") || (runRecords.moments[0] ?? 0),
    Date.parse(shown?.last_at ?? shown?.last_received ?? "") || (runRecords.moments.at(-1) ?? 1),
  ];
  const density = useLast(
    useAnswer(seen && ready ? address("/api/runs/{family}/{run}/density", { family, run, slices: SLICES }) : null, {
      family,
      run,
    }).data,
  );
  const axis = useMemo(() => {
    const gaps = (density?.gaps ?? []).map((gap) => ({ from: Date.parse(gap.begin), to: Date.parse(gap.end) }));
    return axisOf(gaps, begin, Math.max(until, begin + 1));
  }, [density, begin, until]);
  const picture = useMemo(() => pictureOf(density, axis), [density, axis]);
  const settle = () => {
    timer.current = undefined;
    draw(null);
    setQuery({ at: newest.current });
  };
  const to = (place: number) => {
    newest.current = place >= last ? "" : String(seqOf(place));
    timer.current ??= setTimeout(settle, STEADY);
    draw(place);
  };
  const place = drawn ?? (at ? Math.min(loading ? at : runRecords.place(at), last) : last);
  const known = runRecords.moments[loading ? runRecords.place(place) : place];
  const when = known === undefined ? null : new Date(known).toISOString();
  const head =
    drawn !== null || at
      ? axis.x(known ?? until)
      : seq
        ? axis.x(runRecords.moments[runRecords.place(seq)] ?? until)
        : 1;
  const isNow = !shown?.ended && Date.now() - until < FRESH;
  const labelOf = (moment: number | undefined, record: number) =>
    `${moment === undefined ? "" : `${clock(new Date(moment).toISOString())} `}#${record}`;
  const shownLabel =
    drawn !== null || at
      ? labelOf(known, seqOf(place))
      : seq
        ? labelOf(runRecords.moments[runRecords.place(seq)], seq)
        : "";
  const step = (by: number) => {
    const from = seq ? runRecords.place(seq) : by < 0 ? runRecords.seqs.length : -1;
    choose(runRecords.seqs[Math.min(Math.max(from + by, 0), runRecords.seqs.length - 1)] ?? 0);
  };
  const turn = async (by: number) => {
    const turns = (part: { at?: number; after?: number }) =>
      ask(address("/api/runs/{family}/{run}/turns", { family, run, limit: 1, ...part }));
    const here = (await turns(seq ? { at: seq } : {})).turns; // the last that began before
    const [next] = (await turns({ after: Math.max(here - 1 + by, 0) })).rows;
    if (next) choose(next.seq);
  };
  const fail = (by: 1 | -1) => {
    const all = runRecords.structure.failures;
    const here = lowerBound(all, by > 0 ? seq + 1 : seq || Infinity);
    choose((by > 0 ? (all[here] ?? all[0]) : (all[here - 1] ?? all.at(-1))) ?? 0);
  };
  const live = () => {
    play(false);
    setQuery({ at: "", seq: "" });
  };
  useEffect(() => {
    if (!playing) return;
    const next = setTimeout(() => (place < last ? to(place + 1) : play(false)), PLAYED);
    return () => clearTimeout(next);
  });
  useKeys({
    "[": () => step(-1),
    "]": () => step(1),
    "{": () => void turn(-1),
    "}": () => void turn(1),
    ",": () => fail(-1),
    ".": () => fail(1),
    " ": () => play(!playing),
    l: live,
    a: () => (at ? setQuery({ at: "" }) : seq && setQuery({ at: String(seq) })),
  });
  if (last < 1 || !seen) return null;
  const point = (event: PointerEvent) => {
    const box = track.current?.getBoundingClientRect();
    if (!box || event.buttons !== 1) return;
    const x = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
    const found = loading ? 0 : nearest(runRecords.moments, axis.time(x));
    to(x > 0.995 ? last : loading ? seqAt(density, axis.time(x), first) : found);
  };
  return (
    <section className="scrubber" aria-label="Time of the run">
      <div className="play">
        <button aria-label="To the first record" onClick={() => to(loading ? first : 0)}>
          <Icon name="first" size={13} />
        </button>
        <button aria-label="One record back" title="[" onClick={() => to(Math.max(place - 1, 0))}>
          <Icon name="back" size={13} />
        </button>
        <button aria-label={playing ? "Pause" : "Play"} title="space" onClick={() => play(!playing)}>
          <Icon name={playing ? "pause" : "play"} size={13} />
        </button>
        <button aria-label="To the last record" onClick={live}>
          <Icon name="last" size={13} />
        </button>
      </div>
      <div className="track-box">
        <label htmlFor="moment" className="unseen">
          at record
        </label>
        <input
          id="moment"
          type="range"
          min={loading ? first : 0}
          max={last}
          value={place}
          aria-valuetext={`record ${seqOf(place)}${when ? `, ${exact(when)}` : ""}`}
          onChange={(event) => to(Number(event.target.value))}
        />
        <div
          className="track"
          ref={track}
          onPointerDown={(event) => {
            event.currentTarget.setPointerCapture(event.pointerId);
            point(event);
          }}
          onPointerMove={point}
        >
          <svg viewBox={`0 0 ${SLICES} ${HIGH}`} preserveAspectRatio="none" aria-hidden="true">
            <path className="k-model" d={picture.model} />
            <path className="k-tool" d={picture.tools} />
          </svg>
          {density?.waits.map((wait, n) => {
            const [from, to] = [Date.parse(wait.begin), wait.end === null ? until : Date.parse(wait.end)];
            const left = axis.x(from);
            const wide = axis.x(to) - left;
            return (
              <i
                key={n}
                className="wait"
                style={{ left: `${left * 100}%`, width: `max(${wide * 100}%, 3px)` }}
                title={`waited ${duration((to - from) / 1000)}`}
              />
            );
          })}
          {axis.breaks.map((each) => (
            <i
              key={each.x}
              className="break"
              style={{ left: `${each.x * 100}%` }}
              title={`nothing for ${duration((each.to - each.from) / 1000)}`}
            />
          ))}
          {picture.failed.map(
            (many, n) =>
              many > 0 && (
                <i
                  key={n}
                  className="fail"
                  style={{ left: `${((n + 0.5) / MARKS) * 100}%` }}
                  title={`${count(many)} failed`}
                />
              ),
          )}
          <Here axis={axis} />
          <i className="after" style={{ left: `${head * 100}%` }} />
          <i className="head" style={{ left: `${head * 100}%` }}>
            {shownLabel && <b style={{ transform: `translateX(${-head * 100}%)` }}>{shownLabel}</b>}
          </i>
        </div>
        <div className={shownLabel ? "track-times soft labelled" : "track-times soft"} aria-hidden="true">
          {between(axis, begin, until, shownLabel ? head : null).map((each) => (
            <span key={each.at} style={{ left: `${each.x * 100}%` }}>
              {each.label}
            </span>
          ))}
          <span>{clock(new Date(begin || 0).toISOString()).slice(0, 5)}</span>
          <span>
            {isNow ? "now " : ""}
            {clock(new Date(until).toISOString()).slice(0, 5)}
          </span>
        </div>
      </div>
      <div className="scrubber-side">
        <ul className="chart-legend" aria-hidden="true">
          <li>
            <i style={{ background: "var(--k-model)" }} /> model
          </li>
          <li>
            <i style={{ background: "var(--k-tool)" }} /> tools
          </li>
          <li>
            <i className="tri" /> failed
          </li>
          <li>
            <i className="hatched" /> waits
          </li>
        </ul>
        <button onClick={live} disabled={!at && !seq && drawn === null}>
          {shown?.ended ? "To the end" : "Back to live"} <kbd>L</kbd>
        </button>
      </div>
    </section>
  );
}

/** Times along the run, but for those beside its ends, at a break, and below what stands at the playhead. */
function between(axis: Axis, begin: number, until: number, head: number | null) {
  const near = (x: number, to: number, by = APART) => Math.abs(x - to) < by;
  const placed = timeTicks(begin / 1000, until / 1000, TIMES).map((each) => ({ ...each, x: axis.x(each.at * 1000) }));
  return placed.filter(
    ({ x }, n) =>
      !near(x, 0) &&
      !near(x, 1) &&
      !(head !== null && near(x, head, 2 * APART)) &&
      !placed.slice(0, n).some((before) => near(x, before.x)),
  );
}

/** What of the run is in view in the transcript. */
function Here({ axis }: { axis: Axis }) {
  const range = useReading();
  if (!range) return null;
  const left = axis.x(range.from);
  const wide = Math.max(axis.x(range.to) - left, 0);
  return (
    <i className="here" style={{ left: `${left * 100}%`, width: `max(${wide * 100}%, 2px)` }} data-testid="here" />
  );
}

/** The place of the moment that is nearest; moments rise, but for clocks that were set. */
function nearest(moments: readonly number[], at: number): number {
  const place = lowerBound(moments, at);
  const [before = -Infinity, after = Infinity] = [moments[place - 1], moments[place]];
  return at - before < after - at ? place - 1 : Math.min(place, moments.length - 1);
}

/** While a run loads: the first record of the slice at a moment, else of the last slice before that has one. */
function seqAt(density: DensityAnswer | undefined, at: number, first: number): number {
  const slice = density?.seq.findLastIndex((seq, n) => seq !== null && Date.parse(density.at[n] ?? "") <= at) ?? -1;
  return density?.seq[slice] ?? first;
}
