/** SHA-256, in hexadecimal digits. */

import { createHash } from "node:crypto";

export function hashed(text: string | Uint8Array): string {
  return createHash("sha256").update(text).digest("hex");
}

/** The hash above two others in a tree of hashes. */
export function joint(left: string, right: string): string {
  return createHash("sha256").update(`01${left}${right}`, "hex").digest("hex");
}
