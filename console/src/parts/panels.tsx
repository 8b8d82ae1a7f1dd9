/** What the fleet comes to: who is at work, how runs, tools and audits do, what is spent, who won. */

import { useMemo } from "react";
import type { HourRow } from "../lib/answers";
import { address } from "../lib/api";
import { runHref } from "../lib/route";
import { inert } from "../lib/text";
import { clock, cost, count, duration, money, percent, short } from "../lib/time";
import { useAnswer, useNow } from "../lib/use";
import { aggregateRuns24h } from "../lib/workspace/ralph-runs";
import { AgentsNow, AgentsOverall } from "./agents";
import { Card, Text } from "./bits";
import { type Bar, Plot } from "./plot";

const label = (from: string) => clock(from).slice(0, 5);

function Hours() {
  const { data } = useAnswer(address("/api/hours", { count: 24 }));
  if (!data) return null;
  const plot = (of: (hour: HourRow) => number | null, part?: (hour: HourRow) => number | null): Bar[] =>
    data.map((hour) => ({
      label: label(hour.begin),
      value: of(hour) ?? 0,
      ...(part ? { part: part(hour) ?? 0 } : {}),
    }));
  const sum = (of: (hour: HourRow) => number | null) => data.reduce((all, hour) => all + (of(hour) ?? 0), 0);
  const calls = sum((hour) => hour.calls);
  const paid = (hour: HourRow) => hour.cost_usd ?? hour.computed_usd;
  const slow = data.map((hour) => hour.p95_seconds).filter((each) => each !== null);
  const tokens = sum((hour) => hour.total_tokens);
  if (!calls && !tokens && !sum(paid))
    return (
      <Card title="Tools, tokens, cost" more={<span className="soft small">24 hours</span>}>
        <p className="soft">Nothing was called or spent.</p>
      </Card>
    );
  return (
    <>
      <Card title="Tool calls" more={<span className="soft small">24 hours</span>}>
        <Figure big={count(calls)} beside={calls ? `${percent(sum((h) => h.failures) / calls)} failed` : ""} />
        <Plot
          bars={plot(
            (h) => h.calls,
            (h) => h.failures,
          )}
          name="Tool calls by the hour, and how many failed"
          say={(n, bad) => `${count(n)} calls${bad ? `, ${count(bad)} failed` : ""}`}
        />
      </Card>
      <Card title="Tool latency" more={<span className="soft small">24 hours</span>}>
        <Figure big={slow.length ? duration(Math.max(...slow)) : "–"} beside="slowest p95 of an hour" />
        <Plot bars={plot((h) => h.p95_seconds)} name="95th percentile by the hour" say={duration} />
      </Card>
      <Card title="Tokens" more={<span className="soft small">24 hours</span>}>
        <Figure big={short(tokens)} beside="tokens" />
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

export function Panels({ bare }: { bare: boolean }) {
  if (bare) return <p className="empty">Nothing was recorded yet.</p>;
  return (
    <div className="grid">
      <All />
    </div>
  );
}

function All() {
  const now = useNow();
  const tools = useAnswer(address("/api/tools"));
  const audits = useAnswer(address("/api/audits", { window: "7d" }));
  const leaders = useAnswer(address("/api/leaderboard"));
  const costs = useAnswer(address("/api/costs", { by: ["model"] }));
  return (
    <>
      <AgentsNow now={now} />
      <RalphRuns />
      <Hours />
      <AgentsOverall />
      {!!tools.data?.length && (
        <Card title="Tools">
          <table className="tools">
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
                  <td className="cut" title={inert(tool.tool)}>
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
                  <td className="cut" title={inert(audit.checkpoint)}>
                    <Text>{audit.checkpoint}</Text>
                  </td>
                  <td className="num">{audit.passed}</td>
                  <td className="num">{audit.failed}</td>
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
            <thead>
              <tr>
                <th>model</th>
                <th className="num">tokens</th>
                <th className="num">cost</th>
              </tr>
            </thead>
            <tbody>
              {costs.data.slice(0, 8).map((row) => (
                <tr key={row.of ?? "?"}>
                  <td className="cut" title={inert(row.of ?? "")}>
                    <Text>{row.of ?? "no model named"}</Text>
                  </td>
                  <td className="num">{short(row.total_tokens)}</td>
                  <td className="num">{cost(row)}</td>
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
    </>
  );
}

/** The colours of flakiness, as the fold names them. */
const COLOURS: Record<string, string> = { green: "done", amber: "waiting", red: "failed" };

/** `dash/ralph-runs`: the pass rate of 24 hours, hour by hour. */
export function RalphRuns({ alone = false }: { alone?: boolean }) {
  const { data } = useAnswer(address("/api/outcomes/runs", { hours: 25 }));
  const now = useNow(30_000);
  const ended = useMemo(() => data ?? [], [data]);
  if (!ended.length && !(alone && data)) return null;
  const sum = aggregateRuns24h(ended, new Date(now).toISOString());
  const bars: Bar[] = Array.from({ length: 24 }, (_, n) => {
    const end = now - (23 - n) * 3_600_000;
    const hour = ended.filter((run) => {
      const at = Date.parse(String(run.ended_at));
      return at > end - 3_600_000 && at <= end;
    });
    const { failed } = aggregateRuns24h(hour, new Date(end).toISOString());
    return { label: n === 23 ? "now" : `${23 - n} h ago`, value: hour.length, part: failed };
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
        <Plot
          bars={bars}
          name="Runs that ended, by the hour; failures in red"
          say={(n, bad) => `${n} ${n === 1 ? "run" : "runs"}${bad ? `, ${bad} failed` : ""}`}
        />
        <p className="small soft">
          {sum.flakes} flaky · {sum.in_flight} in flight
          {sum.convergence_mean !== null && <> · convergence {sum.convergence_mean.toFixed(2)}</>}
        </p>
      </Card>
    </div>
  );
}
