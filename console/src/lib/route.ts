/** Where one is: the part of the address behind `#`, so that every view and filter is a link. */

import { useSyncExternalStore } from "react";

export interface Route {
  readonly parts: readonly string[];
  readonly query: URLSearchParams;
}

export function parse(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const parts = path.split("/").filter(Boolean).map(decoded);
  return { parts: aliased(parts), query: new URLSearchParams(query) };
}

/** `#/ralph` is the panel of ralph's runs, `#/ralph/<run>` one of them: addresses that stay. */
function aliased(parts: readonly string[]): readonly string[] {
  if (parts[0] !== "ralph") return parts;
  return parts[1] === undefined ? ["dash", "ralph-runs"] : ["run", "kahn", ...parts.slice(1)];
}

/** The parameters of an address; one with several values is repeated, one that is empty is left out. */
export type Query = Record<string, string | number | readonly string[]>;

export function href(parts: readonly string[], query: Query = {}): string {
  const path = parts.map(encodeURIComponent).join("/");
  const pairs = Object.entries(query).flatMap(([key, value]) =>
    (Array.isArray(value) ? (value as readonly string[]) : [value]).map((each) => [key, String(each)]),
  );
  const asked = new URLSearchParams(pairs.filter(([, value]) => value !== "")).toString();
  return `#/${path}${asked ? `?${asked}` : ""}`;
}

export function runHref(family: string, run: string, query?: Query) {
  return href(["run", family, run], query);
}

/** Opens a page, as a link does. */
export function go(hash: string): void {
  location.hash = hash;
}

/** Changes the query of the address; an empty value takes the key away, `step` makes it a place to come back to. */
export function setQuery(changes: Record<string, string | readonly string[]>, step = false): void {
  const { parts, query } = parse(location.hash);
  const all = Object.fromEntries([...query.keys()].map((key) => [key, query.getAll(key)]));
  const next = href(parts, { ...all, ...changes });
  if (next === location.hash) return;
  history[step ? "pushState" : "replaceState"](null, "", next);
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}

let known = parse(location.hash);
let at = location.hash;

function current(): Route {
  if (location.hash !== at) {
    at = location.hash;
    known = parse(at);
  }
  return known;
}

export function useRoute(): Route {
  return useSyncExternalStore((changed) => {
    window.addEventListener("hashchange", changed);
    return () => window.removeEventListener("hashchange", changed);
  }, current);
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
