/** What a run is, above its tabs: how it stands, what it took and cost, whether its record is unchanged. */

import type { RunMarks, ShowAnswer } from "../lib/answers";
import { href, runHref } from "../lib/route";
import { inert } from "../lib/text";
import { cost, count, duration, exact, percent, short } from "../lib/time";
import { useNow } from "../lib/use";
import { Model, outcomeOf, Text, When } from "./bits";
import { Controls } from "./hosts";
import { Icon, StatusGlyph } from "./icons";
import { Proof } from "./proof";
import { Crumbs } from "./tools";

const AGENTS = 12; // that are named

interface Props {
  readonly run: ShowAnswer;
  /** Everything is shown as it was at this record; 0 for now. */
  readonly at: number;
  /** How many records it has; null while it loads. */
  readonly records: number | null;
  readonly turns: number;
  readonly subRuns: number;
}

export function RunHeader({ run, at, records, turns, subRuns }: Props) {
  const now = useNow();
  const spent = run.cost_with_sub_runs ?? run;
  const counted = run.cost_with_sub_runs?.runs ?? 1;
  const began = run.first_at ?? run.first_received;
  const over = run.ended || run.status === "lost" || run.status === "done";
  const sofar = at || over ? null : (now - Date.parse(began)) / 1000;
  const input = (run.tokens_in ?? 0) + 0;
  const cached = run.tokens_cached && input ? `${percent(Math.min(run.tokens_cached / input, 1))} cached` : "";
  const waits = run.asks.map((each) => each.waiting_seconds ?? 0);
  const told = spent.cost_usd !== null && spent.computed_usd !== null ? `$${spent.cost_usd.toFixed(2)} reported` : "";
  const facts: { name: string; value: string | null; beside?: string; title?: string; failed?: string }[] = [
    { name: "outcome", value: run.outcome || Object.keys(run.outcomes).length ? outcomeOf(run) : null },
    {
      name: "score",
      value: run.score === null ? null : String(Number(run.score.toFixed(3))),
      title: String(run.score),
    },
    run.seconds === null
      ? { name: "so far", value: sofar !== null && sofar >= 0 ? duration(Math.floor(sofar)) : null }
      : { name: "took", value: duration(run.seconds) },
    { name: "turns", value: turns ? count(turns) : null },
    {
      name: "tool calls",
      value: count(run.tool_calls),
      ...(run.tool_failures ? { failed: ` ${count(run.tool_failures)}✕` } : {}),
    },
    { name: "sub-runs", value: subRuns ? count(subRuns) : null },
    { name: "tokens", value: run.tokens === null ? null : short(run.tokens), beside: cached, title: count(run.tokens) },
    {
      name: counted > 1 ? `cost of ${counted} runs` : "cost",
      value: spent.cost_usd === null && spent.computed_usd === null ? null : cost(spent),
      beside: told,
    },
  ];
  const more = run.agents.length - AGENTS;
  const agents = run.agents.slice(0, AGENTS).join(", ") + (more > 0 ? ` and ${more} more` : "");
  return (
    <section className="run-head" aria-label="Summary">
      <div className="run-title">
        <span className={`state ${run.status}`}>
          <StatusGlyph status={run.status} /> {run.status}
          {run.status === "waiting" && waits.length > 0 && ` ${duration(Math.floor(Math.max(...waits)))}`}
        </span>
        <h1 title={inert(run.title ?? run.run)}>
          <Text>{run.title ?? run.run}</Text>
        </h1>
        {at > 0 && <span className="as-of">as it was at record {at}</span>}
        <span className="grow" />
        <When at={run.last_activity} now={now} />
        <Proof family={run.family} run={run.run} records={records} />
      </div>
      <div className="run-figures">
        <dl className="facts">
          {facts
            .filter((each) => each.value !== null)
            .map(({ name, value, beside, title, failed }) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd title={title}>
                  <Text>{value}</Text>
                  {failed && (
                    <span className="failed">
                      {failed}
                      <span className="unseen"> failed</span>
                    </span>
                  )}
                  {beside && <small className="soft"> {beside}</small>}
                </dd>
              </div>
            ))}
        </dl>
        <ul className="about-run" aria-label="Where it ran">
          {run.model && (
            <li title={inert(run.models.join(", "))}>
              <Icon name="robot" size={12} /> <Model name={run.model} />
              {run.models.length > 1 && ` +${run.models.length - 1}`}
            </li>
          )}
          {run.project && (
            <li title={inert(run.project)}>
              <Text>{run.project.split(/[\\/]/).filter(Boolean).pop()}</Text>
            </li>
          )}
          {run.branch && (
            <li>
              <Icon name="sub" size={12} /> <Text>{run.branch}</Text>
            </li>
          )}
          <li className="mono" title={`${inert(run.run)}, began ${exact(began)}`}>
            <span className="cut">
              <Text>{`${run.family}:${run.run}`}</Text>
            </span>
          </li>
          {agents && (
            <li className="cut" title={inert(`${run.dialects.join(", ")}: ${agents}`)}>
              <Text>{agents}</Text>
            </li>
          )}
        </ul>
      </div>
      {(run.loops ?? []).slice(0, 3).map((loop) => (
        <p key={`${loop.first_seq}/${loop.tool}`} className="warn small finding">
          <span aria-hidden="true">⟳ </span>
          <a href={runHref(run.family, run.run, { seq: loop.last_seq })}>
            <Text>{`${loop.tool}(${loop.input ?? ""})`}</Text>
          </a>{" "}
          was called {loop.times} times with the same input
        </p>
      ))}
      <Marks marks={run.marks} />
      {!run.ended && !at && <Controls family={run.family} run={run.run} />}
    </section>
  );
}

/** Where the run is, in the bar above the page: its project and its name. */
export function RunCrumbs({ run: { project, run, title } }: { run: ShowAnswer }) {
  return (
    <Crumbs>
      {project && (
        <li className="cut">
          <a href={href([], { project })}>
            <Text>{project.split(/[\\/]/).filter(Boolean).pop()}</Text>
          </a>
        </li>
      )}
      <li className="cut last">
        <strong>
          <Text>{title ?? run}</Text>
        </strong>
      </li>
    </Crumbs>
  );
}

/** What people noted about the run: `tracklog mark` and `POST /api/marks` add to it. */
function Marks({ marks: { tags, score, notes, seen, seen_by } }: { marks: RunMarks }) {
  if (!tags.length && score === null && !notes && !seen) return null;
  return (
    <ul className="about-run run-marks" aria-label="Marks of people">
      {tags.map((tag) => (
        <li key={tag}>
          <Text>{tag}</Text>
        </li>
      ))}
      {score !== null && <li>score {score}</li>}
      {notes > 0 && <li>{notes === 1 ? "1 note" : `${notes} notes`}</li>}
      {seen && (
        <li>
          seen{seen_by && " by "}
          <Text>{seen_by}</Text>
        </li>
      )}
    </ul>
  );
}
