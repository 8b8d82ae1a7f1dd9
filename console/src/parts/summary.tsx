/** What a run is, in one card: how it stands, what it came to and cost, whether its record is whole. */

import { useRef, useState } from "react";
import type { ShowAnswer } from "../lib/answers";
import { address, filled } from "../lib/api";
import { href, runHref } from "../lib/route";
import { inert } from "../lib/text";
import { cost, count, duration, exact, short } from "../lib/time";
import { useAnswer, useNow } from "../lib/use";
import { outcomeOf, placeOf, StatusMark, Text, When } from "./bits";
import { Controls } from "./hosts";

const AGENTS = 12; // that are named

export function Summary({ run, at, records }: { run: ShowAnswer; at: number; records: number | null }) {
  const now = useNow();
  const spent = run.cost_with_sub_runs ?? run;
  const counted = run.cost_with_sub_runs?.runs ?? 1;
  const began = run.first_at ?? run.first_received;
  const over = run.ended || run.status === "lost" || run.status === "done";
  const sofar = at || over ? null : (now - Date.parse(began)) / 1000;
  const told: [string, string | null, string?][] = [
    ["outcome", outcomeOf(run)],
    ["score", run.score === null ? null : String(Number(run.score.toFixed(3))), String(run.score)],
    run.seconds === null
      ? ["so far", sofar !== null && sofar >= 0 ? duration(Math.floor(sofar)) : null]
      : ["took", duration(run.seconds)],
    ["tool calls", `${count(run.tool_calls)}${run.tool_failures ? `, ${run.tool_failures} failed` : ""}`],
    ["tokens", run.tokens === null ? null : short(run.tokens), count(run.tokens)],
    [
      counted > 1 ? `cost of ${counted} runs` : "cost",
      spent.cost_usd === null && spent.computed_usd === null ? null : cost(spent),
    ],
  ];
  const facts = told.filter((each) => each[1] !== null);
  const more = run.agents.length - AGENTS;
  const agents = run.agents.slice(0, AGENTS).join(", ") + (more > 0 ? ` and ${more} more` : "");
  const names = [`${run.family}:${run.run}`, run.dialects.join(", "), agents, ...placeOf(run)].filter(Boolean);
  return (
    <section className="card summary" aria-label="Summary">
      <div className="row">
        <StatusMark status={run.status} />
        <h1 className="grow" title={inert(run.title ?? run.run)}>
          <Text>{run.title ?? run.run}</Text>
        </h1>
        {at > 0 && <span className="waiting">as it was at record {at}</span>}
        <When at={run.last_activity} now={now} />
      </div>
      <p className="row small soft">
        {names.map((name, n) => (
          <span key={n} className={n ? "" : "mono"}>
            <Text>{name}</Text>
          </span>
        ))}
        <span title={exact(began)}>began {exact(began).slice(0, 19)}</span>
      </p>
      <div className="row about">
        <dl className="facts grow">
          {facts.map(([name, value, title]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd title={title}>
                <Text>{value}</Text>
              </dd>
            </div>
          ))}
        </dl>
        <div className="row small">
          <Proof family={run.family} run={run.run} records={records} />
          <a href={href(["diff"], { a: `${run.family}:${run.run}` })}>Compare</a>
          <Downloads family={run.family} run={run.run} />
        </div>
      </div>
      {(run.loops ?? []).slice(0, 3).map((loop) => (
        <p key={`${loop.first_seq}/${loop.tool}`} className="waiting small finding">
          <span aria-hidden="true">⟳ </span>
          <a href={runHref(run.family, run.run, { seq: loop.last_seq })}>
            <Text>{`${loop.tool}(${loop.input ?? ""})`}</Text>
          </a>{" "}
          was called {loop.times} times with the same input
        </p>
      ))}
      {!run.ended && !at && <Controls family={run.family} run={run.run} />}
    </section>
  );
}

const LONG = 5_000; // records

/** Checked at once where that costs little; of a long run only when asked. */
function Proof({ family, run, records }: { family: string; run: string; records: number | null }) {
  const [wanted, want] = useState(false);
  const short = useRef(false);
  short.current ||= records !== null && records <= LONG; // it may grow; what was proven was proven
  const asked = wanted || short.current;
  const { data, trouble } = useAnswer(
    asked ? address("/api/runs/{family}/{run}/proof", { family, run, check: true }) : null,
    "never",
  );
  if (!asked) return <button onClick={() => want(true)}>Verify this run</button>;
  if (trouble) return <span className="failed">not verified: {inert(trouble.message)}</span>;
  if (!data || !("faults" in data)) return <span className="soft">verifying …</span>;
  const [first] = data.faults;
  if (!data.whole)
    return (
      <span className="failed">
        ✗ changed: record {first?.seq} does not match the chain of hashes; <code>tracklog verify</code> says more
      </span>
    );
  return (
    <span className="done" title={`each of its ${data.records} records is in the hash chain, unchanged`}>
      ✓ verified
    </span>
  );
}

interface Document {
  paths: Record<string, { get?: { parameters?: { name: string; schema?: { enum?: string[] } }[] } }>;
}

function Downloads({ family, run }: { family: string; run: string }) {
  const [open, setOpen] = useState(false);
  const { data } = useAnswer(open ? address("/api/openapi.json") : null, "never");
  const asked =
    (data?.paths as Document["paths"] | undefined)?.["/api/export/{format}/{family}/{run}"]?.get?.parameters ?? [];
  const formats = asked.find((each) => each.name === "format")?.schema?.enum ?? [];
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Download</summary>
      <span className="row">
        {formats.map((format) => (
          <a key={format} download href={filled("/api/export/{format}/{family}/{run}", { format, family, run })}>
            {format}
          </a>
        ))}
      </span>
    </details>
  );
}
