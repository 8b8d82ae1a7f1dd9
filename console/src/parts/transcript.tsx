/** A run, record by record, however long it is; who reads is never moved. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { type RefObject, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import type { FindingRow } from "../lib/answers";
import { useHighlight } from "../lib/highlight";
import { CHIPS, rowsOf, type Shown as ShownKind } from "../lib/kinds";
import { reads } from "../lib/reading";
import { useRoute } from "../lib/route";
import { lowerBound, type Reading } from "../lib/run-records";
import { count } from "../lib/time";
import { turnOf, useTurns } from "../lib/turns";
import { useKeys } from "../lib/use";
import { Empty } from "./bits";
import { Entry, returns, type Where } from "./entry";
import { TranscriptBar } from "./transcript-bar";

const GUESS = 40; // pixels of a row, until some were drawn
const NEAR = 80; // pixels from the end that count as the end
const AROUND = 20; // rows before and after those in view whose turns are asked for
const NONE: readonly FindingRow[] = [];

interface Props {
  readonly where: Where;
  readonly read: Reading;
  readonly findings: readonly FindingRow[];
  /** The record that is chosen; 0 for none. */
  readonly seq: number;
  /** Only up to this record; 0 for all. */
  readonly at: number;
  /** The record at which the run was opened; 0 for its beginning. */
  readonly opened: number;
  /** Where one was reading when this was last shown, and is now; null if it was not. */
  readonly place: RefObject<number | null>;
}

