/** Sends lines to a collector; what it cannot send waits in a spool. */

import { appendFileSync, mkdirSync, readFileSync, statSync } from "node:fs";
import { Agent, type ClientRequest, type IncomingMessage, request as overHttp } from "node:http";
import { Agent as SecureAgent, request as overHttps } from "node:https";
import { homedir } from "node:os";

import type { Environ } from "./environ.js";
import type { Sink } from "./file.js";
import { hashed } from "./hashing.js";
import { type Batch, Spool } from "./spool.js";

export const URL_ENV = "TRACKLOG_URL";
export const SPOOL_ENV = "TRACKLOG_SPOOL";
export const TOKEN_ENV = "TRACKLOG_TOKEN";
export const TOKEN_FILE_ENV = "TRACKLOG_TOKEN_FILE";

const REFUSED_BYTES = 64 << 20;
const ANSWER_BYTES = 8 << 20;
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

interface Answer {
  readonly status: number;
  readonly body: string;
  /** How many seconds it wants to be left alone. */
  readonly pause: number;
}

class Unreachable extends Error {
  override readonly name = "Unreachable";
  readonly pause: number;

  constructor(why: string, pause = 0) {
    super(why);
    this.pause = pause;
  }
}

/**
 * `write` appends to a private file and returns: it never waits for the network and never throws
 * because of it. Batches are sent in order, again and again until the collector has taken them,
 * under a key by which it knows a batch that it has already. What a process leaves behind is sent
 * by the next one that reports to the same collector.
 */
export class HttpSink implements Sink {
  readonly url: string;
  readonly deadline: number;
  readonly folder: string;
  /** How many lines had no place left, neither on disk nor in memory. */
  lost = 0;
  readonly #spool: Spool;
  readonly #token: string | undefined;
  readonly #tokenFile: string | undefined;
  readonly #agent: Agent;
  readonly #warned = new Set<string>();
  readonly #bell = new Bell();
  readonly #leaving = new Bell();
  #request: ClientRequest | undefined;
  #work: Promise<void> | undefined;
  #isClosed = false;
  #isAbandoned = false;
  #hasBegun = false;
  #lookedAt = 0;

  constructor(url: string, options: HttpOptions = {}) {
    const environ = options.environ ?? process.env;
    this.url = checkedUrl(url);
    this.deadline = options.deadline ?? 2;
    this.#token = options.token || environ[TOKEN_ENV] || undefined;
    this.#tokenFile = environ[TOKEN_FILE_ENV] || undefined;
    const state = environ.XDG_STATE_HOME || `${homedir()}/.local/state`;
    const root = options.spool || environ[SPOOL_ENV] || `${state}/tracklog/spool`;
    const readable = this.url.replace(/[^A-Za-z0-9.-]+/g, "_").slice(0, 80);
    // Each collector has its own: what was meant for one never goes to another.
    this.folder = `${root}/${readable}-${hashed(this.url).slice(0, 8)}`;
    this.#spool = new Spool(this.folder, (what, text) => this.#warn(what, text));
    const agents = this.url.startsWith("https:") ? SecureAgent : Agent;
    this.#agent = new agents({ keepAlive: true, maxSockets: 1 });
    open(this);
  }

  /** The sink that the environment asks for, if it does; a URL that is none is reported. */
  static told(options: HttpOptions = {}): HttpSink | undefined {
    const url = (options.environ ?? process.env)[URL_ENV];
    try {
      return url ? new HttpSink(url, options) : undefined;
    } catch (error) {
      say(`${URL_ENV}: ${(error as Error).message}; nothing is sent`);
      return undefined;
    }
  }

  /** Takes one line with its line end, whole; where there is no place left it is counted. */
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

