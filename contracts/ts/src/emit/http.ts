/** Sends lines to a collector; what it cannot send waits in a spool. */

import { homedir } from "node:os";

import { type Answer, PASSING, PROTOCOL, type Report, reportOf, Unreachable, whyNot } from "./answer.js";
import { Connection } from "./connection.js";
import type { Environ } from "./environ.js";
import { isExtended, type Tree } from "./extension.js";
import type { Sink } from "./file.js";
import { hashed, joint } from "./hashing.js";
import { appendRefused, type Refused } from "./refused.js";
import { type Batch, Spool } from "./spool.js";
import { allowed, Bell, charge, resetTotal, seconds } from "./waiting.js";
import { warn } from "./warning.js";

export const URL_ENV = "TRACKLOG_URL";
export const SPOOL_ENV = "TRACKLOG_SPOOL";

/** Tries of a batch before those behind it are tried; how often they must pass; how far to look. */
const [REFUSALS, FAILURES, STRIKES, FAR] = [3, 12, 3, 64];
/** Of the deadline, what closing may take before the end of the process. */
const CLOSE_SHARE = 0.75;
/** Seconds: to wait for more lines, for an answer, between looks for left files, between tries. */
const [LINGER, PATIENCE, LOOK_AROUND, LONGEST_PAUSE] = [0.05, 15, 30, 30];

export interface HttpOptions {
  readonly token?: string | undefined;
  /** The folder of the files in which lines wait; from the environment unless given. */
  readonly spool?: string | undefined;
  /** How many seconds the end of the process may wait for the collector; 2 unless given. */
  readonly deadline?: number | undefined;
  readonly environ?: Environ | undefined;
}

/**
 * `write` appends to a private file and returns: it never waits for the network and never throws
 * because of it. Batches are sent in order, again and again until the collector has taken them,
 * under a key by which it knows a batch that it has already. Taken is what an answer of the
 * collector itself says so of, line by line counted; a batch that it refuses for good is set aside
 * in `refused.jsonl`. What a process leaves behind is sent by the next one that reports to the same
 * collector. Closing and the end of the process wait `deadline` seconds at most, together and for
 * all sinks of the process.
 */
export class HttpSink implements Sink {
  readonly url: string;
  readonly deadline: number;
  readonly folder: string;
  /** How many lines were refused for good, and stand in `refused.jsonl`. */
  setAside = 0;
  #lost = 0;
  #stuck = "";
  #tries = 0;
  #strikes = 0;
  readonly #spool: Spool;
  readonly #connection: Connection;
  readonly #warned = new Set<string>();
  readonly #checkpoints = new Map<string, Tree>();
  #seen = 0;
  readonly #bell = new Bell();
  readonly #leaving = new Bell();
  #work: Promise<void> | undefined;
  #isClosed = false;
  #isAbandoned = false;
  #hasBegun = false;
  #lookedAt = 0;

  constructor(url: string, options: HttpOptions = {}) {
    const environ = options.environ ?? process.env;
    this.#connection = new Connection(url, options.token, environ, (what, text) => this.#warn(what, text));
    this.url = this.#connection.url;
    this.deadline = options.deadline ?? 2;
    const state = environ.XDG_STATE_HOME || `${homedir()}/.local/state`;
    const root = options.spool || environ[SPOOL_ENV] || `${state}/tracklog/spool`;
    const readable = this.url.replace(/[^A-Za-z0-9.-]+/g, "_").slice(0, 80);
    // Each collector has its own: what was meant for one never goes to another.
    this.folder = `${root}/${readable}-${hashed(this.url).slice(0, 8)}`;
    this.#spool = new Spool(this.folder, (what, text) => this.#warn(what, text));
    open(this);
  }

  /**
   * How many lines are gone: they had no place left, or the sink was closed before it could send
   * what waited in memory alone.
   */
  get lost(): number {
    return this.#lost + (this.#isClosed && !this.#isAbandoned ? this.#spool.onlyInMemory() : 0);
  }

  /** The sink for the URL in the environment, if there is one; an invalid URL is reported. */
  static fromEnvironment(options: HttpOptions = {}): HttpSink | undefined {
    const url = (options.environ ?? process.env)[URL_ENV];
    try {
      return url ? new HttpSink(url, options) : undefined;
    } catch (error) {
      warn(`${URL_ENV}: ${(error as Error).message}; nothing is sent`);
      return undefined;
    }
  }

