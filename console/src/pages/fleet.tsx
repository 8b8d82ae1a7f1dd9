/** The whole fleet at a glance: who waits, what is under way, what failed, what is done. */

import { useCallback, useRef, useState } from "react";
import type { BoardAnswer } from "../lib/answers";
import { ask, Trouble } from "../lib/api";
import {
  boardAddress,
  COLUMNS,
  closedGroups,
  culprit,
  FACET_KEYS,
  type FleetView,
  filtersOf,
  fleetView,
  GROUPINGS,
  natural,
  unseenAddress,
} from "../lib/fleet";
import { useLooked } from "../lib/inbox";
import { href, setQuery, useRoute } from "../lib/route";
import { markSeen } from "../lib/seen";
import { count } from "../lib/time";
import { useAnswer, useKeys, useLast } from "../lib/use";
import { ErrorCard } from "../parts/bits";
import { Facets } from "../parts/facets";
import { Begin, useOffers } from "../parts/hosts";
import { Icon } from "../parts/icons";
import { KpiStrip } from "../parts/kpis";
import { Nothing } from "../parts/nothing";
import { RangePicker } from "../parts/range-picker";
import { Runs } from "../parts/runs";
import { SaveView } from "../parts/saved-views";
import { Tools } from "../parts/tools";
import { WaitStrip } from "../parts/waiting";

const NO_FILTER = Object.fromEntries(
  [...FACET_KEYS, "dialect", "since", "until", "within", "text", "score"].map((key) => [key, ""]),
);

