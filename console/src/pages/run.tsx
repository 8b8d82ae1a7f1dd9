/** One run: what happened, when, why, and what the state was at any moment. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useEffect, useMemo, useRef, useState } from "react";
import { runPath, type Fact, type Finding, type Run, type Told } from "../lib/api";
import { href, runHref, setQuery, useRoute } from "../lib/route";
import { callKey, moment, useStory, type Call, type Shape } from "../lib/story";
import { inert } from "../lib/text";
import { clock, count, duration, exact, money, short } from "../lib/time";
import { useAnswer, useKeys, useNow } from "../lib/use";
import { Empty, Sorry, StatusMark, Text, When } from "../parts/bits";
import { Blocks, plain, Value } from "../parts/blocks";
import { Detail } from "../parts/detail";
import { Lifecycle } from "../parts/lifecycle";
import { Strip, Timeline } from "../parts/timeline";

interface Shown extends Run {
  aliases?: string[];
  cost_with_sub_runs?: {
    runs: number;
    cost_usd: number | null;
    computed_usd: number | null;
    lower_bound: boolean;
  };
}

interface Branch {
  key: string;
  depth: number;
  missing: boolean;
}

const VIEWS = ["transcript", "timeline", "stage", "lifecycle", "findings", "tree"] as const;
type View = (typeof VIEWS)[number];
const ILLEGAL = "illegal-transition";
const STAGE = ["world", "thought", "belief", "note"];

const choose = (seq: number) => setQuery({ seq: seq ? String(seq) : "" });

export default function RunPage() {
  const { parts, query } = useRoute();
  const [, family = "", run = ""] = parts;
  const seq = Number(query.get("seq") ?? 0);
  const at = Number(query.get("at") ?? 0);
  const view = (query.get("view") ?? "transcript") as View;
  const key = `${family}:${run}`;
  const summary = useAnswer<Shown>(runPath(family, run, at ? `?at=${at}` : ""), !at);
  const findings = useAnswer<Finding[]>(`/api/findings?limit=10000&run=${encodeURIComponent(key)}`);
  const { records, reading, trouble, shaping } = useStory(family, run);
  const illegal = useMemo(
    () => new Set((findings.data ?? []).filter((f) => f.name === ILLEGAL).map((f) => f.seq)),
    [findings.data],
  );
  // The records are named because the shape grows with them.
  const made = useMemo(() => shaping.shape(illegal), [shaping, records, illegal]);
  const staged = STAGE.some((role) => made.roles.has(role));
  const views = VIEWS.filter((name) => name !== "stage" || staged);
  useKeys({
    ...Object.fromEntries(
      views.map((name, n) => [String(n + 1), () => setQuery({ view: name === "transcript" ? "" : name })]),
    ),
    Escape: () => (seq ? choose(0) : history.back()),
  });
  if (summary.trouble && !summary.data) return <Sorry trouble={summary.trouble} />;
  return (
    <div className="stack">
      {summary.data && <Head run={summary.data} at={at} />}
      <Slider records={records} at={at} />
      <div className="tabs" role="tablist" aria-label="Views">
        {views.map((name) => (
          <button
            key={name}
            role="tab"
            id={`tab-${name}`}
            aria-selected={view === name}
            aria-controls="view"
            tabIndex={view === name ? 0 : -1}
            onKeyDown={(event) => {
              const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
              const next = by && views[(views.indexOf(name) + by + views.length) % views.length];
              if (!next) return;
              event.preventDefault();
              setQuery({ view: next === "transcript" ? "" : next });
              document.getElementById(`tab-${next}`)?.focus();
            }}
            onClick={() => setQuery({ view: name === "transcript" ? "" : name })}
          >
            {name}
            {name === "findings" && !!findings.data?.length && <span className="badge">{findings.data.length}</span>}
          </button>
        ))}
        <span className="soft small">
          {count(records.length)} records{reading ? ", reading on …" : ""}
        </span>
      </div>
      {trouble && <Sorry trouble={trouble} />}
      <div className={seq ? "split" : ""}>
        <div id="view" role="tabpanel" aria-labelledby={`tab-${view}`}>
          {view === "transcript" && (
            <Transcript key={key} reading={reading} records={records} made={made} findings={findings.data ?? []} seq={seq} at={at} choose={choose} />
          )}
          {view === "timeline" && <Timeline spans={made.spans} chosen={seq} choose={choose} />}
          {view === "stage" && <Stage records={records} at={at} choose={choose} />}
          {view === "lifecycle" && <Lifecycle moves={made.moves} choose={choose} />}
          {view === "findings" && <Findings findings={findings.data ?? []} choose={choose} />}
          {view === "tree" && <Tree family={family} run={run} />}
        </div>
        {seq > 0 && <Detail family={family} run={run} seq={seq} close={() => choose(0)} />}
      </div>
    </div>
  );
}

function Head({ run, at }: { run: Shown; at: number }) {
  const now = useNow();
  const cost = run.cost_with_sub_runs;
  const outcome = run.outcome ?? Object.entries(run.outcomes).map(([k, n]) => `${k} ${n}`).join(", ");
  const facts: [string, string, string?][] = [
    ["outcome", outcome || "–"],
    ["score", run.score === null ? "–" : String(run.score)],
    ["took", duration(run.seconds)],
    ["tool calls", `${count(run.tool_calls)}${run.tool_failures ? `, ${run.tool_failures} failed` : ""}`],
    ["tokens", short(run.tokens), count(run.tokens)],
    [
      cost && cost.runs > 1 ? `cost of ${cost.runs} runs` : "cost",
      `${cost?.lower_bound ? "≥ " : ""}${money(cost?.cost_usd ?? cost?.computed_usd ?? run.cost_usd)}`,
    ],
  ];
  return (
    <section className="card stack" aria-label="Summary">
      <div className="row">
        <StatusMark status={run.status} />
        <h1 className="grow">
          <Text>{run.title ?? run.run}</Text>
        </h1>
        {at > 0 && <span className="waiting">as it was at record {at}</span>}
        <When at={run.last_received} now={now} />
      </div>
      <div className="row small soft">
        <span className="mono">
          <Text>{`${run.family}:${run.run}`}</Text>
        </span>
        <span>
          <Text>{run.dialects.join(", ")}</Text>
        </span>
        <span>
          <Text>{run.agents.join(", ")}</Text>
        </span>
        <span title={exact(run.first_at ?? run.first_received)}>{exact(run.first_at ?? run.first_received)}</span>
      </div>
      <dl className="facts">
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
        <Proof key={`${run.family}:${run.run}`} family={run.family} run={run.run} long={run.tool_calls > 500 || run.steps > 2000} />
        <Downloads family={run.family} run={run.run} />
        <a href={href(["diff"], { a: `${run.family}:${run.run}` })}>compare with another run</a>
      </div>
    </section>
  );
}

/** Proven at once where that costs little; of a long run only when asked. */
function Proof({ family, run, long }: { family: string; run: string; long: boolean }) {
  const [asked, ask] = useState(!long);
  const { data, trouble } = useAnswer<object>(asked ? runPath(family, run, "/proof") : null, false);
  if (!asked) return <button onClick={() => ask(true)}>Is this record whole?</button>;
  if (trouble) return <span className="failed">not proven: {inert(trouble.message)}</span>;
  return data ? <span className="done" title="Every line of it hangs in the chain of hashes">✓ proven</span> : <span className="soft">proving …</span>;
}

