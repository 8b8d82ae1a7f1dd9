/**
 * Parsing at a stream boundary: from a line to an event, or to every reason why not.
 *
 * An event that was accepted is the very object that was parsed: keys that no shape declares,
 * nested ones too, are still there and in their place, so it serialises to the JSON it came from.
 * Only what a dialect names as a tolerance is read otherwise than it was written.
 * Two things JavaScript cannot hold: integers beyond 2^53 (refused in a declared integer field,
 * rounded elsewhere) and the order of keys that look like integers.
 * Whoever relays a line exactly relays the line.
 */

import type * as z from "zod";

/** One fault for which a line is refused. */
export interface Problem {
  /** A JSON pointer; empty when the line as a whole is at fault. */
  readonly pointer: string;
  readonly message: string;
}

export type Parsed<Event> =
  | { readonly ok: true; readonly event: Event }
  | { readonly ok: false; readonly problems: readonly Problem[] };

/** One language of events; each file of `dialects/` ends with one. */
export interface Dialect {
  readonly name: string;
  /** The key of a body that holds its kind. */
  readonly kindKey: string;
  /** The shape of each kind, by kind. */
  readonly kinds: Readonly<Record<string, z.ZodType>>;
  /** The shape of every other kind; absent where the kinds are closed. */
  readonly other?: z.ZodType;
  /** Other shapes that this dialect publishes, by file. */
  readonly documents?: Readonly<Record<string, z.ZodType>>;
  /** Whether a text may hold half a surrogate pair, escaped. */
  readonly halves?: boolean;
  /** The body as it is understood; the one given where nothing has to be tolerated. */
  readonly tolerate?: (body: Body) => Body;
  /** By kind, required keys that a reader can do without; the published shape still has them. */
  readonly excused?: Readonly<Record<string, readonly string[]>>;
}

export type Body = Readonly<Record<string, unknown>>;

/**
 * Parses lines of a dialect.
 * A string is taken for one line of JSON, anything else for what was parsed from it; never throws.
 */
export function parser<Event>(dialect: Dialect): (line: unknown) => Parsed<Event> {
  return (line) => {
    const body = typeof line === "string" ? read(line, dialect.halves ?? false) : line;
    if (body instanceof Unreadable) return refused([{ pointer: "", message: body.message }]);
    if (!isBody(body)) return refused([{ pointer: "", message: "not a JSON object" }]);
    const understood = dialect.tolerate?.(body) ?? body;
    const shape = shapeOf(dialect, understood);
    if (!shape) return refused([unknownKind(dialect, understood)]);
    const { error } = shape.safeParse(understood);
    const absent = absences(dialect, understood);
    const found = (error?.issues ?? []).flatMap(problems).filter(({ pointer }) => !absent.has(pointer));
    return found.length > 0 ? refused(found) : { ok: true, event: understood as Event };
  };
}

/** The pointers of the keys that are absent and excused. */
function absences({ excused = {}, kindKey }: Dialect, body: Body): Set<string> {
  const kind = body[kindKey];
  const keys = typeof kind === "string" && Object.hasOwn(excused, kind) ? excused[kind] : [];
  return new Set((keys ?? []).filter((key) => !Object.hasOwn(body, key)).map((key) => `/${key}`));
}

/** One record of a collector's stream (`GET /api/stream`): the event, and where it stands. */
export interface TracklogFrame {
  /** Its number in the journal. */
  readonly seq: number;
  readonly received: string;
  readonly dialect: string;
  /** Of its run; its dialect's name where it is not given. */
  readonly family?: string;
  readonly run: string;
  /** The event as its emitter wrote it; null once it was erased. */
  readonly event: unknown;
}

/** Parsers by the name of their dialect. */
export type Parsers = Readonly<Record<string, (line: unknown) => Parsed<unknown>>>;
export type EventOf<Known extends Parsers> = ReturnType<Known[keyof Known]> extends Parsed<infer Event> ? Event : never;

export type ParsedFrame<Event> =
  | {
      readonly ok: true;
      readonly frame: TracklogFrame;
      /** The event as its dialect's parser understands it; undefined without one, or if erased. */
      readonly event: Event | undefined;
    }
  | {
      readonly ok: false;
      /** A pointer into the event begins with `/event`. */
      readonly problems: readonly Problem[];
      /** The frame, where only its event is at fault. */
      readonly frame?: TracklogFrame;
    };

/**
 * Takes a record of a collector's stream out of its frame, and parses the event in it with the
 * parser of its dialect; an event of another dialect stays in the frame as it is.
 * A string is taken for the data of a message, anything else for what was parsed; never throws.
 */
