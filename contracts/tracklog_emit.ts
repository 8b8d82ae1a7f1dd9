// tracklog 0.1.0, emitter typescript; `tracklog emitter typescript` prints it.
// Generated from contracts/ts/src/emit: edit that and run `make derive`.
/**
 * Emitters without dependencies, to the byte those of the Python side.
 *
 * What JavaScript cannot tell apart: 65 and 65.0 are one number, so a number in a key that no
 * contract declares is written 65; and keys that look like integers come first among their like.
 */

import { createHash } from "node:crypto";
import { closeSync, constants, fstatSync, fsyncSync, ftruncateSync, lstatSync, mkdirSync, openSync, readFileSync, readSync, readdirSync, readlinkSync, renameSync, unlinkSync, writeSync } from "node:fs";
import { Agent, type ClientRequest, type IncomingMessage, request as overHttp } from "node:http";
import { Agent as SecureAgent, request as overHttps } from "node:https";
import { homedir, hostname } from "node:os";

// Answers of a collector: how one is read, and whether it acknowledges the lines that were sent.

/** The header that only a collector sends, and the version of the protocol that is understood here. */
const PROTOCOL_HEADER = "tracklog-protocol";
const PROTOCOL = "1";
const ANSWER_BYTES = 64 << 20;
/** Statuses of the collector that will pass: the same lines are accepted later. */
const PASSING: readonly number[] = [408, 425, 429];

interface Answer {
  readonly status: number;
  readonly body: string;
  /** Whether the body is valid UTF-8. */
  readonly isText: boolean;
  /** How many seconds to wait before the next request. */
  readonly pause: number;
  /** The version of the protocol; only a collector names it. */
  readonly version: string;
}

/** Nothing was acknowledged. */
class Unreachable extends Error {
  override readonly name = "Unreachable";
  readonly pause: number;
  readonly status: number;
  readonly isOurs: boolean;

  constructor(why: string, pause = 0, status = 0, isOurs = false) {
    super(why);
    this.pause = pause;
    this.status = status;
    this.isOurs = isOurs;
  }

  /** Whether the collector itself says that its answer will be the same next time. */
  get isRefusal(): boolean {
    const { status } = this;
    return this.isOurs && status >= 400 && status < 500 && !PASSING.includes(status);
  }
}

interface Report {
  readonly refused: number;
  readonly verdicts?: unknown;
  readonly checkpoint?: unknown;
}

/** The report on the lines that were sent; undefined if the answer does not acknowledge them. */
function reportOf({ status, version, body, isText }: Answer, sent: number): Report | undefined {
  if (status !== 200 || version !== PROTOCOL || !isText) return undefined;
  let report: Record<string, unknown> | null;
  try {
    report = JSON.parse(body) as Record<string, unknown> | null;
  } catch {
    return undefined;
  }
  const counts = [report?.accepted, report?.duplicate, report?.refused];
  const isCount = (each: unknown): each is number => Number.isInteger(each) && Number(each) >= 0;
  if (!counts.every(isCount)) return undefined;
  const isAll = counts.reduce((sum, count) => sum + count, 0) === sent;
  return isAll ? (report as unknown as Report) : undefined;
}

/** What is wrong with an answer that acknowledges nothing. */
function whyNot({ status, version, body }: Answer, url: string, sent: number): string {
  const text = body.slice(0, 300).trim();
  if (status < 500 && !version) {
    const code = status === 200 ? "" : ` ${status}${text && ` (${text})`}`;
    return (
      `${url} answers${code} without Tracklog-Protocol: it is no collector but a proxy or a ` +
      "portal, or a collector older than this emitter (upgrade collectors first)"
    );
  }
  if (version && version !== PROTOCOL)
    return `${url} speaks version ${version} of the protocol, this emitter ${PROTOCOL}`;
  if (status === 200) return `${url} does not say what became of ${sent} lines: ${text || "it is empty"}`;
  return `${url} answers ${status}: ${text || "it gives no reason; its log may"}`;
}

/** Reads an answer to its end; throws Unreachable if it is not complete. */
async function readAnswer(answer: IncomingMessage, url: string): Promise<Answer> {
  const status = answer.statusCode ?? 0;
  const version = answer.headers[PROTOCOL_HEADER] ?? "";
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of answer) {
    parts.push(part);
    size += part.length;
    // No report on a batch is that long; leaving the loop closes the connection.
    if (size > ANSWER_BYTES) return { status, body: "", isText: false, pause: 0, version };
  }
  if (!answer.complete) throw new Unreachable(`${url} stopped in the middle of its answer`);
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  const pause = retryAfter(answer.headers["retry-after"]);
  try {
    const body = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return { status, body, isText: true, pause, version };
  } catch {
    return { status, body: new TextDecoder().decode(bytes), isText: false, pause, version };
  }
}

/** The header Retry-After in seconds, at most five minutes. */
function retryAfter(header: string | undefined): number {
  if (!header) return 0;
  const number = Number(header);
  const wait = Number.isNaN(number) ? (Date.parse(header) - Date.now()) / 1000 : number;
  return wait > 0 ? Math.min(wait, 300) : 0;
}

// How a run is handed on to child processes, so that they link themselves.

export const RUN_ENV = "TRACKLOG_RUN_ID";
export const PARENT_ENV = "TRACKLOG_PARENT_RUN_ID";
export const TRACE_ENV = "TRACEPARENT";

export type Environ = Readonly<Record<string, string | undefined>>;

/** What a child process needs in its environment to name a run as its parent. */
export function childEnv(
  parent: string,
  traceparent: string | undefined,
  run: string = crypto.randomUUID(),
): Record<string, string> {
  const trace = traceparent ? { [TRACE_ENV]: traceparent } : {};
  return { [RUN_ENV]: run, [PARENT_ENV]: parent, ...trace };
}

// HTTP requests to one collector, with its token.

export const TOKEN_ENV = "TRACKLOG_TOKEN";
export const TOKEN_FILE_ENV = "TRACKLOG_TOKEN_FILE";
const TOKEN_BYTES = 64 << 10;

class Connection {
  readonly url: string;
  readonly #token: string | undefined;
  readonly #tokenFile: string | undefined;
  readonly #agent: Agent;
  readonly #warn: (what: string, text: string) => void;
  #request: ClientRequest | undefined;

  /** A token that is not given is taken from the environment; a URL that is none is refused. */
  constructor(url: string, token: string | undefined, environ: Environ, warn: (what: string, text: string) => void) {
    this.url = checkedUrl(url);
    this.#token = token || environ[TOKEN_ENV] || undefined;
    this.#tokenFile = environ[TOKEN_FILE_ENV] || undefined;
    const agents = this.url.startsWith("https:") ? SecureAgent : Agent;
    this.#agent = new agents({ keepAlive: true, maxSockets: 1 });
    this.#warn = warn;
  }

