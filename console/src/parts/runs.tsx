/** The list of runs, of which only a part is held and only what is in view is drawn. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";
import type { BoardAnswer, RunRow } from "../lib/answers";
import { runHref } from "../lib/route";
import { inert } from "../lib/text";
import { cost, count, short } from "../lib/time";
import { useKeys, useNow } from "../lib/use";
import { outcomeOf, placeOf, StatusMark, Text, When } from "./bits";

const PART = 50; // runs; a list is asked for in parts that begin at multiples of it
export const HELD = 2 * PART; // runs of one answer
const ROW = 42; // pixels, until one was drawn

const keyOf = (run: RunRow): string => `${run.family}:${run.run}`;

/** Where the part begins that a row is in the middle of. */
export function partOf(row: number): number {
  return Math.max(Math.floor((row - PART / 2) / PART), 0) * PART;
}

export function Runs({ board, look }: { board: BoardAnswer; look: (after: number) => void }) {
  const { runs, after, matching } = board;
  const now = useNow();
  const box = useRef<HTMLDivElement>(null);
  // What is marked is a run, not a row: the list may change its order meanwhile.
  const [marked, setMarked] = useState("");
  const [high, measure] = useHeight();
  const list = useVirtualizer({
    count: matching,
    getScrollElement: () => box.current,
    estimateSize: useCallback(() => high, [high]),
    overscan: 8,
    useFlushSync: false,
    getItemKey: useCallback((row: number) => row, []),
  });
  useLayoutEffect(() => list.measure(), [list, high]);
  const shown = list.getVirtualItems();
  const middle = shown[shown.length >> 1]?.index ?? 0;
  useEffect(() => look(partOf(middle)), [middle, look]);
  const step = (by: number) => {
    const here = runs.findIndex((run) => keyOf(run) === marked);
    const next = Math.min(Math.max(here + by, 0), runs.length - 1);
    const run = runs[next];
    if (!run) return;
    setMarked(keyOf(run));
    list.scrollToIndex(after + next);
  };
  useKeys({
    j: () => step(1),
    k: () => step(-1),
    ArrowDown: () => step(1),
    ArrowUp: () => step(-1),
    Enter: () => {
      const run = runs.find((each) => keyOf(each) === marked);
      if (run) location.hash = runHref(run.family, run.run);
    },
  });
  return (
    <section aria-label="Runs">
      <p className="soft small" role="status">
        {matching === board.all ? "" : `${count(matching)} of `}
        {count(board.all)} {board.all === 1 ? "run" : "runs"}
      </p>
      <div className="runs">
        <div className="run head" aria-hidden="true">
          <span>status</span>
          <span>run</span>
          <span>outcome</span>
          <span>agents</span>
          <span className="num">calls</span>
          <span className="num">tokens</span>
          <span className="num">cost</span>
          <span className="num">last activity</span>
        </div>
        <div ref={box} className="window" tabIndex={-1}>
          <div style={{ height: list.getTotalSize(), position: "relative" }}>
            {shown.map((item, n) => {
              const run = runs[item.index - after];
              return (
                <div
                  key={item.key}
                  ref={n ? null : measure}
                  className="place"
                  style={{ transform: `translateY(${item.start}px)` }}
                >
                  {run ? <Row run={run} now={now} here={keyOf(run) === marked} /> : <div className="run soft">…</div>}
                </div>
              );
            })}
          </div>
        </div>
      </div>
    </section>
  );
}

/** The height of a row, which all share: one is measured, and again when the window changes. */
function useHeight(): [number, (row: Element | null) => void] {
  const [high, setHigh] = useState(ROW);
  const [row, measure] = useState<Element | null>(null);
  useEffect(() => {
    if (!row) return;
    const watch = new ResizeObserver(([entry]) => entry && setHigh(entry.target.getBoundingClientRect().height || ROW));
    watch.observe(row);
    return () => watch.disconnect();
  }, [row]);
  return [high, measure];
}

const Row = memo(function Row({ run, now, here }: { run: RunRow; now: number; here: boolean }) {
  return (
    <a
      className={here ? "run here" : "run"}
      href={runHref(run.family, run.run)}
      aria-current={here ? "true" : undefined}
    >
      <StatusMark status={run.status} />
      <span className="title-cell cut" title={inert(run.title ?? run.run)}>
        <span className="title">
          <Text>{run.title ?? run.run}</Text>
        </span>{" "}
        <span className="soft small mono">
          <Text>{[run.title ? run.run : run.dialects.join(", "), ...placeOf(run)].join(" · ")}</Text>
        </span>
      </span>
      <span className="outcome cut" title={inert(outcomeOf(run))}>
        <Text>{outcomeOf(run)}</Text>
      </span>
      <span className="cut soft" title={inert(run.agents.join(", "))}>
        <Text>{run.agents.join(", ") || "–"}</Text>
      </span>
      <span className="num">
        {count(run.tool_calls)}
        {run.tool_failures > 0 && (
          <span className="failed" title={`${run.tool_failures} failed`}>
            {" "}
            {run.tool_failures} ✗
          </span>
        )}
      </span>
      <span className="num">{short(run.tokens)}</span>
      <span className="num">{cost(run)}</span>
      <span className="num when">
        <When at={run.last_activity} now={now} />
      </span>
    </a>
  );
});
