/** Two runs side by side: their totals, their steps in line, and the place where they part. */

import { useEffect, useMemo, useRef, useState } from "react";
import type { DiffAnswer, DiffRow, DiffStep, Shares, ShowAnswer } from "../lib/answers";
import { address } from "../lib/api";
import {
  figuresOf,
  hasFailed,
  linesOf,
  moreFigures,
  ordered,
  paired,
  shareFigures,
  turnFigures,
} from "../lib/compared";
import { go, href, runHref, setQuery, useRoute } from "../lib/route";
import { inert, start } from "../lib/text";
import { clock, count, day, duration } from "../lib/time";
import { useAnswer, useKeys, useNow } from "../lib/use";
import { Empty, ErrorCard, outcomeOf, placeOf, Text } from "../parts/bits";
import { plain } from "../parts/blocks";
import { Icon, StatusGlyph, toolIcon } from "../parts/icons";
import { RunPicker } from "../parts/run-picker";
import { Segmented, Tools } from "../parts/tools";
import { saying } from "../parts/why-steps";

const MOST = 500; // differences that are drawn at once
const WIDE = 4; // doublings from the middle of a bar to its end

type Only = "all" | "differences" | "failures";
const ONLY: readonly Only[] = ["all", "differences", "failures"];

const partsOf = (key: string): [string, string] => {
  const [family = "", ...rest] = key.split(":");
  return [family, rest.join(":")];
};

export default function Compare() {
  const { parts, query } = useRoute();
  const a = query.get("a") ?? parts[1] ?? "";
  const b = query.get("b") ?? parts[2] ?? "";
  const to = (first: string, second: string) => go(href(second ? ["compare", first, second] : ["compare", first]));
  const [picking, pick] = useState<"a" | "b" | null>(null);
  const { data, trouble, again } = useAnswer(a && b ? address("/api/diff", { a, b }) : null, "never");
  const other = useRun((picking === "a" ? b : a) || a);
  const swap = () => a && b && to(b, a);
  useKeys({ x: swap });
  return (
    <div className="compare">
      <h1 className="unseen">Compare</h1>
      <Tools>
        <button onClick={swap} disabled={!a || !b}>
          <Icon name="swap" size={13} /> Swap <kbd>X</kbd>
        </button>
        <button onClick={() => void navigator.clipboard?.writeText(location.href)} disabled={!a || !b}>
          <Icon name="link" size={13} /> Copy link
        </button>
      </Tools>
      <div className="sides">
        <Side name="A" run={a} change={() => pick("a")} />
        <Side name="B" run={b} change={() => pick("b")} />
      </div>
      {picking && (
        <RunPicker
          title={`Choose run ${picking.toUpperCase()}`}
          like={other}
          close={() => pick(null)}
          choose={(run) => {
            const key = `${run.family}:${run.run}`;
            pick(null);
            to(picking === "a" ? key : a || key, picking === "b" ? (a ? key : "") : b);
          }}
        />
      )}
      {!(a && b) && (
        <Empty title="Choose two runs: here, or by their boxes in Fleet." run="tracklog diff RUN_A RUN_B" />
      )}
      {trouble && <ErrorCard trouble={trouble} again={again} />}
      {data && (
        <div className="compared">
          <div className="compared-left">
            <Figures data={data} a={a} b={b} />
            <FailedCalls data={data} />
          </div>
          <Steps data={data} only={ONLY.find((each) => each === query.get("only")) ?? "all"} />
        </div>
      )}
    </div>
  );
}

function useRun(key: string): ShowAnswer | undefined {
  const [family, run] = partsOf(key);
  return useAnswer(run ? address("/api/runs/{family}/{run}", { family, run }) : null, "never").data;
}

