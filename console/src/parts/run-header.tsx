/** What a run is, above its tabs: how it stands, what it took and cost, whether its records are unchanged. */

import type { RunMarks, ShowAnswer } from "../lib/answers";
import { href, runHref } from "../lib/route";
import { inert, telling } from "../lib/text";
import { ago, cost, count, duration, exact, percent, short } from "../lib/time";
import { useNow } from "../lib/use";
import { Model, outcomeOf, Pairs, Text } from "./bits";
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
  /** Goes to the next failure. */
  readonly fail: () => void;
}

export function RunHeader({ run, at, records, turns, subRuns, fail }: Props) {
  const now = useNow();
  const spent = run.cost_with_sub_runs ?? run;
  const counted = run.cost_with_sub_runs?.runs ?? 1;
  const began = run.first_at ?? run.first_received;
  const over = run.ended || run.status === "lost" || run.status === "done";
  const sofar = at || over ? null : (now - Date.parse(began)) / 1000;
  const input = (run.tokens_in ?? 0) + 0;
  const cached = run.tokens_cached && input ? `${percent(Math.min(run.tokens_cached / input, 1))} cached` : "";
  const waits = run.asks.map((each) => each.waiting_seconds ?? 0);
  const reported =
    spent.cost_usd !== null && spent.computed_usd !== null ? `$${spent.cost_usd.toFixed(2)} reported` : "";
  const waited = run.waited_seconds ? `${duration(Math.floor(run.waited_seconds))} waiting` : "";
  const facts: { name: string; value: string | null; beside?: string; title?: string; failed?: string }[] = [
    { name: "outcome", value: run.outcome || Object.keys(run.outcomes).length ? outcomeOf(run) : null },
    {
      name: "score",
      value: run.score === null ? null : String(Number(run.score.toFixed(3))),
      title: String(run.score),
    },
    run.seconds === null
      ? { name: "so far", value: sofar !== null && sofar >= 0 ? duration(Math.floor(sofar)) : null, beside: waited }
      : { name: "took", value: duration(run.seconds), beside: waited },
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
      beside: reported,
    },
  ];
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
        <span className="unseen">
          <Text>{`${run.family}:${run.run}`}</Text>
        </span>
        {at > 0 && <span className="as-of">as it was at record {at}</span>}
        <span className="grow" />
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
                    <button
                      className="link"
                      onClick={fail}
                      aria-label={`${count(run.tool_failures)} failed`}
                      title="go to the next failure  ."
                    >
                      {failed}
                    </button>
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
              <Icon name="file" size={12} /> <Text>{run.project.split(/[\\/]/).filter(Boolean).pop()}</Text>
            </li>
          )}
          {run.branch && (
            <li>
              <Icon name="branch" size={12} /> <Text>{run.branch}</Text>
            </li>
          )}
        </ul>
      </div>
      <Loops run={run} />
      <Marks marks={run.marks} />
      {!run.ended && !at && <Controls family={run.family} run={run.run} />}
    </section>
  );
}

/** Calls that were repeated with the same input: the first, and how many more the tab of costs lists. */
function Loops({ run: { family, run, loops } }: { run: ShowAnswer }) {
  const [first, ...more] = loops ?? [];
  if (!first) return null;
  return (
    <p className="warn small finding">
      <span aria-hidden="true">⟳</span>
      <a className="cut" href={runHref(family, run, { seq: first.last_seq })}>
        <Text>{`${first.tool}(${telling(first.input ?? "")})`}</Text>
      </a>
      <span>was called {count(first.times)} times with the same input</span>
      {more.length > 0 && (
        <a className="more" href={href(["run", family, run, "cost"])}>
          {count(more.length)} more
        </a>
      )}
    </p>
  );
}

/** Behind three dots: what a run is called, who took part, and when. */
export function MoreAbout({ run }: { run: ShowAnswer }) {
  const now = useNow();
  const unnamed = run.agents.length - AGENTS;
  const pairs: [string, string][] = [
    ["Run", `${run.family}:${run.run}`],
    ["Agents", run.agents.slice(0, AGENTS).join(", ") + (unnamed > 0 ? ` and ${unnamed} more` : "")],
    ["Sources", run.dialects.join(", ")],
    ["Began", exact(run.first_at ?? run.first_received)],
    ["Last event", `${ago(run.last_activity, now)}, ${exact(run.last_activity)}`],
    ["Folder", run.project ?? ""],
  ];
  return (
    <details className="menu more-about">
      <summary aria-label="More about this run">⋯</summary>
      <div className="sheet">
        <Pairs pairs={pairs} />
      </div>
    </details>
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