  /** Stores one complete line with its line end; if there is no space left, it is counted as lost. */
  write(line: string, dialect: string): void {
    if (this.#isClosed) throw new Error("the emitter is closed: open another one");
    try {
      this.#spool.append(line, dialect);
    } catch (error) {
      this.#lose(`no line can be kept: ${(error as Error).message}`, 1);
    }
    this.#start();
  }

  /** Sends what there is now, without waiting for more. */
  hurry(): void {
    this.#bell.ring();
  }

  /** Waits until all is with the collector; false when it is not by the deadline. */
  async flush(deadline: number = this.deadline): Promise<boolean> {
    const until = Date.now() + deadline * 1000;
    this.#start();
    this.hurry();
    while (!this.#spool.isEmpty() && Date.now() < until && this.#work) await seconds(0.005);
    return this.#spool.isEmpty();
  }

  /**
   * Sends what it can within the deadline. What is not sent by then goes on in the background, and
   * is left in the spool at the end of the process.
   * Without a deadline of its own it waits for as long as closing may in this process by now.
   */
  async close(deadline?: number): Promise<void> {
    this.#leave();
    const began = performance.now();
    await this.#settled(deadline ?? allowed(this.url, this.deadline * CLOSE_SHARE));
    charge((performance.now() - began) / 1000, this.deadline, this.url);
    if (this.#work) void this.#work.then(() => this.abandon());
    else this.abandon();
  }

  /** At the end of the process: what is not sent in time is left to the next one. */
  async end(time: number): Promise<void> {
    this.#leave();
    await this.#settled(time);
    this.abandon();
  }

  #leave(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#leaving.ring();
    this.#lookedAt = 0; // a child may have left something meanwhile
    if (this.#hasBegun) this.#start();
    this.hurry();
  }

  async #settled(time: number): Promise<void> {
    const over = new Bell();
    void this.#work?.then(() => over.ring());
    if (this.#work) await over.wait(time, true);
  }

  /** Leaves what was not sent to the next process. */
  abandon(): void {
    if (this.#isAbandoned) return;
    this.#isAbandoned = this.#isClosed = true;
    this.#connection.close();
    const lost = this.#spool.rest();
    if (lost > 0) this.#lose("the collector is not back in time", lost);
    if (this.lost > 0) warn(`${this.lost} lines were lost`);
    forget(this);
  }

  /** A page of the collector; throws what makes it unreachable. */
  get(path: string, patience: number): Promise<Answer> {
    return this.#connection.exchange("GET", path, patience);
  }

  #start(): void {
    if (this.#work || this.#isAbandoned) return;
    this.#hasBegun = true;
    this.#work = this.#forward();
  }

  /** Batch after batch, oldest first, until there is none. */
  async #forward(): Promise<void> {
    try {
      await this.#bell.wait(LINGER);
      await this.#sendAll();
    } finally {
      this.#work = undefined;
    }
  }

  async #sendAll(): Promise<void> {
    let failures = 0;
    while (!this.#isAbandoned && !(this.#isClosed && failures > 0)) {
      try {
        if (Date.now() - this.#lookedAt > LOOK_AROUND * 1000) {
          this.#lookedAt = Date.now();
          this.#spool.lookAround();
        }
        const found = this.#spool.next((rest) => this.#putAside("", [[rest, "the end of a line is missing"]], 0));
        if (!found) return;
        const [batch, taken] = found;
        await this.#send(batch);
        if (this.#isAbandoned) return;
        taken();
        failures = 0;
      } catch (error) {
        failures += 1;
        if (this.#isClosed) return;
        await this.#pause(failures, error as Error);
        if (this.#isClosed) failures = 0; // once more, for the last time
      }
    }
  }

  /** Longer from failure to failure, never twice alike, and as long as the collector asks. */
  async #pause(failures: number, error: Error): Promise<void> {
    const pause = Math.min(LONGEST_PAUSE, 0.1 * 2 ** Math.min(failures, 12)) * (0.5 + Math.random() / 2);
    const asked = error instanceof Unreachable ? error.pause : 0;
    if (!(error instanceof Unreachable)) this.#warn("error", String(error));
    if (asked > pause) await this.#leaving.wait(asked);
    else await this.#bell.wait(pause);
  }

  /** Sends a batch, and returns when it is taken or set aside. */
  async #send(batch: Batch): Promise<void> {
    const { key, dialect, lines } = batch;
    if (!dialect) {
      this.#putAside("", [[lines[0] ?? new Uint8Array(0), "no line of a spool"]], 0);
      return;
    }
    try {
      await this.#deliver(key, dialect, lines);
    } catch (error) {
      if (!(error instanceof Unreachable) || !(await this.#othersPass(batch, error))) throw error;
      await this.#deliverOrSetAside(key, dialect, lines);
    }
  }

  /**
   * Whether the collector takes what stands behind a batch that it does not take.
   * Asked only after a number of tries, of one batch further back each time: a collector that
   * takes nothing is waited for.
   */
  async #othersPass(batch: Batch, error: Unreachable): Promise<boolean> {
    this.#tries = this.#stuck === batch.key ? this.#tries + 1 : 1;
    if (this.#stuck !== batch.key) {
      this.#stuck = batch.key;
      this.#strikes = 0;
    }
    const distance = this.#tries - (error.isRefusal ? REFUSALS : FAILURES) + 1;
    if (distance < 1 || this.#isClosed) return false;
    const other = this.#spool.behind(batch.end, Math.min(distance, FAR));
    if (!other) return false;
    try {
      const body = joined(other.lines);
      const answer = await this.#post(`/api/events/${other.dialect}`, other.key, body);
      return reportOf(answer, other.lines.length) !== undefined;
    } catch {
      return false;
    }
  }

  /** Once more: what kept it may just be over. If not, it must not hold up the others. */
  async #deliverOrSetAside(key: string, dialect: string, lines: readonly Uint8Array[]): Promise<void> {
    try {
      await this.#deliver(key, dialect, lines, this.#strikes + 1 >= STRIKES);
    } catch (error) {
      if (!(error instanceof Unreachable) || this.#isAbandoned) throw error;
      this.#strikes += 1;
      if (!error.isRefusal && this.#strikes < STRIKES) throw error;
      this.#putAside(
        dialect,
        lines.map((line) => [line, error.message]),
        error.status,
      );
    }
  }

  /**
   * Sends lines, and returns when they are taken or refused for good; throws Unreachable.
   * Only the collector itself can refuse them. Of what is too large for something in between, the
   * halves are tried, and a single line is kept, unless it is to be set aside.
   */
  async #deliver(key: string, dialect: string, lines: readonly Uint8Array[], toSetAside = false): Promise<void> {
    const [path, sent] = [`/api/events/${dialect}`, joined(lines)];
    let answer = await this.#post(path, key, sent);
    if (answer.status === 409 && answer.version === PROTOCOL)
      // The key stands for other lines there; under one that names these lines they are new.
      answer = await this.#post(path, `${key}-${hashed(sent).slice(0, 16)}`, sent);
    const { status, pause } = answer;
    const isOurs = answer.version === PROTOCOL;
    const report = reportOf(answer, lines.length);
    if (status === 413 && lines.length > 1) {
      // by halves, so that what is small enough arrives
      const middle = lines.length >> 1;
      await this.#deliver(`${key}.0`, dialect, lines.slice(0, middle), toSetAside);
      await this.#deliver(`${key}.1`, dialect, lines.slice(middle), toSetAside);
    } else if ((isOurs && [400, 409, 413, 415, 422].includes(status)) || (status === 413 && toSetAside)) {
      const why = whyNot(answer, this.url, lines.length);
      this.#putAside(
        dialect,
        lines.map((line) => [line, why]),
        status,
      );
    } else if (report) {
      this.#compare(report.checkpoint);
      this.#heed(dialect, lines, report);
    } else {
      const why = whyNot(answer, this.url, lines.length);
      if (status < 500 && !PASSING.includes(status))
        this.#warn(isOurs || status !== 200 ? "answer" : "foreign", `${why}; ${this.#spool.where()}`);
      throw new Unreachable(why, pause, status, isOurs);
    }
  }

  /** Puts aside the lines that the collector refused. */
  #heed(dialect: string, lines: readonly Uint8Array[], report: Report): void {
    if (report.refused === 0) return;
    type Verdict = { line?: unknown; verdict?: unknown; problems?: unknown } | null;
    const refused = new Map<number, string>();
    for (const each of Array.isArray(report.verdicts) ? (report.verdicts as Verdict[]) : [])
      if (each?.verdict === "refused" && Number.isInteger(each.line) && Number(each.line) >= 1)
        refused.set(Number(each.line) - 1, JSON.stringify(each.problems ?? null).slice(0, 500));
    if (refused.size !== report.refused || Math.max(...refused.keys()) >= lines.length) {
      // any of them may be among those
      const count = `${report.refused} of these ${lines.length} lines`;
      const why = `${count} were refused, without saying which`;
      for (const at of lines.keys()) refused.set(at, why);
    }
    const pairs = lines.flatMap((line, at): [Uint8Array, string][] => {
      const why = refused.get(at);
      return why === undefined ? [] : [[line, why]];
    });
    this.#putAside(dialect, pairs, 200);
  }

  #putAside(dialect: string, refused: readonly Refused[], status: number): void {
    const path = `${this.folder}/refused.jsonl`;
    const why = refused[0]?.[1];
    let left = refused.length;
    try {
      appendRefused(path, this.folder, refused, { dialect, status }, () => {
        left -= 1;
        this.setAside += 1;
      });
      this.#warn("refused", `lines were refused: ${why}; they are in ${path}`);
    } catch (error) {
      this.#lost += left;
      this.#warn("aside", `lines were refused: ${why}; they cannot be kept: ${String(error)}`);
    }
  }

  async #post(path: string, key: string, body: Uint8Array): Promise<Answer> {
    const seen: Record<string, string> = this.#seen > 0 ? { "Tracklog-Seen": String(this.#seen) } : {};
    const headers = { "Content-Type": "application/x-ndjson", "Idempotency-Key": key, ...seen };
    try {
      return await this.#connection.exchange("POST", path, PATIENCE, body, headers);
    } catch (error) {
      if (!this.#isAbandoned) this.#warn("down", `${(error as Error).message}; ${this.#spool.where()}`);
      throw error;
    }
  }

  #lose(why: string, lines: number): void {
    this.#lost += lines;
    this.#warn("lost", `${why}; lines are being lost`);
  }

