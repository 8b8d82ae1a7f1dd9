/** The agents: which are at work, what each reports, and how each did over all its runs. */

import type { AgentRow } from "../lib/answers";
import { address } from "../lib/api";
import { runHref } from "../lib/route";
import { inert } from "../lib/text";
import { count, duration, exact } from "../lib/time";
import { useAnswer } from "../lib/use";
import { Card, Text, When } from "./bits";

const SHOWN = 8;

/** The agents at work and what each reports; it changes as they do. */
export function AgentsNow({ now }: { now: number }) {
  const { data } = useAnswer(address("/api/agents/now"));
  if (!data?.length) return null;
  return (
    <Card title="Agents at work" more={<span className="soft small">{count(data.length)}</span>}>
      <ul className="agents">
        {data.slice(0, SHOWN).map((agent) => (
          <li key={`${agent.family}:${agent.run}/${agent.agent}`}>
            <a className="cut" href={runHref(agent.family, agent.run, { seq: agent.last_seq })}>
              <Text>{agent.agent}</Text>
            </a>
            <When at={agent.last_activity} now={now} />
            <span className="cut soft small">
              <Text>{agent.reason ?? agent.task ?? agent.run}</Text>
            </span>
            <span className={`phase ${agent.phase ?? "working"}`}>
              <Text>{agent.status ?? agent.phase ?? "working"}</Text>
            </span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

const REGRESSED = 1000; // points that only a regression has

/** How each agent did over all its runs: who did worse than before, then the busiest. */
export function AgentsOverall() {
  const { data } = useAnswer(address("/api/agents"));
  if (!data?.length) return null;
  const worse = (agent: AgentRow) => Number(agent.severity >= REGRESSED);
  const sorted = [...data].sort((a, b) => worse(b) - worse(a));
  return (
    <Card title="Agents over all runs" more={<span className="soft small">{count(data.length)}</span>}>
      <ul className="agents">
        {sorted.slice(0, SHOWN).map((agent) => (
          <li key={agent.agent}>
            <span className="cut" title={inert(agent.agent)}>
              <Text>{agent.agent}</Text>
              {agent.severity >= REGRESSED && (
                <span className="failed small" title="its last run failed, the one before had passed">
                  {" "}
                  regressed
                </span>
              )}
            </span>
            <Segments of={agent.outcomes} />
            <span className="soft small cut" title={`last seen ${exact(agent.last_seen)}`}>
              {count(agent.run_count)} {agent.run_count === 1 ? "run" : "runs"}
              {agent.p50_seconds !== null &&
                ` · p50 ${duration(agent.p50_seconds)} · p95 ${duration(agent.p95_seconds)}`}
            </span>
            <Spark scores={agent.scores.slice(-24)} mean={agent.mean_score} />
          </li>
        ))}
      </ul>
    </Card>
  );
}

/** A histogram in one bar; its numbers on hover and for those who cannot see it. */
function Segments({ of }: { of: Record<string, number> }) {
  const all = Object.values(of).reduce((sum, n) => sum + n, 0) || 1;
  const known = Object.entries(of).filter(([, n]) => n > 0);
  const words = inert(known.map(([name, n]) => `${name} ${n}`).join(", "));
  return (
    <span className="segments" role="img" aria-label={words} title={words}>
      {known.map(([name, n]) => (
        <span key={name} className={`segment ${name}`} style={{ width: `${(n / all) * 100}%` }} />
      ))}
    </span>
  );
}

/** Scores one after another, from 0 at the bottom to 1 at the top. */
function Spark({ scores, mean }: { scores: readonly number[]; mean: number | null }) {
  if (mean === null) return <span />;
  const x = (n: number) => (scores.length < 2 ? 50 : (n / (scores.length - 1)) * 100);
  const points = scores.map((score, n) => `${x(n).toFixed(1)},${(19 - score * 18).toFixed(1)}`).join(" ");
  return (
    <span className="spark soft small num" title={`mean score ${mean.toFixed(2)}`}>
      {scores.length > 1 && (
        <svg viewBox="0 0 100 20" preserveAspectRatio="none" aria-hidden="true">
          <polyline points={points} />
        </svg>
      )}
      {mean.toFixed(2)}
    </span>
  );
}
