/** The table of runs, of which only a part is held and only what is in view is drawn. */

import { useVirtualizer } from "@tanstack/react-virtual";
import {
  type CSSProperties,
  memo,
  type ReactNode,
  useCallback,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
} from "react";
import type { BoardAnswer, RunRow, TraceRow } from "../lib/answers";
import { address } from "../lib/api";
import { COLUMNS, type Column, type FleetView, HELD, natural, shown } from "../lib/fleet";
import { go, href, runHref, setQuery } from "../lib/route";
import { select as note } from "../lib/selection";
import { inert } from "../lib/text";
import { ago, briefly, cost, count, exact, short } from "../lib/time";
import { useAnswer, useKeys, useLast, useNow } from "../lib/use";
import { Model, outcomeOf, Text } from "./bits";
import { Icon, StatusGlyph } from "./icons";

const PART = HELD / 2; // runs; a list is asked for in parts that begin at multiples of it
const ROW = 32; // pixels, until one was drawn

const keyOf = (run: RunRow): string => `${run.family}:${run.run}`;

/** Where the part begins that a row is in the middle of. */
export function partOf(row: number): number {
  return Math.max(Math.floor((row - PART / 2) / PART), 0) * PART;
}

type Group = BoardAnswer["groups"][number];
type Item = { readonly group: Group } | { readonly place: number };

/** What stands in a line of the table: the head of a group, or the run at a place of the list. */
export function itemAt(groups: readonly Group[], line: number): Item {
  let [left, place] = [line, 0];
  for (const group of groups) {
    if (left === 0) return { group };
    left -= 1;
    const rows = group.closed ? 0 : group.count;
    if (left < rows) return { place: place + left };
    left -= rows;
    place += rows;
  }
  return { place: place + left };
}

const ATTENTION: Record<string, [RunRow["status"], string]> = {
  waiting: ["waiting", "Waiting"],
  working: ["working", "Working"],
  broken: ["failed", "Failed or lost, not seen"],
  seen: ["failed", "Failed or lost, seen"],
  done: ["done", "Done"],
};

interface Props {
  readonly board: BoardAnswer;
  readonly view: FleetView;
  readonly look: (after: number) => void;
  readonly close: (group: string) => void;
  /** The keys of the runs that are selected. */
  readonly selected: readonly string[];
  /** Selects a run, or takes it out; several are selected together. */
  readonly select: (keys: readonly string[]) => void;
  /** Marks runs as seen. */
  readonly see: (keys: readonly string[]) => void;
  /** Marks every failure of the list as seen. */
  readonly seeAll: () => void;
}

/** The group of failures that were seen, where it is closed and is one line of the head of those that were not. */
const isFolded = (group: Group, groups: readonly Group[]): boolean =>
  group.key === "seen" && group.closed && groups.some((each) => each.key === "broken");

const isUnseen = (run: RunRow): boolean => (run.status === "failed" || run.status === "lost") && !run.marks.seen;