  /** Sends a request; throws Unreachable if no complete answer arrives. */
  exchange(
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
        // One connection for everything that is sent; a request that waits for an answer has its own.
        ...(body ? { agent: this.#agent } : { agent: false as const }),
        headers: {
          ...headers,
          ...(body ? { "Content-Length": String(body.length) } : {}),
          ...(token ? { Authorization: `Bearer ${token}` } : {}),
        },
      };
      const ask = this.url.startsWith("https:") ? overHttps : overHttp;
      let isRead = false;
      const sent = ask(`${this.url}${path}`, options, (answer) => {
        readAnswer(answer, this.url).then((found) => {
          isRead = true;
          resolve(found);
        }, fail);
      });
      const timer = setTimeout(() => sent.destroy(new Error("timed out")), patience * 1000);
      const fail = (error: Error) => {
        clearTimeout(timer);
        if (!isRead) sent.destroy();
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
        // An answer that arrived may still be on its way through the loop.
        setImmediate(() => isRead || fail(new Error("it closed the connection")));
      });
      sent.end(body);
    });
  }

  /** Ends the request that is being sent, and the connection. */
  close(): void {
    this.#request?.destroy();
    this.#agent.destroy();
  }

  #secret(): string | undefined {
    let token = this.#token;
    try {
      if (!token && this.#tokenFile) token = start(this.#tokenFile).trim();
    } catch (error) {
      this.#warn("token", `the token cannot be read: ${(error as Error).message}`);
    }
    if (!token || /^[\x21-\x7e]+$/.test(token)) return token;
    this.#warn("token", "the token holds what no header can hold; it is not sent");
    return undefined;
  }
}

/** The beginning of a small file; never waits, also if it is a pipe. */
function start(path: string): string {
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const bytes = new Uint8Array(TOKEN_BYTES);
    return new TextDecoder().decode(bytes.subarray(0, readSync(file, bytes, 0, TOKEN_BYTES, null)));
  } finally {
    closeSync(file);
  }
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
    throw new TypeError(`${JSON.stringify(url)} is no address of a collector: write one like http://127.0.0.1:4318`);
  return url.replace(/\/+$/, "");
}

// JSON to the byte as the Python emitters write it.

/** One fault of an event: where, what, and what to do. */
export interface Fault {
  /** A JSON pointer. */
  readonly pointer: string;
  readonly message: string;
  readonly hint: string;
}

/** The event cannot be written; `faults` names every fault, and no byte was written. */
export class Invalid extends Error {
  override readonly name = "Invalid";
  readonly faults: readonly Fault[];

  constructor(...faults: Fault[]) {
    super(faults.map((f) => `${f.pointer || "/"}: ${f.message} (${f.hint})`).join("; "));
    this.faults = faults;
  }
}

/** That one place is at fault. */
function at(pointer: string, message: string, hint: string): Invalid {
  return new Invalid({ pointer, message, hint });
}

export type Body = Readonly<Record<string, unknown>>;

/** A value as compact JSON, without escaping what UTF-8 can hold; a key of undefined is absent. */
function json(value: unknown, quote = quoted): string {
  if (typeof value === "string") return quote(value);
  if (typeof value === "number") return number(value);
  if (Array.isArray(value)) return `[${value.map((inner) => json(inner, quote)).join(",")}]`;
  if (!isObject(value)) return String(value as boolean | bigint | null);
  const keys = Object.keys(value).filter((key) => value[key] !== undefined);
  return `{${keys.map((key) => `${quote(key)}:${json(value[key], quote)}`).join(",")}}`;
}

/** A lone surrogate has no bytes in UTF-8: U+FFFD stands for it. */
function quoted(text: string): string {
  return JSON.stringify(text.toWellFormed());
}

function number(value: number): string {
  return Number.isInteger(value) && !Object.is(value, -0) ? String(value) : repr(value);
}

/** A whole number by its digits alone. */
function whole(value: number): string {
  return Number.isInteger(value) ? String(BigInt(value)) : repr(value);
}

/** The shortest digits that read back the same, always with a decimal point: 65.0, 1.0e-07. */
function decimal(value: number): string {
  const text = repr(value);
  return text.includes(".") ? text : text.replace("e", ".0e");
}