  /** Sends what it can within the deadline, and leaves the rest in the spool. */
  async close(deadline: number = this.deadline): Promise<void> {
    if (!this.#isClosed) {
      this.#isClosed = true;
      this.#leaving.ring();
      this.#lookedAt = 0; // a child may have left something meanwhile
      if (this.#hasBegun) this.#start();
      this.hurry();
    }
    const over = new Bell();
    void this.#work?.then(() => over.ring());
    if (this.#work) await over.wait(deadline, true);
    this.abandon();
  }

  /** Leaves what was not sent to the next process. */
  abandon(): void {
    if (this.#isAbandoned) return;
    this.#isAbandoned = this.#isClosed = true;
    this.#request?.destroy();
    this.#agent.destroy();
    const lost = this.#spool.rest();
    if (lost > 0) this.#lose("the collector is not back in time", lost);
    if (this.lost > 0) say(`${this.lost} lines were lost`);
    forget(this);
  }

  /** A page of the collector; throws what makes it unreachable. */
  async get(path: string, patience: number): Promise<Answer> {
    return this.#exchange("GET", path, patience);
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
        const found = this.#spool.next((rest) =>
          this.#putAside("", [[rest, "the end of a line is missing"]], 0),
        );
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
    const pause =
      Math.min(LONGEST_PAUSE, 0.1 * 2 ** Math.min(failures, 12)) * (0.5 + Math.random() / 2);
    const asked = error instanceof Unreachable ? error.pause : 0;
    if (!(error instanceof Unreachable)) this.#warn("error", String(error));
    if (asked > pause) await this.#leaving.wait(asked);
    else await this.#bell.wait(pause);
  }

  async #send({ key, dialect, lines }: Batch): Promise<void> {
    if (dialect) await this.#deliver(key, dialect, lines);
    else this.#putAside("", [[lines[0] ?? new Uint8Array(0), "no line of a spool"]], 0);
  }

  async #deliver(key: string, dialect: string, lines: readonly Uint8Array[]): Promise<void> {
    const { status, body, pause } = await this.#post(`/api/events/${dialect}`, key, lines);
    if (status === 413 && lines.length > 1) {
      // by halves, so that what is small enough arrives
      const middle = lines.length >> 1;
      await this.#deliver(`${key}.0`, dialect, lines.slice(0, middle));
      await this.#deliver(`${key}.1`, dialect, lines.slice(middle));
    } else if ([400, 413, 415, 422].includes(status)) {
      const why = body.slice(0, 300).trim();
      this.#putAside(
        dialect,
        lines.map((line) => [line, why]),
        status,
      );
    } else if (status >= 200 && status < 300) this.#heed(dialect, lines, body);
    else if (status !== 409) {
      // 409 is a key that is known already: these lines are there
      const why = `${this.url} answers ${status}: ${body.slice(0, 300).trim()}`;
      if (![408, 425, 429].includes(status) && status < 500)
        this.#warn("answer", `${why}; lines are kept in ${this.folder}`);
      throw new Unreachable(why, pause);
    }
  }

  /** Puts aside the lines that the collector refused. */
  #heed(dialect: string, lines: readonly Uint8Array[], body: string): void {
    type Verdict = { line: number; verdict: string; problems?: unknown };
    let refused: [Uint8Array, string][];
    try {
      const told = JSON.parse(body) as { refused?: number; verdicts?: Verdict[] };
      if (!told.refused) return;
      refused = (told.verdicts ?? []).flatMap(({ line, verdict, problems }) => {
        const bytes = lines[line - 1];
        const why = JSON.stringify(problems ?? null).slice(0, 500);
        return verdict === "refused" && bytes ? [[bytes, why] as [Uint8Array, string]] : [];
      });
    } catch {
      return; // the lines were taken; what else was said cannot be read
    }
    if (refused.length > 0) this.#putAside(dialect, refused, 200);
  }

  #putAside(
    dialect: string,
    refused: readonly (readonly [Uint8Array, string])[],
    status: number,
  ): void {
    const path = `${this.folder}/refused.jsonl`;
    const kept = refused.map(([line, why]) =>
      JSON.stringify({ status, why, dialect, line: new TextDecoder().decode(line) }),
    );
    try {
      mkdirSync(this.folder, { recursive: true, mode: 0o700 });
      appendFileSync(path, "", { mode: 0o600 });
      if (statSync(path).size > REFUSED_BYTES) throw new Error(`${path} is full`);
      appendFileSync(path, `${kept.join("\n")}\n`);
      this.#warn("refused", `${this.url} refused lines (${refused[0]?.[1]}); see ${path}`);
    } catch (error) {
      this.#warn("aside", `${this.url} refused lines, and they cannot be kept: ${String(error)}`);
    }
  }

  async #post(path: string, key: string, lines: readonly Uint8Array[]): Promise<Answer> {
    const size = lines.reduce((sum, line) => sum + line.length + 1, 0);
    const body = new Uint8Array(size).fill(0x0a);
    let at = 0;
    for (const line of lines) {
      body.set(line, at);
      at += line.length + 1;
    }
    const headers = { "Content-Type": "application/x-ndjson", "Idempotency-Key": key };
    try {
      return await this.#exchange("POST", path, PATIENCE, body, headers);
    } catch (error) {
      if (!this.#isAbandoned)
        this.#warn("down", `${(error as Error).message}; lines are kept in ${this.folder}`);
      throw error;
    }
  }

  #exchange(
    method: "GET" | "POST",
    path: string,
    patience: number,
    body?: Uint8Array,
    headers: Record<string, string> = {},
  ): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const token = this.#secret();
      const options = {
        method,
        // One connection for all that is sent, which waits for nobody who reads.
        ...(body ? { agent: this.#agent } : { agent: false as const }),
        headers: {
          ...headers,
          ...(body ? { "Content-Length": String(body.length) } : {}),
          ...(token ? { Authorization: `Bearer ${token}` } : {}),
        },
      };
      const ask = this.url.startsWith("https:") ? overHttps : overHttp;
      let isHeard = false;
      const sent = ask(`${this.url}${path}`, options, (answer) => {
        hear(answer, this.url).then((told) => {
          isHeard = true;
          resolve(told);
        }, fail);
      });
      const timer = setTimeout(() => sent.destroy(new Error("timed out")), patience * 1000);
      const fail = (error: Error) => {
        clearTimeout(timer);
        if (!isHeard) sent.destroy();
        reject(
          error instanceof Unreachable
            ? error
            : new Unreachable(`${this.url} does not answer (${error.message || error.name})`),
        );
      };
      if (body) {
        // What is sent in the background does not keep the process from ending.
        timer.unref();
        sent.on("socket", (socket) => socket.unref());
        this.#request = sent;
      }
      sent.on("error", fail);
      sent.on("close", () => {
        clearTimeout(timer);
        // What was heard may still be on its way through the loop.
        setImmediate(() => isHeard || fail(new Error("it closed the connection")));
      });
      sent.end(body);
    });
  }

  #secret(): string | undefined {
    let token = this.#token;
    try {
      if (!token && this.#tokenFile) token = readFileSync(this.#tokenFile, "utf8").trim();
    } catch (error) {
      this.#warn("token", `the token cannot be read: ${(error as Error).message}`);
    }
    if (!token || /^[\x21-\x7e]+$/.test(token)) return token;
    this.#warn("token", "the token holds what no header can hold; it is not sent");
    return undefined;
  }

  #lose(why: string, lines: number): void {
    this.lost += lines;
    this.#warn("lost", `${why}; lines are being lost`);
  }

  #warn(what: string, text: string): void {
    if (this.#warned.has(what)) return;
    this.#warned.add(what);
    say(text);
  }
}

