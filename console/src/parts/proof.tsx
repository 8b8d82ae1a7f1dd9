/** Whether the records of a run are those that were recorded, and the formats in which it can be taken along. */

import { useEffect, useRef, useState } from "react";
import { address, filled } from "../lib/api";
import { conflictOf, isSame, lastSeen, type RunCheckpoint, remember, type Seen, verifiedBy } from "../lib/checkpoint";
import { inert } from "../lib/text";
import { useAnswer } from "../lib/use";
import { Icon } from "./icons";

const LONG = 5_000; // records

/** Checked at once where that costs little; of a long run only when asked. */
export function Proof({ family, run, records }: { family: string; run: string; records: number | null }) {
  const [wanted, want] = useState(false);
  const short = useRef(false);
  short.current ||= records !== null && records <= LONG; // it may grow; what was proven was proven
  const asked = wanted || short.current;
  const { data, trouble, conflict } = useProof(family, run, asked);
  if (!asked) return <button onClick={() => want(true)}>Verify this run</button>;
  if (trouble) return <span className="proof failed">not verified: {inert(trouble.message)}</span>;
  if (!data || conflict === undefined) return <span className="proof soft">verifying …</span>;
  const [first] = data.faults;
  if (!data.whole)
    return (
      <span className="proof failed">
        ✗ changed: record {first?.seq} does not match the chain of hashes; <code>tracklog verify</code> says more
      </span>
    );
  if (conflict)
    return (
      <span className="proof failed">
        ✗ {inert(conflict)}; <code>tracklog verify --checkpoint FILE</code> says more
      </span>
    );
  const { badge, title } = verifiedBy(data.records, data.checkpoint);
  return (
    <span className="proof soft" title={inert(title)}>
      <Icon name="shield" size={13} /> {inert(badge)} <span className="soft">✓ verified</span>
    </span>
  );
}

/** A run as the collector verified it, and whether its checkpoint contradicts the last one that this browser saw. */
function useProof(family: string, run: string, asked: boolean) {
  const [seen, see] = useState<Seen | null>(() => lastSeen());
  const [compared, compare] = useState<{ checkpoint: RunCheckpoint; conflict: string | null }>();
  const names = { family, run, check: true, ...(seen ? { seen: seen.records } : {}) };
  const { data: given, trouble } = useAnswer(asked ? address("/api/runs/{family}/{run}/proof", names) : null, "never");
  const data = given && "faults" in given ? given : undefined;
  const checkpoint = data?.checkpoint;
  useEffect(() => {
    if (!checkpoint) return;
    const known = seen?.origin === checkpoint.origin ? seen : lastSeen(checkpoint.origin);
    if (known && known !== seen && !isSame(known, checkpoint)) return see(known); // asks again, for the proof
    const conflict = known && conflictOf(checkpoint, known);
    if (!conflict) remember(checkpoint);
    compare({ checkpoint, conflict });
  }, [checkpoint, seen]);
  const done = checkpoint === null || (checkpoint !== undefined && compared?.checkpoint === checkpoint);
  return { data, trouble, conflict: done ? (checkpoint && compared?.conflict) || null : undefined };
}

interface Document {
  paths: Record<string, { get?: { parameters?: { name: string; schema?: { enum?: string[] } }[] } }>;
}

export function Downloads({ family, run }: { family: string; run: string }) {
  const [open, setOpen] = useState(false);
  const { data } = useAnswer(open ? address("/api/openapi.json") : null, "never");
  const asked =
    (data?.paths as Document["paths"] | undefined)?.["/api/export/{format}/{family}/{run}"]?.get?.parameters ?? [];
  const formats = asked.find((each) => each.name === "format")?.schema?.enum ?? [];
  return (
    <details className="menu" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <Icon name="export" size={13} /> Export
      </summary>
      <div className="sheet">
        {formats.map((format) => (
          <a key={format} download href={filled("/api/export/{format}/{family}/{run}", { format, family, run })}>
            {format}
          </a>
        ))}
      </div>
    </details>
  );
}
