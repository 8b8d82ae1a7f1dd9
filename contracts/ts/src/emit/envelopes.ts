/** Writes openwop, fishbowl, awf and tracklog lines: an envelope around what it is given. */

import { childEnv, type Environ, PARENT_ENV, RUN_ENV, TRACE_ENV } from "./environ.js";
import { Appender, type Durability, type Sink, Tee } from "./file.js";
import { type HttpOptions, HttpSink, URL_ENV } from "./http.js";
import { at, type Body, Invalid, isObject, json, unwritable } from "./json.js";

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