interface Document {
  paths: Record<string, { get?: { parameters?: { name: string; schema?: { enum?: string[] } }[] } }>;
}

function Downloads({ family, run }: { family: string; run: string }) {
  const [open, setOpen] = useState(false);
  const { data } = useAnswer<Document>(open ? "/api/openapi.json" : null, false);
  const asked = data?.paths["/api/export/{format}/{family}/{run}"]?.get?.parameters ?? [];
  const formats = asked.find((each) => each.name === "format")?.schema?.enum ?? [];
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Download</summary>
      <span className="row">
        {formats.map((format) => (
          <a
            key={format}
            download
            href={`/api/export/${format}/${encodeURIComponent(family)}/${encodeURIComponent(run)}`}
          >
            {format}
          </a>
        ))}
      </span>
    </details>
  );
}

function Slider({ records, at }: { records: readonly Told[]; at: number }) {
  if (records.length < 2) return null;
  const found = records.findIndex((told) => told.seq >= at);
  const place = at && found >= 0 ? found : records.length - 1;
  const told = records[place];
  return (
    <div className="row slider">
      <label htmlFor="moment" className="soft small">
        moment
      </label>
      <input
        id="moment"
        type="range"
        min={0}
        max={records.length - 1}
        value={place}
        aria-valuetext={told ? `record ${told.seq}, ${exact(told.at ?? told.received)}` : ""}
        onChange={(event) => {
          const chosen = Number(event.target.value);
          const last = chosen === records.length - 1;
          setQuery({ at: last ? "" : String(records[chosen]?.seq ?? "") });
        }}
      />
      <span className="soft small num moment">
        {at ? `${clock(told?.at ?? told?.received)} · ${told?.seq ?? ""}` : "now"}
      </span>
    </div>
  );
}

