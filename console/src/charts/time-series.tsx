/** Values over time: stacked bars, or lines; with a tooltip, and a range that can be brushed. */

import { useEffect, useLayoutEffect, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Series } from "../lib/answers";
import { href, type Query } from "../lib/route";
import { resolved, useTheme } from "./colours";
import { spanText, tick, ticks, timeTicks } from "./scale";

export interface Line {
  readonly name: string;
  /** A token of the style sheet. */
  readonly colour: string;
  readonly values: readonly (number | null)[];
  readonly dashed?: boolean;
  /** The area below a line is filled, pale. */
  readonly filled?: boolean;
  /** The value of a bucket as the tooltip says it. */
  readonly say: (value: number) => string;
}

export type Brush = readonly [number, number] | null;

interface Props {
  /** One sentence that says what is drawn. */
  readonly label: string;
  /** The begin of each bucket and the end of the last one, in seconds since 1970. */
  readonly edges: readonly number[];
  readonly lines: readonly Line[];
  readonly unit: Series["unit"];
  readonly shape: "stack" | "lines";
  /** The last bucket is not over. */
  readonly partial: boolean;
  readonly height: number;
  /** The first and the last bucket of a brushed range. */
  readonly brush?: Brush;
  readonly onBrush?: (brush: Brush) => void;
  /** The total of a bucket, where values may be added. */
  readonly total?: (bucket: number) => string;
  readonly brief?: boolean;
  /** The axis counts these, from 1; it has no time. */
  readonly counted?: string;
  /** A value that is drawn across, dashed. */
  readonly limit?: { readonly value: number; readonly label: string };
  /** What happened before a bucket: a dotted line through it. */
  readonly marks?: readonly { readonly bucket: number; readonly label: string }[];
  /** The filter of the fleet that shows the runs of a range. */
  readonly link?: (from: number, to: number) => Query;
}

const NAMED = 3; // marks that have room for their words
const FEW = 6; // gaps that are named
const LABEL = 74; // pixels of a label of the time
const BRIEF = 38;

/** What is drawn: of a stack, the sum up to and with each line. */
function columns({ shape, lines, edges }: Pick<Props, "shape" | "lines" | "edges">): (number | null)[][] {
  if (shape === "lines") return lines.map((line) => [...line.values]);
  const sum: (number | null)[] = edges.slice(0, -1).map(() => null);
  return lines.map((line) => {
    line.values.forEach((value, n) => {
      if (value !== null) sum[n] = (sum[n] ?? 0) + value;
    });
    return [...sum];
  });
}

/** The buckets in which nothing was recorded, next ones together; those before the first record are no gap. */
export function gaps(lines: readonly Line[], buckets: number): [number, number][] {
  const found: [number, number][] = [];
  for (let n = 0; n < buckets; n++) {
    if (lines.some((line) => (line.values[n] ?? null) !== null)) continue;
    const last = found.at(-1);
    if (last && last[1] === n - 1) last[1] = n;
    else found.push([n, n]);
  }
  return found;
}

export function TimeSeries(props: Props) {
  const { label, edges, lines, unit, shape, height, brush = null, onBrush } = props;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const theme = useTheme();
  const [pointed, point] = useState<{ bucket: number; left: number; pinned: boolean } | null>(null);
  const held = useRef({ props, pointed });
  held.current = { props, pointed };
  const drawn = JSON.stringify([
    edges,
    lines.map((line) => [line.values, line.colour, line.dashed]),
    shape,
    unit,
    props.limit,
    props.marks,
  ]);

  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const made = new uPlot(
      options(held.current.props, element.clientWidth, {
        point: (bucket, left) => {
          if (held.current.pointed?.pinned) return;
          point(bucket === null ? null : { bucket, left, pinned: false });
        },
        brush: (range) => held.current.props.onBrush?.(range),
      }),
      [held.current.props.edges.slice(0, -1), ...columns(held.current.props).reverse()] as uPlot.AlignedData,
      element,
    );
    plot.current = made;
    const resize = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    resize.observe(element);
    return () => {
      resize.disconnect();
      made.destroy();
    };
  }, [drawn, theme, height]);

  const [from, to] = brush ?? [-1, -1];
  useEffect(() => {
    const made = plot.current;
    if (!made || !onBrush) return;
    const left = from < 0 ? 0 : made.valToPos(edges[from] ?? 0, "x");
    const right = from < 0 ? 0 : made.valToPos(edges[to + 1] ?? 0, "x");
    made.setSelect({ left, width: right - left, top: 0, height: made.over.clientHeight }, false);
  }, [from, to, drawn, theme, onBrush, edges]);

  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: a pointer only pins what it already shows
    // biome-ignore lint/a11y/useKeyWithClickEvents: the same figures are in the table
    <div
      className={`time-series${brush ? " chosen" : ""}`}
      onClick={() => point((old) => (old ? { ...old, pinned: !old.pinned } : old))}
      onPointerLeave={() => point((old) => (old?.pinned ? old : null))}
    >
      <div ref={box} role="img" aria-label={label} style={{ height }} />
      {pointed && <Tooltip of={props} {...pointed} />}
    </div>
  );
}