export function parseTracklogFrame<Known extends Parsers = Record<never, never>>(
  data: unknown,
  parsers?: Known,
): ParsedFrame<EventOf<Known>> {
  const body = typeof data === "string" ? read(data, true) : data;
  if (body instanceof Unreadable) return { ok: false, problems: [{ pointer: "", message: body.message }] };
  if (!isBody(body)) return { ok: false, problems: [{ pointer: "", message: "not a JSON object" }] };
  const found = frameProblems(body);
  if (found.length > 0) return { ok: false, problems: found };
  const frame = body as unknown as TracklogFrame;
  const parse = parsers && Object.hasOwn(parsers, frame.dialect) ? parsers[frame.dialect] : undefined;
  if (!parse || frame.event === null) return { ok: true, frame, event: undefined };
  const parsed = parse(frame.event);
  if (parsed.ok) return { ok: true, frame, event: parsed.event as EventOf<Known> };
  const inside = parsed.problems.map(({ pointer, message }) => ({
    pointer: `/event${pointer}`,
    message,
  }));
  return { ok: false, problems: inside, frame };
}

function frameProblems(body: Body): Problem[] {
  const found: Problem[] = [];
  const { seq, family } = body;
  if (!Number.isSafeInteger(seq) || (seq as number) < 1)
    found.push({ pointer: "/seq", message: "not a record's number" });
  for (const key of ["received", "dialect", "run"])
    if (typeof body[key] !== "string") found.push({ pointer: `/${key}`, message: "not a string" });
  if (family !== undefined && typeof family !== "string") found.push({ pointer: "/family", message: "not a string" });
  if (!Object.hasOwn(body, "event")) found.push({ pointer: "/event", message: "missing" });
  return found;
}

function shapeOf({ kinds, kindKey, other }: Dialect, body: Body): z.ZodType | undefined {
  const kind = body[kindKey];
  return typeof kind === "string" && Object.hasOwn(kinds, kind) ? kinds[kind] : other;
}

class Unreadable extends Error {}

function read(line: string, halves: boolean): unknown {
  if (line.includes("\r")) return new Unreadable("a carriage return inside the line");
  try {
    const body: unknown = JSON.parse(line);
    return isSound(body, halves) ? body : new Unreadable("a lone surrogate, or a number beyond a double");
  } catch (error) {
    return new Unreadable(`not JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** JSON.parse admits strings that no UTF-8 can hold, and numbers that no JSON can. */
function isSound(value: unknown, halves: boolean): boolean {
  if (typeof value === "string") return halves || value.isWellFormed();
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object" || value === null) return true;
  return Object.entries(value).every(([key, inner]) => isSound(key, halves) && isSound(inner, halves));
}

export function isBody(value: unknown): value is Body {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function refused(problems: readonly Problem[]): Parsed<never> {
  return { ok: false, problems };
}

function unknownKind({ kinds, kindKey }: Dialect, body: Body): Problem {
  const known = Object.keys(kinds).join(", ");
  const message = kindKey in body ? `not one of: ${known}` : `missing; one of: ${known}`;
  return { pointer: pointer([kindKey]), message };
}

function problems(issue: z.core.$ZodIssue): Problem[] {
  const { path, message } = issue;
  if (issue.code === "unrecognized_keys")
    return issue.keys.map((key) => ({ pointer: pointer([...path, key]), message: "unknown key" }));
  const branch = issue.code === "invalid_union" ? meant(issue.errors) : undefined;
  if (branch) return branch.flatMap((inner) => problems({ ...inner, path: [...path, ...inner.path] }));
  return [{ pointer: pointer(path), message }];
}

/** The branch of a union that a value was meant for: its type and its words fit; if none, none. */
function meant(branches: readonly z.core.$ZodIssue[][]): z.core.$ZodIssue[] | undefined {
  const misses = (branch: z.core.$ZodIssue[]) =>
    branch.filter(({ code, path }) => path.length === 1 && code === "invalid_value").length +
    // The branch for all other words is the last resort.
    (branch.some(({ code }) => code === "custom") ? branches.length : 0);
  return branches
    .filter((branch) => !branch.some(({ code, path }) => code === "invalid_type" && !path.length))
    .sort((one, other) => misses(one) - misses(other) || one.length - other.length)[0];
}

/** A JSON pointer (RFC 6901) from its parts. */
function pointer(path: readonly PropertyKey[]): string {
  return path.map((part) => `/${String(part).replace(/~/g, "~0").replace(/\//g, "~1")}`).join("");
}