  /** Warns if the journal of the collector is not the one that it signed before. */
  #compare(checkpoint: unknown): void {
    const { origin, records, root, proof } = (checkpoint ?? {}) as Record<string, unknown>;
    if (typeof origin !== "string" || !Number.isInteger(records) || typeof root !== "string") return;
    const count = Number(records);
    const [known, hash] = this.#checkpoints.get(origin) ?? [0, root];
    const isSame = count === known && hash === root;
    if (known > 0 && !isSame && !isExtended([known, hash], [count, root], proof, joint)) {
      const text = `the journal of ${this.url} was rewritten or cut: it signed ${known} records before`;
      this.#warn("checkpoint", `${text}, and now ${count} other ones`);
    } else {
      this.#checkpoints.set(origin, [count, root]);
      this.#seen = count;
    }
  }

  #warn(what: string, text: string): void {
    if (this.#warned.has(what)) return;
    this.#warned.add(what);
    warn(text);
  }
}

/** Lines as they are sent, each with its end. */
function joined(lines: readonly Uint8Array[]): Uint8Array {
  const size = lines.reduce((sum, line) => sum + line.length + 1, 0);
  const body = new Uint8Array(size).fill(0x0a);
  let at = 0;
  for (const line of lines) {
    body.set(line, at);
    at += line.length + 1;
  }
  return body;
}

const opened = new Set<HttpSink>();

/** When nothing else is left to do, what is open has what is left of the deadline to be sent. */
function atEnd(): void {
  const sinks = [...opened];
  const time = Math.max(0, ...sinks.map(({ url, deadline }) => allowed(url, deadline)));
  for (const sink of sinks) void sink.end(time);
}

/** Nothing can be sent any more. */
function atExit(): void {
  for (const sink of [...opened]) sink.abandon();
}

function open(sink: HttpSink): void {
  resetTotal();
  if (opened.size === 0) {
    process.on("beforeExit", atEnd);
    process.on("exit", atExit);
  }
  opened.add(sink);
}

function forget(sink: HttpSink): void {
  opened.delete(sink);
  if (opened.size > 0) return;
  process.off("beforeExit", atEnd);
  process.off("exit", atExit);
}
