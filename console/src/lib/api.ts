/** Questions to the collector; their types are generated from its OpenAPI document. */

import type { Error as ErrorAnswer, paths } from "./answers";

/** An answer that is an error: what went wrong, and what to do next. */
export class Trouble extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly hint = "",
  ) {
    super(message);
  }
}

declare global {
  /** Requests that `early.js` began before this code was loaded; each is used once. */
  var early: Map<string, Promise<Response>> | undefined;
}

type Method = "get" | "post" | "put";
type Path<M extends Method> = { [P in keyof paths]: paths[P] extends Record<M, object> ? P : never }[keyof paths];
type Operation<P extends keyof paths, M extends Method> = paths[P] extends Record<M, infer Found> ? Found : never;
type Part<T> = [NonNullable<T>] extends [never] ? unknown : NonNullable<T>;
type Params<P extends keyof paths, M extends Method> =
  Operation<P, M> extends { parameters: { path?: infer Names; query?: infer Query } }
    ? Part<Names> & Part<Query>
    : never;
type Result<P extends keyof paths, M extends Method> =
  Operation<P, M> extends { responses: { 200: { content: { "application/json": infer Answer } } } } ? Answer : never;
type Body<P extends keyof paths, M extends Method = "post"> =
  Operation<P, M> extends { requestBody: { content: { "application/json": infer Given } } } ? Given : never;

declare const answer: unique symbol;
/** The address of a question, which knows the type of its answer. */
export type Address<Answer> = string & { readonly [answer]: Answer };

/** The address of a question with its parameters; those that are empty are left out. */
export function address<P extends Path<"get">>(
  path: P,
  ...[params]: object extends Params<P, "get"> ? [Params<P, "get">?] : [Params<P, "get">]
): Address<Result<P, "get">> {
  return filled(path, params ?? {}) as Address<Result<P, "get">>;
}

/** A path with its names filled in, and the other parameters behind it; one of several values is repeated. */
export function filled(path: string, params: object): string {
  const query = new Map(Object.entries(params as Record<string, unknown>));
  const address = path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = String(query.get(name) ?? "");
    query.delete(name);
    return encodeURIComponent(segment(value));
  });
  const pairs = [...query].flatMap(([name, value]) =>
    (Array.isArray(value) ? (value as unknown[]) : [value]).map((each) => [name, String(each ?? "")]),
  );
  const asked = new URLSearchParams(pairs.filter(([, value]) => value !== "")).toString();
  return asked ? `${address}?${asked}` : address;
}

/** A browser removes `.` and `..` from a path, so the collector also takes them with `~` before them. */
function segment(name: string): string {
  return /^~*\.\.?$/.test(name) ? `~${name}` : name;
}

export async function ask<Answer>(address: Address<Answer>, signal?: AbortSignal): Promise<Answer> {
  return (await (await fetched(address, signal)).json()) as Answer;
}

/** The response to a question, for those who read its bytes. */
export function fetched(address: Address<unknown>, signal?: AbortSignal): Promise<Response> {
  const early = globalThis.early?.get(address);
  globalThis.early?.delete(address);
  return checked(() => early ?? fetch(address, signal ? { signal } : {}));
}

export async function post<P extends Path<"post">>(
  path: P,
  params: Params<P, "post">,
  body: Body<P>,
): Promise<Result<P, "post">> {
  const text = JSON.stringify(body);
  const response = await checked(() =>
    fetch(filled(path, params as object), {
      method: "POST",
      keepalive: text.length < 10_000, // goes on when the page is left; a browser refuses it for more
      headers: { "Content-Type": "application/json" },
      body: text,
    }),
  );
  return (await response.json()) as Result<P, "post">;
}

export async function put<P extends Path<"put">>(path: P, body: Body<P, "put">): Promise<Result<P, "put">> {
  const headers = { "Content-Type": "application/json" };
  const text = JSON.stringify(body);
  const response = await checked(() =>
    fetch(path, { method: "PUT", keepalive: text.length < 10_000, headers, body: text }),
  );
  return (await response.json()) as Result<P, "put">;
}

let busy = 0;
let done = 0;

/** Does something that may end the right to read here, and gets it back; no question that was asked until then reloads the page. */
export async function keepingPage<T>(deed: () => Promise<T>): Promise<T> {
  busy++;
  try {
    return await deed();
  } finally {
    busy--;
    done++;
  }
}

/** Gives the collector a token, for which this browser gets a cookie. */
export async function logIn(token: string): Promise<void> {
  await fetch("/login", { method: "POST", body: new URLSearchParams({ token }), redirect: "manual" });
}

async function checked(asking: () => Promise<Response>): Promise<Response> {
  const before = done;
  const response = await asking();
  if (response.ok) return response;
  const known = busy > 0 || done > before; // the right to read was being changed, and is here again
  if (response.status === 401 && !known) location.reload(); // the collector now serves the page that asks for the token
  const body: unknown = await response.json().catch(() => ({}));
  const { error, hint } = body as Partial<ErrorAnswer>;
  throw new Trouble(response.status, error ?? response.statusText, hint);
}

/** The text of an error and of its hint, on one line. */
export function explained(error: unknown): string {
  const hint = error instanceof Trouble ? error.hint : "";
  return [(error as Error).message, hint].filter(Boolean).join(" · ");
}
