/** What is on its way to a collector, in private files that outlive their process. */

import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  readSync,
  renameSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { hostname } from "node:os";

import { hashed } from "./hashing.js";

export const BATCH_BYTES = 512 << 10;
const BATCH_LINES = 1000;
const SEGMENT_BYTES = 8 << 20;
const SPOOL_BYTES = 1 << 30;
const MEMORY_BYTES = 8 << 20;
const NEWLINE = 0x0a;
const BEFORE = /^[a-z][a-z0-9-]*$/;

/** Lines that are sent together: the same key always stands for the same lines. */
export interface Batch {
  readonly key: string;
  /** Empty, where a crash left something else than a line. */
  readonly dialect: string;
  readonly lines: readonly Uint8Array[];
  readonly end: number;
}

interface Store {
  readonly head: number;
  readonly limit: number;
  /** Its part of a batch's key, which stays when another process takes it over. */
  readonly id: string;
  append(bytes: Uint8Array): void;
  size(): number;
  read(start: number, end: number): Uint8Array;
  taken(): number;
  take(end: number): void;
  release(): void;
  remove(): void;
}

/**
 * A file that belongs to the process that is named in its name, until that is gone.
 * It begins with the place up to which all was taken by the collector, in twenty digits.
 */
class SpoolFile implements Store {
  readonly head = 21;
  readonly limit = SEGMENT_BYTES;
  readonly id: string;
  readonly #folder: string;
  #name: string;
  #file: number | undefined;

  constructor(folder: string, name: string, id: string, file: number) {
    this.#folder = folder;
    this.#name = name;
    this.id = id;
    this.#file = file;
  }

  static fresh(folder: string): SpoolFile {
    const id = `${String(Date.now()).padStart(14, "0")}-${crypto.randomUUID()}`;
    const name = named(id, process.pid, startOf(process.pid));
    const made = new SpoolFile(folder, name, id, openSync(`${folder}/${name}`, "wx+", 0o600));
    try {
      made.append(new TextEncoder().encode(`${String(made.head).padStart(20, "0")}\n`));
    } catch (error) {
      made.remove();
      throw error;
    }
    return made;
  }

  /** The file of a process that is gone: renaming it is what one process alone can do. */
  static left(folder: string, name: string): SpoolFile | undefined {
    const [id, place, pid, start] = name.replace(".nspool", "").split("~");
    if (id === undefined || place !== PLACE || isAlive(Number(pid), start ?? "")) return undefined;
    const mine = named(id, process.pid, startOf(process.pid));
    try {
      // A pipe or a device might not return.
      if (!lstatSync(`${folder}/${name}`).isFile()) return undefined;
      renameSync(`${folder}/${name}`, `${folder}/${mine}`);
      const flags = constants.O_RDWR | constants.O_NOFOLLOW | constants.O_NONBLOCK;
      return new SpoolFile(folder, mine, id, openSync(`${folder}/${mine}`, flags));
    } catch {
      return undefined; // another process was quicker
    }
  }

