/** What a contract says of its events, and how they are written and checked by it. */

import { type Body, decimal, type Fault, Invalid, isObject, json, quoted, unwritable, whole } from "./json.js";

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

export function matches(pattern: RegExp, wanted: string): Field {
  return { wanted, fits: (value) => typeof value === "string" && pattern.test(value) };
}

export function oneOf(values: readonly string[]): Field {
  const fits = (value: unknown) => typeof value === "string" && values.includes(value);
  return { wanted: `one of ${values.join(", ")}`, fits };
}

export function wholeNumber(least = -Infinity): Field {
  return {
    wanted: least === -Infinity ? "a whole number" : `a whole number, ${least} or more`,
    fits: (value) => isNumber(value) && (typeof value === "bigint" || Number.isInteger(value)) && value >= least,
    number: "int",
  };
}

export function between(least: number, most: number, wanted: string): Field {
  const fits = (value: unknown) => isNumber(value) && value >= least && value <= most;
  return { wanted, fits, number: "float" };
}

export const optional = (field: Field): Field => ({ ...field, optional: true });

export const TEXT: Field = {
  wanted: "a string",
  fits: (value) => typeof value === "string",
  free: true,
};
export const BOOL: Field = { wanted: "true or false", fits: (value) => typeof value === "boolean" };
export const COUNT = wholeNumber(0);
export const SECONDS = between(0, Infinity, "a number of seconds, 0 or more");
export const RUN_ID = matches(
  /^[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}$/,
  "1 to 64 of A-Z a-z 0-9 _ -, first a letter or a digit",
);
export const BASE: Fields = {
  ts: { wanted: "UTC with milliseconds and Z, like 2026-05-05T09:00:00.000Z", fits: isTs },
  run_id: RUN_ID,
  event: { ...TEXT, free: false },
};

/** The text of at most so many code points. */
export function text(most: number): Field {
  return {
    wanted: `a string of at most ${most} characters`,
    fits: (value) => typeof value === "string" && cropped(value, most) === value,
    free: true,
  };
}

/** The first code points of a text; an emoji is one, and is never cut in two. */
export function cropped(value: string, most: number): string {
  return value.length <= most ? value : Array.from(value).slice(0, most).join("");
}

/** The fields of an event, by what it says it is. */
export function fieldsOf({ events }: Contract, event: unknown): Fields | undefined {
  return typeof event === "string" && Object.hasOwn(events, event) ? events[event] : undefined;
}

/** The time now, as the contracts write it: UTC, milliseconds, Z. */
export const nowTs = (): string => new Date().toISOString();

/** An event from what its builder was given: what is not known is absent. */
export function built(contract: Contract, event: string, given: Body): Body {
  const fields = fieldsOf(contract, event) ?? BASE;
  const said = Object.entries(given).filter(([key, value]) => value !== null || !fields[key]?.optional);
  return shaped(contract, { ts: nowTs(), ...present(Object.fromEntries(said)), event });
}

/** The event as it is written (K17): keys in declared order, unknown keys as given, cropped. */
export function shaped(contract: Contract, event: Body): Body {
  return contract.settle(ordered(event, fieldsOf(contract, event.event) ?? BASE));
}

/** A body with the declared keys first; a key of undefined is absent. */
export function ordered(body: Body, fields: Fields): Body {
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

export function refused(pointer: string, value: unknown, wanted: string): Fault {
  if (value === null) return { pointer, message: "null stands here", hint: `leave the key out, or write ${wanted}` };
  const shown = typeof value === "string" ? JSON.stringify(value) : String(value);
  const short = shown.length <= 60 ? shown : `${shown.slice(0, 59)}…`;
  return { pointer, message: `${short} does not belong here`, hint: `write ${wanted}` };
}

export type { Body };
export { isObject };
