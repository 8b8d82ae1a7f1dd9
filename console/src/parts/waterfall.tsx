/** A run as rows over time: turns, model calls, tool calls, waits and sub-runs. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { type CSSProperties, type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import type { Shares, ShowAnswer, TurnRow } from "../lib/answers";
import { address } from "../lib/api";
import { type Axis, axisOf, gapsOf } from "../lib/axis";
import { setQuery, useRoute } from "../lib/route";
import type { RunRecords } from "../lib/run-records";
import { inert } from "../lib/text";
import { clock, cost, duration, percent } from "../lib/time";
import { tokensOf, useTurns } from "../lib/turns";
import { useAnswer, useKeys, useLast } from "../lib/use";
import { aboveOf, byTool, isFrame, merged, type Row, timed, unfolded } from "../lib/waterfall";
import { Model, Text } from "./bits";
import { argumentOf } from "./entry";
import { Icon, StatusGlyph, toolIcon } from "./icons";
import { MiniMap, timesIn } from "./mini-map";
import { RowDock } from "./row-dock";

const HIGH = 23;
const FEW = 40; // turns that are open at first
const MOST = 20_000; // rows that are asked for at once
const MANY = 2_000; // rows in view; of more, those that begin in one pixel are one
const PIXELS = 640; // of the bars

interface Props {
  readonly family: string;
  readonly run: string;
  readonly runRecords: RunRecords;
  readonly shown: ShowAnswer | undefined;
  readonly seq: number;
  readonly at: number;
  readonly choose: (seq: number) => void;
  /** What rows stand for. */
  readonly rowsBy: ReactNode;
}

const NONE: readonly Row[] = [];
type Filter = "all" | "failed" | "waits";

/** The rows of a run; of one with too many, those of a range of time. */
export function useSpans(family: string, run: string, at: number, range?: readonly [number, number]) {
  const asked = { family, run, limit: MOST, ...(at ? { at } : {}) };
  const fresh = at ? "never" : { family, run };
  const all = useLast(useAnswer(address("/api/runs/{family}/{run}/spans", asked), fresh).data);
  const [t0, t1] = (range ?? []).map((each) => new Date(each).toISOString());
  const some = useLast(
    useAnswer(all?.cut && t0 && t1 ? address("/api/runs/{family}/{run}/spans", { ...asked, t0, t1 }) : null, fresh)
      .data,
  );
  const answer = (all?.cut && range && some) || all;
  return useMemo(() => answer && { ...answer, rows: timed(answer.rows) }, [answer]);
}

