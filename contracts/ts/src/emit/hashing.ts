/** SHA-256, in hexadecimal digits, and proofs made of it. */

import { createHash } from "node:crypto";

export function hashed(text: string | Uint8Array): string {
  return createHash("sha256").update(text).digest("hex");
}

const half = (number: number): number => Math.floor(number / 2);
const isOdd = (number: number): boolean => number % 2 === 1;
const joint = (left: string, right: string): string =>
  createHash("sha256").update(`01${left}${right}`, "hex").digest("hex");

/** Whether a tree of hashes begins with a smaller one: a consistency proof of RFC 6962. */
export function isExtended(old: number, oldRoot: string, size: number, root: string, proof: unknown): boolean {
  const isHash = (each: unknown): boolean => typeof each === "string" && /^[0-9a-f]{64}$/.test(each);
  if (!Array.isArray(proof) || ![...proof, oldRoot, root].every(isHash)) return false;
  if (!(old > 0 && old < size) || proof.length === 0 || proof.length > 128) return false;
  let [low, high] = [old - 1, size - 1];
  while (isOdd(low)) [low, high] = [half(low), half(high)];
  const [first = oldRoot, ...path] = (low === 0 ? [oldRoot, ...proof] : proof) as string[];
  let [before, after] = [first, first];
  for (const each of path) {
    if (high === 0) return false;
    if (isOdd(low) || low === high) {
      [before, after] = [joint(each, before), joint(each, after)];
      while (low > 0 && !isOdd(low)) [low, high] = [half(low), half(high)];
    } else after = joint(after, each);
    [low, high] = [half(low), half(high)];
  }
  return before === oldRoot && after === root && high === 0;
}
