/** The whole fleet at a glance: who waits, what is under way, what failed, what is done. */

import { useCallback, useRef, useState } from "react";
import type { BoardAnswer } from "../lib/answers";
import { Trouble } from "../lib/api";
import {
  boardAddress,
  COLUMNS,
  culprit,
  FACET_KEYS,
  type FleetView,
  filtersOf,
  fleetView,
  GROUPINGS,
} from "../lib/fleet";
import { useLooked } from "../lib/inbox";
import { setQuery, useRoute } from "../lib/route";
import { count } from "../lib/time";
import { useAnswer, useKeys, useLast } from "../lib/use";
import { Empty, Sorry } from "../parts/bits";
import { Facets } from "../parts/facets";
import { Begin, useOffers } from "../parts/hosts";
import { Icon } from "../parts/icons";
import { Runs } from "../parts/runs";
import { WaitStrip } from "../parts/waiting";

const NO_FILTER = Object.fromEntries(
  [...FACET_KEYS, "dialect", "since", "until", "within", "text"].map((key) => [key, ""]),
);

export function Fleet() {
  const { query } = useRoute();
  const view = fleetView(query);
  const [after, setAfter] = useState(0);
  const [closed, setClosed] = useState<readonly string[]>([]);
  const path = boardAddress(view, after, closed);
  const { data, trouble, loading } = useAnswer(path);
  const answer = useLast(data && { board: data, path });
  const board = answer?.board;
  const waiting = useLooked();
  const close = useCallback(
    (group: string) =>
      setClosed((old) => (old.includes(group) ? old.filter((each) => each !== group) : [...old, group])),
    [],
  );
  if (trouble && !board) return <Sorry trouble={trouble} />;
  return (
    <>
      <WaitStrip questions={waiting} />
      <h1 className="unseen">Fleet</h1>
      {trouble instanceof Trouble && <Sorry trouble={trouble} />}
      {!board && <Skeleton />}
      {board && board.all === 0 ? (
        <Nothing />
      ) : (
        answer && (
          <Board
            board={answer.board}
            path={answer.path}
            view={view}
            look={setAfter}
            close={close}
            loading={loading && !data}
          />
        )
      )}
    </>
  );
}

/** The shape of the table, while the first answer is on its way. */
function Skeleton() {
  return (
    <div className="skeleton" aria-hidden="true">
      {Array.from({ length: 12 }, (_, n) => (
        <div key={n} />
      ))}
    </div>
  );
}

function Nothing() {
  return (
    <div className="page">
      <Empty
        title="Nothing was recorded yet."
        run={
          "# the agents on this machine\ntracklog import\n\n" +
          "# a pipe\nsome-agent | tracklog record\n\n" +
          "# a fleet to look at\ntracklog demo"
        }
      />
      <Begin />
    </div>
  );
}

interface BoardProps {
  readonly board: BoardAnswer;
  /** The address that it is the answer to. */
  readonly path: string;
  readonly view: FleetView;
  readonly look: (after: number) => void;
  readonly close: (group: string) => void;
  readonly loading: boolean;
}

/** The order of the list, as far as it is known: what would move under the pointer. */
const orderOf = (board: BoardAnswer): string =>
  JSON.stringify([board.listed, board.groups, board.runs.map((run) => `${run.family}:${run.run}`)]);

/** While one points at the list, or has paused it, nothing moves: what is new waits. */
function useHeld(board: BoardAnswer, path: string, hold: boolean): [BoardAnswer, number, () => void] {
  const held = useRef({ board, path });
  const [, release] = useState(0);
  const same = held.current.path === path && hold && orderOf(board) !== orderOf(held.current.board);
  if (!same) held.current = { board, path };
  const known = new Set(held.current.board.runs.map((run) => `${run.family}:${run.run}`));
  const fresh = board.runs.filter((run) => !known.has(`${run.family}:${run.run}`)).length;
  const show = () => {
    held.current = { board, path };
    release((n) => n + 1);
  };
  return [held.current.board, same ? Math.max(fresh, 1) : 0, show];
}

