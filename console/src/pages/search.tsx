/** One box over everything that was said: hits by run or by time, narrowed by facets, by words and by time. */

import { type FormEvent, Fragment, type PointerEvent, useMemo, useRef, useState } from "react";
import { spanText, timeTicks } from "../charts/scale";
import type { HitFacet as Facet, HitRow, HitRun, Series } from "../lib/answers";
import { address } from "../lib/api";
import { shown } from "../lib/fleet";
import { rangeOf } from "../lib/range";
import { go, runHref, setQuery, useRoute } from "../lib/route";
import { sums } from "../lib/series";
import { inert, start } from "../lib/text";
import { clock, cost, count, day, exact } from "../lib/time";
import { useAnswer, useKeys, useLast, useNow } from "../lib/use";
import { Empty, ErrorCard, Model, Text } from "../parts/bits";
import { Icon, StatusGlyph, toolIcon } from "../parts/icons";
import { RangePicker } from "../parts/range-picker";
import { SaveView } from "../parts/saved-views";
import { Segmented, Tools } from "../parts/tools";

const NAMES = ["kind", "failed", "project", "agent", "tool", "dialect"] as const;
type Name = (typeof NAMES)[number];
type Asked = NonNullable<Parameters<typeof address<"/api/hits">>[1]>;
const FILTER = new RegExp(`^(?:${NAMES.join("|")}):`);

/** The words of a question, for marking; filters, quotes and stars are not marked. */
export function terms(question: string): string[] {
  return [...question.matchAll(/"([^"]+)"|(\S+)/g)]
    .filter((found) => !FILTER.test(found[2] ?? ""))
    .map((found) => (found[1] ?? found[2] ?? "").replace(/\*$/, "").toLowerCase())
    .filter(Boolean);
}

export function Marked({ text, question }: { text: string; question: string }) {
  const words = terms(question).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  if (!words.length) return <Text>{text}</Text>;
  const pieces = inert(text).split(new RegExp(`(${words.join("|")})`, "giu"));
  return (
    <bdi>{pieces.map((piece, n) => (n % 2 ? <mark key={n}>{piece}</mark> : <Fragment key={n}>{piece}</Fragment>))}</bdi>
  );
}

const MOST = 200; // hits by time, or runs
const FEW = 4; // hits of a run that are shown at once
const KINDS: Record<HitRow["kind"], string> = {
  said: "said",
  thinking: "thinking",
  call: "tool call",
  result: "tool result",
  question: "question",
  verdict: "verdict",
  note: "note",
  run: "state of the run",
};
const LABELS: Record<Name, string> = {
  kind: "Kind",
  failed: "Failed",
  project: "Project",
  agent: "Agent",
  tool: "Tool",
  dialect: "Source",
};

const keyOf = ({ family, run }: { family: string; run: string }): string => `${family}:${run}`;

/** A value of a facet, as it is read. */
function worded(name: Name, value: string): string {
  if (name === "kind") return KINDS[value as HitRow["kind"]] ?? value;
  if (name === "failed") return value === "yes" ? "failed" : "did not";
  return shown(name, value);
}

