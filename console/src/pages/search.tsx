/** One box over everything that was said. */

import { Fragment } from "react";
import { WINDOWS } from "./fleet";
import { runHref, setQuery, useRoute } from "../lib/route";
import { inert } from "../lib/text";
import { useAnswer, useNow } from "../lib/use";
import { Empty, Sorry, Text, When } from "../parts/bits";

interface Hit {
  seq: number;
  received: string;
  dialect: string;
  family: string;
  run: string;
  excerpt: string;
}

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
    <bdi>
      {pieces.map((piece, n) =>
        n % 2 ? <mark key={n}>{piece}</mark> : <Fragment key={n}>{piece}</Fragment>,
      )}
    </bdi>
  );
}

export function Search() {
  const { query } = useRoute();
  const question = query.get("q") ?? "";
  const [dialect, run, within] = ["dialect", "run", "within"].map((name) => query.get(name) ?? "");
  const path = question ? `/api/search?limit=200&q=${encodeURIComponent(question)}` : null;
  const { data, trouble, loading } = useAnswer<Hit[]>(path, false);
  const now = useNow(10_000);
  if (!question)
    return <Empty title="Type what was said into the box above." run={'tracklog search "connection refused"'} />;
  if (trouble) return <Sorry trouble={trouble} />;
  const found = data ?? [];
  const since = WINDOWS[within ?? ""];
  const hits = found.filter(
    (hit) =>
      (!dialect || hit.dialect === dialect) &&
      (!run || `${hit.family}:${hit.run}` === run) &&
      (!since || now - Date.parse(hit.received) < since * 1000),
  );
  const names = (of: (hit: Hit) => string) => [...new Set(found.map(of))].sort();
  const filters: [string, string, string[]][] = [
    ["dialect", dialect ?? "", names((hit) => hit.dialect)],
    ["run", run ?? "", names((hit) => `${hit.family}:${hit.run}`)],
    ["within", within ?? "", Object.keys(WINDOWS)],
  ];
  return (
    <div className="stack">
      <h1>
        {loading ? "Searching" : `${hits.length}${hits.length === 200 ? "+" : ""} places`} with “
        <Text>{question}</Text>”
      </h1>
      <div className="filters" role="search" aria-label="Filter what was found">
        {filters.map(([name, value, options]) => (
          <label key={name}>
            {name}
            <select aria-label={name} value={value} onChange={(event) => setQuery({ [name]: event.target.value })}>
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
      <ol className="stack" style={{ listStyle: "none", padding: 0 }}>
        {hits.map((hit) => (
          <li key={hit.seq} className="card">
            <div className="row small">
              <a href={runHref(hit.family, hit.run, { seq: hit.seq })}>
                <Text>{hit.run}</Text> · {hit.seq}
              </a>
              <span className="soft">{hit.dialect}</span>
              <When at={hit.received} now={now} />
            </div>
            <div>
              <Marked text={hit.excerpt} question={question} />
            </div>
          </li>
        ))}
      </ol>
      {data && !hits.length && (
        <Empty title="Nothing was said with these words." run={'tracklog search "begin*"   # beginnings, and "whole phrases"'} />
      )}
    </div>
  );
}