export function Transcript({ where, read, findings, seq, at, opened, place }: Props) {
  const { version, reading } = read;
  const { runRecords } = where;
  const { query } = useRoute();
  const kind: ShownKind = CHIPS.find((each) => each === query.get("kind")) ?? "all";
  const withMoves = query.get("moves") === "1";
  const box = useRef<HTMLDivElement>(null);
  // The version is named because the set of records grows.
  const rows = useMemo(() => rowsOf(runRecords, kind, withMoves), [runRecords, version, kind, withMoves]);
  const rowOf = useCallback(
    (of: number) => lowerBound(rows, runRecords.rows[runRecords.row(of)] ?? Infinity),
    [runRecords, rows],
  );
  const length = at ? lowerBound(rows, runRecords.place(at + 1)) : rows.length;
  const findingsOf = useMemo(() => bySeq(findings), [findings]);
  // Rows that were not drawn are taken to be as high as those that were.
  const mean = useRef(GUESS);
  const list = useVirtualizer({
    count: length,
    getScrollElement: () => box.current,
    estimateSize: () => mean.current,
    overscan: 4,
    useFlushSync: false,
    getItemKey: useCallback((row: number) => runRecords.seqs[rows[row] ?? -1] ?? -1, [runRecords, rows]),
  });
  const fresh = useFresh(reading, length, box);
  const toEnd = () => {
    list.scrollToIndex(length - 1, { align: "end" });
    fresh.follow();
  };
  useEffect(() => {
    if (fresh.following) list.scrollToIndex(length - 1, { align: "end" });
  }, [length, fresh.following, list]);

  // A link leads to its record, once; who comes back to this view is where they were.
  const shownFor = useRef(0);
  const pinned = useRef<{ seq: number; align: "start" | "end" | "auto" | "center" } | null>(null);
  const [came] = useState<"end" | "start">(place.current === null ? "end" : "start");
  const arrived = useRef(place.current ?? opened);
  useEffect(() => {
    if (seq === shownFor.current && !arrived.current) return;
    const to = seq || arrived.current;
    if (to > (runRecords.seqs.at(-1) ?? 0)) return; // it was not read yet
    [shownFor.current, arrived.current] = [seq, 0];
    if (!to) return;
    const row = rowOf(to);
    const there = list.getVirtualItems().some((item) => item.index === row);
    const align = !seq ? came : there ? "auto" : "center";
    pinned.current = seq ? { seq, align } : null;
    list.scrollToIndex(row, { align });
  }, [seq, version, runRecords, list, came, rowOf]);
  // What was chosen keeps its place while what is above it grows; who scrolls is free of it.
  const size = list.getTotalSize();
  useLayoutEffect(() => {
    if (pinned.current && pinned.current.seq === seq && size)
      list.scrollToIndex(rowOf(seq), { align: pinned.current.align });
  }, [size, seq, list, rowOf]);
  const free = () => {
    pinned.current = null;
  };

  // Who moves the playhead reads what happened there.
  const shownAt = useRef(seq || place.current !== null ? at : 0);
  useEffect(() => {
    if (at === shownAt.current) return;
    const [first = Infinity, last = 0] = [runRecords.seqs[0], runRecords.seqs.at(-1)];
    if (at && (at < first || at > last)) return; // it was not read yet
    shownAt.current = at;
    if (at) list.scrollToIndex(length - 1, { align: "end" });
  }, [at, length, version, runRecords, list]);

  // When all was read, or more came, what stood before the eyes stays there: rows that were never drawn are guessed anew.
  const eyes = useRef({ runRecords, length, seq: 0, above: 0 });
  useLayoutEffect(() => {
    const before = eyes.current;
    if (before.runRecords === runRecords && before.length === length) return;
    eyes.current = { ...before, runRecords, length };
    const row = list.measurementsCache[rowOf(before.seq)];
    const to = (row?.start ?? 0) + before.above;
    if (before.seq && row && Math.abs(to - (list.scrollOffset ?? 0)) >= 1) list.scrollToOffset(to);
  }, [runRecords, length, list, rowOf]);

  const step = (by: number) => {
    // Who has chosen nothing begins with what is seen first.
    const row = seq
      ? rowOf(seq) + by
      : list.getVirtualItems().find((item) => item.end > (list.scrollOffset ?? 0))?.index;
    const next = rows[Math.min(Math.max(row ?? 0, 0), length - 1)];
    if (next !== undefined) where.choose(runRecords.seqs[next] ?? 0);
  };
  useKeys({ j: () => step(1), k: () => step(-1), ArrowDown: () => step(1), ArrowUp: () => step(-1), n: toEnd });

  const shown = list.getVirtualItems();
  const top = list.scrollOffset ?? 0;
  // In full pixels, as a browser scrolls: else what is before the eyes would move by one.
  if (shown.length > 4) mean.current = Math.round(shown.reduce((sum, item) => sum + item.size, 0) / shown.length);
  const bottom = top + (box.current?.clientHeight ?? 0);
  const inView = shown.filter((item) => item.end > top && item.start < bottom);
  const placeOf = (row: number | undefined) => rows[row ?? -1] ?? 0;
  const first = placeOf(inView[0]?.index);
  useEffect(() => {
    const [item] = inView;
    if (!item) return;
    place.current = runRecords.seqs[first] ?? 0;
    eyes.current = { runRecords, length, seq: place.current, above: top - item.start };
    reads({ from: runRecords.moments[first] ?? 0, to: runRecords.moments[placeOf(inView.at(-1)?.index)] ?? 0 });
  });
  useEffect(() => () => reads(null), []);
  const nearby = rows.slice(near(shown[0]?.index ?? 0, -1), near(shown.at(-1)?.index ?? 0, 1));
  const turns = useTurns(
    where.family,
    where.run,
    nearby.map((of) => runRecords.seqs[of] ?? 0),
  );
  const turnAt = (row: number) => {
    const record = rows[row] === undefined ? undefined : runRecords.held(runRecords.seqs[rows[row]] ?? 0);
    return record && turnOf(turns, record);
  };
  useHighlight(box, query.get("find") ?? "");
  const chosen = seq ? rowOf(seq) : -1;
  if (!runRecords.seqs.length)
    return reading ? <p className="soft">Loading …</p> : <Empty title="Nothing yet." run="" />;
  return (
    <div className="reader">
      <TranscriptBar where={where} kind={kind} withMoves={withMoves} at={at} seq={seq} />
      <div
        ref={box}
        className="transcript"
        tabIndex={0}
        role="feed"
        aria-label="Transcript"
        aria-busy={reading}
        onScroll={fresh.look}
        onWheel={free}
        onPointerDown={free}
        onTouchMove={free}
        onKeyDown={free}
      >
        <div style={{ height: list.getTotalSize(), position: "relative" }}>
          {shown.map((item) => {
            const of = placeOf(item.index);
            const record = runRecords.record(of);
            const turn = turnAt(item.index);
            const begins = turn && turnAt(item.index - 1) !== turn;
            const goesOn = turn && item.index + 1 < length && turnAt(item.index + 1) === turn;
            return (
              <div
                key={item.key}
                ref={record ? list.measureElement : null}
                data-index={item.index}
                className="place"
                style={{ transform: `translateY(${item.start}px)`, minHeight: record ? undefined : item.size }}
              >
                {record && (
                  <Entry
                    where={where}
                    record={record}
                    returned={returns(record, runRecords)}
                    findings={findingsOf.get(record.seq) ?? NONE}
                    chosen={item.index === chosen}
                    turn={turn}
                    begins={begins === true}
                    ends={!goesOn}
                  />
                )}
              </div>
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

/** A row a little before or after another; that of a few neighbours is the same. */
const near = (row: number, way: 1 | -1): number => Math.max((Math.round(row / AROUND) + 2 * way) * AROUND, 0);

function bySeq(findings: readonly FindingRow[]): ReadonlyMap<number, readonly FindingRow[]> {
  const found = new Map<number, FindingRow[]>();
  for (const each of findings) {
    const of = found.get(each.seq);
    if (of) of.push(each);
    else found.set(each.seq, [each]);
  }
  return found;
}

/** How many came since one last saw the end; who went there follows it until scrolling up. */
function useFresh(reading: boolean, length: number, box: RefObject<HTMLDivElement | null>) {
  const [known, setKnown] = useState(0);
  const [following, setFollowing] = useState(false);
  const first = useRef(true);
  const top = useRef(0);
  const atEnd = useCallback(() => {
    const of = box.current;
    return !of || of.scrollHeight - of.scrollTop - of.clientHeight < NEAR;
  }, [box]);
  useEffect(() => {
    if (reading && first.current) return;
    if (first.current || following || atEnd()) setKnown(length);
    first.current = false;
  }, [reading, length, following, atEnd]);
  return {
    following,
    count: first.current ? 0 : Math.max(length - known, 0),
    follow: () => {
      setKnown(length);
      setFollowing(true);
    },
    look: () => {
      const now = box.current?.scrollTop ?? 0;
      if (following && now < top.current - NEAR && !atEnd()) setFollowing(false);
      top.current = now;
      if (known !== length && atEnd()) setKnown(length);
    },
  };
}
