/** `refused.jsonl`: the lines that a collector will never accept, with the reasons. */

import { closeSync, constants, fstatSync, mkdirSync, openSync, readSync, writeSync } from "node:fs";

const REFUSED_BYTES = 64 << 20;

/** A line, and why it was refused. */
export type Refused = readonly [line: Uint8Array, why: string];

/** Appends lines to the file; calls `written` after each one, and throws if one cannot be written. */
export function appendRefused(
  path: string,
  folder: string,
  refused: readonly Refused[],
  { dialect, status }: { readonly dialect: string; readonly status: number },
  written: () => void,
): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const { O_RDWR, O_APPEND, O_CREAT, O_NONBLOCK, O_NOFOLLOW } = constants;
  // Never blocks, also if a pipe has the name of the file.
  const file = openSync(path, O_RDWR | O_APPEND | O_CREAT | O_NONBLOCK | O_NOFOLLOW, 0o600);
  try {
    const found = fstatSync(file);
    if (!found.isFile()) throw new Error(`${path} is no file`);
    if (found.size > REFUSED_BYTES) throw new Error(`${path} is full`);
    const last = new Uint8Array(1);
    let isTorn = found.size > 0 && readSync(file, last, 0, 1, found.size - 1) > 0;
    isTorn = isTorn && last[0] !== 0x0a;
    for (const [line, why] of refused) {
      const record = { status, why, dialect, line: new TextDecoder().decode(line) };
      const text = `${isTorn ? "\n" : ""}${JSON.stringify(record)}\n`;
      const bytes = new TextEncoder().encode(text);
      if (writeSync(file, bytes) !== bytes.length) throw new Error(`${path} cannot be written`);
      isTorn = false;
      written();
    }
  } finally {
    closeSync(file);
  }
}
