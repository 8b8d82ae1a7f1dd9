/** Every record of a run, one line each, as it was received. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef } from "react";
import type { RunRecords } from "../lib/run-records";
import { inert } from "../lib/text";
import { clock, count, exact } from "../lib/time";
import { Text } from "./bits";

const HIGH = 28;

interface Props {
  readonly runRecords: RunRecords;
  readonly version: number;
  readonly at: number;
  readonly seq: number;
  readonly choose: (seq: number) => void;
}

export function Records({ runRecords, at, seq, choose }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const length = at ? runRecords.place(at + 1) : runRecords.seqs.length;
  const list = useVirtualizer({
    count: length,
    getScrollElement: () => box.current,
    estimateSize: () => HIGH,
    overscan: 10,
    useFlushSync: false,
  });
  const chosen = seq ? runRecords.place(seq) : -1;
  useEffect(() => {
    if (chosen >= 0) list.scrollToIndex(chosen);
  }, [chosen, list]);
  return (
    <div className="records" ref={box} role="feed" aria-label="Records" tabIndex={0}>
      <div style={{ height: list.getTotalSize(), position: "relative" }}>
        {list.getVirtualItems().map((item) => {
          const record = runRecords.record(item.index);
          const when = record && (record.at ?? record.received);
          return (
            <article
              key={item.key}
              className={`record-line${item.index === chosen ? " chosen" : ""}${record?.withdrawn || record?.superseded ? " over" : ""}`}
              style={{ transform: `translateY(${item.start}px)` }}
              aria-label={`record ${runRecords.seqs[item.index]}`}
            >
              <button className="quiet num" onClick={() => choose(runRecords.seqs[item.index] ?? 0)}>
                #{runRecords.seqs[item.index]}
              </button>
              <time className="soft" title={exact(when)}>
                {clock(when)}
              </time>
              <span className="soft cut">{record && inert(record.dialect)}</span>
              <span className="mono cut">{record && inert(record.kind)}</span>
              <span className="cut">
                <Text>{record?.words}</Text>
              </span>
              <span className="soft num">{record ? `${count(record.bytes)} B` : "…"}</span>
            </article>
          );
        })}
      </div>
    </div>
  );
}