function Side({ name, run: key, change }: { name: "A" | "B"; run: string; change: () => void }) {
  const run = useRun(key);
  const [family, id] = partsOf(key);
  const now = useNow(60_000);
  const began = run && (run.first_at ?? run.first_received);
  return (
    <section className={`side-card ${name.toLowerCase()}`} aria-label={`Run ${name}`}>
      <strong>{name}</strong>
      <div className="grow">
        {key ? (
          <a className="cut" href={runHref(run?.family ?? family, run?.run ?? id)}>
            {run && <StatusGlyph status={run.status} />} <Text>{run?.title ?? (id || key)}</Text>
          </a>
        ) : (
          <span className="soft">no run chosen</span>
        )}
        {run && (
          <p className="soft cut" title={inert(run.run)}>
            <Text>{[...whereOf(run), `${day(began, now)} ${clock(began).slice(0, 5)}`].join(" · ")}</Text>
          </p>
        )}
      </div>
      <button onClick={change}>{key ? "Change" : "Choose"}</button>
    </section>
  );
}

/** Its folder, its branch and its model. */
function whereOf(run: ShowAnswer): string[] {
  const model = run.model?.replace(/^claude-/, "");
  return [...placeOf({ ...run, model: null }), ...(model ? [model] : [])];
}

/** The seconds of a run by what was under way. */
function useShares(key: string): Shares | undefined {
  const [family, run] = partsOf(key);
  return useAnswer(run ? address("/api/runs/{family}/{run}/spans", { family, run, limit: 1 }) : null, "never").data
    ?.shares;
}

function useTurnsOf(key: string): number | undefined {
  const [family, run] = partsOf(key);
  return useAnswer(run ? address("/api/runs/{family}/{run}/turns", { family, run, limit: 1 }) : null, "never").data
    ?.turns;
}

