/** Against what a run was verified, and whether the collector still has the journal that this browser saw before. */

import { isExtended } from "@tracklog/contracts/extension";
import type { RunCheckpoint } from "./answers";
import { sha256 } from "./sha256";

/** The badge of a verified run, and what it means. */
export function verifiedBy(
  records: number,
  checkpoint: RunCheckpoint | null,
): { badge: string; by?: string; title: string } {
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
  return {
    badge: `Proven to #${checkpoint.records}`,
    by: `against ${first.name}${more}`,
    title: `${chained} ${upTo} Signed by ${signed}.`,
  };
}

/** A checkpoint that this browser saw. */
export type Seen = Pick<RunCheckpoint, "origin" | "records" | "root">;
type Store = Pick<Storage, "getItem" | "setItem">;
const [KEY, MOST] = ["tracklog.checkpoints", 100];

/** The last checkpoint that this browser saw, of this journal or of any. */
export function lastSeen(origin?: string, store?: Store): Seen | null {
  return allSeen(store).find((each) => origin === undefined || each.origin === origin) ?? null;
}

/** Remembers a checkpoint as the last one. */
export function remember({ origin, records, root }: Seen, store?: Store): void {
  const others = allSeen(store).filter((each) => each.origin !== origin);
  try {
    (store ?? localStorage).setItem(KEY, JSON.stringify([{ origin, records, root }, ...others].slice(0, MOST)));
  } catch {
    // No storage: nothing can be compared with it later.
  }
}

function allSeen(store?: Store): Seen[] {
  try {
    const found: unknown = JSON.parse((store ?? localStorage).getItem(KEY) ?? "[]");
    return Array.isArray(found) ? found.filter(isSeen) : [];
  } catch {
    return []; // No storage, or something else is in it: nothing to compare with.
  }
}

/** Whether something is such a checkpoint: anything may be stored. */
export function isSeen(found: unknown): found is Seen {
  const { origin, records, root } = (found ?? {}) as Record<string, unknown>;
  return typeof origin === "string" && Number.isSafeInteger(records) && Number(records) > 0 && typeof root === "string";
}

export function isSame(one: Seen, other: Seen): boolean {
  return one.origin === other.origin && one.records === other.records && one.root === other.root;
}

/** What is wrong if a checkpoint does not extend the one of the same journal that was seen before it was asked for. */
export function conflictOf(checkpoint: RunCheckpoint, seen: Seen): string | null {
  const { records, root, proof } = checkpoint;
  if (isSame(seen, checkpoint)) return null;
  if (records < seen.records)
    return `rolled back: this browser saw a checkpoint of ${seen.records} records, and the last one has ${records}`;
  if (records === seen.records) return `rewritten: this browser saw another checkpoint of the same ${records} records`;
  if (isExtended([seen.records, seen.root], [records, root], proof, joint)) return null;
  return `rewritten: this browser saw a checkpoint of ${seen.records} records, and the last one, of ${records}, does not begin with them`;
}

/** The hash above two others in a tree of hashes. */
function joint(left: string, right: string): string {
  return sha256(Uint8Array.from(`01${left}${right}`.match(/../g) ?? [], (digits) => Number.parseInt(digits, 16)));
}
