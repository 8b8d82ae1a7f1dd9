/** The stream's boundary: each frame is checked before anything is made of it. */

import { type Dialect, parser, parseTracklogFrame } from "@tracklog/contracts/stream";
import { z } from "zod";
import type { Said } from "./live";

z.config({ jitless: true }); // no code is made from text here, and the browser is told to forbid it

/** The folder is the registry: a dialect more is a file more over there, and nothing here. */
const plugs = import.meta.glob<{ dialect: Dialect }>("../../node_modules/@tracklog/contracts/dist/dialects/*.js", {
  eager: true,
});
const parsers = Object.fromEntries(Object.values(plugs).map(({ dialect }) => [dialect.name, parser(dialect)] as const));

/** A frame that passed says of which run it is; what it says is asked of the collector. */
export type Parsed =
  | { readonly ok: true; readonly seq: number; readonly said: Said }
  | { readonly ok: false; readonly seq: number | null; readonly why: string };

export function parseFrame(raw: string): Parsed {
  // An erased event is null; a dialect of tomorrow is nobody's to judge.
  const parsed = parseTracklogFrame(raw, parsers);
  if (parsed.ok) {
    const { seq, dialect, family, run } = parsed.frame;
    return { ok: true, seq, said: { family: family ?? dialect, run } };
  }
  const said = parsed.problems.map(({ pointer, message }) => `${pointer} ${message}`.trim()).join("; ");
  const { seq = null, dialect } = parsed.frame ?? {};
  return { ok: false, seq, why: seq === null ? said : `record ${seq}, ${dialect}: ${said}` };
}