interface Rows {
  reading: boolean;
  records: readonly Told[];
  made: Shape;
  findings: readonly Finding[];
  seq: number;
  at: number;
  choose: (seq: number) => void;
}

/** Records that are shown with another: the return of a call that is shown above. */
function isShownElsewhere(told: Told, calls: ReadonlyMap<string, Call>): boolean {
  return (
    told.facts.length > 0 &&
    told.facts.every((fact) => {
      const call = fact.fact === "Returned" ? calls.get(callKey(fact, told.seq)) : undefined;
      return call !== undefined && call.returned === told && call.called !== told;
    })
  );
}

function Transcript({ reading, records, made, findings, seq, at, choose }: Rows) {
  const box = useRef<HTMLDivElement>(null);
  const rows = useMemo(
    () => records.filter((told) => (!at || told.seq <= at) && (told.seq === seq || !isShownElsewhere(told, made.calls))),
    [records, made, at, seq],
  );
  const amiss = useMemo(() => {
    const found = new Map<number, Finding[]>();
    for (const each of findings) found.set(each.seq, [...(found.get(each.seq) ?? []), each]);
    return found;
  }, [findings]);
  const list = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => 56,
    overscan: 3,
    useFlushSync: false,
    getItemKey: (n) => rows[n]?.seq ?? n,
  });
  const last = rows.length - 1;
  const fresh = useFresh(reading, rows.length, box);
  const toEnd = () => {
    list.scrollToIndex(last, { align: "end" });
    fresh.seen();
  };
  const shown = list.getVirtualItems();
  const top = list.scrollOffset ?? 0;
  const inView = shown.filter((item) => item.end > top && item.start < top + (box.current?.clientHeight ?? 0));
  const momentOf = (item: { index: number } | undefined) => {
    const told = item && rows[item.index];
    return told ? moment(told) : 0;
  };
  const jumped = useRef(0);
  useEffect(() => {
    const place = rows.findIndex((told) => told.seq >= seq);
    if (!seq || jumped.current === seq || place < 0) return;
    jumped.current = seq;
    list.scrollToIndex(place, { align: "center" });
  }, [seq, rows, list]);
  const step = (by: number) => {
    const here = rows.findIndex((told) => told.seq === seq);
    const next = rows[Math.min(Math.max(here + by, 0), rows.length - 1)];
    if (next) choose(next.seq);
  };
  useKeys({ j: () => step(1), k: () => step(-1), ArrowDown: () => step(1), ArrowUp: () => step(-1), n: toEnd });
  if (!records.length) return reading ? <p className="soft">Reading …</p> : <Empty title="Nothing yet." run="" />;
  return (
    <div className="reader">
    <Strip spans={made.spans} from={momentOf(inView[0])} to={momentOf(inView.at(-1))} choose={choose} />
    <div ref={box} className="transcript" tabIndex={0} role="feed" aria-label="Transcript" aria-busy={reading} onScroll={fresh.look}>
      <div style={{ height: list.getTotalSize(), position: "relative" }}>
        {shown.map((item) => {
          const told = rows[item.index];
          return (
            told && (
              <div
                key={item.key}
                ref={list.measureElement}
                data-index={item.index}
                className="place"
                style={{ transform: `translateY(${item.start}px)` }}
              >
                <Entry told={told} made={made} returned={returns(told, made)} amiss={amiss.get(told.seq) ?? NONE} chosen={told.seq === seq} choose={choose} />
              </div>
            )
          );
        })}
      </div>
    </div>
    {fresh.count > 0 && !at && (
      <button className="first fresh" onClick={toEnd}>
        {count(fresh.count)} new ↓
      </button>
    )}
    </div>
  );
}

