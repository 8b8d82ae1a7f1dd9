/** The stream's boundary: each frame is checked before anything is made of it. */

import { parser, type Dialect, type Problem } from "@tracklog/contracts/stream";
import { z } from "zod";

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

export interface Heard {
  readonly seq: number;
  readonly received: string;
  readonly dialect: string;
  readonly family: string;
  readonly run: string;
  readonly event: unknown;
  /** The frame as it came. */
  readonly raw: string;
  /** What is wrong with the event, by this side's own check; empty when nothing is. */
  readonly problems: readonly Problem[];
}

export type Parsed = { ok: true; heard: Heard } | { ok: false; message: string };

export function parseFrame(raw: string): Parsed {
  let body: unknown;
  try {
    body = JSON.parse(raw);
  } catch (error) {
    return { ok: false, message: String(error) };
  }
  const { data, error } = Frame.safeParse(body);
  if (!data) return { ok: false, message: error.issues.map((i) => i.message).join("; ") };
  const { seq, received, dialect, run, event } = data;
  const verdict = event === null ? undefined : parsers.get(dialect)?.(event);
  const problems = verdict && !verdict.ok ? verdict.problems : [];
  const family = data.family ?? dialect;
  return { ok: true, heard: { seq, received, dialect, family, run, event, raw, problems } };
}