export default function Search() {
  const { query } = useRoute();
  const question = query.get("q") ?? "";
  const { since, until } = rangeOf(query);
  const grouped = query.get("group") !== "time";
  const filters = Object.fromEntries(NAMES.map((name) => [name, query.getAll(name).filter(Boolean)])) as Record<
    Name,
    string[]
  >;
  const narrowed = NAMES.some((name) => filters[name].length);
  const asks = Boolean(question) || narrowed;
  const scope = { q: question, ...filters, since, until } as Asked;
  const path = asks
    ? address("/api/hits", { ...scope, group: grouped ? "run" : "time", each: FEW, limit: MOST })
    : null;
  const { data, trouble, again, loading } = useAnswer(path, "never");
  const answer = useLast(data);
  const now = useNow(10_000);
  const hits = (asks && answer?.hits) || [];
  const loose = grouped ? hits.filter((hit) => !answer?.runs.some((each) => keyOf(each.run) === keyOf(hit))) : hits;
  const [here, setHere] = useState(0);
  const step = (by: number) => setHere((old) => Math.min(Math.max(old + by, 0), hits.length - 1));
  useKeys({
    j: () => step(1),
    k: () => step(-1),
    Enter: () => {
      const hit = hits[here];
      if (hit) go(runHref(hit.family, hit.run, { seq: hit.seq }));
    },
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    setQuery({ q: String(new FormData(event.currentTarget).get("q") ?? "") }, true);
  };
  const marked = hits[here]?.seq;
  const total = `${count(answer?.total)}${answer?.cut ? "+" : ""}`;
  return (
    <div className="search-page">
      <Tools>
        <RangePicker />
        <SaveView label="Save search" />
      </Tools>
      <h1 className="unseen">{question ? `${loading ? "Searching" : total} with “${inert(question)}”` : "Search"}</h1>
      <form className="search-box" onSubmit={submit}>
        <span className="search-field">
          <Icon name="search" size={16} />
          <input
            key={question}
            name="q"
            type="search"
            defaultValue={question}
            aria-label="Words to search for"
            placeholder='Words, "a phrase", begin*, tool:Bash failed:yes'
          />
          {NAMES.map(
            (name) =>
              filters[name].length > 0 && (
                <button
                  key={name}
                  type="button"
                  className="chip on"
                  title="remove this filter"
                  onClick={() => setQuery({ [name]: [] })}
                >
                  {LABELS[name].toLowerCase()}:{" "}
                  {inert(filters[name].map((each) => worded(name, each.replace(/^!/, "not "))).join(", "))}{" "}
                  <Icon name="close" size={10} />
                </button>
              ),
          )}
          <Syntax />
        </span>
        <Segmented
          label="Order"
          value={grouped ? "run" : "time"}
          options={[
            ["run", "By run"],
            ["time", "By time"],
          ]}
          onChange={(next) => setQuery({ group: next === "time" ? "time" : "" })}
        />
      </form>
      {!asks && <Empty title="Type some words into the box above." run={'tracklog search "connection refused"'} />}
      {trouble && <ErrorCard trouble={trouble} again={again} />}
      {asks && !trouble && (
        <div className={`search-body${loading && answer ? " dim" : ""}`}>
          <aside className="facets open" aria-label="Filter the results">
            {answer?.facets.map((facet) => (
              <HitFacet key={facet.name} facet={facet} on={filters[facet.name]} />
            ))}
          </aside>
          <section className="search-hits" aria-label="Results">
            {answer && (
              <p className="search-sum">
                <strong>
                  {total} {answer.total === 1 ? "hit" : "hits"}
                </strong>{" "}
                <span className="soft">
                  in {count(answer.of_runs)} {answer.of_runs === 1 ? "run" : "runs"}
                  {answer.cut && ", of the newest records with these words"}
                </span>
              </p>
            )}
            {hits.length > 1 && <Bars scope={scope} since={since || (answer?.first_at ?? "-30d")} until={until} />}
            {data && !hits.length && (
              <Empty
                title={narrowed || since ? "No record passes these filters." : "No record contains these words."}
                run={'tracklog search "begin*"   # beginnings, and "whole phrases"'}
              />
            )}
            {grouped &&
              answer?.runs.map((each) => (
                <RunHits key={keyOf(each.run)} {...each} scope={scope} question={question} marked={marked} now={now}>
                  {hits.filter((hit) => keyOf(hit) === keyOf(each.run))}
                </RunHits>
              ))}
            {loose.length > 0 && (
              <ol className="hits">
                {loose.map((hit) => (
                  <Hit
                    key={hit.seq}
                    hit={hit}
                    question={question}
                    marked={hit.seq === marked}
                    title={answer?.runs.find((each) => keyOf(each.run) === keyOf(hit))?.run.title ?? hit.run}
                  />
                ))}
              </ol>
            )}
          </section>
        </div>
      )}
    </div>
  );
}

/** What can be written into the box. */
function Syntax() {
  return (
    <details className="menu syntax">
      <summary>
        <kbd>?</kbd> syntax
      </summary>
      <dl className="sheet pairs">
        {[
          ["two words", "the record has both"],
          ['"two words"', "next to each other"],
          ["begin*", "a word that begins like this"],
          ["kind:call", `one of ${Object.keys(KINDS).join(", ")}`],
          ["tool:Bash", "calls and results of a tool"],
          ["agent:coder", "what an agent did"],
          ["project:shop", "in runs of a folder"],
          ["failed:yes", "what failed"],
        ].map(([name, words]) => (
          <div key={name}>
            <dt>
              <code>{name}</code>
            </dt>
            <dd>{words}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}

function HitFacet({ facet: { name, values }, on }: { facet: Facet; on: readonly string[] }) {
  const [all, setAll] = useState(false);
  const real = values.filter((each) => each.value !== null);
  if (!on.length && real.length < (name === "failed" ? 2 : 1)) return null;
  const few = all ? real : real.filter((each, n) => n < 6 || name === "kind" || on.includes(each.value ?? ""));
  return (
    <fieldset className="facet">
      <legend>{LABELS[name]}</legend>
      {few.map(({ value, count: many }) => (
        <label key={value} title={inert(value ?? "")}>
          <input
            type="checkbox"
            checked={on.includes(value ?? "")}
            onChange={() =>
              setQuery({
                [name]: on.includes(value ?? "") ? on.filter((each) => each !== value) : [...on, value ?? ""],
              })
            }
          />
          <span className="cut">
            <Text>{worded(name, value ?? "")}</Text>
          </span>
          <span className="num soft">{count(many)}</span>
        </label>
      ))}
      {few.length < real.length && (
        <button className="link more" onClick={() => setAll(true)}>
          {count(real.length - few.length)} more
        </button>
      )}
    </fieldset>
  );
}

/** The hits over time; to drag over the bars narrows the range. */
function Bars({ scope, since, until }: { scope: Asked; since: string; until: string }) {
  const { q = "", kind = [], failed = [], ...rest } = scope;
  const words = [q, ...kind.map((each) => `kind:${each}`), ...failed.map((each) => `failed:${each}`)].join(" ");
  const asked = { ...rest, q: words, metric: ["hits"] as const, since, until: until || "now" };
  const { data } = useAnswer(address("/api/series", asked), "never");
  const series = useLast(data as Series | undefined);
  const values = useMemo(() => (series ? sums(series) : []), [series]);
  const held = useRef<number | null>(null);
  if (!series) return <div className="hit-bars" />;
  const most = Math.max(...values.map((each) => each ?? 0), 1);
  const slices = series.at.length;
  const begin = Date.parse(series.at[0] ?? "");
  const length = (series.bucket ?? 86_400) * 1000;
  const at = (event: PointerEvent) => {
    const box = event.currentTarget.getBoundingClientRect();
    return Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1) * slices * length + begin;
  };
  const whole = (slices * length) / 1000;
  const times = timeTicks(begin / 1000, begin / 1000 + whole, 8);
  return (
    <figure className="hit-times">
      <svg
        className="hit-bars"
        viewBox={`0 0 ${slices} 30`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`Hits over time, ${spanText(begin / 1000, (begin + slices * length) / 1000)}`}
        onPointerDown={(event) => {
          held.current = at(event);
        }}
        onPointerUp={(event) => {
          const [a, b] = [held.current ?? 0, at(event)];
          held.current = null;
          if (Math.abs(a - b) > length / 2)
            setQuery({ since: new Date(Math.min(a, b)).toISOString(), until: new Date(Math.max(a, b)).toISOString() });
        }}
      >
        <rect className="ground" width={slices} height="30" />
        {values.map((many, n) => (
          <rect
            key={n}
            className="hit"
            x={n + 0.08}
            width="0.84"
            y={30 - ((many ?? 0) / most) * 29}
            height={((many ?? 0) / most) * 29}
          />
        ))}
      </svg>
      <figcaption className="soft">
        {times.map((each) => (
          <span key={each.at} style={{ left: `${((each.at - begin / 1000) / whole) * 100}%` }}>
            {each.label}
          </span>
        ))}
      </figcaption>
      <span className="hint soft">drag over the bars to narrow the time</span>
    </figure>
  );
}

interface RunHitsProps extends HitRun {
  readonly scope: Asked;
  readonly question: string;
  readonly marked: number | undefined;
  readonly now: number;
  readonly children: readonly HitRow[];
}

function RunHits({ run, hits, scope, question, marked, now, children }: RunHitsProps) {
  const [all, setAll] = useState(false);
  const [open, setOpen] = useState(true);
  const { family, run: id, title } = run;
  const rest = useAnswer(all ? address("/api/hits", { ...scope, run: `${family}:${id}`, each: 2000 }) : null, "never");
  const rows = rest.data?.hits ?? children;
  return (
    <section className="run-hits" aria-label={inert(title ? `${title} (${id})` : id)}>
      <header>
        <button
          className="quiet fold"
          aria-expanded={open}
          aria-label={`Hits of ${inert(title ?? id)}`}
          onClick={() => setOpen(!open)}
        >
          <Icon name={open ? "down" : "right"} size={13} />
        </button>
        <StatusGlyph status={run.status} />
        <h2 className="cut">
          <a href={runHref(family, id)}>
            <Text>{start(title ?? id, 80)}</Text>
            {title && (
              <span className="unseen">
                {" "}
                <Text>{id}</Text>
              </span>
            )}
          </a>
        </h2>
        <span className="soft cut branch">
          <Text>{run.branch}</Text>
        </span>
        <span className="grow" />
        <span className="soft about">{run.model ? <Model name={run.model} /> : "no model"}</span>
        <span className="num about">{cost(run)}</span>
        <time className="soft" title={exact(run.last_activity)}>
          {day(run.last_activity, now)}
        </time>
        <strong className="num">
          {count(hits)} {hits === 1 ? "hit" : "hits"}
        </strong>
      </header>
      {open && (
        <ol className="hits">
          {rows.map((hit) => (
            <Hit key={hit.seq} hit={hit} question={question} marked={hit.seq === marked} />
          ))}
        </ol>
      )}
      {open && hits > rows.length && (
        <button className="link more-hits" disabled={all} onClick={() => setAll(true)}>
          {count(hits - rows.length)} more in this run
        </button>
      )}
    </section>
  );
}

const ICONS = {
  said: "reply",
  thinking: "thought",
  call: "tool",
  result: "tool",
  question: "person",
  verdict: "shield",
  note: "flag",
  run: "right",
} as const;

function Hit(props: { hit: HitRow; question: string; marked: boolean; title?: string }) {
  const { hit, question, marked, title } = props;
  return (
    <li className={marked ? "here" : ""}>
      <a href={runHref(hit.family, hit.run, { seq: hit.seq })}>
        <time title={exact(hit.at)}>{clock(hit.at)}</time>
        <span className={hit.failed ? "failed" : "soft"}>
          <Icon name={hit.tool ? toolIcon(hit.tool) : ICONS[hit.kind]} size={14} />
          <span className="unseen">{KINDS[hit.kind]}</span>
        </span>
        <span className="cut mono who">{inert(title ?? hit.tool ?? hit.agent ?? KINDS[hit.kind])}</span>
        <span className="cut mono">
          <Marked text={hit.excerpt} question={question} />
        </span>
        {hit.failed && (
          <span className="failed state">
            <StatusGlyph status="failed" /> failed
          </span>
        )}
      </a>
    </li>
  );
}