function returns(told: Told, made: Shape): number {
  return told.facts.filter(
    (fact) => fact.fact === "Called" && made.calls.get(callKey(fact, told.seq))?.returned !== undefined,
  ).length;
}

/** How many came since one last saw the end; who reads further up is never moved. */
function useFresh(reading: boolean, length: number, box: { current: HTMLDivElement | null }) {
  const [known, setKnown] = useState(0);
  const atEnd = () => {
    const of = box.current;
    return !of || of.scrollHeight - of.scrollTop - of.clientHeight < 80;
  };
  const first = useRef(true);
  useEffect(() => {
    if (reading && first.current) return;
    if (first.current || atEnd()) setKnown(length);
    first.current = false;
  }, [reading, length]);
  return {
    count: first.current ? 0 : Math.max(length - known, 0),
    seen: () => setKnown(length),
    look: () => {
      if (known !== length && atEnd()) setKnown(length);
    },
  };
}

const NONE: readonly Finding[] = [];

/** Drawn again only when it changed: scrolling draws what comes into view, and nothing else. */
const Entry = memo(EntryView, (a, b) =>
  a.told === b.told && a.chosen === b.chosen && a.amiss === b.amiss && a.returned === b.returned,
);

function EntryView(props: {
  /** How many of its calls have returned. */
  returned: number;
  told: Told;
  made: Shape;
  amiss: readonly Finding[];
  chosen: boolean;
  choose: (seq: number) => void;
}) {
  const { told, made, amiss, chosen, choose } = props;
  return (
    <article className={chosen ? "entry chosen" : "entry"} aria-label={`record ${told.seq}`} id={`e${told.seq}`}>
      <button className="link soft small num seq" onClick={() => choose(told.seq)} title={exact(told.at ?? told.received)}>
        {clock(told.at ?? told.received)} <span className="soft">{told.seq}</span>
      </button>
      <div className="grow">
        {told.facts.map((fact, n) => (
          <One key={n} fact={fact} told={told} made={made} choose={choose} />
        ))}
        {!told.facts.length && <span className="soft">{told.kind}</span>}
        {amiss.map((finding, n) => (
          <p key={n} className={`finding ${finding.level === "error" ? "failed" : "waiting"}`}>
            ⚠ {inert(finding.name)}: {inert(finding.message)}
          </p>
        ))}
      </div>
    </article>
  );
}