export function Waterfall({ family, run, runRecords, shown, seq, at, choose, rowsBy }: Props) {
  const { query } = useRoute();
  const [t0, t1] = [Date.parse(query.get("t0") ?? ""), Date.parse(query.get("t1") ?? "")];
  const range = useMemo((): readonly [number, number] | undefined => (t1 > t0 ? [t0, t1] : undefined), [t0, t1]);
  const spans = useSpans(family, run, at, range);
  const tools = query.get("rows") === "tools";
  const rows = useMemo(() => (tools ? byTool(spans?.rows ?? NONE) : (spans?.rows ?? NONE)), [spans, tools]);
  const toggled = useMemo((): ReadonlySet<string> => new Set(query.getAll("open")), [query]);
  const [filter, setFilter] = useState<Filter>("all");
  const [onPath, setOnPath] = useState(false);
  const [text, setText] = useState("");
  const axis = useMemo(() => {
    const [begin, end] = [Date.parse(spans?.begin ?? ""), Date.parse(spans?.end ?? "")];
    const moments = rows.flatMap((row) => [row.begin, row.end]);
    return axisOf(gapsOf(moments, begin, end), begin, Math.max(end, begin + 1));
  }, [rows, spans?.begin, spans?.end]);
  const [low, high] = range ? [axis.x(range[0]), axis.x(range[1])] : [0, 1];
  const setWindow = ([from, to]: readonly [number, number]) => {
    const whole = from <= 0 && to >= 1;
    const time = (share: number) => (whole ? "" : new Date(axis.time(share)).toISOString());
    setQuery({ t0: time(from), t1: time(to) });
  };
  const parents = useMemo(() => new Set(rows.map((row) => row.parent)), [rows]);
  const closedAtFirst = (tools ? rows.length : rows.filter((row) => row.kind === "turn").length) > FEW;
  // A result stands in the row of its call. What a link names is open at first; it can be closed.
  const ofRow = runRecords.seqs[runRecords.rows[runRecords.row(seq)] ?? -1] ?? seq;
  const linked = useRef(seq);
  const opened = runRecords.seqs[runRecords.rows[runRecords.row(linked.current)] ?? -1] ?? linked.current;
  const above = useMemo(() => aboveOf(rows, opened), [rows, opened]);
  const isOpen = (row: Row) =>
    row.kind === "run" || !parents.has(row.id) || toggled.has(row.id) !== (!closedAtFirst || above.has(row.id));
  /** What is behind the name of a row: of a turn, what was said in it; of a call, its argument. */
  const detailOf = (row: Row): string => {
    const record = runRecords.held(row.seq);
    if (row.kind === "tool") {
      const calls = record?.facts.filter((fact) => fact.fact === "Called" && fact.tool === row.name) ?? [];
      return calls[0] && calls.length === 1 ? argumentOf(calls[0]) : "";
    }
    if (row.kind !== "turn") return row.depth === 1 ? (row.agent ?? "") : "";
    return record?.facts.some((fact) => fact.fact === "Said") ? record.words : "";
  };
  const wanted = (row: Row) =>
    (filter === "all" || (filter === "failed" ? row.failed : row.wait)) &&
    (!onPath || row.on_path) &&
    (!text || `${nameOf(row)} ${detailOf(row)}`.toLowerCase().includes(text.toLowerCase()));
  const narrowed = filter !== "all" || onPath || text !== "";
  const visible = narrowed
    ? rows.filter((row) => row.kind === "run" || (wanted(row) && (!isFrame(row) || (row.kind === "step" && !onPath))))
    : unfolded(rows, isOpen);
  const before = visible.filter((row) => row.depth > 0 && axis.x(row.end) < low).length;
  const box = useRef<HTMLDivElement>(null);
  const within = visible.filter((row) => row.depth === 0 || (axis.x(row.end) >= low && axis.x(row.begin) <= high));
  const behind = visible.length - within.length - before;
  const inWindow =
    within.length > MANY ? merged(within, (at) => Math.floor(((axis.x(at) - low) / (high - low)) * PIXELS)) : within;
  const list = useVirtualizer({
    count: inWindow.length,
    getScrollElement: () => box.current,
    estimateSize: () => HIGH,
    overscan: 10,
    useFlushSync: false,
  });
  const zoom = (factor: number, middle = (low + high) / 2) => {
    const half = Math.min(((high - low) / 2) * factor, 0.5);
    const begin = Math.min(Math.max(middle - half, 0), 1 - 2 * half);
    setWindow([begin, begin + 2 * half]);
  };
  const pan = (by: number) => {
    const wide = high - low;
    const begin = Math.min(Math.max(low + by * wide, 0), 1 - wide);
    setWindow([begin, begin + wide]);
  };
  // A turn and its first call have one record: the row that was pressed counts, else the call.
  const [pressed, setPressed] = useState("");
  const isHere = (row: Row) => seq > 0 && row.seq === ofRow && row.kind !== "run";
  const exact = inWindow.findIndex((row) => row.id === pressed && isHere(row));
  const here = exact < 0 ? inWindow.findLastIndex(isHere) : exact;
  const press = (row: Row) => {
    setPressed(row.id);
    choose(row.seq);
  };
  const step = (by: number) => {
    const next = inWindow[Math.min(Math.max(here + by, 0), inWindow.length - 1)];
    if (!next) return;
    press(next);
    list.scrollToIndex(inWindow.indexOf(next));
  };
  // Over the bars the wheel zooms, and a drag moves the window; over the names the list scrolls.
  const held = useRef<number | null>(null);
  const shareOf = ({ clientX }: { readonly clientX: number }): number | null => {
    const area = box.current?.querySelector(".wf-track")?.getBoundingClientRect();
    return area && clientX >= area.left ? (clientX - area.left) / area.width : null;
  };
  const wheel = useRef<(event: WheelEvent) => void>(() => undefined);
  wheel.current = (event) => {
    const share = shareOf(event);
    if (share === null || !event.deltaY) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, low + share * (high - low));
  };
  const there = spans !== undefined;
  useEffect(() => {
    const on = (event: WheelEvent) => wheel.current(event);
    const of = box.current;
    of?.addEventListener("wheel", on, { passive: false });
    return () => of?.removeEventListener("wheel", on);
  }, [there]);
  // A link leads to its row, once.
  const shownFor = useRef(0);
  useEffect(() => {
    if (here < 0 || shownFor.current === seq) return;
    shownFor.current = seq;
    if (!pressed) list.scrollToIndex(here, { align: "center" });
  }, [here, seq, pressed, list]);
  const toggle = ({ id }: Row) =>
    setQuery({ open: toggled.has(id) ? [...toggled].filter((each) => each !== id) : [...toggled, id] });
  useKeys({
    "+": () => zoom(0.5),
    "-": () => zoom(2),
    "0": () => setWindow([0, 1]),
    ArrowLeft: () => pan(-0.2),
    ArrowRight: () => pan(0.2),
    j: () => step(1),
    k: () => step(-1),
    ArrowDown: () => step(1),
    ArrowUp: () => step(-1),
  });
  const drawn = list
    .getVirtualItems()
    .map((item) => ({ row: inWindow[item.index], top: item.start, even: item.index % 2 === 0 }));
  const models = drawn.flatMap(({ row }) => (row?.kind === "model" ? [row.seq] : []));
  const turns = useTurns(family, run, models);
  if (!spans) return <p className="soft pad">Loading …</p>;
  if (rows.length < 2) return <p className="soft pad">No turn, call, wait or step was recorded.</p>;
  const chosen = inWindow[here];
  const failed = rows.filter((row) => row.failed && row.depth > 0).length;
  const waits = rows.filter((row) => row.wait).length;
  const place: Placed = { axis, low, high };
  return (
    <div className="waterfall">
      <ShareBar shares={spans.shares} />
      <div className="toolbar">
        <span className="box">
          <Icon name="search" size={14} />
          <input
            type="search"
            aria-label="Filter rows"
            placeholder="Filter rows"
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
        </span>
        {rowsBy}
        <button className={onPath ? "chip on" : "chip"} aria-pressed={onPath} onClick={() => setOnPath(!onPath)}>
          <i className="path-mark" aria-hidden="true" /> Critical path {duration(spans.path_seconds)}
        </button>
        {(
          [
            ["failed", `Failed ${failed}`, "failed"],
            ["waits", `Waits ${waits}`, "waiting"],
          ] as const
        ).map(([key, words, status]) => (
          <button
            key={key}
            className={filter === key ? "chip on" : "chip"}
            aria-pressed={filter === key}
            onClick={() => setFilter(filter === key ? "all" : key)}
          >
            <StatusGlyph status={status} /> {words}
          </button>
        ))}
        <span className="grow" />
        <span className="soft keys-hint">
          <kbd>+</kbd> <kbd>-</kbd> zoom <kbd>←</kbd> <kbd>→</kbd> pan <kbd>0</kbd> all
        </span>
        <button
          onClick={() =>
            setQuery({
              open: closedAtFirst
                ? []
                : rows.filter((row) => parents.has(row.id) && row.kind !== "run").map((row) => row.id),
            })
          }
        >
          Collapse
        </button>
        <button aria-label="Zoom in" onClick={() => zoom(0.5)}>
          +
        </button>
        <button aria-label="Zoom out" onClick={() => zoom(2)}>
          −
        </button>
      </div>
      <div className="wf-head">
        <span>Step</span>
        <span className="num">Took</span>
        <span className="num">Cost</span>
        <MiniMap rows={rows} axis={axis} low={low} high={high} onWindow={(from, to) => setWindow([from, to])} />
      </div>
      <div
        className="wf-rows"
        ref={box}
        role="treegrid"
        aria-label="Waterfall"
        aria-rowcount={inWindow.length}
        tabIndex={0}
        style={{ "--wf-grid": gridOf(timesIn(axis, low, high)) } as CSSProperties}
        onPointerDown={(event) => {
          held.current = event.button === 0 ? shareOf(event) : null;
        }}
        onPointerMove={(event) => {
          const share = event.buttons === 1 ? shareOf(event) : null;
          if (held.current === null || share === null || Math.abs(share - held.current) < 0.02) return;
          pan(held.current - share);
          held.current = share;
        }}
      >
        {before > 0 && (
          <button className="link wf-fold" onClick={() => setWindow([0, high])}>
            {before} rows before {clock(new Date(axis.time(low)).toISOString()).slice(0, 5)}
          </button>
        )}
        <div style={{ height: list.getTotalSize(), position: "relative" }} role="rowgroup">
          {drawn.map(
            ({ row, top, even }) =>
              row && (
                <RowView
                  key={row.id}
                  row={row}
                  name={row.kind === "run" ? (shown?.title ?? shown?.run ?? run) : nameOf(row)}
                  detail={row.kind === "model" ? wordsOf(turns, row) : detailOf(row)}
                  top={top}
                  even={even}
                  place={place}
                  open={parents.has(row.id) ? isOpen(row) : null}
                  spent={cost(row.kind === "run" && shown ? (shown.cost_with_sub_runs ?? shown) : row)}
                  chosen={row === chosen}
                  choose={press}
                  toggle={toggle}
                />
              ),
          )}
        </div>
        {behind > 0 && (
          <button className="link wf-fold" onClick={() => setWindow([low, 1])}>
            {behind} rows after {clock(new Date(axis.time(high)).toISOString()).slice(0, 5)}
          </button>
        )}
      </div>
      {chosen && (
        <RowDock
          family={family}
          run={run}
          runRecords={runRecords}
          row={chosen}
          name={nameOf(chosen)}
          detail={chosen.kind === "model" ? wordsOf(turns, chosen) : detailOf(chosen)}
          turn={/^turn (\d+)/.exec(rows.find((row) => row.id === chosen.parent)?.name ?? "")?.[1] ?? ""}
          path={spans.path_seconds}
          alike={
            isFrame(chosen)
              ? []
              : rows
                  .filter((row) => row.kind === chosen.kind && row.name === chosen.name && !row.open)
                  .map((row) => row.seconds)
          }
        />
      )}
    </div>
  );
}

