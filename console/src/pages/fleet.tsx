/** The whole fleet at a glance, what needs a person first. */

import { useState } from "react";
import type { BoardAnswer, RunRow } from "../lib/answers";
import { address, Trouble } from "../lib/api";
import { keyOf, useLooked } from "../lib/inbox";
import { setQuery, useRoute } from "../lib/route";
import { inert } from "../lib/text";
import { count } from "../lib/time";
import { useAnswer, useLast, useLater } from "../lib/use";
import { Empty, Sorry } from "../parts/bits";
import { Panels } from "../parts/panels";
import { Asked } from "../parts/question";
import { HELD, Runs } from "../parts/runs";

export const WINDOWS = ["1h", "24h", "7d"];
const FILTERS = ["status", "dialect", "agent", "outcome", "within", "text"] as const;
type Filter = Record<(typeof FILTERS)[number], string>;

/** The address of the part of the list that begins at `after`; the collector filters and orders. */
export function boardAddress(query: URLSearchParams, after: number) {
  const filters = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ""]));
  return address("/api/board", { limit: HELD, ...(after ? { after } : {}), ...filters });
}

export function Fleet() {
  const { query } = useRoute();
  const [after, setAfter] = useState(0);
  const { data, trouble } = useAnswer(boardAddress(query, after));
  const board = useLast(data);
  const waiting = useLooked();
  const standing = useLater(board !== undefined);
  const filter = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ""])) as Filter;
  if (trouble && !board) return <Sorry trouble={trouble} />;
  return (
    <div className="stack">
      {waiting.length > 0 && (
        <section className="stack asked" aria-label="Waiting for you">
          {waiting.slice(0, 3).map((question) => (
            <Asked key={keyOf(question)} question={question} />
          ))}
          {waiting.length > 3 && <a href="#/inbox">{waiting.length - 3} more wait for you</a>}
        </section>
      )}
      <h1 className="unseen">Fleet</h1>
      {trouble instanceof Trouble && <Sorry trouble={trouble} />}
      {board && board.all === 0 ? (
        <Empty
          title="Nothing was recorded yet."
          run={
            "# the agents on this machine\ntracklog import\n\n" +
            "# a pipe\nsome-agent | tracklog record\n\n" +
            "# a fleet to look at\ntracklog demo"
          }
        />
      ) : (
        board && (
          <>
            <Counts board={board} filter={filter} />
            <Filters board={board} filter={filter} />
            <Runs board={board} look={setAfter} />
          </>
        )
      )}
      {standing && <Panels bare={board?.all === 0} />}
    </div>
  );
}

/** How many runs are how; each count is a filter. */
function Counts({ board, filter }: { board: BoardAnswer; filter: Filter }) {
  return (
    <ul className="counts" aria-label="Runs by status">
      {(Object.entries(board.counts) as [RunRow["status"], number][]).map(([status, many]) => {
        const on = filter.status === status;
        return (
          <li key={status}>
            <button
              className={`count ${many ? status : "soft"}`}
              aria-pressed={on}
              onClick={() => setQuery({ status: on ? "" : status }, true)}
            >
              <span className="big">{count(many)}</span> {status}
            </button>
          </li>
        );
      })}
    </ul>
  );
}

function Filters({ board, filter }: { board: BoardAnswer; filter: Filter }) {
  const { dialect, agent, outcome } = board.choices;
  const choices: [keyof Filter, string, readonly string[]][] = [
    ["status", "status", Object.keys(board.counts)],
    ["dialect", "dialect", dialect],
    ["agent", "agent", agent],
    ["outcome", "outcome", outcome],
    ["within", "active within", WINDOWS],
  ];
  const any = Object.values(filter).some(Boolean);
  return (
    <search className="filters" aria-label="Filter runs">
      <input
        type="search"
        aria-label="Filter by text"
        placeholder="Filter runs"
        value={filter.text}
        onChange={(event) => setQuery({ text: event.target.value })}
      />
      {choices.map(([key, label, options]) => (
        <label key={key}>
          {label}
          <select
            aria-label={label}
            value={filter[key]}
            onChange={(event) => setQuery({ [key]: event.target.value }, true)}
          >
            <option value="">any</option>
            {[...new Set([...options, ...(filter[key] ? [filter[key]] : [])])].map((option) => (
              <option key={option} value={option}>
                {inert(option)}
              </option>
            ))}
          </select>
        </label>
      ))}
      {any && (
        <button onClick={() => setQuery(Object.fromEntries(FILTERS.map((name) => [name, ""])), true)}>Show all</button>
      )}
    </search>
  );
}