  append(bytes: Uint8Array): void {
    const before = this.size();
    const written = writeSync(this.#open(), bytes, 0, bytes.length, before);
    if (written === bytes.length) return;
    ftruncateSync(this.#open(), before);
    throw new Error(`only ${written} of ${bytes.length} bytes were written`);
  }

  size(): number {
    return fstatSync(this.#open()).size;
  }

  read(start: number, end: number): Uint8Array {
    const bytes = new Uint8Array(Math.max(0, end - start));
    let at = 0;
    while (at < bytes.length) {
      const count = readSync(this.#open(), bytes, at, bytes.length - at, start + at);
      if (count === 0) break;
      at += count;
    }
    return bytes.subarray(0, at);
  }

  /** Where to go on: at the start, unless what is written there can be true of this file. */
  taken(): number {
    const digits = new TextDecoder().decode(this.read(0, this.head));
    const end = /^\d{20}\n$/.test(digits) ? Number(digits) : 0;
    const isTrue = end >= this.head && end <= this.size() && this.read(end - 1, end)[0] === NEWLINE;
    return isTrue ? end : this.head;
  }

  take(end: number): void {
    const digits = new TextEncoder().encode(String(end).padStart(20, "0"));
    writeSync(this.#open(), digits, 0, digits.length, 0);
  }

  /** Leaves the file to whoever looks for it next. */
  release(): void {
    if (this.#file === undefined) return;
    closeSync(this.#file);
    this.#file = undefined;
    try {
      renameSync(`${this.#folder}/${this.#name}`, `${this.#folder}/${named(this.id, 0, "0")}`);
    } catch {
      // it stays this process's own until that is gone
    }
  }

  remove(): void {
    if (this.#file === undefined) return;
    try {
      unlinkSync(`${this.#folder}/${this.#name}`);
    } catch {
      // it is empty, and whoever can will remove it
    }
    closeSync(this.#file);
    this.#file = undefined;
  }

  #open(): number {
    if (this.#file === undefined) throw new Error("the spool file is closed");
    return this.#file;
  }
}

/** What stands in for the file where none can be written; it ends with its process. */
class SpoolMemory implements Store {
  readonly head = 0;
  readonly limit = MEMORY_BYTES;
  readonly id = crypto.randomUUID();
  #bytes = new Uint8Array(0);
  #used = 0;
  #dropped = 0;

  append(bytes: Uint8Array): void {
    if (this.#used + bytes.length > this.#bytes.length) {
      const more = new Uint8Array(2 * (this.#used + bytes.length));
      more.set(this.#bytes.subarray(0, this.#used));
      this.#bytes = more;
    }
    this.#bytes.set(bytes, this.#used);
    this.#used += bytes.length;
  }

  size(): number {
    return this.#dropped + this.#used;
  }

  read(start: number, end: number): Uint8Array {
    return this.#bytes.slice(start - this.#dropped, end - this.#dropped);
  }

  taken(): number {
    return this.#dropped;
  }

  take(end: number): void {
    this.#bytes = this.#bytes.slice(end - this.#dropped, this.#used);
    this.#used = this.#bytes.length;
    this.#dropped = end;
  }

  release(): void {
    this.#bytes = new Uint8Array(0);
    this.#used = 0;
  }

  remove(): void {
    this.release();
  }
}

/**
 * Lines on their way: each with its dialect before it; an empty line ends a batch, and so does
 * another dialect, and the end of the file once a batch was read up to there.
 * Where a batch ends is thus written before anything follows it.
 */
class Segment {
  readonly store: Store;
  done: number;
  closed = false;
  #cut = false;
  #pending = 0;
  #count = 0;

  constructor(store: Store) {
    this.store = store;
    this.done = store.taken();
  }

  append(line: string, dialect: string): void {
    const bytes = new TextEncoder().encode(`${this.#cut ? "\n" : ""}${dialect} ${line}`);
    this.store.append(bytes);
    if (this.#cut) this.#pending = this.#count = 0;
    this.#pending += bytes.length;
    this.#count += 1;
    this.#cut = this.#pending >= BATCH_BYTES || this.#count >= BATCH_LINES;
  }

  left(): number {
    return this.store.size() - this.done;
  }

  /** The first lines that were not taken, or those behind a place; they do not grow any more. */
  batch(behind?: number): Batch | undefined {
    const end = this.store.size();
    if (behind !== undefined || end - this.done <= 2 * BATCH_BYTES) this.#cut = true;
    const place = Math.max(this.done, behind ?? 0);
    let reach = Math.min(end, place + 2 * BATCH_BYTES);
    let lines = cut(this.store.read(place, reach));
    while (!lines.ended && reach < end) {
      reach = Math.min(end, place + 2 * (reach - place));
      lines = cut(this.store.read(place, reach));
    }
    const [first] = lines.found;
    if (first === undefined) return undefined;
    const start = place + lines.skipped;
    const key = `${this.store.id}-${start}`;
    const dialect = new TextDecoder().decode(first.subarray(0, Math.max(0, first.indexOf(0x20))));
    if (!BEFORE.test(dialect)) return { key, dialect: "", lines: [first], end: start + first.length + 1 };
    const before = new TextEncoder().encode(`${dialect} `);
    const other = lines.found.findIndex((line) => !begins(line, before));
    const same = other < 0 ? lines.found : lines.found.slice(0, other);
    const size = same.reduce((sum, line) => sum + line.length + 1, 0);
    return {
      key,
      dialect,
      lines: same.map((line) => line.subarray(before.length)),
      end: start + size,
    };
  }

  take(end: number): void {
    this.done = end;
    this.store.take(end);
  }
}

/** The files of one collector, its own and those it found, oldest first. */
export class Spool {
  readonly folder: string;
  /** Told what went wrong, and what that means. */
  readonly #warn: (what: string, text: string) => void;
  #adopted: Segment[] = [];
  #own: Segment[] = [];
  #looked = false;

  constructor(folder: string, warn: (what: string, text: string) => void) {
    this.folder = folder;
    this.#warn = warn;
  }

  /** Keeps a line with its line end, or throws. */
  append(line: string, dialect: string): void {
    let last = this.#own.at(-1);
    if (last === undefined || last.closed || last.store.size() >= last.store.limit) {
      if (last?.store instanceof SpoolMemory) {
        if (last.left() + line.length > last.store.limit)
          throw new Error("the collector is away and the memory is full");
      } else last = this.#roll();
    }
    try {
      last.append(line, dialect);
    } catch {
      last.closed = true;
      const instead = new Segment(new SpoolMemory());
      this.#own.push(instead);
      instead.append(line, dialect);
    }
  }

  /** The oldest batch, and what to call when it is taken; `torn` is told what is no line. */
  next(torn: (rest: Uint8Array) => void): [Batch, () => void] | undefined {
    if (!this.#looked) this.lookAround();
    for (let first = this.#adopted[0]; first; first = this.#adopted[0]) {
      const segment = first;
      const batch = segment.batch();
      if (batch) return [batch, () => segment.take(batch.end)];
      const rest = segment.store.read(segment.done, segment.store.size());
      if (rest.some((byte) => byte !== 0 && byte !== NEWLINE)) torn(rest);
      this.#adopted.shift();
      segment.store.remove();
    }
    for (let first = this.#own[0]; first; first = this.#own[0]) {
      const segment = first;
      const batch = segment.batch();
      if (batch) return [batch, () => segment.take(batch.end)];
      if (this.#own.length === 1 && segment.store.size() < segment.store.limit / 8) break;
      this.#own.shift();
      segment.store.remove();
    }
    return undefined;
  }

  /** The batch so many places behind the one that is next, or the last there is. */
  behind(place: number, distance: number): Batch | undefined {
    let found: Batch | undefined;
    let [at, left] = [place, distance];
    for (const segment of [...this.#adopted, ...this.#own]) {
      for (let batch = segment.batch(at); batch; batch = segment.batch(at)) {
        if (batch.dialect) {
          found = batch;
          left -= 1;
        }
        if (left <= 0) return found;
        at = batch.end;
      }
      at = 0;
    }
    return found;
  }

  /** Where lines wait that were not sent yet. */
  where(): string {
    const inMemory = this.#own.some((segment) => segment.store instanceof SpoolMemory);
    return inMemory ? "lines wait in memory" : `lines are kept in ${this.folder}`;
  }

  /** How many lines wait in memory alone. */
  onlyInMemory(): number {
    let count = 0;
    for (const { store, done } of this.#own) {
      if (!(store instanceof SpoolMemory)) continue;
      const bytes = store.read(done, store.size());
      count += bytes.filter((byte, at) => byte === NEWLINE && at > 0 && bytes[at - 1] !== NEWLINE).length;
    }
    return count;
  }

  /** Takes over what processes left that are gone. */
  lookAround(): void {
    this.#looked = true;
    for (const name of listed(this.folder)) {
      if (!name.endsWith(".nspool")) continue;
      const file = SpoolFile.left(this.folder, name);
      if (!file) continue;
      if (file.size() > file.head) this.#adopted.push(new Segment(file));
      else file.remove();
    }
  }

  /** Whether all was taken, as far as was looked. */
  isEmpty(): boolean {
    return this.#looked && [...this.#adopted, ...this.#own].every((segment) => segment.left() <= 0);
  }

  /** Removes what is done and leaves the rest to the next process; how many lines that loses. */
  rest(): number {
    const lost = this.onlyInMemory();
    for (const segment of [...this.#adopted, ...this.#own]) {
      if (segment.left() <= 0) segment.store.remove();
      else segment.store.release();
    }
    this.#adopted = this.#own = [];
    return lost;
  }

  #roll(): Segment {
    if (this.#own.reduce((sum, segment) => sum + segment.left(), 0) >= SPOOL_BYTES)
      throw new Error(`the spool ${this.folder} is full`);
    let store: Store;
    try {
      mkdirSync(this.folder, { recursive: true, mode: 0o700 });
      store = SpoolFile.fresh(this.folder);
    } catch (error) {
      const limit = "what cannot be sent is kept in memory, up to a limit";
      this.#warn("spool", `${String(error)}: ${limit}`);
      store = new SpoolMemory();
    }
    const segment = new Segment(store);
    this.#own.push(segment);
    return segment;
  }
}

/** The lines of a block up to an empty one; a last line without its end is none. */
function cut(block: Uint8Array): { found: Uint8Array[]; skipped: number; ended: boolean } {
  let start = 0;
  while (block[start] === NEWLINE) start += 1;
  const skipped = start;
  const found: Uint8Array[] = [];
  for (let end = block.indexOf(NEWLINE, start); end >= 0; end = block.indexOf(NEWLINE, start)) {
    if (end === start) return { found, skipped, ended: true };
    found.push(block.subarray(start, end));
    start = end + 1;
  }
  return { found, skipped, ended: false };
}

function begins(line: Uint8Array, before: Uint8Array): boolean {
  return before.every((byte, index) => line[index] === byte);
}

/** The place whose process numbers these are: a machine, or a container on one. */
const PLACE = hashed(`${hostname()} ${namespace()}`).slice(0, 8);

function named(id: string, pid: number, start: string): string {
  return `${id}~${PLACE}~${pid}~${start}.nspool`;
}

function namespace(): string {
  try {
    return readlinkSync("/proc/self/ns/pid");
  } catch {
    return ""; // not on Linux
  }
}

/** When a process began, where that can be known, so that a number used again is not mistaken. */
function startOf(pid: number): string {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    return text.slice(text.lastIndexOf(")") + 2).split(" ")[19] ?? "0";
  } catch {
    return "0";
  }
}

function isAlive(pid: number, start: string): boolean {
  if (!(pid > 0)) return false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as { code?: string }).code !== "ESRCH";
  }
  const now = startOf(pid);
  return start === "0" || now === "0" || now === start;
}

function listed(folder: string): string[] {
  try {
    return readdirSync(folder).sort();
  } catch {
    return [];
  }
}