export function Fleet() {
  const { query } = useRoute();
  const view = fleetView(query);
  const [after, setAfter] = useState(0);
  const [turned, setTurned] = useState<Partial<Record<string, readonly string[]>>>({});
  const closed = closedGroups(view, turned[view.group]);
  const path = boardAddress(view, after, closed);
  const { data, trouble, loading, again } = useAnswer(path);
  const answer = useLast(data && { board: data, path });
  const board = answer?.board;
  const waiting = useLooked();
  const by = view.group;
  const close = useCallback(
    (group: string) =>
      setTurned((old) => {
        const here = old[by] ?? [];
        return { ...old, [by]: here.includes(group) ? here.filter((each) => each !== group) : [...here, group] };
      }),
    [by],
  );
  if (trouble && !board) return <ErrorCard trouble={trouble} again={again} />;
  return (
    <>
      <WaitStrip questions={waiting} />
      <h1 className="unseen">Fleet</h1>
      <Tools>
        <RangePicker />
      </Tools>
      {trouble instanceof Trouble && <ErrorCard trouble={trouble} again={again} />}
      {board && board.all > 0 && <KpiStrip view={view} />}
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
            again={again}
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

interface BoardProps {
  readonly board: BoardAnswer;
  /** The address that it is the answer to. */
  readonly path: string;
  readonly view: FleetView;
  readonly look: (after: number) => void;
  readonly close: (group: string) => void;
  readonly loading: boolean;
  /** Asks for the list once more. */
  readonly again: () => void;
}

/** The order of the list, as far as it is known: what would move under the pointer. */
const orderOf = (board: BoardAnswer): string =>
  JSON.stringify([board.listed, board.groups, board.runs.map((run) => `${run.family}:${run.run}`)]);

interface Held {
  readonly shown: BoardAnswer;
  /** Runs that are new and wait. */
  readonly fresh: number;
  readonly show: () => void;
  /** The next change is the person's own: it does not wait. */
  readonly expect: () => void;
}

/** While one points at the list, or has paused it, nothing moves: what is new waits. */
function useHeld(board: BoardAnswer, path: string, hold: boolean): Held {
  const held = useRef({ board, path });
  const expected = useRef(false);
  const [, release] = useState(0);
  const moved = held.current.path === path && orderOf(board) !== orderOf(held.current.board);
  const same = moved && hold && !expected.current;
  if (moved) expected.current = false;
  if (!same) held.current = { board, path };
  const known = new Set(held.current.board.runs.map((run) => `${run.family}:${run.run}`));
  const fresh = board.runs.filter((run) => !known.has(`${run.family}:${run.run}`)).length;
  const show = () => {
    held.current = { board, path };
    release((n) => n + 1);
  };
  const expect = useCallback(() => {
    expected.current = true;
  }, []);
  return { shown: held.current.board, fresh: same ? Math.max(fresh, 1) : 0, show, expect };
}

function Board({ board, path, view, look, close, loading, again }: BoardProps) {
  const [pointed, setPointed] = useState(false);
  const [paused, setPaused] = useState(false);
  const [narrow, setNarrow] = useState(false);
  const box = useRef<HTMLInputElement>(null);
  const { shown, fresh, show, expect } = useHeld(board, path, pointed || paused);
  useKeys({ f: () => box.current?.focus(), p: () => setPaused((old) => !old) });
  const filters = filtersOf(view);
  const offers = useOffers();
  const [selected, setSelected] = useState<readonly string[]>([]);
  const select = useCallback(
    (keys: readonly string[]) =>
      setSelected((old) =>
        keys.length === 1 && old.includes(keys[0] ?? "")
          ? old.filter((each) => each !== keys[0])
          : [...new Set([...old, ...keys])],
      ),
    [],
  );
  const see = useCallback(
    (keys: readonly string[]) => {
      expect();
      void markSeen(keys, again);
      setSelected((old) => old.filter((each) => !keys.includes(each)));
    },
    [again, expect],
  );
  const seeAll = async () => {
    const { runs } = await ask(unseenAddress(view));
    see(runs.map((run) => `${run.family}:${run.run}`));
  };
  return (
    <div className={`board${loading ? " dim" : ""}`}>
      <aside className={`facets${narrow ? " open" : ""}`} aria-label="Filters">
        <div className="orders">
          <GroupBy view={view} />
          <SortBy view={view} />
        </div>
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
            <button key={label} className="chip" title="remove this filter" onClick={() => setQuery(drop)}>
              {label} <Icon name="close" size={10} />
            </button>
          ))}
          {filters.length > 1 && (
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
          <GroupBy view={view} />
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
          <SaveView />
          {offers.length > 0 && (
            <details className="menu begin">
              <summary>Start a run</summary>
              <div className="sheet">
                <Begin />
              </div>
            </details>
          )}
        </search>
        {selected.length > 0 && (
          <div className="selection" role="status">
            {count(selected.length)} selected
            {selected.length === 2 ? (
              <a className="button" href={href(["compare", ...selected])}>
                <Icon name="compare" size={13} /> Compare
              </a>
            ) : (
              <span className="soft">{selected.length < 2 ? "choose one more to compare" : "two can be compared"}</span>
            )}
            <button onClick={() => see(selected)}>
              <Icon name="tick" size={13} /> Seen <kbd>E</kbd>
            </button>
            <button onClick={() => setSelected([])}>Clear</button>
          </div>
        )}
        <div onPointerEnter={() => setPointed(true)} onPointerLeave={() => setPointed(false)}>
          {fresh > 0 && (
            <button className="fresh-runs" onClick={show}>
              {count(fresh)} new
            </button>
          )}
          {shown.matching === 0 ? (
            <NoneLeft board={board} view={view} />
          ) : (
            // biome-ignore lint/a11y/noStaticElementInteractions: nothing is done here, it is only watched
            <div onFocus={() => setPointed(true)} onBlur={() => setPointed(false)}>
              <Runs
                board={shown}
                view={view}
                look={look}
                close={close}
                selected={selected}
                select={select}
                see={see}
                seeAll={() => void seeAll()}
              />
            </div>
          )}
        </div>
      </section>
    </div>
  );
}

function GroupBy({ view }: { view: FleetView }) {
  return (
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
  );
}

/** The order of the list where its heads have no room. */
function SortBy({ view }: { view: FleetView }) {
  return (
    <div className="row">
      <label className="choice grow">
        Sort:
        <select
          aria-label="Sort"
          value={view.sort}
          onChange={(event) => setQuery({ sort: event.target.value === "activity" ? "" : event.target.value, dir: "" })}
        >
          {COLUMNS.map(({ sort, label }) => (
            <option key={sort} value={sort}>
              {label}
            </option>
          ))}
        </select>
      </label>
      <button
        onClick={() => {
          const dir = view.dir === "asc" ? "desc" : "asc";
          setQuery({ dir: dir === natural(view.sort) ? "" : dir });
        }}
      >
        {view.dir === "asc" ? "Ascending ↑" : "Descending ↓"}
      </button>
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
