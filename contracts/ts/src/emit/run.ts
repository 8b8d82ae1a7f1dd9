/** Writes the events of one run to a file, a collector or both, and hands it on to children. */

import {
  BASE,
  type Body,
  built,
  type Contract,
  faultsOf,
  fieldsOf,
  isObject,
  lineOf,
  nowTs,
  RUN_ID,
  refused,
  shaped,
} from "./contract.js";
import { childEnv, type Environ, PARENT_ENV, RUN_ENV, TRACE_ENV } from "./environ.js";
import { Appender, type Durability, type Sink, Tee } from "./file.js";
import { HttpSink, URL_ENV } from "./http.js";
import { Invalid } from "./json.js";

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
