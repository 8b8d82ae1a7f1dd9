/** SHA-256, in hexadecimal digits. */

import { createHash } from "node:crypto";

export function hashed(text: string | Uint8Array): string {
  return createHash("sha256").update(text).digest("hex");
}