function One({ fact, told, made, choose }: { fact: Fact; told: Told; made: Shape; choose: (seq: number) => void }) {
  const agent = (fact.agent as string | undefined) ?? told.agent ?? "";
  switch (fact.fact) {
    case "Said": {
      const role = String(fact.role);
      return (
        <section className={`said ${role}`}>
          <h3>
            <Text>{agent || role}</Text>{" "}
            {agent && role !== "assistant" && <span className="soft small">{role}</span>}
            {fidelities(fact).map((word) => (
              <span key={word} className="chip">{inert(word.replace("_", " "))}</span>
            ))}
            {fact.copied === true && <span className="soft small"> · told again</span>}
          </h3>
          <Blocks blocks={(fact.blocks ?? []) as Record<string, unknown>[]} />
        </section>
      );
    }
    case "Called": {
      const call = made.calls.get(callKey(fact, told.seq));
      const mine = call?.called === told ? call : undefined;
      return <CallView fact={fact} call={mine} agent={agent} choose={choose} />;
    }
    case "Returned":
      return made.calls.get(callKey(fact, told.seq))?.called === told ? null : <Line mark="←" fact={fact} />;
    case "Asked":
      return <Line mark="?" fact={fact} className="waiting" />;
    case "Answered":
      return <Line mark="!" fact={fact} className="done" />;
    case "Decided":
      return <Line mark="◆" fact={fact} />;
    case "Moved":
      return <Line mark="·" fact={fact} className="soft" />;
    case "Began":
    case "Ended":
      return <Line mark={fact.fact === "Began" ? "▸" : "■"} fact={fact} className="strong" />;
    case "Linked":
      return <LinkLine fact={fact} family={told.dialect} />;
    default:
      return <Line mark="·" fact={fact} className="soft small" />;
  }
}

/** How directly it was seen, where that was told. */
function fidelities(fact: Fact): string[] {
  const blocks = (fact.blocks ?? []) as { fidelity?: unknown }[];
  const all = [fact.fidelity, ...blocks.map((block) => block.fidelity)];
  return [...new Set(all.filter((each) => typeof each === "string"))];
}

function Line({ mark, fact, className = "" }: { mark: string; fact: Fact; className?: string }) {
  return (
    <p className={`line ${className}`}>
      <span aria-hidden="true">{mark} </span>
      <Text>{fact.words || fact.fact}</Text>
    </p>
  );
}

function LinkLine({ fact, family }: { fact: Fact; family: string }) {
  const end = (fact.child ?? fact.parent ?? fact.other) as string | { family?: string; run?: string } | undefined;
  const run = typeof end === "string" ? end : end?.run;
  const of = typeof end === "object" ? (end.family ?? family) : family;
  return (
    <p className="line">
      <span aria-hidden="true">⤷ </span>
      {run ? (
        <a href={runHref(of, run)}>
          <Text>{fact.words}</Text>
        </a>
      ) : (
        <Text>{fact.words}</Text>
      )}
    </p>
  );
}

function CallView(props: { fact: Fact; call: Call | undefined; agent: string; choose: (seq: number) => void }) {
  const { fact, call, agent, choose } = props;
  const result = call?.result;
  const failed = result?.ok === false;
  return (
    <details className={failed ? "call bad" : "call"}>
      <summary>
        <span className="mono">
          <Text>{fact.words || String(fact.tool)}</Text>
        </span>{" "}
        <span className="soft small">
          {agent && <Text>{agent}</Text>}
          {typeof fact.fidelity === "string" && <span className="chip">{inert(fact.fidelity)}</span>}
          {result === undefined && " · no result heard"}
          {typeof result?.seconds === "number" && ` · ${duration(result.seconds)}`}
          {failed && <span className="failed"> · failed</span>}
        </span>
      </summary>
      {fact.input !== undefined && <pre className="code">{plain(fact.input)}</pre>}
      {result && (
        <>
          <Value value={result.error ?? result.output ?? result.status} />
          {call?.returned && call.returned !== call.called && (
            <button className="link small" onClick={() => choose(call.returned?.seq ?? 0)}>
              the result is record {call.returned.seq}
            </button>
          )}
        </>
      )}
    </details>
  );
}

/** What a verdict says besides its words, where it does. */
function Ruling({ fact }: { fact: Fact }) {
  const scores = Object.entries((fact.scores ?? {}) as Record<string, unknown>);
  const told: [string, unknown][] = [
    ["winner", fact.no_contest === true ? "no contest" : fact.winner],
    ["accused", fact.accused],
    ["correct", fact.correct],
    ...scores,
  ];
  const known = told.filter(([, value]) => value !== undefined && value !== null);
  if (!known.length) return null;
  return (
    <dl className="facts">
      {known.map(([name, value]) => (
        <div key={name}>
          <dt>
            <Text>{name}</Text>
          </dt>
          <dd>
            <Text>{String(value)}</Text>
          </dd>
        </div>
      ))}
    </dl>
  );
}

