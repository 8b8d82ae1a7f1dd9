/** The whole fleet at a glance, what needs a person first. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState } from "react";
import type { Question, Run, Status } from "../lib/api";
import { runHref, setQuery, useRoute } from "../lib/route";
import { count, duration, money, percent, short } from "../lib/time";
import { useAnswer, useKeys, useNow } from "../lib/use";
import { aggregateRuns24h, type RalphRun } from "../lib/workspace/ralph-runs";
import { Card, Empty, Sorry, StatusMark, Text, When } from "../parts/bits";
import { Plot, type Bar } from "../parts/plot";
import { Asked } from "../parts/question";
import { open } from "./inbox";

const NEED: readonly Status[] = ["waiting", "failed", "lost", "working", "done"];
const ROW = 42;
const WINDOWS: Record<string, number> = { "1h": 3600, "24h": 86_400, "7d": 604_800 };

/** What needs a person first; among equals the one heard last. */
export function byNeed(a: Run, b: Run): number {
  return NEED.indexOf(a.status) - NEED.indexOf(b.status) || b.last_seq - a.last_seq;
}

export interface Filter {
  readonly status: string;
  readonly dialect: string;
  readonly agent: string;
  readonly outcome: string;
  readonly within: string;
  readonly text: string;
}

export function filtered(runs: readonly Run[], filter: Filter, now: number): Run[] {
  const since = WINDOWS[filter.within];
  const text = filter.text.toLowerCase();
  return runs.filter(
    (run) =>
      (!filter.status || run.status === filter.status) &&
      (!filter.dialect || run.dialects.includes(filter.dialect)) &&
      (!filter.agent || run.agents.includes(filter.agent)) &&
      (!filter.outcome || run.outcome === filter.outcome || filter.outcome in run.outcomes) &&
      (!since || now - Date.parse(run.last_received) < since * 1000) &&
      (!text || `${run.run} ${run.title ?? ""} ${run.agents.join(" ")}`.toLowerCase().includes(text)),
  );
}

function useFilter(): Filter {
  const { query } = useRoute();
  const of = (name: string) => query.get(name) ?? "";
  return {
    status: of("status"),
    dialect: of("dialect"),
    agent: of("agent"),
    outcome: of("outcome"),
    within: of("within"),
    text: of("text"),
  };
}

export function Fleet() {
  const { data, trouble } = useAnswer<Run[]>("/api/runs?limit=10000");
  const inbox = useAnswer<Question[]>("/api/inbox");
  const filter = useFilter();
  const now = useNow();
  const runs = useMemo(() => [...(data ?? [])].sort(byNeed), [data]);
  const shown = useMemo(() => filtered(runs, filter, Date.now()), [runs, filter]);
  if (trouble && !data) return <Sorry trouble={trouble} />;
  const waiting = open(inbox.data ?? []);
  return (
    <div className="stack">
      {waiting.length > 0 && (
        <section className="stack" aria-label="Waiting for you">
          {waiting.slice(0, 3).map((question) => (
            <Asked
              key={`${question.family}:${question.run}/${question.question_id}`}
              question={question}
            />
          ))}
          {waiting.length > 3 && <a href="#/inbox">{waiting.length - 3} more wait for you</a>}
        </section>
      )}
      <h1 className="unseen">Fleet</h1>
      <Filters runs={runs} filter={filter} />
      {data && !data.length ? (
        <Empty
          title="Nothing was recorded yet."
          run={
            "tracklog import                 # the agents on this machine\n" +
            "some-agent | tracklog record    # a pipe\n" +
            "tracklog demo                   # a fleet to look at"
          }
        />
      ) : (
        <Runs runs={shown} now={now} all={runs.length} />
      )}
      <Panels />
    </div>
  );
}

function Filters({ runs, filter }: { runs: Run[]; filter: Filter }) {
  const words = (of: (run: Run) => readonly string[]) => [...new Set(runs.flatMap(of))].sort();
  const choices: [keyof Filter, string, string[]][] = [
    ["status", "status", [...NEED]],
    ["dialect", "dialect", words((run) => run.dialects)],
    ["agent", "agent", words((run) => run.agents).slice(0, 500)],
    ["outcome", "outcome", words((run) => (run.outcome ? [run.outcome] : Object.keys(run.outcomes)))],
    ["within", "heard within", Object.keys(WINDOWS)],
  ];
  return (
    <div className="filters" role="search" aria-label="Filter runs">
      <input
        type="search"
        aria-label="Filter by text"
        placeholder="Filter runs"
        value={filter.text}
        onChange={(event) => setQuery({ text: event.target.value })}
      />
      {choices.map(([key, label, options]) => (
        <label key={key}>
          {label}
          <select value={filter[key]} onChange={(event) => setQuery({ [key]: event.target.value })}>
            <option value="">any</option>
            {options.map((option) => (
              <option key={option}>{option}</option>
            ))}
          </select>
        </label>
      ))}
    </div>
  );
}