/** As Python prints a float: an exponent below 1e-4 and from 1e16 on, of two digits at least. */
function repr(value: number): string {
  const [digits = "", exponent = ""] = value.toExponential().split("e");
  const power = Number(exponent);
  if (power < -4 || power >= 16) {
    return `${digits}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
  }
  const sign = Object.is(value, -0) ? "-" : "";
  return sign + String(value) + (Number.isInteger(value) ? ".0" : "");
}

const DEPTH = 200;

/** The places whose value is no JSON. */
function unwritable(value: unknown, at = "", within: readonly unknown[] = []): Fault[] {
  const fault = (message: string, hint: string) => [{ pointer: at, message, hint }];
  if (within.includes(value)) return fault("the value contains itself", "write a tree");
  if (within.length > DEPTH) return fault(`nested deeper than ${DEPTH} levels`, "flatten it");
  if (Array.isArray(value))
    return value.flatMap((inner, index) => unwritable(inner, `${at}/${index}`, [...within, value]));
  if (isObject(value))
    return Object.entries(value)
      .filter(([, inner]) => inner !== undefined)
      .flatMap(([key, inner]) => unwritable(inner, `${at}/${escaped(key)}`, [...within, value]));
  if (typeof value === "number" && !Number.isFinite(value))
    return fault(`${value} is no JSON number`, "leave the key out, or write a number");
  if (value !== null && !["string", "number", "bigint", "boolean"].includes(typeof value))
    return fault("no JSON value", "turn it into text, numbers, lists, plain objects");
  return [];
}

/** Whether a value is an object that JSON has a word for. */
function isObject(value: unknown): value is Body {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const kind: unknown = Object.getPrototypeOf(value);
  return kind === Object.prototype || kind === null;
}

function escaped(key: string): string {
  return key.replaceAll("~", "~0").replaceAll("/", "~1");
}

// What a contract says of its events, and how they are written and checked by it.

/** What the contract says of one key. */
export interface Field {
  readonly wanted: string;
  readonly fits: (value: unknown) => boolean;
  /** How its digits are written, whatever number was given. */
  readonly number?: "int" | "float";
  /** Whether it is text of the producer's own, which a redactor may change. */
  readonly free?: boolean;
  readonly optional?: boolean;
  /** The keys of each object in it, where it is a list of objects. */
  readonly items?: Fields;
}

export type Fields = Readonly<Record<string, Field>>;

/** One language that can be written. */
export interface Contract {
  readonly dialect: string;
  /** For each event its keys, in the order in which they are written. */
  readonly events: Readonly<Record<string, Fields>>;
  /** The event that opens a run, and so carries its parent. */
  readonly start: string;
  /** What binds every writer, beyond the schema. */
  readonly settle: (event: Body) => Body;
}

const TS = /^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$/;

function isTs(value: unknown): boolean {
  if (typeof value !== "string" || !TS.test(value)) return false;
  const time = new Date(value);
  // A day that does not exist is another one's name in JavaScript.
  return !Number.isNaN(time.getTime()) && time.toISOString() === value;
}

const isNumber = (value: unknown): value is number | bigint =>
  typeof value === "bigint" || (typeof value === "number" && Number.isFinite(value));

function matches(pattern: RegExp, wanted: string): Field {
  return { wanted, fits: (value) => typeof value === "string" && pattern.test(value) };
}

function oneOf(values: readonly string[]): Field {
  const fits = (value: unknown) => typeof value === "string" && values.includes(value);
  return { wanted: `one of ${values.join(", ")}`, fits };
}

function wholeNumber(least = -Infinity): Field {
  return {
    wanted: least === -Infinity ? "a whole number" : `a whole number, ${least} or more`,
    fits: (value) => isNumber(value) && (typeof value === "bigint" || Number.isInteger(value)) && value >= least,
    number: "int",
  };
}

function between(least: number, most: number, wanted: string): Field {
  const fits = (value: unknown) => isNumber(value) && value >= least && value <= most;
  return { wanted, fits, number: "float" };
}

const optional = (field: Field): Field => ({ ...field, optional: true });

const TEXT: Field = {
  wanted: "a string",
  fits: (value) => typeof value === "string",
  free: true,
};
const BOOL: Field = { wanted: "true or false", fits: (value) => typeof value === "boolean" };
const COUNT = wholeNumber(0);
const SECONDS = between(0, Infinity, "a number of seconds, 0 or more");
const RUN_ID = matches(
  /^[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}$/,
  "1 to 64 of A-Z a-z 0-9 _ -, first a letter or a digit",
);
const BASE: Fields = {
  ts: { wanted: "UTC with milliseconds and Z, like 2026-05-05T09:00:00.000Z", fits: isTs },
  run_id: RUN_ID,
  event: { ...TEXT, free: false },
};

/** The text of at most so many code points. */
function text(most: number): Field {
  return {
    wanted: `a string of at most ${most} characters`,
    fits: (value) => typeof value === "string" && cropped(value, most) === value,
    free: true,
  };
}

/** The first code points of a text; an emoji is one, and is never cut in two. */
function cropped(value: string, most: number): string {
  return value.length <= most ? value : Array.from(value).slice(0, most).join("");
}

/** The fields of an event, by what it says it is. */
function fieldsOf({ events }: Contract, event: unknown): Fields | undefined {
  return typeof event === "string" && Object.hasOwn(events, event) ? events[event] : undefined;
}

/** The time now, as the contracts write it: UTC, milliseconds, Z. */
export const nowTs = (): string => new Date().toISOString();

/** An event from what its builder was given: what is not known is absent. */
function built(contract: Contract, event: string, given: Body): Body {
  const fields = fieldsOf(contract, event) ?? BASE;
  const said = Object.entries(given).filter(([key, value]) => value !== null || !fields[key]?.optional);
  return shaped(contract, { ts: nowTs(), ...present(Object.fromEntries(said)), event });
}

/** The event as it is written (K17): keys in declared order, unknown keys as given, cropped. */
export function shaped(contract: Contract, event: Body): Body {
  return contract.settle(ordered(event, fieldsOf(contract, event.event) ?? BASE));
}

/** A body with the declared keys first; a key of undefined is absent. */
function ordered(body: Body, fields: Fields): Body {
  const said = present(body);
  const declared = Object.keys(fields).filter((key) => Object.hasOwn(said, key));
  return { ...Object.fromEntries(declared.map((key) => [key, said[key]])), ...said };
}

function present(body: Body): Body {
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined));
}

/** The canonical line of a shaped event (K17), with its line end. */
export function lineOf(contract: Contract, event: Body): string {
  const faults = unwritable(event);
  if (faults.length > 0) throw new Invalid(...faults);
  return `${written(event, fieldsOf(contract, event.event) ?? BASE)}\n`;
}

function written(body: Body, fields: Fields): string {
  // JavaScript moves keys that look like integers to the front; a line starts with its base.
  const isDeclared = (key: string) => Object.hasOwn(fields, key);
  const keys = Object.keys(body).filter((key) => body[key] !== undefined);
  const inOrder = [...keys.filter(isDeclared), ...keys.filter((key) => !isDeclared(key))];
  const parts = inOrder.map(
    (key) => `${quoted(key)}:${field(key, body[key], isDeclared(key) ? fields[key] : undefined)}`,
  );
  return `{${parts.join(",")}}`;
}

function field(key: string, value: unknown, said: Field | undefined): string {
  if (said?.items && said.fits(value))
    return `[${(value as Body[]).map((item) => written(item, said.items ?? {})).join(",")}]`;
  if (said?.number === "float" && isNumber(value)) {
    const double = Number(value);
    if (!Number.isFinite(double)) throw new Invalid(refused(`/${key}`, value, said.wanted));
    return decimal(double);
  }
  if (said?.number === "int" && typeof value === "number") return whole(value);
  return json(value);
}

/** Every fault of an event: its shape, and what JSON has no word for. */
export function faultsOf(contract: Contract, event: Body): Fault[] {
  const fields = fieldsOf(contract, event.event);
  const kinds = `one of ${Object.keys(contract.events).join(", ")}`;
  const unknown = fields ? [] : [refused("/event", event.event, kinds)];
  const found = [...unknown, ...faults("", event, fields ?? BASE), ...unwritable(event)];
  return found.filter((fault, index) => found.findIndex(({ pointer }) => pointer === fault.pointer) === index);
}

function faults(at: string, body: Body, fields: Fields): Fault[] {
  return Object.entries(fields).flatMap(([key, field]): Fault[] => {
    const [pointer, value] = [`${at}/${key}`, body[key]];
    if (value === undefined) {
      const hint = `add it: ${field.wanted}`;
      return field.optional ? [] : [{ pointer, message: `${key} is missing`, hint }];
    }
    if (!field.fits(value)) return [refused(pointer, value, field.wanted)];
    const { items } = field;
    return items ? (value as Body[]).flatMap((item, index) => faults(`${pointer}/${index}`, item, items)) : [];
  });
}

function refused(pointer: string, value: unknown, wanted: string): Fault {
  if (value === null) return { pointer, message: "null stands here", hint: `leave the key out, or write ${wanted}` };
  const shown = typeof value === "string" ? JSON.stringify(value) : String(value);
  const short = shown.length <= 60 ? shown : `${shown.slice(0, 59)}…`;
  return { pointer, message: `${short} does not belong here`, hint: `write ${wanted}` };
}

// Where lines go.

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

// Whether a journal continues the one that was seen before. A browser uses it, too: it imports nothing.

/** How many records a checkpoint has, and the hash over them. */
type Tree = readonly [size: number, root: string];

const half = (number: number): number => Math.floor(number / 2);
const isOdd = (number: number): boolean => number % 2 === 1;
const isHash = (each: unknown): boolean => typeof each === "string" && /^[0-9a-f]{64}$/.test(each);

/** Whether a tree of hashes begins with a smaller one: a consistency proof of RFC 6962. `combined` is the
 * SHA-256 of a byte 1 and two hashes. */
function isExtended(
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

// SHA-256, in hexadecimal digits.

function hashed(text: string | Uint8Array): string {
  return createHash("sha256").update(text).digest("hex");
}

/** The hash above two others in a tree of hashes. */
function joint(left: string, right: string): string {
  return createHash("sha256").update(`01${left}${right}`, "hex").digest("hex");
}

// `refused.jsonl`: the lines that a collector will never accept, with the reasons.

const REFUSED_BYTES = 64 << 20;

/** A line, and why it was refused. */
type Refused = readonly [line: Uint8Array, why: string];

/** Appends lines to the file; calls `written` after each one, and throws if one cannot be written. */
function appendRefused(
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

// What is on its way to a collector, in private files that outlive their process.

const BATCH_BYTES = 512 << 10;
const BATCH_LINES = 1000;
const SEGMENT_BYTES = 8 << 20;
const SPOOL_BYTES = 1 << 30;
const MEMORY_BYTES = 8 << 20;
const NEWLINE = 0x0a;
const BEFORE = /^[a-z][a-z0-9-]*$/;

/** Lines that are sent together: the same key always stands for the same lines. */
interface Batch {
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
class Spool {
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

// Waits that can be ended early, and the seconds that the end of a process may wait in total.

/** Ends a wait before its time. */
class Bell {
  #wake: (() => void) | undefined;
  #isRung = false;

  ring(): void {
    this.#isRung = true;
    this.#wake?.();
  }

  /** Waits until it rings or the time is over; only if `isHeld`, the process stays alive for it. */
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

function seconds(time: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, time * 1000);
  });
}

/** Of the deadline, how much a process that continues regains per second. */
const REGAINED = 0.1;

/**
 * Seconds that closing has waited of late, and as of when: for each collector, and under "" for all
 * since an emitter was last made. Other copies of this module share it.
 */
const WAITS = Symbol.for("tracklog.waits");
type Waits = Map<string, { readonly spent: number; readonly at: number }>;
const shared = globalThis as unknown as Record<symbol, Waits | undefined>;
const waits: Waits = shared[WAITS] ?? new Map();
shared[WAITS] = waits;

function spentOn(url: string): number {
  const { spent, at } = waits.get(url) ?? { spent: 0, at: 0 };
  return Math.max(0, spent - REGAINED * (performance.now() / 1000 - at));
}

/** How many seconds closing may still wait now; a process that goes on regains them slowly. */
function allowed(url: string, deadline: number): number {
  return Math.max(0, deadline - Math.max(spentOn(url), spentOn("")));
}

/** Adds a wait of so many seconds to those of a collector, and to the total. */
function charge(waited: number, deadline: number, url: string): void {
  for (const name of [url, ""]) {
    const spent = spentOn(name);
    const at = performance.now() / 1000;
    waits.set(name, { spent: Math.max(spent, Math.min(spent + waited, deadline)), at });
  }
}

/** Begins the total again: an emitter was made. */
function resetTotal(): void {
  waits.delete("");
}

// Warnings on standard error.

function warn(text: string): void {
  // Text from elsewhere must not control a terminal.
  const plain = text.replace(/[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
  try {
    process.stderr.write(`tracklog: ${plain}\n`);
  } catch {
    // there is no stderr, and a warning must not be what breaks the producer
  }
}

// Sends lines to a collector; what it cannot send waits in a spool.

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

// Writes openwop, fishbowl, awf and tracklog lines: an envelope around what it is given.

export const AWF_TYPES = [
  "run.started",
  "run.completed",
  "step.started",
  "step.completed",
  "step.call_workflow.started",
  "step.call_workflow.completed",
  "message.user",
  "message.assistant",
  "tool.call",
  "tool.result",
] as const;
export const FACTS = [
  "Began",
  "Ended",
  "Moved",
  "Called",
  "Returned",
  "Said",
  "Decided",
  "Asked",
  "Answered",
  "Linked",
  "Spent",
  "Noted",
] as const;

export type AwfType = (typeof AWF_TYPES)[number];
export type FactName = (typeof FACTS)[number];
/** A time as it is written, or one that is written in UTC; now, where none is given. */
export type At = string | Date | undefined;

const ORIGIN = { writer: "tracklog_emit", fidelity: "observed" };
const KIND = /^[a-z][a-z0-9]*(\.[a-z][a-z0-9]*)+$/;
const UUID4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const OPENWOP_RUN = 100;
/** What may stand on every native line. */
const ABOUT = ["agent", "step", "family", "cause"];
/** Where naive splitters cut a line. */
const BREAKS = /[\u0085\u2028\u2029]/g;

/** What an emitter says beforehand. */
export interface Bound {
  readonly run?: string | undefined;
  readonly parent?: string | undefined;
  readonly traceparent?: string | undefined;
  readonly actor?: string | undefined;
  readonly turn?: number | undefined;
  readonly node?: string | undefined;
  readonly path?: string | undefined;
  readonly iteration?: number | undefined;
  readonly origin?: Body | undefined;
  readonly agent?: string | undefined;
  readonly step?: string | undefined;
  readonly family?: string | undefined;
  readonly cause?: string | undefined;
}

/**
 * Writes the events of any number of runs to one sink, in any of the four dialects.
 * The run, the parent run and the trace come from the environment unless they are bound.
 * Each method returns the event's identity, to be used as the cause of a later one.
 */
export class TracklogEmitter {
  readonly run: string;
  readonly parent: string | undefined;
  readonly traceparent: string | undefined;
  readonly #sink: Sink;
  readonly #bound: Bound;
  /** Each run's last number, shared by all emitters of the sink. */
  readonly #last: Map<string, number>;

  constructor(sink: Sink, environ: Environ = process.env, bound: Bound = {}, last = new Map()) {
    this.run = bound.run ?? (environ[RUN_ENV] || crypto.randomUUID());
    name(this.run, "/run");
    const parent = bound.parent ?? environ[PARENT_ENV];
    this.parent = parent && parent !== this.run ? parent : undefined;
    this.traceparent = bound.traceparent ?? (environ[TRACE_ENV] || undefined);
    this.#sink = sink;
    this.#bound = bound;
    this.#last = last;
  }

  /** An emitter that appends to a private file, and reports if the environment says where. */
  static file(path: string, durability?: Durability, environ?: Environ): TracklogEmitter {
    const http = HttpSink.fromEnvironment({ environ });
    const file = new Appender(path, durability, 0o600);
    return new TracklogEmitter(http ? new Tee(file, http) : file, environ);
  }

  /** An emitter that reports to the collector at `url`, or where the environment says. */
  static http(url?: string | undefined, options: HttpOptions = {}): TracklogEmitter {
    const sink = url ? new HttpSink(url, options) : HttpSink.fromEnvironment(options);
    if (!sink) throw new TypeError(`events have nowhere to go: give a url, or set ${URL_ENV}`);
    return new TracklogEmitter(sink, options.environ);
  }

  /**
   * Another emitter to the same sink, with more said beforehand.
   * `after` is the last number of a run that is continued in openwop or awf.
   */
  bind({ after, ...bound }: Bound & { readonly after?: number | undefined }): TracklogEmitter {
    const { run, parent, traceparent } = this;
    const said = { run, parent, traceparent, ...this.#bound, ...bound };
    const emitter = new TracklogEmitter(this.#sink, {}, said, this.#last);
    if (after !== undefined) this.#last.set(emitter.run, after);
    return emitter;
  }

  /** What a child process needs in its environment to name this run as its parent. */
  childEnv(run?: string): Record<string, string> {
    return childEnv(this.run, this.traceparent, run);
  }

  /** Closes the sink, for every emitter that is bound to it; a collector's can be awaited. */
  close(): Promise<void> {
    return Promise.resolve(this.#sink.close());
  }

  fishbowl(
    kind: string,
    payload: Body = {},
    given: { actor?: string; turn?: number; id?: string; at?: At } = {},
  ): string {
    const actor = given.actor ?? this.#bound.actor;
    const id = given.id ?? crypto.randomUUID();
    if (!KIND.test(kind)) throw at("/kind", `${kind} is no kind`, "like agent.spoke");
    if (actor === undefined) throw at("/actor", "nobody is said to have done this", "give actor");
    this.#write(
      {
        id: name(id, "/id"),
        run_id: this.run,
        turn: count(given.turn ?? this.#bound.turn ?? 0, "/turn"),
        kind,
        actor: name(actor, "/actor"),
        payload: body(payload, "/payload"),
        created_at: moment(given.at, 6),
        schema_version: 1,
      },
      "fishbowl",
    );
    return id;
  }

  /** With the run's next sequence; further keys stand behind the envelope's own. */
  openwop(
    type: string,
    payload?: unknown,
    given: { node?: string; cause?: string; at?: At; extra?: Body } = {},
  ): string {
    if (this.run.length > OPENWOP_RUN)
      throw at("/runId", "no eventId can be made from so long a run id", "use a shorter one");
    const node = given.node ?? this.#bound.node;
    const sequence = (this.#last.get(this.run) ?? -1) + 1;
    const eventId = `evt-${this.run}-${sequence}`;
    const event = {
      eventId,
      runId: this.run,
      sequence,
      timestamp: moment(given.at, 3),
      type: name(type, "/type"),
      nodeId: node === undefined ? node : name(node, "/nodeId"),
      causationId: given.cause === undefined ? given.cause : name(given.cause, "/causationId"),
      payload: payload ?? {},
      schemaVersion: 1,
      engineVersion: "1",
    };
    const linked = type === "run.started" && this.parent ? { parent_run_id: this.parent } : {};
    this.#write(event, "openwop", { ...linked, ...given.extra });
    this.#last.set(this.run, sequence);
    return eventId;
  }

  /** With the run's next seq, which is returned; the run is a UUID v4. */
  awf(
    type: AwfType,
    payload: Body | null = null,
    given: { path?: string; iteration?: number; child?: string; at?: At; extra?: Body } = {},
  ): number {
    if (!AWF_TYPES.includes(type))
      throw at("/type", `${type} is none of the ten types`, `one of ${AWF_TYPES.join(", ")}`);
    if (!UUID4.test(this.run))
      throw at("/run_id", `${this.run} is no lower-case UUID v4`, "bind one: crypto.randomUUID()");
    const seq = (this.#last.get(this.run) ?? 0) + 1;
    const event = {
      seq,
      run_id: this.run,
      parent_run_id: this.parent,
      child_run_id: given.child === undefined ? given.child : name(given.child, "/child_run_id"),
      type,
      path: given.path ?? this.#bound.path ?? "",
      iteration: count(given.iteration ?? this.#bound.iteration ?? 0, "/iteration"),
      timestamp: moment(given.at, 6),
      payload: payload === null ? null : body(payload, "/payload"),
    };
    this.#write(event, "awf", given.extra, escapeBreaks);
    this.#last.set(this.run, seq);
    return seq;
  }

  /** One fact in the native dialect; a run that begins under a parent run is linked to it. */
  tracklog(fact: FactName, fields: Body = {}, given: { id?: string; at?: At; origin?: Body } = {}): string {
    if (!FACTS.includes(fact)) throw at("/fact", `${fact} is none of the twelve facts`, `one of ${FACTS.join(", ")}`);
    const id = given.id ?? crypto.randomUUID();
    const about = Object.entries(this.#bound).filter(([key]) => ABOUT.includes(key));
    const origin = body(given.origin ?? this.#bound.origin ?? ORIGIN, "/origin");
    const head = { id: name(id, "/id"), run: this.run, at: moment(given.at, 6), fact };
    only(fields, [...Object.keys(head), "origin"]);
    this.#write({ ...head, ...Object.fromEntries(about), ...fields, origin }, "tracklog");
    if (fact === "Began" && this.parent && fields.what === "run") {
      const { id: _, ...same } = given;
      this.tracklog("Linked", { kind: "sub-run", parent: this.parent }, same);
    }
    return id;
  }

  /** Keys that are given beside the envelope's own stand behind them. */
  #write(envelope: Body, dialect: string, extra: Body = {}, quote?: (text: string) => string): void {
    only(extra, Object.keys(envelope));
    const event = { ...envelope, ...extra };
    const faults = unwritable(event);
    if (faults.length > 0) throw new Invalid(...faults);
    this.#sink.write(`${json(event, quote)}\n`, dialect);
  }
}

/** No key of these is the emitter's own. */
function only(extra: Body, own: readonly string[]): void {
  const key = own.find((name) => Object.hasOwn(extra, name));
  if (key === undefined) return;
  throw at(`/${key}`, `${key} is written by the emitter`, "use the argument that is there for it");
}

/** What may cut a line, and what UTF-8 cannot hold, as escapes. */
function escapeBreaks(text: string): string {
  const spelled = (found: string) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(text).replace(BREAKS, spelled);
}

function name(value: unknown, pointer: string): string {
  if (typeof value === "string" && value) return value;
  throw at(pointer, "a name is missing", "write a string that is not empty");
}

function count(value: unknown, pointer: string): number {
  if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number;
  throw at(pointer, `${String(value)} does not belong here`, "a whole number, 0 or more");
}

function body(value: unknown, pointer: string): Body {
  if (isObject(value)) return value;
  throw at(pointer, "no JSON object", "write a plain object");
}

function moment(time: At, digits: 3 | 6): string {
  if (typeof time === "string") return name(time, "/at");
  const millis = (time ?? new Date()).toISOString();
  return digits === 3 ? millis : millis.replace("Z", "000Z");
}

// Writes the events of one run to a file, a collector or both, and hands it on to children.

/** What every kahn event carries; keys that the contract does not declare are written behind. */
export interface Base {
  run_id: string;
  /** The time now, unless given. */
  ts?: string | undefined;
  [key: string]: unknown;
}

export interface Options {
  /** From the environment unless given; a run that has neither gets a fresh id. */
  readonly runId?: string | undefined;
  readonly parentRunId?: string | undefined;
  readonly traceparent?: string | undefined;
  /** Checks each event before it is written. */
  readonly validate?: boolean | undefined;
  /** Called with each free text before it is cropped; what it returns is written. */
  readonly redact?: ((text: string) => string) | undefined;
  readonly durability?: Durability | undefined;
  /** Where the collector is; from the environment unless given. */
  readonly url?: string | undefined;
  readonly token?: string | undefined;
  /** The folder in which lines wait that the collector could not take yet. */
  readonly spool?: string | undefined;
  /** How many seconds the end may wait for the collector; 2 unless given. */
  readonly deadline?: number | undefined;
  /** What the collector is told that these lines speak. */
  readonly dialect?: string | undefined;
  readonly environ?: Environ | undefined;
}

/** Whatever cannot be written to the file throws; a collector that is away does not. */
export class Run {
  readonly runId: string;
  readonly parentRunId: string | undefined;
  readonly traceparent: string | undefined;
  private readonly contract: Contract;
  private readonly options: Options;
  protected readonly http: HttpSink | undefined;
  private readonly sink: Sink;
  protected readonly fields: Body = {};

  constructor(contract: Contract, path: string | undefined, options: Options) {
    const environ = options.environ ?? process.env;
    this.runId = checked(options.runId || environ[RUN_ENV] || crypto.randomUUID());
    const parent = options.parentRunId || environ[PARENT_ENV];
    this.parentRunId = parent === this.runId ? undefined : parent || undefined;
    this.traceparent = options.traceparent || environ[TRACE_ENV] || undefined;
    this.contract = contract;
    this.options = options;
    this.http = options.url ? new HttpSink(options.url, options) : HttpSink.fromEnvironment(options);
    const file = path === undefined ? undefined : new Appender(path, options.durability);
    const sink = file && this.http ? new Tee(file, this.http) : (file ?? this.http);
    if (!sink) throw new TypeError(`events have nowhere to go: give a path or a url, or set ${URL_ENV}`);
    this.sink = sink;
  }

  /** Another emitter to the same place, whose every event carries these fields too. */
  bind(fields: Body): this {
    const { run_id = this.runId, ...rest } = fields;
    const bound = Object.create(Object.getPrototypeOf(this) as object) as this;
    const said = { runId: checked(run_id), fields: { ...this.fields, ...rest } };
    return Object.assign(bound, this, said);
  }

  /** Writes an event and returns its line; ts and run_id may be left out. */
  emit(event: Body): string {
    const body = { ts: nowTs(), run_id: this.runId, ...this.fields, ...event };
    return this.append(shaped(this.contract, this.redacted(body, event.event)));
  }

  /** What a child process needs in its environment to name this run as its parent. */
  childEnv(runId?: string): Record<string, string> {
    return childEnv(this.runId, this.traceparent, runId);
  }

  /**
   * Syncs and closes the file at once, for every emitter that is bound to it.
   * To a collector it sends what it can within the deadline, which can be awaited.
   */
  close(): Promise<void> {
    return Promise.resolve(this.sink.close());
  }

  protected say(event: string, given: Body): string {
    const body = { run_id: this.runId, ...this.fields, ...given };
    return this.append(built(this.contract, event, this.redacted(body, event)));
  }

  protected append(event: Body): string {
    const opens = event.event === this.contract.start && this.parentRunId !== undefined;
    // K33: a run says whose child it is.
    const whole = opens ? { ...event, parent_run_id: event.parent_run_id ?? this.parentRunId } : event;
    if (this.options.validate) {
      const faults = faultsOf(this.contract, whole);
      if (faults.length > 0) throw new Invalid(...faults);
    }
    const line = lineOf(this.contract, whole);
    this.sink.write(line, this.options.dialect ?? this.contract.dialect);
    return line;
  }

  private redacted(body: Body, event: unknown): Body {
    const { redact } = this.options;
    if (!redact) return body;
    const fields = fieldsOf(this.contract, event) ?? BASE;
    const isFixed = (key: string) => Object.hasOwn(fields, key) && !fields[key]?.free;
    return Object.fromEntries(
      Object.entries(body).map(([key, value]) => [key, isFixed(key) ? value : clean(value, redact)]),
    );
  }
}

function clean(value: unknown, redact: (text: string) => string): unknown {
  if (typeof value === "string") return redact(value);
  if (Array.isArray(value)) return value.map((inner) => clean(inner, redact));
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, clean(inner, redact)]));
}

function checked(runId: unknown): string {
  if (!RUN_ID.fits(runId)) throw new Invalid(refused("/run_id", runId, RUN_ID.wanted));
  return runId as string;
}

// Writes kahn agent transitions.

export const AGENT_STATUSES = [
  "thinking",
  "tool_call",
  "tool_result",
  "response",
  "reflect",
  "blocked-on-clarification",
  "converged",
  "failed",
] as const;
/** Success is `converged`, never an exit code; `aborted` was ended from outside. */
export const AGENT_OUTCOMES = ["converged", "partial", "escaped", "aborted"] as const;
export const AUDIT_RESULTS = ["pass", "fail", "warn"] as const;

export type AgentStatus = (typeof AGENT_STATUSES)[number];
export type AgentOutcome = (typeof AGENT_OUTCOMES)[number];
export type AuditResult = (typeof AUDIT_RESULTS)[number];

const SUMMARY = 2048;
const AGENT_ID = matches(/^[a-z0-9][a-z0-9:-]{0,63}$/, "1 to 64 of a-z 0-9 : -, first a letter or a digit");
const CHECKPOINT_ID = matches(/^[a-z0-9][a-z0-9:.-]{0,127}$/, "1 to 128 of a-z 0-9 : . -, first a letter or a digit");
const AGENT_STATUS = oneOf(AGENT_STATUSES);
const AGENT = { ...BASE, agent_id: AGENT_ID };

export const KAHN_AGENT: Contract = {
  dialect: "kahn-agent",
  events: {
    agent_run_start: { ...AGENT, task: TEXT, model: optional(TEXT) },
    agent_transition: { ...AGENT, step: COUNT, from: AGENT_STATUS, to: AGENT_STATUS, reason: optional(TEXT) },
    tool_invocation: {
      ...AGENT,
      step: COUNT,
      tool_name: TEXT,
      duration_s: SECONDS,
      ok: BOOL,
      input_summary: optional(TEXT),
      output_summary: optional(text(SUMMARY)),
      error: optional(TEXT),
    },
    audit_checkpoint: {
      ...BASE,
      // K2: always written, null when it is about the run as a whole.
      agent_id: {
        wanted: "an agent id, or null",
        fits: (value) => value === null || AGENT_ID.fits(value),
      },
      checkpoint_id: CHECKPOINT_ID,
      result: oneOf(AUDIT_RESULTS),
      duration_s: SECONDS,
      evidence: { wanted: "a JSON object", fits: isObject, free: true, optional: true },
    },
    agent_run_end: {
      ...AGENT,
      outcome: oneOf(AGENT_OUTCOMES),
      total_steps: COUNT,
      total_tool_calls: COUNT,
      total_audit_checkpoints: COUNT,
      audits_passed: COUNT,
      audits_failed: COUNT,
      total_duration_s: SECONDS,
      convergence_score: optional(between(0, 1, "a number from 0 to 1")),
    },
  },
  start: "agent_run_start",
  settle: settleAgent,
};

interface AgentBase extends Base {
  agent_id: string;
}

export interface AgentRunStart extends AgentBase {
  task: string;
  model?: string | undefined;
}

export interface AgentTransition extends AgentBase {
  step: number;
  from: AgentStatus;
  to: AgentStatus;
  /** May read `kind:detail`. */
  reason?: string | undefined;
}

/** A long summary is cropped, and a key beside it says so. */
export interface ToolInvocation extends AgentBase {
  step: number;
  tool_name: string;
  duration_s: number;
  ok: boolean;
  input_summary?: string | undefined;
  output_summary?: string | undefined;
  error?: string | undefined;
}

export interface AuditCheckpoint extends Base {
  /** null: about the run as a whole. */
  agent_id: string | null;
  checkpoint_id: string;
  result: AuditResult;
  duration_s: number;
  evidence?: Body | undefined;
}

export interface AgentRunEnd extends AgentBase {
  outcome: AgentOutcome;
  total_steps: number;
  total_tool_calls: number;
  total_audit_checkpoints: number;
  audits_passed: number;
  audits_failed: number;
  total_duration_s: number;
  convergence_score?: number | undefined;
}

export const agentRunStart = (given: AgentRunStart): Body => built(KAHN_AGENT, "agent_run_start", given);
export const agentTransition = (given: AgentTransition): Body => built(KAHN_AGENT, "agent_transition", given);
export const toolInvocation = (given: ToolInvocation): Body => built(KAHN_AGENT, "tool_invocation", given);
export const auditCheckpoint = (given: AuditCheckpoint): Body => built(KAHN_AGENT, "audit_checkpoint", given);
export const agentRunEnd = (given: AgentRunEnd): Body => built(KAHN_AGENT, "agent_run_end", given);

/** What the builders add to the contract: the crop of K11, and a key that tells of it. */
function settleAgent(event: Body): Body {
  if (event.event === "audit_checkpoint" && !("agent_id" in event))
    return ordered({ ...event, agent_id: null }, KAHN_AGENT.events.audit_checkpoint ?? BASE);
  if (event.event !== "tool_invocation") return event;
  const crops = [
    ["input_summary", "input_truncated"],
    ["output_summary", "output_truncated"],
    ["error", "error_truncated"],
  ] as const;
  const body: Record<string, unknown> = { ...event };
  for (const [key, mark] of crops) {
    const value = body[key];
    const short = typeof value === "string" ? cropped(value, SUMMARY) : value;
    if (short === value) continue;
    body[key] = short;
    body[mark] = true;
  }
  return body;
}

type AgentGiven<Event extends AgentBase | AuditCheckpoint> = Omit<Event, "run_id" | "agent_id"> &
  Partial<Pick<Event, "run_id" | "agent_id">>;

const BLOCKED = "blocked-on-clarification";

/** What may be said beside a question. */
export interface Asking {
  readonly questionId?: string | undefined;
  readonly agent_id?: string | undefined;
  readonly step?: number | undefined;
  readonly [key: string]: unknown;
}

const who = ({ run_id, agent_id }: Body): string => JSON.stringify([run_id, agent_id]);

/** The answer by then, or undefined; at once, undefined also means that there is none yet. */
async function answered(
  http: HttpSink,
  path: string,
  until: number,
  atOnce = false,
): Promise<{ answer: unknown } | undefined> {
  let failures = 0;
  for (;;) {
    let left = Math.max(0, (until - Date.now()) / 1000);
    if (failures > 0 && left === 0) return undefined;
    const wait = atOnce ? 0 : Math.floor(Math.min(30, left));
    const began = Date.now();
    let pause = 0.2;
    try {
      const { status, body, pause: asked } = await http.get(`${path}&wait=${wait}`, Math.min(wait + 2, left));
      if (status === 200) return { answer: (JSON.parse(body) as { answer: unknown }).answer };
      const isOpen = status === 204 || status === 404;
      if (status === 410 || (atOnce && isOpen)) return undefined;
      failures = isOpen ? 0 : failures + 1;
      pause = asked;
    } catch {
      failures += 1;
    }
    left = Math.max(0, (until - Date.now()) / 1000);
    if (left === 0) return undefined;
    pause = Math.max(pause, Math.min(5, 0.1 * 2 ** Math.min(failures, 6)));
    if (failures > 0 || wait === 0 || Date.now() - began < wait * 500) await seconds(Math.min(pause, left));
  }
}

/** Writes the agent transitions of one run; `bind({agent_id})` speaks for one agent. */
export class AgentEmitter extends Run {
  /** The step of each agent's last event; shared by all that is bound to one place. */
  private readonly steps = new Map<string, number>();

  constructor(path?: string | undefined, options: Options = {}) {
    super(KAHN_AGENT, path, options);
  }

  agentRunStart(given: AgentGiven<AgentRunStart>): string {
    return this.say("agent_run_start", given);
  }

  agentTransition(given: AgentGiven<AgentTransition>): string {
    return this.say("agent_transition", given);
  }

  toolInvocation(given: AgentGiven<ToolInvocation>): string {
    return this.say("tool_invocation", given);
  }

  auditCheckpoint(given: AgentGiven<AuditCheckpoint>): string {
    return this.say("audit_checkpoint", given);
  }

  agentRunEnd(given: AgentGiven<AgentRunEnd>): string {
    return this.say("agent_run_end", given);
  }

  /**
   * Asks a person through the collector, and resolves to the answer, or to null without one.
   *
   * From the question to the answer the agent is blocked on the record, at the step of its last
   * event unless another is given. Null comes after `timeout` seconds, or as soon as the question
   * can no longer be answered; the agent then goes on with the reason `timeout`. Of two answers the
   * first counts. While the collector is away the question waits in the spool. An agent that was
   * restarted asks again under its old `questionId`, and gets the answer that was given meanwhile.
   * Without a timeout it waits for ever; without a collector it throws, and nothing is written.
   */
  async ask(question: string, timeout = Infinity, given: Asking = {}): Promise<unknown> {
    const { http } = this;
    if (!http)
      throw new TypeError(`nobody can answer an emitter that only writes a file: give a url, or set ${URL_ENV}`);
    const { questionId, ...rest } = given;
    const fields = this.withStep(rest);
    const until = Date.now() + timeout * 1000;
    const id = questionId ?? crypto.randomUUID();
    const path = `/api/inbox/${encodeURIComponent(id)}/answer?run=kahn:${String(fields.run_id)}`;
    // Asked before it is told again: an answer that is there already belongs to the first asking.
    const early = questionId ? await answered(http, path, until, true) : undefined;
    const expires = Number.isFinite(timeout) ? { expires: new Date(until).toISOString() } : {};
    this.say("agent_transition", {
      ...{ from: "thinking", to: BLOCKED, reason: `clarification:${id}`, question, ...expires },
      ...fields,
    });
    http.hurry();
    const found = early ?? (await answered(http, path, until));
    const reason = found ? `operator_response:${id}` : `timeout:${id}`;
    const answer = found ? { answer: found.answer } : {};
    this.say("agent_transition", { ...fields, from: BLOCKED, to: "thinking", reason, ...answer });
    http.hurry();
    return found ? found.answer : null;
  }

  protected override append(event: Body): string {
    if (typeof event.step === "number") this.steps.set(who(event), event.step);
    return super.append(event);
  }

  /** The fields of a question beside its text: its run, its agent and its step. */
  private withStep(given: Body): Body {
    const fields = { run_id: this.runId, ...this.fields, ...given };
    return { step: this.steps.get(who(fields)) ?? 0, ...fields };
  }
}

// Writes kahn CI transitions.

export const STATUSES = ["pending", "ready", "running", "done", "failed", "blocked"] as const;
/** How a run ended, from best to worst. */
export const OUTCOMES = ["clean", "clean_with_flake", "partial", "stuck", "catastrophic"] as const;
const SEVERITIES = ["none", "minor", "moderate", "major", "critical"] as const;

export type Status = (typeof STATUSES)[number];
export type Outcome = (typeof OUTCOMES)[number];
export type Severity = (typeof SEVERITIES)[number];

const TAIL = 4096;
const NODE_ID = matches(/^[a-z0-9][a-z0-9-]{0,63}$/, "1 to 64 of a-z 0-9 -, first a letter or a digit");
const NODE_STATUS = oneOf(STATUSES);
const RESULT: Fields = {
  cmd: TEXT,
  rc: wholeNumber(),
  duration_s: SECONDS,
  tail: optional(text(TAIL)),
  truncated: optional(BOOL),
};

export const KAHN_CI: Contract = {
  dialect: "kahn-ci",
  events: {
    run_start: { ...BASE, total_nodes: COUNT },
    node_transition: {
      ...BASE,
      node_id: NODE_ID,
      from: NODE_STATUS,
      to: NODE_STATUS,
      attempt: optional(wholeNumber(1)),
      reason: optional(TEXT),
    },
    node_attempt: {
      ...BASE,
      node_id: NODE_ID,
      attempt: wholeNumber(1),
      duration_s: SECONDS,
      converged: BOOL,
      done_when_results: {
        wanted: "a list of results, see doneWhenResult",
        fits: (value) => Array.isArray(value) && value.every(isObject),
        free: true,
        items: RESULT,
      },
      backoff_s: optional(SECONDS),
    },
    run_end: {
      ...BASE,
      outcome: oneOf(OUTCOMES),
      done: COUNT,
      failed: COUNT,
      blocked: COUNT,
      total_duration_s: SECONDS,
      total_attempts: optional(COUNT),
      flake_retries: optional(COUNT),
      exit_code: optional(wholeNumber()),
    },
  },
  start: "run_start",
  settle: settleNode,
};

export interface RunStart extends Base {
  total_nodes: number;
}

export interface NodeTransition extends Base {
  node_id: string;
  from: Status;
  to: Status;
  /** Goes with `to: "running"`, and only with it. */
  attempt?: number | undefined;
  reason?: string | undefined;
}

export interface DoneWhenResult {
  cmd: string;
  rc: number;
  duration_s: number;
  /** Give stderr + stdout; its end is kept, and nothing of it when the check passed. */
  tail?: string | undefined;
  [key: string]: unknown;
}

export interface NodeAttempt extends Base {
  node_id: string;
  attempt: number;
  duration_s: number;
  converged: boolean;
  done_when_results: readonly DoneWhenResult[];
  backoff_s?: number | undefined;
}

export interface RunEnd extends Base {
  outcome: Outcome;
  done: number;
  failed: number;
  blocked: number;
  total_duration_s: number;
  total_attempts?: number | undefined;
  flake_retries?: number | undefined;
  /** 1 on a bad outcome unless given, and never 0. */
  exit_code?: number | undefined;
}

export const runStart = (given: RunStart): Body => built(KAHN_CI, "run_start", given);
export const nodeTransition = (given: NodeTransition): Body => built(KAHN_CI, "node_transition", given);
export const nodeAttempt = (given: NodeAttempt): Body => built(KAHN_CI, "node_attempt", given);
export const runEnd = (given: RunEnd): Body => built(KAHN_CI, "run_end", given);

/** How one check of a node went. */
export const doneWhenResult = (given: DoneWhenResult): DoneWhenResult => given;

function settleNode(event: Body): Body {
  switch (event.event) {
    case "node_transition":
      return settledTransition(event);
    case "node_attempt":
      return settledAttempt(event);
    case "run_end":
      return settledEnd(event);
  }
  return event;
}

function settledTransition(event: Body): Body {
  const running = event.to === "running";
  if (running && !("attempt" in event))
    throw at("/attempt", "attempt is missing on the way to running", "add its number, from 1");
  if (!running && "attempt" in event)
    throw at("/attempt", `attempt goes with running, not with ${event.to}`, "leave it out");
  return event;
}

function settledAttempt(event: Body): Body {
  const { backoff_s, ...rest } = event;
  const first = event.attempt === 1;
  if (first && backoff_s) throw at("/backoff_s", "there is no backoff before the first attempt", "leave it out");
  const results = event.done_when_results;
  const settled = first ? rest : event;
  if (!Array.isArray(results)) return settled;
  const done_when_results = results.map((result) => (isObject(result) ? settledResult(result) : result));
  return { ...settled, done_when_results };
}

function settledResult(given: Body): Body {
  const { tail, truncated, ...rest } = given;
  if (given.rc === 0) return ordered(rest, RESULT);
  if (typeof tail !== "string" || tail.length * 4 <= TAIL) return ordered(given, RESULT);
  const bytes = new TextEncoder().encode(tail);
  if (bytes.length <= TAIL) return ordered(given, RESULT);
  return ordered({ ...given, tail: endOf(bytes), truncated: true }, RESULT);
}

/** K13: the last bytes, from a whole code point on. */
function endOf(bytes: Uint8Array): string {
  let start = bytes.length - TAIL;
  while (((bytes[start] ?? 0) & 0xc0) === 0x80) start += 1;
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes.subarray(start));
}

/** K14: never 0; none on a clean outcome; 1 on any other unless another was given. */
function settledEnd(event: Body): Body {
  const { exit_code, ...rest } = event;
  const outcome = event.outcome as Outcome;
  if (outcome === "clean" || outcome === "clean_with_flake") {
    if (exit_code) throw at("/exit_code", `${exit_code} does not go with ${outcome}`, "leave it out");
    return rest;
  }
  if (exit_code === 0) throw at("/exit_code", `0 does not go with ${outcome}`, "leave it out: 1 is written");
  if (exit_code !== undefined || !OUTCOMES.includes(outcome)) return event;
  return ordered({ ...event, exit_code: 1 }, KAHN_CI.events.run_end ?? BASE);
}

type NodeGiven<Event extends Base> = Omit<Event, "run_id"> & Partial<Base>;

/** Writes the CI transitions of one run; each method takes what its builder takes. */
export class Emitter extends Run {
  constructor(path?: string | undefined, options: Options = {}) {
    super(KAHN_CI, path, options);
  }

  runStart(given: NodeGiven<RunStart>): string {
    return this.say("run_start", given);
  }

  nodeTransition(given: NodeGiven<NodeTransition>): string {
    return this.say("node_transition", given);
  }

  nodeAttempt(given: NodeGiven<NodeAttempt>): string {
    return this.say("node_attempt", given);
  }

  runEnd(given: NodeGiven<RunEnd>): string {
    return this.say("run_end", given);
  }
}

/** The outcome of a run, from how its nodes ended. */
export function outcomeOf(counts: {
  done: number;
  failed: number;
  blocked: number;
  flake_retries?: number | undefined;
}): Outcome {
  const { done, failed, blocked, flake_retries = 0 } = counts;
  if (failed === 0 && blocked === 0) return flake_retries > 0 ? "clean_with_flake" : "clean";
  if (done === 0) return "catastrophic";
  return failed > 0 && blocked > 0 ? "stuck" : "partial";
}

/** The seconds to wait before an attempt: none before the first, then 2, 4, 8 … 60. */
export function backoffSeconds(attempt: number): number {
  return attempt > 1 ? Math.min(2 ** (attempt - 1), 60) : 0;
}

/** The outcome that a deviation of this severity means (K26); an unknown one is an error. */
export function severityOutcome(severity: Severity): Outcome {
  const outcome = OUTCOMES[SEVERITIES.indexOf(severity)];
  if (!outcome) throw at("/deviation/severity", `${severity} is no severity`, `one of ${SEVERITIES.join(", ")}`);
  return outcome;
}

/** The worst of the outcomes of a run's nodes; clean when there is none (K26). */
export function worst(outcomes: readonly Outcome[]): Outcome {
  const places = outcomes.map((outcome) => OUTCOMES.indexOf(outcome));
  return OUTCOMES[Math.max(0, ...places)] ?? "clean";
}

/** How many phases of one prompt failed and later succeeded (K25), from [phase, succeeded]. */
export function flakes(attempts: readonly (readonly [phase: string, succeeded: boolean])[]): number {
  const failed = new Set<string>();
  const healed = new Set<string>();
  for (const [phase, succeeded] of attempts) {
    if (!succeeded) failed.add(phase);
    else if (failed.has(phase)) healed.add(phase);
  }
  return healed.size;
}
