/** One box over everything that was said. */

import { Fragment } from "react";
import { address } from "../lib/api";
import { runHref, setQuery, useRoute } from "../lib/route";
import { inert, start } from "../lib/text";
import { useAnswer, useLast, useNow } from "../lib/use";
import { Empty, Sorry, Text, When } from "../parts/bits";

/** The words of a question, for marking; quotes and stars are the index's own. */
export function terms(question: string): string[] {
  return [...question.matchAll(/"([^"]+)"|(\S+)/g)]
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

const WINDOWS = ["1h", "24h", "7d"];
const FILTERS = ["dialect", "run", "within"];
const MOST = 100;

function searchAddress(query: URLSearchParams) {
  const q = query.get("q");
  if (!q) return null;
  const filters = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ""]));
  return address("/api/search", { q, brief: true, limit: MOST, ...filters });
}

export default function Search() {
  const { query } = useRoute();
  const question = query.get("q") ?? "";
  const { data, trouble, loading } = useAnswer(searchAddress(query), "never");
  const hits = useLast(data) ?? [];
  const choices = useAnswer(address("/api/board", { limit: 200 }), "never");
  const now = useNow(10_000);
  if (!question)
    return <Empty title="Type some words into the box above." run={'tracklog search "connection refused"'} />;
  if (trouble) return <Sorry trouble={trouble} />;
  const names = (name: string, of: readonly string[]) => [...new Set([...of, query.get(name) ?? ""])].filter(Boolean);
  const runs = [
    ...hits.map((hit) => `${hit.family}:${hit.run}`),
    ...(choices.data?.runs ?? []).map((run) => `${run.family}:${run.run}`),
  ];
  const filters: [string, string[]][] = [
    ["dialect", names("dialect", choices.data?.choices.dialect ?? [])],
    ["run", names("run", runs)],
    ["within", WINDOWS],
  ];
  return (
    <div className="stack">
      <h1>
        {loading
          ? "Searching"
          : `${hits.length}${hits.length === MOST ? "+" : ""} ${hits.length === 1 ? "place" : "places"}`}{" "}
        with “<Text>{question}</Text>”
      </h1>
      <search className="filters" aria-label="Filter the results">
        {filters.map(([name, options]) => (
          <label key={name}>
            {name}
            <select
              aria-label={name}
              value={query.get(name) ?? ""}
              onChange={(event) => setQuery({ [name]: event.target.value }, true)}
            >
              <option value="">any</option>
              {options.map((option) => (
                <option key={option} value={option}>
                  {inert(option)}
                </option>
              ))}
            </select>
          </label>
        ))}
      </search>
      <ol className="stack" style={{ listStyle: "none", padding: 0 }}>
        {hits.map((hit) => (
          <li key={hit.seq} className="card">
            <div className="row small">
              <a href={runHref(hit.family, hit.run, { seq: hit.seq })} title={inert(hit.run)}>
                <Text>{start(hit.title ?? hit.run, 80)}</Text> · {hit.seq}
              </a>
              <span className="soft">{hit.dialect}</span>
              <When at={hit.at ?? hit.received} now={now} />
            </div>
            <div>
              <Marked text={hit.excerpt} question={question} />
            </div>
          </li>
        ))}
      </ol>
      {data && !hits.length && (
        <Empty
          title="No record contains these words."
          run={'tracklog search "begin*"   # beginnings, and "whole phrases"'}
        />
      )}
    </div>
  );
}