/** The name of a row; that of a sub-run without its family. */
function nameOf(row: Row): string {
  const name =
    row.name ?? { wait: "a question", model: row.agent ?? "model", tool: "a tool" }[row.kind as string] ?? "";
  if (row.kind === "sub-run") return name.slice(name.indexOf(":") + 1);
  return row.kind === "turn" ? `Turn${name.slice(4)}` : name;
}

/** A line behind the bars at each of the times. */
const gridOf = (times: readonly { readonly x: number }[]): string =>
  times.map(({ x }) => `linear-gradient(var(--grid) 0 0) ${x.toFixed(2)}% 0 / 1px 100% no-repeat`).join(", ") || "none";

const wordsOf = (turns: readonly TurnRow[], row: Row): string => {
  const turn = turns.find((each) => each.seq === row.seq);
  return turn ? tokensOf(turn) : "";
};

interface Placed {
  readonly axis: Axis;
  readonly low: number;
  readonly high: number;
}

interface RowProps {
  readonly row: Row;
  readonly name: string;
  readonly detail: string;
  readonly top: number;
  readonly even: boolean;
  readonly place: Placed;
  readonly open: boolean | null;
  readonly spent: string;
  readonly chosen: boolean;
  readonly choose: (row: Row) => void;
  readonly toggle: (row: Row) => void;
}

