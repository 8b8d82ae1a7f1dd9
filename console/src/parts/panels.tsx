/** What stands below the charts: who is at work, how runs and tools do, who won. */

import { useMemo } from "react";
import { address } from "../lib/api";
import { runHref } from "../lib/route";
import { inert } from "../lib/text";
import { count, duration, percent } from "../lib/time";
import { useAnswer, useNow } from "../lib/use";
import { aggregateRuns24h } from "../lib/workspace/ralph-runs";
import { AgentsNow, AgentsOverall } from "./agents";
import { Card, Text } from "./bits";
import { type Bar, Plot } from "./plot";

export function Panels() {
  return (
    <div className="grid">
      <All />
    </div>
  );
}

function All() {
  const now = useNow();
  const tools = useAnswer(address("/api/tools"));
  const leaders = useAnswer(address("/api/leaderboard"));
  return (
    <>
      <AgentsNow now={now} />
      <RalphRuns />
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
