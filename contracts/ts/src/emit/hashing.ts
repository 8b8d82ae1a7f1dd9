/** A name for what is no good file name. */

import { createHash } from "node:crypto";

export function hashed(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