function Board({ board, path, view, look, close, loading }: BoardProps) {
  const [pointed, setPointed] = useState(false);
  const [paused, setPaused] = useState(false);
  const [narrow, setNarrow] = useState(false);
  const box = useRef<HTMLInputElement>(null);
  const [shown, fresh, show] = useHeld(board, path, pointed || paused);
  useKeys({ f: () => box.current?.focus(), p: () => setPaused((old) => !old) });
  const filters = filtersOf(view);
  const offers = useOffers();
  return (
    <div className={`board${loading ? " dim" : ""}`}>
      <aside className={`facets${narrow ? " open" : ""}`} aria-label="Filters">
        <Facets board={board} view={view} />
      </aside>
      <section className="table" aria-label="Runs">
        <search className="toolbar" aria-label="Filter runs">
          <span className="box">
            <Icon name="search" size={14} />
            <input
              ref={box}
              type="search"
              aria-label="Filter by text"
              placeholder="Filter runs"
              value={view.text}
              onChange={(event) => setQuery({ text: event.target.value })}
            />
            <kbd>F</kbd>
          </span>
          {filters.map(({ label, drop }) => (
            <button key={label} className="chip" title="drop this filter" onClick={() => setQuery(drop)}>
              {label} <Icon name="close" size={10} />
            </button>
          ))}
          {filters.length > 0 && (
            <button className="link" onClick={() => setQuery(NO_FILTER)}>
              Show all
            </button>
          )}
          <span className="soft count" role="status">
            {board.matching === board.all ? "" : `${count(board.matching)} of `}
            {count(board.all)} {board.all === 1 ? "run" : "runs"}
            {paused && ", paused"}
          </span>
          <button className="narrow" aria-expanded={narrow} onClick={() => setNarrow(!narrow)}>
            <Icon name="filter" size={13} /> Filters
          </button>
          <label className="choice">
            Group:
            <select
              aria-label="Group"
              value={view.group}
              onChange={(event) => setQuery({ group: event.target.value === "attention" ? "" : event.target.value })}
            >
              {GROUPINGS.map((each) => (
                <option key={each}>{each}</option>
              ))}
            </select>
          </label>
          <details className="menu columns">
            <summary>Columns</summary>
            <div className="sheet">
              {COLUMNS.filter((each) => each.extra).map(({ key, label }) => (
                <label key={key}>
                  <input
                    type="checkbox"
                    checked={view.cols.includes(key)}
                    onChange={(event) =>
                      setQuery({
                        cols: event.target.checked ? [...view.cols, key] : view.cols.filter((each) => each !== key),
                      })
                    }
                  />
                  {label}
                </label>
              ))}
            </div>
          </details>
          {offers.length > 0 && (
            <details className="menu begin">
              <summary>Start a run</summary>
              <div className="sheet">
                <Begin />
              </div>
            </details>
          )}
        </search>
        {fresh > 0 && (
          <button className="fresh-runs" onClick={show}>
            {count(fresh)} new
          </button>
        )}
        {shown.matching === 0 ? (
          <NoneLeft board={board} view={view} />
        ) : (
          // biome-ignore lint/a11y/noStaticElementInteractions: nothing is done here, it is only watched
          <div
            onPointerEnter={() => setPointed(true)}
            onPointerLeave={() => setPointed(false)}
            onFocus={() => setPointed(true)}
            onBlur={() => setPointed(false)}
          >
            <Runs board={shown} view={view} look={look} close={close} />
          </div>
        )}
      </section>
    </div>
  );
}

/** Which filter leaves nothing, and what drops it. */
function NoneLeft({ board, view }: { board: BoardAnswer; view: FleetView }) {
  const facet = culprit(view, board);
  const rest = filtersOf(view);
  const [words, drop] = facet
    ? [facet, { [facet]: [], ...(facet === "source" ? { dialect: [] } : {}) }]
    : view.since || view.until
      ? ["the range of time", { since: "", until: "", within: "" }]
      : view.text
        ? ["the text", { text: "" }]
        : ["all filters together", NO_FILTER];
  return (
    <div className="empty">
      <p>No run passes {rest.length === 1 ? "this filter" : "these filters"}.</p>
      <p>
        <button onClick={() => setQuery(drop)}>Drop the filter by {words.replace(/^the /, "")}</button>
      </p>
    </div>
  );
}