function Runs({ runs, all, now }: { runs: Run[]; all: number; now: number }) {
  const box = useRef<HTMLDivElement>(null);
  const [here, setHere] = useState(-1);
  const rows = useVirtualizer({
    count: runs.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW,
    overscan: 12,
  });
  useEffect(() => {
    if (here >= 0) rows.scrollToIndex(here);
  }, [here, rows]);
  useKeys({
    j: () => setHere((n) => Math.min(n + 1, runs.length - 1)),
    k: () => setHere((n) => Math.max(n - 1, 0)),
    ArrowDown: () => setHere((n) => Math.min(n + 1, runs.length - 1)),
    ArrowUp: () => setHere((n) => Math.max(n - 1, 0)),
    Enter: () => {
      const run = runs[here];
      if (run) location.hash = runHref(run.family, run.run);
    },
  });
  return (
    <section aria-label="Runs">
      <p className="soft small">
        {count(runs.length)} {runs.length === all ? "runs" : `of ${count(all)} runs`}
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
          <span className="num">heard</span>
        </div>
        <div ref={box} style={{ maxHeight: "70vh", overflow: "auto" }} tabIndex={-1}>
          <div style={{ height: rows.getTotalSize(), position: "relative" }}>
            {rows.getVirtualItems().map((item) => {
              const run = runs[item.index];
              if (!run) return null;
              return (
                <div
                  key={`${run.family}:${run.run}`}
                  ref={rows.measureElement}
                  data-index={item.index}
                  style={{ position: "absolute", top: 0, left: 0, right: 0, transform: `translateY(${item.start}px)` }}
                >
                  <Row run={run} now={now} here={item.index === here} />
                </div>
              );
            })}
          </div>
        </div>
      </div>
    </section>
  );
}

function Row({ run, now, here }: { run: Run; now: number; here: boolean }) {
  const outcome = run.outcome ?? Object.entries(run.outcomes).map(([k, n]) => `${k} ${n}`).join(", ");
  return (
    <a className={here ? "run here" : "run"} href={runHref(run.family, run.run)}>
      <StatusMark status={run.status} />
      <span className="title-cell cut">
        <span className="title">
          <Text>{run.title ?? run.run}</Text>
        </span>{" "}
        <span className="soft small mono">
          <Text>{run.title ? run.run : run.dialects.join(", ")}</Text>
        </span>
      </span>
      <span className="outcome cut">
        <Text>{outcome || "–"}</Text>
      </span>
      <span className="cut soft">
        <Text>{run.agents.join(", ") || "–"}</Text>
      </span>
      <span className="num">
        {count(run.tool_calls)}
        {run.tool_failures > 0 && <span className="failed"> {run.tool_failures}✗</span>}
      </span>
      <span className="num">{short(run.tokens)}</span>
      <span className="num">{money(run.cost_usd)}</span>
      <span className="num when">
        <When at={run.last_received} now={now} />
      </span>
    </a>
  );
}

interface Tool {
  tool: string;
  calls: number;
  failures: number;
  failure_rate: number;
  p50_seconds: number | null;
  p95_seconds: number | null;
}
interface Audit {
  checkpoint: string;
  total: number;
  pass: number;
  fail: number;
  warn: number;
  flakiness: number;
  colour: string;
}
interface Won {
  family: string;
  run_id: string;
  scenario: string;
  winner: string | null;
  winning_model: string | null;
  finished_at: string | null;
  turns: number;
}
interface Cost {
  of: string | null;
  total_tokens: number | null;
  cost_usd: number | null;
  computed_usd: number | null;
  lower_bound: boolean;
}

