/** Where lines go. */

import { closeSync, fstatSync, fsyncSync, openSync, readSync, writeSync } from "node:fs";

/** `os`: synced when it is closed; `sync`: after each line. */
export type Durability = "os" | "sync";

/** Takes lines with their line end, whole, or throws. */
export interface Sink {
  write(line: string, dialect: string): void;
  close(): void | Promise<void>;
}

/** A file, and something beside it. */
export class Tee implements Sink {
  readonly #file: Appender;
  readonly #other: Sink;

  constructor(file: Appender, other: Sink) {
    this.#file = file;
    this.#other = other;
  }

  write(line: string, dialect: string): void {
    this.#file.write(line);
    this.#other.write(line, dialect);
  }

  close(): void | Promise<void> {
    const closed = this.#other.close();
    this.#file.close();
    return closed;
  }
}

/** The system took only a part of a line; the rest was not sent after it. */
export class ShortWrite extends Error {
  override readonly name = "ShortWrite";
}

/** A file that only grows: each line is one write, so that lines of many writers never mix. */
export class Appender implements Sink {
  readonly #sync: boolean;
  #file: number | undefined;
  #torn: boolean;

  constructor(path: string, durability: Durability = "os", mode = 0o666) {
    if (durability !== "os" && durability !== "sync")
      throw new TypeError(`durability ${String(durability)} is unknown: write "os" or "sync"`);
    this.#sync = durability === "sync";
    this.#file = openSync(path, "a", mode);
    this.#torn = isUnterminated(this.#file, path);
  }

  /** Writes one line, whole, or throws; a short write is never followed by the rest (K19). */
  write(line: string): void {
    if (this.#file === undefined) throw new Error("the emitter is closed: open another one");
    // What a crash or a short write left without its end would swallow this line.
    const bytes = new TextEncoder().encode(this.#torn ? `\n${line}` : line);
    const written = writeSync(this.#file, bytes);
    this.#torn = written !== bytes.length;
    if (this.#torn) throw new ShortWrite(`only ${written} of ${bytes.length} bytes were written`);
    if (this.#sync) fsyncSync(this.#file);
  }

  /** Makes the lines durable and closes the file; a second call does nothing. */
  close(): void {
    const file = this.#file;
    this.#file = undefined;
    if (file === undefined) return;
    try {
      if (fstatSync(file).isFile()) fsyncSync(file);
    } finally {
      closeSync(file);
    }
  }
}

function isUnterminated(file: number, path: string): boolean {
  const status = fstatSync(file);
  if (!status.isFile() || status.size === 0) return false;
  try {
    const reader = openSync(path, "r");
    try {
      const last = new Uint8Array(1);
      readSync(reader, last, 0, 1, status.size - 1);
      return last[0] !== 0x0a;
    } finally {
      closeSync(reader);
    }
  } catch {
    return true; // it cannot be read: a blank line is the lesser harm
  }
}