function Tooltip({ of, bucket, left, pinned }: { of: Props; bucket: number; left: number; pinned: boolean }) {
  const rows = of.lines.map((line) => [line, line.values[bucket] ?? null] as const);
  const known = rows.some(([, value]) => value !== null);
  return (
    <div className={`tip${pinned ? " pinned" : ""}`} style={{ left: `clamp(0px, ${left}px, calc(100% - 210px))` }}>
      <strong>
        {of.counted
          ? `${of.counted[0]?.toUpperCase()}${of.counted.slice(1)} ${bucket + 1}`
          : spanText(of.edges[bucket] ?? 0, of.edges[bucket + 1] ?? 0)}
      </strong>
      {known ? (
        <dl>
          {rows.map(([line, value]) => (
            <div key={line.name}>
              <dt>
                <i style={{ background: `var(${line.colour})` }} />
                <span className="cut">{line.name}</span>
              </dt>
              <dd>{value === null ? "–" : line.say(value)}</dd>
            </div>
          ))}
          {of.total && (
            <div className="sum">
              <dt>Total</dt>
              <dd>{of.total(bucket)}</dd>
            </div>
          )}
        </dl>
      ) : (
        <p className="soft">no record</p>
      )}
      {pinned && of.link && (
        <a href={href([], of.link(of.edges[bucket] ?? 0, of.edges[bucket + 1] ?? 0))}>The runs of this time →</a>
      )}
    </div>
  );
}

const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 10_000];

/** Labels of an axis that counts: about ten of them. */
function counts(most: number): { at: number; label: string }[] {
  const step = STEPS.find((each) => most / each <= 10) ?? most;
  const found = Array.from({ length: Math.floor(most / step) }, (_, n) => (n + 1) * step);
  return (found[0] === 1 ? found : [1, ...found]).map((at) => ({ at, label: String(at) }));
}

/** The places of values that have no neighbour. */
export function isolated(values: readonly (number | null)[]): number[] {
  const known = (n: number) => (values[n] ?? null) !== null;
  return values.flatMap((_, n) => (known(n) && !known(n - 1) && !known(n + 1) ? [n] : []));
}

function across(ctx: CanvasRenderingContext2D, from: readonly [number, number], to: readonly [number, number]): void {
  ctx.beginPath();
  ctx.moveTo(...from);
  ctx.lineTo(...to);
  ctx.stroke();
}

interface Hands {
  readonly point: (bucket: number | null, left: number) => void;
  readonly brush: (range: Brush) => void;
}

