/** Against what a run was verified, and whether the collector still has the journal that this browser saw before. */

export interface RunCheckpoint {
  readonly origin: string;
  readonly records: number;
  readonly root: string;
  readonly witnesses: readonly { readonly name: string; readonly at: string }[];
}

/** The badge of a verified run, and what it means. */
export function verifiedBy(records: number, checkpoint: RunCheckpoint | null): { badge: string; title: string } {
  const chained = `Each of its ${records} records is in the hash chain, unchanged.`;
  if (!checkpoint)
    return {
      badge: "Chained, no witness",
      title: `${chained} No witness outside this collector vouches for the chain: tracklog checkpoint`,
    };
  const upTo = `No record of it is missing up to record ${checkpoint.records}, by the checkpoint of ${checkpoint.origin}.`;
  const [first, ...others] = checkpoint.witnesses;
  if (!first)
    return {
      badge: "Signed, no witness",
      title: `${chained} ${upTo} No witness has signed it: tracklog serve --witness`,
    };
  const signed = checkpoint.witnesses.map((each) => `${each.name} at ${each.at}`).join(", ");
  const more = others.length ? ` and ${others.length} more` : "";
  return { badge: `Witnessed by ${first.name}${more}`, title: `${chained} ${upTo} Signed by ${signed}.` };
}

type Store = Pick<Storage, "getItem" | "setItem">;

/** What is wrong if a checkpoint contradicts the last one that this browser saw; else it is remembered. */
export function conflictOf(checkpoint: RunCheckpoint, store: Store = localStorage): string | null {
  const key = `tracklog.checkpoint.${checkpoint.origin}`;
  const { records, root } = checkpoint;
  try {
    const known = JSON.parse(store.getItem(key) ?? "null") as { records?: unknown; root?: unknown } | null;
    if (known && typeof known.records === "number" && typeof known.root === "string") {
      if (records < known.records)
        return `rolled back: this browser saw a checkpoint of ${known.records} records, and the last one has ${records}`;
      if (records === known.records && root !== known.root)
        return `rewritten: this browser saw another checkpoint of the same ${records} records`;
    }
    store.setItem(key, JSON.stringify({ records, root }));
  } catch {
    // No storage, or something else is in it: nothing to compare with.
  }
  return null;
}
