/** Whether a journal continues the one that was seen before. A browser uses it, too: it imports nothing. */

/** How many records a checkpoint has, and the hash over them. */
export type Tree = readonly [size: number, root: string];

const half = (number: number): number => Math.floor(number / 2);
const isOdd = (number: number): boolean => number % 2 === 1;
const isHash = (each: unknown): boolean => typeof each === "string" && /^[0-9a-f]{64}$/.test(each);

/** Whether a tree of hashes begins with a smaller one: a consistency proof of RFC 6962. `combined` is the
 * SHA-256 of a byte 1 and two hashes. */
export function isExtended(
  [old, oldRoot]: Tree,
  [size, root]: Tree,
  proof: unknown,
  combined: (left: string, right: string) => string,
): boolean {
  if (!Array.isArray(proof) || ![...proof, oldRoot, root].every(isHash)) return false;
  if (!(old > 0 && old < size) || proof.length === 0 || proof.length > 128) return false;
  let [low, high] = [old - 1, size - 1];
  while (isOdd(low)) [low, high] = [half(low), half(high)];
  const [first = oldRoot, ...path] = (low === 0 ? [oldRoot, ...proof] : proof) as string[];
  let [before, after] = [first, first];
  for (const each of path) {
    if (high === 0) return false;
    if (isOdd(low) || low === high) {
      [before, after] = [combined(each, before), combined(each, after)];
      while (low > 0 && !isOdd(low)) [low, high] = [half(low), half(high)];
    } else after = combined(after, each);
    [low, high] = [half(low), half(high)];
  }
  return before === oldRoot && after === root && high === 0;
}