export function Runs({ board, view, look, close, selected, select, see, seeAll }: Props) {
  const { runs, after, listed } = board;
  const attention = view.group === "attention";
  const folded = attention ? board.groups.find((each) => isFolded(each, board.groups)) : undefined;
  const groups = folded ? board.groups.filter((each) => each !== folded) : board.groups;
  const now = useNow();
  const table = useRef<HTMLDivElement>(null);
  const scroller = useCallback(() => document.getElementById("main"), []);
  const [margin, setMargin] = useState(0);
  useLayoutEffect(() => {
    const [box, main] = [table.current, scroller()];
    if (box && main) setMargin(box.getBoundingClientRect().top - main.getBoundingClientRect().top + main.scrollTop);
  });
  // What is marked is a run, not a row: the list may change its order meanwhile.
  const [marked, setMarked] = useState("");
  const lines = groups.length + listed;
  const list = useVirtualizer({
    count: lines,
    getScrollElement: scroller,
    scrollMargin: margin,
    estimateSize: useCallback(() => ROW, []),
    overscan: 8,
    useFlushSync: false,
    getItemKey: useCallback((row: number) => row, []),
  });
  const drawn = list.getVirtualItems();
  const places = drawn
    .map((each) => itemAt(groups, each.index))
    .flatMap((item) => ("place" in item ? [item.place] : []));
  const middle = places[places.length >> 1] ?? 0;
  useEffect(() => look(partOf(middle)), [middle, look]);
  useEffect(() => {
    const run = runs.find((each) => keyOf(each) === marked);
    note(run ? { family: run.family, run: run.run, title: run.title ?? run.run } : null);
  }, [runs, marked]);
  useEffect(() => () => note(null), []);
  const traces = useTraces(runs);
  const columns = COLUMNS.filter((each) => !each.extra || view.cols.includes(each.key));
  const step = (by: number) => {
    const here = runs.findIndex((run) => keyOf(run) === marked);
    const next = Math.min(Math.max(here + by, 0), runs.length - 1);
    const run = runs[next];
    if (!run) return;
    setMarked(keyOf(run));
    const line = Array.from({ length: lines }, (_, n) => n).find((n) => {
      const item = itemAt(groups, n);
      return "place" in item && item.place === after + next;
    });
    if (line !== undefined) list.scrollToIndex(line, { align: "auto" });
  };
  const last = useRef("");
  const choose = useCallback(
    (key: string, range: boolean) => {
      const keys = runs.map(keyOf);
      const [from, to] = [keys.indexOf(last.current), keys.indexOf(key)].toSorted((a, b) => a - b) as [number, number];
      select(range && from >= 0 ? keys.slice(from, to + 1) : [key]);
      last.current = key;
    },
    [runs, select],
  );
  const seeMarked = () => {
    const run = runs.find((each) => keyOf(each) === marked);
    if (selected.length) see(selected);
    else if (run && isUnseen(run)) {
      step(runs.indexOf(run) + 1 < runs.length ? 1 : -1);
      see([marked]);
    }
  };
  const sort = (column: Column | undefined) => {
    if (!column) return;
    const flip = column.sort === view.sort ? (view.dir === "asc" ? "desc" : "asc") : natural(column.sort);
    setQuery({
      sort: column.sort === "activity" ? "" : column.sort,
      dir: flip === natural(column.sort) ? "" : flip,
    });
  };
  useKeys({
    j: () => step(1),
    k: () => step(-1),
    ArrowDown: () => step(1),
    ArrowUp: () => step(-1),
    s: () => sort(columns[(columns.findIndex((each) => each.sort === view.sort) + 1) % columns.length]),
    S: () => sort(columns.find((each) => each.sort === view.sort)),
    x: () => marked && choose(marked, false),
    X: () => marked && choose(marked, true),
    e: seeMarked,
    c: () => marked && go(href(["compare", marked])),
    Enter: () => {
      const run = runs.find((each) => keyOf(each) === marked);
      if (run) location.hash = runHref(run.family, run.run);
    },
  });
  return (
    <div
      className="runs"
      role="table"
      aria-label="Runs"
      aria-rowcount={lines + 1}
      style={{ "--columns": columns.map(({ key }) => `var(--w-${key})`).join(" ") } as CSSProperties}
    >
      <div className="run head" role="row">
        <span role="columnheader" className="unseen">
          Status
        </span>
        {columns.map((column) => {
          const on = column.sort === view.sort;
          return (
            <span
              key={column.key}
              role="columnheader"
              className={`c-${column.key}${column.figure ? " num" : ""}`}
              aria-sort={on ? (view.dir === "asc" ? "ascending" : "descending") : "none"}
            >
              <button className={on ? "on" : ""} onClick={() => sort(column)}>
                {column.label}
                {on && <span aria-hidden="true"> {view.dir === "asc" ? "↑" : "↓"}</span>}
              </button>
            </span>
          );
        })}
      </div>
      <div ref={table} className="lines" style={{ height: list.getTotalSize() }}>
        {drawn.map((each) => {
          const item = itemAt(groups, each.index);
          const run = "place" in item ? runs[item.place - after] : undefined;
          return (
            <div
              key={each.key}
              ref={list.measureElement}
              data-index={each.index}
              className="place"
              role="none"
              style={{ transform: `translateY(${each.start - margin}px)` }}
            >
              {"group" in item ? (
                <GroupHead group={item.group} by={view.group} columns={columns.length + 1} close={close}>
                  {attention && item.group.key === "broken" && (
                    <>
                      {folded && (
                        <button className="link" onClick={() => close("seen")}>
                          {count(folded.count)} seen {folded.count === 1 ? "is" : "are"} folded away
                        </button>
                      )}
                      <button onClick={seeAll}>Mark all seen</button>
                    </>
                  )}
                </GroupHead>
              ) : run ? (
                <Row
                  run={run}
                  columns={columns}
                  now={now}
                  line={each.index + 2}
                  here={keyOf(run) === marked}
                  selected={selected.includes(keyOf(run))}
                  select={choose}
                  see={see}
                  trace={traces.get(keyOf(run))}
                />
              ) : (
                <div className="run soft" role="row" aria-rowindex={each.index + 2}>
                  <span role="cell">…</span>
                </div>
              )}
            </div>
          );
        })}
      </div>
    </div>
  );
}

