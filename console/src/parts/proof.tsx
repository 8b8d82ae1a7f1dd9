/** Whether the records of a run are those that were recorded, and the formats in which it can be taken along. */

import { useEffect, useRef, useState } from "react";
import type { RunCheckpoint } from "../lib/answers";
import { address, filled } from "../lib/api";
import { conflictOf, isSame, lastSeen, remember, type Seen, verifiedBy } from "../lib/checkpoint";
import { useLive } from "../lib/live";
import { inert } from "../lib/text";
import { ago, count } from "../lib/time";
import { useAnswer, useNow } from "../lib/use";
import { Text, When } from "./bits";
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
  const { badge, by, title } = verifiedBy(data.records, data.checkpoint);
  if (!by || !data.checkpoint)
    return (
      <span className="proof soft" title={inert(title)}>
        <Icon name="shield" size={13} /> {inert(badge)} <span className="soft verified">✓ verified</span>
      </span>
    );
  return <Proven badge={badge} by={by} title={title} checkpoint={data.checkpoint} />;
}

interface ProvenProps {
  readonly badge: string;
  readonly by: string;
  readonly title: string;
  readonly checkpoint: RunCheckpoint;
}

/** A run that a witness vouches for; behind the badge each witness, and how many records it has not signed yet. */
function Proven({ badge, by, title, checkpoint }: ProvenProps) {
  const now = useNow();
  const { last } = useLive();
  const newer = Math.max(last - checkpoint.records, 0);
  return (
    <details className="menu proof-menu">
      <summary className="proof done" title={inert(title)}>
        <Icon name="shield" size={13} /> {inert(badge.replace(/\d+/, (digits) => count(Number(digits))))}{" "}
        <span className="soft">
          {inert(by)}, {ago(checkpoint.witnesses[0]?.at, now)}
        </span>
      </summary>
      <div className="sheet">
        <ul aria-label="Witnesses">
          {checkpoint.witnesses.map((each) => (
            <li key={each.name}>
              <Text>{each.name}</Text> agrees up to #{count(checkpoint.records)}, <When at={each.at} now={now} />
            </li>
          ))}
        </ul>
        <p>
          {newer ? `${count(newer)} newer ${newer === 1 ? "record is" : "records are"}` : "No newer record is"} not
          witnessed yet.
        </p>
      </div>
    </details>
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