function Panels() {
  const tools = useAnswer<Tool[]>("/api/tools");
  const audits = useAnswer<Audit[]>("/api/audits?window=7d");
  const leaders = useAnswer<Won[]>("/api/leaderboard");
  const costs = useAnswer<Cost[]>("/api/costs?by=model");
  return (
    <div className="grid">
      <RalphRuns />
      {!!tools.data?.length && (
        <Card title="Tools">
          <table>
            <thead>
              <tr>
                <th>tool</th>
                <th className="num">calls</th>
                <th className="num">failed</th>
                <th className="num">p50</th>
                <th className="num">p95</th>
              </tr>
            </thead>
            <tbody>
              {tools.data.slice(0, 8).map((tool) => (
                <tr key={tool.tool}>
                  <td className="cut" style={{ maxWidth: "12rem" }}>
                    <Text>{tool.tool}</Text>
                  </td>
                  <td className="num">{count(tool.calls)}</td>
                  <td className={tool.failures ? "num failed" : "num"}>{percent(tool.failure_rate)}</td>
                  <td className="num">{duration(tool.p50_seconds)}</td>
                  <td className="num">{duration(tool.p95_seconds)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Card>
      )}
      {!!audits.data?.length && (
        <Card title="Audits" more={<span className="soft small">7 days</span>}>
          <table>
            <thead>
              <tr>
                <th>checkpoint</th>
                <th className="num">pass</th>
                <th className="num">fail</th>
                <th className="num">flaky</th>
              </tr>
            </thead>
            <tbody>
              {audits.data.slice(0, 8).map((audit) => (
                <tr key={audit.checkpoint}>
                  <td className="cut" style={{ maxWidth: "12rem" }}>
                    <Text>{audit.checkpoint}</Text>
                  </td>
                  <td className="num">{audit.pass}</td>
                  <td className="num">{audit.fail}</td>
                  <td className={`num ${COLOURS[audit.colour] ?? ""}`}>{percent(audit.flakiness)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Card>
      )}
      {!!costs.data?.length && (
        <Card title="Cost by model">
          <table>
            <tbody>
              {costs.data.slice(0, 8).map((cost) => (
                <tr key={cost.of ?? "?"}>
                  <td className="cut" style={{ maxWidth: "12rem" }}>
                    <Text>{cost.of ?? "no model told"}</Text>
                  </td>
                  <td className="num">{short(cost.total_tokens)} tokens</td>
                  <td className="num">
                    {cost.lower_bound && "≥ "}
                    {money(cost.cost_usd ?? cost.computed_usd)}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Card>
      )}
      {!!leaders.data?.length && (
        <Card title="Leaderboard">
          <ol>
            {leaders.data.slice(0, 8).map((won) => (
              <li key={`${won.family}:${won.run_id}`}>
                <a href={runHref(won.family, won.run_id)}>
                  <Text>{won.winner ?? "nobody"}</Text>
                </a>{" "}
                <span className="soft small">
                  <Text>{[won.winning_model, won.scenario].filter(Boolean).join(" · ")}</Text>
                </span>
              </li>
            ))}
          </ol>
        </Card>
      )}
    </div>
  );
}

const COLOURS: Record<string, string> = { green: "done", yellow: "waiting", red: "failed" };

/** `dash/ralph-runs`: the pass rate of 24 hours, hour by hour. */
function RalphRuns() {
  const { data } = useAnswer<RalphRun[]>("/api/outcomes/runs");
  const now = useNow(30_000);
  const ended = useMemo(() => data ?? [], [data]);
  if (!ended.length) return null;
  const sum = aggregateRuns24h(ended, new Date(now).toISOString());
  const bars: Bar[] = Array.from({ length: 24 }, (_, n) => {
    const end = now - (23 - n) * 3_600_000;
    const hour = ended.filter((run) => {
      const at = Date.parse(String(run.ended_at));
      return at > end - 3_600_000 && at <= end;
    });
    const { failed } = aggregateRuns24h(hour, new Date(end).toISOString());
    return { label: `${23 - n} h ago`, value: hour.length, part: failed };
  });
  return (
    <div id="dash/ralph-runs">
      <Card title="Runs in 24 hours">
        <div className="row">
          <span className="big">{percent(sum.pass_rate)}</span>
          <span className="soft">
            passed: {sum.passed} of {sum.passed + sum.failed}
          </span>
        </div>
        <Plot bars={bars} name="Runs that ended, by the hour; failures in red" say={(n) => `${n} runs`} />
        <p className="small soft">
          {sum.flakes} flaky · {sum.in_flight} in flight
          {sum.convergence_mean !== null && <> · convergence {sum.convergence_mean.toFixed(2)}</>}
        </p>
      </Card>
    </div>
  );
}