/** The traces of the runs at hand; those that were there stay while others come. */
function useTraces(runs: readonly RunRow[]): Map<string, TraceRow> {
  const keys = runs
    .filter((run) => run.tool_calls > 0)
    .map(keyOf)
    .sort();
  const { data } = useAnswer(keys.length ? address("/api/traces", { run: keys }) : null, "seldom");
  const rows = useLast(data) ?? [];
  return new Map(rows.map((row) => [`${row.family}:${row.run}`, row]));
}

interface GroupProps {
  readonly group: Group;
  readonly by: string;
  readonly columns: number;
  readonly close: (group: string) => void;
  /** What can be done with all of the group. */
  readonly children: ReactNode;
}

function GroupHead({ group, by, columns, close, children }: GroupProps) {
  const [status, label] = (by === "attention" && ATTENTION[group.key ?? ""]) || [null, null];
  const name = label ?? (group.key === null ? `no ${by}` : shown(by, group.key));
  return (
    <div className={`group${group.closed ? " closed" : ""}`} role="row">
      <span role="cell" aria-colspan={columns}>
        <button className="fold" aria-expanded={!group.closed} onClick={() => close(group.key ?? "(none)")}>
          <Icon name="down" size={14} />
          {status && <StatusGlyph status={status} />}
          <strong title={inert(group.key ?? "")}>
            <Text>{name}</Text>
          </strong>
          <span className="soft"> {count(group.count)}</span>
        </button>
        {children}
      </span>
    </div>
  );
}

/** How busy a run was over its own time, and where it failed. */
function TraceStrip({ trace, live }: { trace: TraceRow | undefined; live: boolean }) {
  if (!trace?.calls.length) return null;
  const most = Math.max(...trace.calls, 1);
  const high = (n: number) => Math.max((n / most) * 12, 2);
  return (
    <svg className="trace" viewBox={`0 0 ${trace.calls.length * 2} 14`} preserveAspectRatio="none" aria-hidden="true">
      {trace.calls.map((n, place) => {
        if (!n) return null;
        const bad = trace.failed[place] ?? 0;
        const kind = bad ? "bad" : live && place >= trace.calls.length - 2 ? "now" : "";
        const height = bad ? 14 : high(n);
        return <rect key={place} className={kind} x={place * 2} y={14 - height} width="1.4" height={height} />;
      })}
    </svg>
  );
}