const ICONS = {
  run: "robot",
  turn: "reply",
  model: "thought",
  tool: "tool",
  wait: "person",
  "sub-run": "sub",
  step: "right",
} as const;

function RowView({
  row,
  name,
  detail,
  top,
  even,
  place: { axis, low, high },
  open,
  spent,
  chosen,
  choose,
  toggle,
}: RowProps) {
  const share = (at: number) => ((axis.x(at) - low) / (high - low)) * 100;
  const [left, right] = [Math.max(share(row.begin), -1), Math.min(share(row.end), 101)];
  const took = duration(row.seconds);
  const style = { left: `${left}%`, width: `max(${right - left}%, 2px)` };
  const late = right > 82;
  return (
    <div
      className={`wf-row ${row.kind}${row.failed ? " bad" : ""}${even ? " even" : ""}${chosen ? " chosen" : ""}`}
      role="row"
      aria-level={row.depth + 1}
      aria-selected={chosen}
      {...(open === null ? {} : { "aria-expanded": open })}
      style={{ transform: `translateY(${top}px)`, "--depth": row.depth } as CSSProperties}
    >
      <span role="gridcell" className="wf-name">
        {open !== null && row.kind !== "run" ? (
          <button className="quiet" aria-label={open ? "Close" : "Open"} onClick={() => toggle(row)}>
            <Icon name={open ? "down" : "right"} size={12} />
          </button>
        ) : (
          <i className="wf-pad" />
        )}
        <Icon name={row.kind === "tool" ? toolIcon(name) : ICONS[row.kind]} size={13} />
        <button className="quiet cut" title={inert(`${name} ${detail}`)} onClick={() => choose(row)}>
          <b>{row.kind === "model" ? <Model name={name} /> : <Text>{name}</Text>}</b>{" "}
          <span className="soft">
            <Text>{detail}</Text>
          </span>
        </button>
      </span>
      <span role="gridcell" className="num">
        {took}
      </span>
      <span role="gridcell" className="num">
        {spent.replace("–", "")}
      </span>
      <span role="gridcell" className="wf-track">
        <i className={row.on_path ? "bar path" : "bar"} style={style} />
        <small
          className={late ? "soft late" : "soft"}
          style={late ? { right: `${100 - left}%` } : { left: `${right}%` }}
        >
          {row.failed && <b className="failed">✕ </b>}
          {row.kind !== "run" && took}
          {row.times && ` ×${row.times}`}
        </small>
      </span>
    </div>
  );
}

function ShareBar({ shares }: { shares: Shares }) {
  const parts = [
    ["model", "Model", shares.model],
    ["tool", "Tools and sub-runs", shares.tools],
    ["waiting", "Waiting for a person", shares.waiting],
    ["silent", "Nothing recorded", shares.nothing],
  ] as const;
  const all = parts.reduce((sum, [, , each]) => sum + each, 0) || 1;
  return (
    <div className="share-bar">
      <span className="bars" aria-hidden="true">
        {parts.map(([key, , each]) => each > 0 && <i key={key} className={key} style={{ flexGrow: each / all }} />)}
      </span>
      <ul>
        {parts.map(([key, label, each]) => (
          <li key={key}>
            <i className={key} /> {label} <strong>{percent(each / all)}</strong>{" "}
            <span className="soft">{duration(each)}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}