function options(props: Props, width: number, hands: Hands): uPlot.Options {
  const { edges, lines, unit, shape, height, partial, brief = false, counted = "", onBrush } = props;
  const [first = 0, last = 1] = [edges[0], edges.at(-1)];
  const most = columns(props).reduce(
    (all, column) => column.reduce<number>((high, each) => Math.max(high, each ?? 0), all),
    props.limit?.value ?? 0,
  );
  const marks = ticks(unit === "share" && counted ? 1 : most, unit);
  const [ink, grid, surface, sunken] = ["--ink-3", "--grid", "--surface", "--sunken"].map(resolved);
  const [amber, words] = ["--warn", "--ink-2"].map(resolved);
  const zoom = parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--zoom")) || 1;
  const font = `${11 * zoom}px ${getComputedStyle(document.body).fontFamily}`;
  const times = counted
    ? counts(last - 1)
    : timeTicks(first, last, Math.max(Math.floor((width - 50) / (brief ? BRIEF : LABEL)), 2), brief);
  const half = counted ? 0.5 : 0; // where steps are counted, each has its middle at its number
  const bucketAt = (at: number) => {
    const n = edges.findIndex((edge) => edge > at + half);
    return Math.min(Math.max((n < 0 ? edges.length - 1 : n) - 1, 0), edges.length - 2);
  };
  const axis = { stroke: ink ?? "", font, ticks: { show: false } };
  const draw =
    shape === "stack" ? uPlot.paths.bars?.({ size: [0.86, 60], align: counted ? 0 : 1 }) : uPlot.paths.linear?.();
  return {
    width,
    height,
    legend: { show: false },
    padding: [8, 8, 0, 0],
    cursor: {
      y: false,
      points: { show: false },
      drag: { x: Boolean(onBrush), y: false, setScale: false },
    },
    scales: {
      x: { time: !counted, range: () => [first - half, last - half] },
      y: { range: () => [0, marks.at(-1) ?? 1] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 22 * zoom,
        gap: 4,
        splits: () => times.map((each) => each.at),
        values: () => times.map((each) => each.label),
      },
      {
        ...axis,
        grid: { stroke: grid ?? "", width: 1 },
        size: (_, values) => Math.max(...(values ?? []).map((each) => each.length), 2) * 6.4 * zoom + 8,
        gap: 5,
        splits: () => marks,
        values: () => marks.map((each) => tick(each, unit)),
      },
    ],
    series: [
      {},
      // Of a stack the tallest is drawn first, and what is below it over it.
      ...[...lines].reverse().map((line): uPlot.Series => {
        const colour = resolved(line.colour);
        return {
          ...(draw ? { paths: draw } : {}),
          // A value between two gaps has no line: it is a point.
          points:
            shape === "lines"
              ? { show: true, size: 4, fill: colour, filter: () => isolated(line.values) }
              : { show: false },
          spanGaps: false,
          ...(shape === "stack"
            ? { fill: colour, width: 0 }
            : {
                stroke: colour,
                width: 1.5,
                ...(line.filled ? { fill: `color-mix(in srgb, ${colour} 14%, transparent)` } : {}),
                ...(line.dashed ? { dash: [4, 3] } : {}),
              }),
        };
      }),
    ],
    hooks: {
      setCursor: [
        (u) => {
          const { left = -1 } = u.cursor;
          if (left < 0) return hands.point(null, 0);
          hands.point(bucketAt(u.posToVal(left, "x")), left + (u.over.offsetLeft || 0) + 14);
        },
      ],
      setSelect: [
        (u) => {
          if (!onBrush) return;
          const { left, width: wide } = u.select;
          if (wide < 4) return hands.brush(null);
          hands.brush([bucketAt(u.posToVal(left, "x")), bucketAt(u.posToVal(left + wide, "x") - 1)]);
        },
      ],
      drawAxes: [
        (u) => {
          const { ctx } = u;
          const ratio = uPlot.pxRatio;
          const found = gaps(lines, edges.length - 1);
          const named = found.length <= FEW; // where records are rare, a word in each gap would be all that is seen
          for (const [from, to] of found) {
            const x = u.valToPos((edges[from] ?? 0) - half, "x", true);
            const wide = u.valToPos((edges[to + 1] ?? 0) - half, "x", true) - x;
            ctx.save();
            ctx.fillStyle = sunken ?? "";
            ctx.fillRect(x, u.bbox.top, wide, u.bbox.height);
            ctx.strokeStyle = grid ?? "";
            ctx.setLineDash([3 * ratio, 3 * ratio]);
            if (named) ctx.strokeRect(x, u.bbox.top, wide, u.bbox.height);
            if (named && wide > 13 * ratio && u.bbox.height > 90 * ratio) {
              ctx.translate(x + wide / 2, u.bbox.top + u.bbox.height / 2);
              if (wide < 70 * ratio) ctx.rotate(-Math.PI / 2);
              ctx.fillStyle = ink ?? "";
              ctx.font = `${11 * zoom * ratio}px ${getComputedStyle(document.body).fontFamily}`;
              ctx.textAlign = "center";
              ctx.textBaseline = "middle";
              ctx.fillText("no record", 0, 0);
            }
            ctx.restore();
          }
        },
      ],
      draw: [
        (u) => {
          const { ctx, bbox } = u;
          const ratio = uPlot.pxRatio;
          ctx.save();
          ctx.font = `${11 * zoom * ratio}px ${getComputedStyle(document.body).fontFamily}`;
          ctx.lineWidth = 1.5 * ratio;
          if (props.limit) {
            const y = u.valToPos(props.limit.value, "y", true);
            ctx.strokeStyle = ctx.fillStyle = amber ?? "";
            ctx.setLineDash([5 * ratio, 3 * ratio]);
            across(ctx, [bbox.left, y], [bbox.left + bbox.width, y]);
            ctx.textAlign = "left";
            ctx.textBaseline = "alphabetic";
            ctx.fillText(props.limit.label, bbox.left + 6 * ratio, y - 4 * ratio);
          }
          ctx.strokeStyle = ctx.fillStyle = words ?? "";
          ctx.setLineDash([2 * ratio, 3 * ratio]);
          const few = (props.marks?.length ?? 0) <= NAMED;
          for (const { bucket, label } of props.marks ?? []) {
            const x = u.valToPos(edges[bucket] ?? 0, "x", true);
            across(ctx, [x, bbox.top], [x, bbox.top + bbox.height]);
            if (!few) continue;
            const late = x + ctx.measureText(label).width + 8 * ratio > bbox.left + bbox.width;
            ctx.textAlign = late ? "right" : "left";
            ctx.fillText(label, x + (late ? -6 : 6) * ratio, bbox.top + 14 * ratio);
          }
          ctx.restore();
        },
        (u) => {
          // The bucket that is not over recedes.
          if (!partial || shape !== "stack") return;
          const x = u.valToPos(edges.at(-2) ?? 0, "x", true);
          const y = u.bbox.top;
          u.ctx.save();
          u.ctx.globalAlpha = 0.5;
          u.ctx.fillStyle = surface ?? "";
          u.ctx.fillRect(x, y, u.bbox.left + u.bbox.width - x, u.bbox.height);
          u.ctx.restore();
        },
      ],
    },
  };
}