const ROLES: Record<string, string> = { assistant: "says", thought: "thinks", belief: "believes" };

/** Who is on the stage and what each said; thoughts are whispered. */
function Stage({ records, at, choose }: { records: readonly Told[]; at: number; choose: (seq: number) => void }) {
  const said = records
    .filter((told) => !at || told.seq <= at)
    .flatMap((told) => told.facts.filter((fact) => fact.fact === "Said" || fact.fact === "Decided").map((fact) => ({ told, fact })));
  const cast = [...new Set(said.map(({ told, fact }) => String(fact.agent ?? told.agent ?? "")).filter(Boolean))];
  const scene = said.filter(({ fact }) => fact.role === "world").at(-1);
  const verdict = said.filter(({ fact }) => fact.fact === "Decided").at(-1);
  const speaker = said.at(-1);
  return (
    <div className="stack stage">
      {scene && (
        <section className="card scene" aria-label="Scene">
          <Blocks blocks={(scene.fact.blocks ?? []) as Record<string, unknown>[]} />
        </section>
      )}
      {verdict && (
        <section className="card verdict" aria-label="Verdict">
          <Line mark="◆" fact={verdict.fact} className="strong" />
          <Ruling fact={verdict.fact} />
        </section>
      )}
      <ul className="cast" aria-label="Cast">
        {cast.map((name) => (
          <li key={name} className={String(speaker?.fact.agent ?? speaker?.told.agent) === name ? "speaks" : ""}>
            <Text>{name}</Text>
          </li>
        ))}
      </ul>
      {said.slice(-400).map(({ told, fact }, n) => (
        <section key={`${told.seq}-${n}`} className={`said ${String(fact.role ?? "verdict")}`}>
          <h3>
            <button className="link" onClick={() => choose(told.seq)}>
              <Text>{String(fact.agent ?? fact.by ?? told.agent ?? fact.role ?? "")}</Text>
            </button>{" "}
            <span className="soft small">{ROLES[String(fact.role)] ?? String(fact.role ?? "verdict")}</span>
          </h3>
          {fact.fact === "Decided" ? <Line mark="◆" fact={fact} /> : <Blocks blocks={(fact.blocks ?? []) as Record<string, unknown>[]} />}
        </section>
      ))}
    </div>
  );
}

function Findings({ findings, choose }: { findings: readonly Finding[]; choose: (seq: number) => void }) {
  if (!findings.length) return <p className="soft">Nothing surprising was found.</p>;
  return (
    <table>
      <thead>
        <tr>
          <th>record</th>
          <th>finding</th>
          <th>what</th>
        </tr>
      </thead>
      <tbody>
        {findings.map((finding, n) => (
          <tr key={n}>
            <td>
              <button className="link num" onClick={() => choose(finding.seq)}>
                {finding.seq}
              </button>
            </td>
            <td className={finding.level === "error" ? "failed" : "waiting"}>{inert(finding.name)}</td>
            <td>
              <Text>{finding.message}</Text>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Tree({ family, run }: { family: string; run: string }) {
  const { data, trouble } = useAnswer<Branch[]>(runPath(family, run, "/tree"));
  if (trouble) return <Sorry trouble={trouble} />;
  return (
    <ul className="tree">
      {(data ?? []).map((branch, n) => {
        const [of = "", ...rest] = branch.key.split(":");
        return (
          <li key={n} style={{ marginLeft: `${branch.depth * 1.4}rem` }}>
            <a href={runHref(of, rest.join(":"))}>
              <Text>{rest.join(":")}</Text>
            </a>
            {branch.missing && <span className="soft small"> was never heard</span>}
          </li>
        );
      })}
    </ul>
  );
}