interface RowProps {
  readonly run: RunRow;
  readonly columns: readonly Column[];
  readonly now: number;
  readonly line: number;
  readonly here: boolean;
  readonly selected: boolean;
  readonly select: (key: string, range: boolean) => void;
  readonly see: (keys: readonly string[]) => void;
  readonly trace: TraceRow | undefined;
}

const Row = memo(function Row({ run, columns, now, line, here, selected, select, see, trace }: RowProps) {
  return (
    <div
      className={`run${here ? " here" : ""}${selected ? " selected" : ""}`}
      role="row"
      aria-rowindex={line}
      aria-current={here ? "true" : undefined}
    >
      <span role="cell" className="c-status" title={run.status}>
        <input
          type="checkbox"
          aria-label={`Select ${inert(run.title ?? run.run)}`}
          checked={selected}
          onChange={({ nativeEvent }) => select(keyOf(run), nativeEvent instanceof MouseEvent && nativeEvent.shiftKey)}
        />
        <StatusGlyph status={run.status} />
        <span className="unseen">{run.status}</span>
      </span>
      {columns.map((column) => (
        <span key={column.key} role="cell" className={`cut c-${column.key}${column.figure ? " num" : ""}`}>
          <Cell column={column.key} run={run} now={now} trace={trace} />
          {column.key === "title" && isUnseen(run) && (
            <button className="see" onClick={() => see([keyOf(run)])}>
              <Icon name="tick" size={13} /> Seen <kbd>E</kbd>
            </button>
          )}
        </span>
      ))}
    </div>
  );
});

function Cell({ column, run, now, trace }: { column: string; run: RunRow; now: number; trace: TraceRow | undefined }) {
  switch (column) {
    case "title":
      return (
        <a href={runHref(run.family, run.run)} title={inert(run.title ?? run.run)}>
          <Text>{run.title ?? run.run}</Text>
          {run.title && (
            <span className="unseen">
              {" "}
              <Text>{run.run}</Text>
            </span>
          )}
        </a>
      );
    case "id":
      return (
        <span className="mono">
          <Text>{run.run}</Text>
        </span>
      );
    case "activity":
      return <TraceStrip trace={trace} live={run.status === "working"} />;
    case "project":
      return (
        <span title={inert([run.project, run.branch].filter(Boolean).join(", "))}>
          <Text>{run.project ? shown("project", run.project) : ""}</Text>{" "}
          <span className="soft">
            <Text>{run.branch}</Text>
          </span>
        </span>
      );
    case "model":
      return run.models.length ? (
        <span className="soft" title={inert(run.models.join(", "))}>
          <Model name={run.model} />
          {run.models.length > 1 && ` +${run.models.length - 1}`}
        </span>
      ) : (
        <span className="soft">no model</span>
      );
    case "source":
      return <Text>{run.dialects.join(", ")}</Text>;
    case "agents":
      return <Text>{run.agents.join(", ") || "–"}</Text>;
    case "outcome":
      return <Text>{outcomeOf(run)}</Text>;
    case "score":
      return run.score === null ? "–" : String(Number(run.score.toFixed(3)));
    case "calls":
      return (
        <>
          {count(run.tool_calls)}
          {run.tool_failures > 0 && (
            <span className="failed" title={`${run.tool_failures} failed`}>
              {" "}
              {run.tool_failures}✕
            </span>
          )}
        </>
      );
    case "tokens":
      return <span className="soft">{short(run.tokens)}</span>;
    case "cost":
      return cost(run);
    case "took":
      return <span className="soft">{briefly(run.seconds ?? run.age_seconds)}</span>;
    default: {
      const words = ago(run.last_activity, now);
      return (
        <time
          className={run.status === "working" ? "working" : "soft"}
          dateTime={run.last_activity ?? undefined}
          title={exact(run.last_activity)}
        >
          {words.replace(/ ago$/, "")}
          {words.endsWith(" ago") && <span className="unseen"> ago</span>}
        </time>
      );
    }
  }
}