function Figures({ data, a, b }: { data: DiffAnswer; a: string; b: string }) {
  const [first, second] = [useRun(a), useRun(b)];
  const [sharesA, sharesB] = [useShares(a), useShares(b)];
  const [turnsA, turnsB] = [useTurnsOf(a), useTurnsOf(b)];
  const figures = ordered([
    ...figuresOf(data.deltas),
    ...(first && second ? moreFigures(first, second) : []),
    ...(sharesA && sharesB ? shareFigures(sharesA, sharesB) : []),
    ...(turnsA !== undefined && turnsB !== undefined ? turnFigures(turnsA, turnsB) : []),
  ]);
  return (
    <section className="chart-card figures" aria-labelledby="compare-figures">
      <header>
        <h2 id="compare-figures">Figures</h2>
        <span className="grow" />
        <span className="soft">bars: B compared with A, each mark is twice the one before</span>
      </header>
      <table>
        <thead className="unseen">
          <tr>
            <th>figure</th>
            <th>A</th>
            <th>B</th>
            <th>bar</th>
            <th>difference</th>
          </tr>
        </thead>
        <tbody>
          {first && second && (
            <tr>
              <th scope="row">Outcome</th>
              {[first, second].map((run, n) => (
                <td key={n} className={`num ${run.status}`}>
                  <StatusGlyph status={run.status} /> {inert(outcomeOf(run).replace("–", run.status))}
                </td>
              ))}
              <td />
              <td />
            </tr>
          )}
          {figures.map((figure) => {
            const share = Math.min(Math.abs(figure.doublings) / WIDE, 1) * 50;
            return (
              <tr key={figure.name}>
                <th scope="row">{figure.name}</th>
                <td className="num">{figure.a}</td>
                <td className="num">
                  <b>{figure.b}</b>
                </td>
                <td className="log-bar">
                  <i
                    style={{
                      width: `${share}%`,
                      ...(figure.doublings < 0 ? { right: "50%" } : { left: "50%" }),
                    }}
                  />
                </td>
                <td className="num">{figure.change}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </section>
  );
}

/** How many calls of each run had failed up to each step; each run has its own line. */
function FailedCalls({ data: { failures_a: a, failures_b: b, at, same } }: { data: DiffAnswer }) {
  const [most, steps] = [Math.max(a.failed.length, b.failed.length), Math.max(a.steps, b.steps, 1)];
  if (!most) return null;
  const [wide, high] = [400, 200];
  const x = (step: number) => 26 + (step / steps) * (wide - 32);
  const y = (n: number) => high - 18 - (n / most) * (high - 28);
  const line = ({ steps: last, failed }: typeof a) =>
    `M${x(0)} ${y(0)}${failed.map((step, n) => `H${x(step)}V${y(n + 1)}`).join("")}H${x(last)}`;
  const ticks = [...new Set([0, Math.round(most / 2), most])];
  return (
    <section className="chart-card failed-calls" aria-labelledby="compare-failed">
      <header>
        <h2 id="compare-failed">Failed calls up to each step</h2>
        <span className="grow" />
        <span className="key a">A</span>
        <span className="key b">B</span>
      </header>
      <svg
        viewBox={`0 0 ${wide} ${high}`}
        role="img"
        aria-label={`Failed calls: A ${count(a.failed.length)} in ${count(a.steps)} steps, B ${count(b.failed.length)} in ${count(b.steps)} steps`}
      >
        {ticks.map((each) => (
          <g key={each}>
            <line className="grid" x1={x(0)} x2={wide - 6} y1={y(each)} y2={y(each)} />
            <text x={x(0) - 6} y={y(each) + 3} textAnchor="end">
              {each}
            </text>
          </g>
        ))}
        {!same && (
          <>
            <line className="parted" x1={x(at)} x2={x(at)} y1={y(most)} y2={y(0)} />
            <text x={x(at) + 4} y={y(most) + 8}>
              divergence
            </text>
          </>
        )}
        <path className="a" d={line(a)} />
        <path className="b" d={line(b)} />
        <text x={x(0)} y={high - 4}>
          step 1
        </text>
        <text x={wide - 6} y={high - 4} textAnchor="end">
          {count(steps)}
        </text>
      </svg>
    </section>
  );
}

function Steps({ data, only }: { data: DiffAnswer; only: Only }) {
  const [all, setAll] = useState(false);
  const [here, setHere] = useState(-1);
  const list = useRef<HTMLTableElement>(null);
  const lines = useMemo(() => paired(linesOf(data)), [data]);
  const wanted = (line: (typeof lines)[number]) =>
    only === "all" ||
    (line.kind === "row" &&
      (only === "differences" || hasFailed(line.row) || (line.results && hasFailed(line.results))));
  const shown = lines.filter(wanted).slice(0, all ? undefined : MOST);
  useEffect(() => {
    const first = list.current?.querySelector("tr.first");
    void first?.scrollIntoView({ block: "center" }); // a promise, in some browsers
  }, [data]);
  const step = (by: number) => {
    const rows = [...(list.current?.querySelectorAll("tr.difference") ?? [])];
    const next = Math.min(Math.max(here + by, 0), rows.length - 1);
    setHere(next);
    void rows[next]?.scrollIntoView({ block: "center" });
  };
  useKeys({ n: () => step(1), p: () => step(-1) });
  const { counts } = data;
  let difference = -1;
  return (
    <section className="chart-card steps" aria-labelledby="compare-steps">
      <header>
        <h2 id="compare-steps">Steps, aligned</h2>
        <span className={`about ${data.same ? "done" : "soft"}`}>
          {data.same
            ? "They are the same, step by step."
            : `${count(counts.same)} same, ${count(counts.changed)} differ, ${count(counts.only_a)} only in A, ${count(counts.only_b)} only in B`}
        </span>
        <span className="grow" />
        <Segmented
          label="Steps shown"
          value={only}
          options={[
            ["all", "All"],
            ["differences", "Differences"],
            ["failures", "Failures"],
          ]}
          onChange={(next) => setQuery({ only: next === "all" ? "" : next })}
        />
      </header>
      <table className="diff" ref={list}>
        <colgroup>
          <col />
          <col className="how" />
          <col />
        </colgroup>
        <thead>
          <tr>
            <th>A, {count(data.failures_a.steps)} steps</th>
            <th>
              <span className="unseen">how</span>
            </th>
            <th>B, {count(data.failures_b.steps)} steps</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((line, n) => {
            if (line.kind === "same")
              return (
                <tr key={n} className="same">
                  <td colSpan={3}>
                    {count(line.steps)} {line.steps === 1 ? "step" : "steps"} the same
                  </td>
                </tr>
              );
            difference += 1;
            return (
              <Difference
                key={n}
                row={line.row}
                results={line.results}
                first={line.first}
                here={difference === here}
                a={data.a}
                b={data.b}
                at={data.at}
              />
            );
          })}
        </tbody>
      </table>
      {!all && lines.length > MOST && (
        <button onClick={() => setAll(true)}>Show {count(lines.length - MOST)} more</button>
      )}
      <p className="soft keys-hint">
        <kbd>N</kbd> <kbd>P</kbd> next, previous difference
      </p>
    </section>
  );
}

const SIGNS: Record<DiffRow["kind"], string> = { changed: "≠", only_a: "−", only_b: "+" };

interface DifferenceProps {
  readonly row: DiffRow;
  readonly results: DiffRow | undefined;
  readonly first: boolean;
  readonly here: boolean;
  readonly a: string;
  readonly b: string;
  readonly at: number;
}

function Difference({ row, results, first, here, a, b, at }: DifferenceProps) {
  const [open, setOpen] = useState(false);
  const changes = [...row.changes, ...(results?.changes ?? [])];
  const both =
    row.kind === "changed"
      ? `the same step, with other content: ${fragment(row.changes[0])}`
      : row.kind === "only_a"
        ? `only A does this: ${start(row.a?.words ?? "", 80)}`
        : `only B does this: ${start(row.b?.words ?? "", 80)}`;
  return (
    <>
      {first && (
        <tr className="divergence">
          <td colSpan={3}>
            <Icon name="flag" size={13} /> <b>First divergence, step {at + 1}</b> <Text>{both}</Text>
          </td>
        </tr>
      )}
      <tr className={`difference ${row.kind}${first ? " first" : ""}${here ? " here" : ""}`}>
        <td className={row.a ? "" : "none"}>
          <Words side={row.a} result={results?.a ?? null} of={a} />
        </td>
        <td className="how">
          {changes.length ? (
            <button
              className="quiet"
              aria-expanded={open || here}
              aria-label={`What differs in step ${row.b?.step ?? row.a?.step}`}
              title="what differs"
              onClick={() => setOpen(!open)}
            >
              {SIGNS[row.kind]}
            </button>
          ) : (
            SIGNS[row.kind]
          )}
        </td>
        <td className={row.b ? "" : "none"}>
          <Words side={row.b} result={results?.b ?? null} of={b} />
        </td>
      </tr>
      {(open || here) && changes.length > 0 && (
        <tr className="changes">
          <td colSpan={3}>
            {changes.map((change, n) => (
              <div key={n} className="small">
                <code>{plain(change.pointer)}</code>: <del>{plain(change.a)}</del> <ins>{plain(change.b)}</ins>
              </div>
            ))}
          </td>
        </tr>
      )}
    </>
  );
}

/** A change in a few words. */
function fragment(change: DiffRow["changes"][number] | undefined): string {
  if (!change) return "";
  const words = (value: unknown) => start(plain(value), 40);
  return `A ${words(change.a)}, B ${words(change.b)}`;
}

/** A step; of a call with its result, what it was given, and how long it took. */
function Words({ side, result, of }: { side: DiffStep | null; result: DiffStep | null; of: string }) {
  if (!side) return <span className="unseen">nothing</span>;
  const [family, run] = partsOf(of);
  const { tool, words } = calledOf(side);
  const failed = side.failed || result?.failed;
  const seconds = result?.seconds ?? side.seconds;
  return (
    <a
      className={`step${failed ? " failed" : ""}`}
      href={runHref(family, run, { seq: side.seq })}
      title={`record ${side.seq}`}
    >
      <Icon name={tool ? toolIcon(tool) : (ICONS[side.fact] ?? "right")} size={13} />
      {tool && <span className="mono">{inert(tool)}</span>}
      <span className="words grow cut" title={inert(words)}>
        <Text>{words}</Text>
      </span>
      {failed && <StatusGlyph status="failed" />}
      {seconds !== null && <span className="soft num">{duration(seconds)}</span>}
    </a>
  );
}

const ICONS: Record<string, "reply" | "shield" | "person" | "flag" | "sub" | "robot"> = {
  Said: "reply",
  Decided: "shield",
  Asked: "person",
  Answered: "person",
  Noted: "flag",
  Linked: "sub",
  Began: "robot",
  Ended: "robot",
};

/** The tool of a call or a result, and what says most of it: `Bash(command=ls)` is `Bash` and `ls`. */
function calledOf({ fact, words }: DiffStep): { tool: string; words: string } {
  return fact === "Called" || fact === "Returned" ? saying({ words }) : { tool: "", words };
}
