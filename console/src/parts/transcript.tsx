/** A run, record by record, however long it is; who reads is never moved. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { type RefObject, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import type { FindingRow } from "../lib/answers";
import { lowerBound, type Reading } from "../lib/book";
import { count } from "../lib/time";
import { useKeys } from "../lib/use";
import { Empty } from "./bits";
import { Entry, returns, type Where } from "./entry";
import { Strip } from "./timeline";

const GUESS = 50; // pixels of a row that was not drawn yet
const NEAR = 80; // pixels from the end that count as the end
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
  const { book } = where;
  const box = useRef<HTMLDivElement>(null);
  const length = at ? lowerBound(book.rows, book.place(at + 1)) : book.rows.length;
  const findingsOf = useMemo(() => bySeq(findings), [findings]);
  const list = useVirtualizer({
    count: length,
    getScrollElement: () => box.current,
    estimateSize: () => GUESS,
    overscan: 4,
    useFlushSync: false,
    getItemKey: useCallback((row: number) => book.seqs[book.rows[row] ?? -1] ?? -1, [book]),
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
  const [came] = useState<"end" | "start">(place.current === null ? "end" : "start");
  const arrived = useRef(place.current ?? opened);
  useEffect(() => {
    if (seq === shownFor.current && !arrived.current) return;
    const to = seq || arrived.current;
    if (to > (book.seqs.at(-1) ?? 0)) return; // it was not read yet
    [shownFor.current, arrived.current] = [seq, 0];
    if (!to) return;
    const row = book.row(to);
    const there = list.getVirtualItems().some((item) => item.index === row);
    list.scrollToIndex(row, { align: !seq ? came : there ? "auto" : "center" });
  }, [seq, version, book, list, came]);

  // When all was read, what stood before the eyes stays there.
  const eyes = useRef({ book, seq: 0, above: 0 });
  useLayoutEffect(() => {
    if (eyes.current.book === book) return;
    eyes.current.book = book;
    const row = list.measurementsCache[book.row(eyes.current.seq)];
    if (eyes.current.seq && row) list.scrollToOffset(row.start + eyes.current.above);
  }, [book, list]);

  const step = (by: number) => {
    // Who has chosen nothing begins with what is seen first.
    const row = seq
      ? book.row(seq) + by
      : list.getVirtualItems().find((item) => item.end > (list.scrollOffset ?? 0))?.index;
    const next = book.rows[Math.min(Math.max(row ?? 0, 0), length - 1)];
    if (next !== undefined) where.choose(book.seqs[next] ?? 0);
  };
  useKeys({ j: () => step(1), k: () => step(-1), ArrowDown: () => step(1), ArrowUp: () => step(-1), n: toEnd });

  const shown = list.getVirtualItems();
  const top = list.scrollOffset ?? 0;
  const bottom = top + (box.current?.clientHeight ?? 0);
  const inView = shown.filter((item) => item.end > top && item.start < bottom);
  const placeOf = (row: number | undefined) => book.rows[row ?? -1] ?? 0;
  const first = placeOf(inView[0]?.index);
  useEffect(() => {
    const [item] = inView;
    if (!item) return;
    place.current = book.seqs[first] ?? 0;
    eyes.current = { book, seq: place.current, above: top - item.start };
  });
  const chosen = seq ? book.row(seq) : -1;
  if (!book.seqs.length) return reading ? <p className="soft">Loading …</p> : <Empty title="Nothing yet." run="" />;
  return (
    <div className="reader">
      <Strip
        spans={read.book.shaping.spans}
        version={version}
        from={book.moments[first] ?? 0}
        to={book.moments[placeOf(inView.at(-1)?.index)] ?? 0}
        choose={where.choose}
      />
      <div
        ref={box}
        className="transcript"
        tabIndex={0}
        role="feed"
        aria-label="Transcript"
        aria-busy={reading}
        onScroll={fresh.look}
      >
        <div style={{ height: list.getTotalSize(), position: "relative" }}>
          {shown.map((item) => {
            const record = book.record(placeOf(item.index));
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
                    returned={returns(record, book)}
                    findings={findingsOf.get(record.seq) ?? NONE}
                    chosen={item.index === chosen}
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
