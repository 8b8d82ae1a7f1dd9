/** The stream's boundary: each frame is checked before anything is made of it. */

import { parser, type Dialect } from "@tracklog/contracts/stream";
import { z } from "zod";
import type { Said } from "./live";

z.config({ jitless: true }); // no code is made from text here, and the browser is told to forbid it

/** The folder is the registry: a dialect more is a file more over there, and nothing here. */
const plugs = import.meta.glob<{ dialect: Dialect }>(
  "../../node_modules/@tracklog/contracts/dist/dialects/*.js",
  { eager: true },
);
const parsers = new Map(
  Object.values(plugs).map(({ dialect }) => [dialect.name, parser(dialect)] as const),
);

const Frame = z.looseObject({
  seq: z.int().min(1),
  received: z.string(),
  dialect: z.string(),
  family: z.string().optional(),
  run: z.string(),
  event: z.unknown(),
});

/** A frame that passed says of which run it is; what it says is asked of the collector. */
export type Parsed =
  | { readonly ok: true; readonly seq: number; readonly said: Said }
  | { readonly ok: false; readonly seq: number | null; readonly why: string };

export function parseFrame(raw: string): Parsed {
  let body: unknown;
  try {
    body = JSON.parse(raw);
  } catch (error) {
    return { ok: false, seq: null, why: String(error) };
  }
  const { data, error } = Frame.safeParse(body);
  if (!data) return { ok: false, seq: null, why: error.issues.map((i) => i.message).join("; ") };
  const { seq, dialect, run, event } = data;
  // An erased event is null; a dialect of tomorrow is nobody's to judge.
  const verdict = event === null ? undefined : parsers.get(dialect)?.(event);
  if (verdict && !verdict.ok) {
    const said = verdict.problems.map(({ pointer, message }) => `${pointer} ${message}`.trim());
    return { ok: false, seq, why: `record ${seq}, ${dialect}: ${said.join("; ")}` };
  }
  return { ok: true, seq, said: { family: data.family ?? dialect, run } };
}
