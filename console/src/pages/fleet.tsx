/** The whole fleet at a glance, what needs a person first. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState } from "react";
import type { Question, Run, Status } from "../lib/api";
import { runHref, setQuery, useRoute } from "../lib/route";
import { inert } from "../lib/text";
import { clock, count, duration, money, percent, short } from "../lib/time";
import { useAnswer, useKeys, useNow } from "../lib/use";
import { aggregateRuns24h, type RalphRun } from "../lib/workspace/ralph-runs";
import { Card, Empty, Sorry, StatusMark, Text, When } from "../parts/bits";
import { Plot, type Bar } from "../parts/plot";
import { Asked } from "../parts/question";
import { keyOf, useLooked } from "./inbox";

const NEED: readonly Status[] = ["waiting", "failed", "lost", "working", "done"];
const ROW = 42;
export const WINDOWS: Record<string, number> = { "1h": 3600, "24h": 86_400, "7d": 604_800 };

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
  // The latest are on the screen while the rest is still on its way.
  const latest = useAnswer<Run[]>("/api/runs?limit=200", false);
  const all = useAnswer<Run[]>(latest.data || latest.trouble ? "/api/runs?limit=10000" : null);
  const data = all.data ?? latest.data;
  const trouble = all.trouble ?? latest.trouble;
  const inbox = useAnswer<Question[]>("/api/inbox");
  const filter = useFilter();
  const now = useNow();
  const runs = useMemo(() => [...(data ?? [])].sort(byNeed), [data]);
  const shown = useMemo(() => filtered(runs, filter, Date.now()), [runs, filter]);
  const waiting = useLooked(inbox.data);
  if (trouble && !data) return <Sorry trouble={trouble} />;
  return (
    <div className="stack">
      {waiting.length > 0 && (
        <section className="stack asked" aria-label="Waiting for you">
          {waiting.slice(0, 3).map((question) => (
            <Asked key={keyOf(question)} question={question} />
          ))}
          {waiting.length > 3 && <a href="#/inbox">{waiting.length - 3} more wait for you</a>}
        </section>
      )}
      <h1 className="unseen">Fleet</h1>
      <Counts runs={runs} filter={filter} />
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
      <Panels now={now} />
    </div>
  );
}

/** How many runs are how; each count is a filter. */
function Counts({ runs, filter }: { runs: readonly Run[]; filter: Filter }) {
  return (
    <ul className="counts" aria-label="Runs by status">
      {NEED.map((status) => {
        const many = runs.filter((run) => run.status === status).length;
        const on = filter.status === status;
        return (
          <li key={status}>
            <button
              className={`count ${many ? status : "soft"}`}
              aria-pressed={on}
              onClick={() => setQuery({ status: on ? "" : status })}
            >
              <span className="big">{count(many)}</span> {status}
            </button>
          </li>
        );
      })}
    </ul>
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
          <select aria-label={label} value={filter[key]} onChange={(event) => setQuery({ [key]: event.target.value })}>
            <option value="">any</option>
            {options.map((option) => (
              <option key={option} value={option}>
                {inert(option)}
              </option>
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
        <div ref={box} className="window" tabIndex={-1}>
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

interface Hour {
  from: string;
  calls: number | null;
  failures: number | null;
  p50_seconds: number | null;
  p95_seconds: number | null;
  total_tokens: number | null;
  cost_usd: number | null;
  computed_usd: number | null;
}
interface AgentNow {
  family: string;
  run: string;
  agent: string;
  status: string | null;
  phase: string | null;
  reason: string | null;
  task: string | null;
  last_seq: number;
  last_received: string;
}

/** Who is under way, and what each says it is doing; it changes as they do. */
function Agents({ now }: { now: number }) {
  const { data } = useAnswer<AgentNow[]>("/api/agents/now");
  if (!data?.length) return null;
  return (
    <Card title="Agents under way" more={<span className="soft small">{count(data.length)}</span>}>
      <ul className="agents">
        {data.slice(0, 8).map((agent) => (
          <li key={`${agent.family}:${agent.run}/${agent.agent}`}>
            <a className="cut" href={runHref(agent.family, agent.run, { seq: agent.last_seq })}>
              <Text>{agent.agent}</Text>
            </a>
            <span className={`phase ${agent.phase ?? "working"}`}>
              <Text>{agent.status ?? agent.phase ?? "under way"}</Text>
            </span>
            <When at={agent.last_received} now={now} />
            <span className="cut soft small task">
              <Text>{agent.reason ?? agent.task ?? agent.run}</Text>
            </span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

const label = (from: string) => clock(from).slice(0, 5);

function Hours() {
  const { data } = useAnswer<Hour[]>("/api/hours?count=24");
  if (!data) return null;
  const plot = (of: (hour: Hour) => number | null, part?: (hour: Hour) => number | null): Bar[] =>
    data.map((hour) => ({
      label: label(hour.from),
      value: of(hour) ?? 0,
      ...(part ? { part: part(hour) ?? 0 } : {}),
    }));
  const sum = (of: (hour: Hour) => number | null) => data.reduce((all, hour) => all + (of(hour) ?? 0), 0);
  const calls = sum((hour) => hour.calls);
  const paid = (hour: Hour) => hour.cost_usd ?? hour.computed_usd;
  const slow = data.map((hour) => hour.p95_seconds).filter((each) => each !== null);
  return (
    <>
      <Card title="Tool calls" more={<span className="soft small">24 hours</span>}>
        <Figure big={count(calls)} beside={`${percent(calls ? sum((h) => h.failures) / calls : null)} failed`} />
        <Plot
          bars={plot((h) => h.calls, (h) => h.failures)}
          name="Tool calls by the hour, and how many failed"
          say={(n, bad) => `${count(n)} calls${bad ? `, ${count(bad)} failed` : ""}`}
        />
      </Card>
      <Card title="Tool latency" more={<span className="soft small">24 hours</span>}>
        <Figure big={slow.length ? duration(Math.max(...slow)) : "–"} beside="slowest p95 of an hour" />
        <Plot bars={plot((h) => h.p95_seconds)} name="95th percentile by the hour" say={duration} />
      </Card>
      <Card title="Tokens" more={<span className="soft small">24 hours</span>}>
        <Figure big={short(sum((h) => h.total_tokens))} beside="tokens" />
        <Plot bars={plot((h) => h.total_tokens)} name="Tokens by the hour" say={(n) => `${short(n)} tokens`} />
      </Card>
      <Card title="Cost" more={<span className="soft small">24 hours</span>}>
        <Figure big={money(sum(paid))} beside="spent" />
        <Plot bars={plot(paid)} name="Cost by the hour" say={money} />
      </Card>
    </>
  );
}

function Figure({ big, beside }: { big: string; beside: string }) {
  return (
    <div className="row">
      <span className="big">{big}</span>
      <span className="soft">{beside}</span>
    </div>
  );
}

function Panels({ now }: { now: number }) {
  const tools = useAnswer<Tool[]>("/api/tools");
  const audits = useAnswer<Audit[]>("/api/audits?window=7d");
  const leaders = useAnswer<Won[]>("/api/leaderboard");
  const costs = useAnswer<Cost[]>("/api/costs?by=model");
  return (
    <div className="grid">
      <Agents now={now} />
      <RalphRuns />
      <Hours />
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
                  <td className="cut">
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
                  <td className="cut">
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
                  <td className="cut">
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