/** Ends a wait before its time. */
class Bell {
  #wake: (() => void) | undefined;
  #isRung = false;

  ring(): void {
    this.#isRung = true;
    this.#wake?.();
  }

  /** Until it rings or the time is over; unless told so, that keeps no process alive. */
  wait(time: number, isHeld = false): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.#isRung = false;
        this.#wake = undefined;
        resolve();
      };
      const timer = setTimeout(done, time * 1000);
      if (!isHeld) timer.unref();
      this.#wake = done;
      if (this.#isRung) done();
    });
  }
}

export function seconds(time: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, time * 1000);
  });
}

async function hear(answer: IncomingMessage, url: string): Promise<Answer> {
  const decoder = new TextDecoder();
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of answer) {
    parts.push(part);
    size += part.length;
    // The status says enough; leaving the loop closes the connection.
    if (size > ANSWER_BYTES) return { status: answer.statusCode ?? 0, body: "", pause: 0 };
  }
  if (!answer.complete) throw new Unreachable(`${url} stopped in the middle of its answer`);
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  const body = decoder.decode(bytes);
  return { status: answer.statusCode ?? 0, body, pause: retryAfter(answer.headers["retry-after"]) };
}

/** What Retry-After says, in seconds, within reason. */
export function retryAfter(said: string | undefined): number {
  if (!said) return 0;
  const number = Number(said);
  const wait = Number.isNaN(number) ? (Date.parse(said) - Date.now()) / 1000 : number;
  return wait > 0 ? Math.min(wait, 300) : 0;
}

function checkedUrl(url: string): string {
  let parsed: URL | undefined;
  try {
    parsed = new URL(url);
  } catch {
    // no URL at all
  }
  if (parsed?.username || parsed?.password)
    throw new TypeError(`an address holds no secret: give a token, or set ${TOKEN_ENV}`);
  if (!parsed || !/^https?:$/.test(parsed.protocol) || !parsed.hostname)
    throw new TypeError(
      `${JSON.stringify(url)} is no address of a collector: write one like http://127.0.0.1:4318`,
    );
  return url.replace(/\/+$/, "");
}

function say(text: string): void {
  try {
    process.stderr.write(`tracklog: ${text}\n`);
  } catch {
    // there is no stderr, and a warning must not be what breaks the producer
  }
}

const opened = new Set<HttpSink>();

/** When nothing else is left to do, what is open has its deadline to be sent. */
function atEnd(): void {
  for (const sink of [...opened]) void sink.close();
}

function open(sink: HttpSink): void {
  if (opened.size === 0) process.on("beforeExit", atEnd);
  opened.add(sink);
}

function forget(sink: HttpSink): void {
  opened.delete(sink);
  if (opened.size === 0) process.off("beforeExit", atEnd);
}
