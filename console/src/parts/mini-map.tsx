/** The whole run in small, and the window of it that is shown. */

import { type PointerEvent, useMemo, useRef } from "react";
import { timeTicks } from "../charts/scale";
import type { Axis } from "../lib/axis";
import type { Row } from "../lib/waterfall";

const WIDE = 600;
const [TIMES, EDGE, APART] = [9, 3, 8]; // times, percent at each end without one, and between two
const LANE: Partial<Record<Row["kind"], number>> = { model: 4, tool: 11, "sub-run": 18, wait: 4 };

const HATCHED = { fill: "url(#mini-hatch)" };

interface Props {
  readonly rows: readonly Row[];
  readonly axis: Axis;
  readonly low: number;
  readonly high: number;
  readonly onWindow: (low: number, high: number) => void;
}

/** Round times in the window, each with its place in it in percent. */
export function timesIn(axis: Axis, low: number, high: number) {
  const ticks = timeTicks(axis.time(low) / 1000, axis.time(high) / 1000, TIMES);
  const placed = ticks.map((each) => ({ ...each, x: ((axis.x(each.at * 1000) - low) / (high - low)) * 100 }));
  let last = -Infinity; // where time was cut, round times stand close to each other
  return placed.filter(({ x }) => {
    if (x <= EDGE || x >= 100 - EDGE || x - last < APART) return false;
    last = x;
    return true;
  });
}

export function MiniMap({ rows, axis, low, high, onWindow }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const held = useRef(0);
  const paths = useMemo(() => {
    const found = new Map<string, string>();
    for (const row of rows) {
      const top = LANE[row.kind];
      if (top === undefined) continue;
      const kind = row.failed ? "bad" : row.kind;
      const [left, right] = [axis.x(row.begin) * WIDE, axis.x(row.end) * WIDE];
      const high = row.kind === "wait" ? 22 : 6;
      const bar = `M${left.toFixed(1)} ${top}h${Math.max(right - left, 1).toFixed(1)}v${high}H${left.toFixed(1)}z`;
      found.set(kind, (found.get(kind) ?? "") + bar);
    }
    return [...found];
  }, [rows, axis]);
  const at = (event: PointerEvent) => {
    const area = box.current?.getBoundingClientRect();
    return area ? Math.min(Math.max((event.clientX - area.left) / area.width, 0), 1) : 0;
  };
  const drag = (event: PointerEvent) => {
    if (event.buttons !== 1) return;
    const [a, b] = [held.current, at(event)];
    if (Math.abs(b - a) > 0.01) onWindow(Math.min(a, b), Math.max(a, b));
  };
  return (
    <div className="mini">
      {/* biome-ignore lint/a11y/noStaticElementInteractions: + - 0 and the arrows do the same by keyboard */}
      <div
        className="mini-map"
        ref={box}
        title="drag to choose a part of the run"
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          held.current = at(event);
        }}
        onPointerMove={drag}
        onDoubleClick={() => onWindow(0, 1)}
      >
        <svg viewBox={`0 0 ${WIDE} 30`} preserveAspectRatio="none" aria-hidden="true">
          <pattern id="mini-hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
            <path className="k wait" d="M0 0h3v6H0z" />
          </pattern>
          {paths.map(([kind, path]) => (
            <path key={kind} className={`k ${kind}`} d={path} {...(kind === "wait" ? { style: HATCHED } : {})} />
          ))}
        </svg>
        <i className="mini-window" style={{ left: `${low * 100}%`, width: `${(high - low) * 100}%` }} />
      </div>
      <div className="mini-times soft" aria-hidden="true">
        {timesIn(axis, low, high).map((each) => (
          <span key={each.at} style={{ left: `${each.x}%` }}>
            {each.label}
          </span>
        ))}
      </div>
    </div>
  );
}
