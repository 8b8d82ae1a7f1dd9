/** JSON to the byte as the Python emitters write it. */

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
export function at(pointer: string, message: string, hint: string): Invalid {
  return new Invalid({ pointer, message, hint });
}

export type Body = Readonly<Record<string, unknown>>;

/** A value as compact JSON, without escaping what UTF-8 can hold; a key of undefined is absent. */
export function json(value: unknown, quote = quoted): string {
  if (typeof value === "string") return quote(value);
  if (typeof value === "number") return number(value);
  if (Array.isArray(value)) return `[${value.map((inner) => json(inner, quote)).join(",")}]`;
  if (!isObject(value)) return String(value as boolean | bigint | null);
  const keys = Object.keys(value).filter((key) => value[key] !== undefined);
  return `{${keys.map((key) => `${quote(key)}:${json(value[key], quote)}`).join(",")}}`;
}

/** A lone surrogate has no bytes in UTF-8: U+FFFD stands for it. */
export function quoted(text: string): string {
  return JSON.stringify(text.toWellFormed());
}

function number(value: number): string {
  return Number.isInteger(value) && !Object.is(value, -0) ? String(value) : repr(value);
}

/** A whole number by its digits alone. */
export function whole(value: number): string {
  return Number.isInteger(value) ? String(BigInt(value)) : repr(value);
}

/** The shortest digits that read back the same, always with a decimal point: 65.0, 1.0e-07. */
export function decimal(value: number): string {
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
export function unwritable(value: unknown, at = "", within: readonly unknown[] = []): Fault[] {
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
export function isObject(value: unknown): value is Body {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const kind: unknown = Object.getPrototypeOf(value);
  return kind === Object.prototype || kind === null;
}

function escaped(key: string): string {
  return key.replaceAll("~", "~0").replaceAll("/", "~1");
}
