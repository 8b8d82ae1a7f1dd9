/** fishbowl: a stage on which agents talk, a judge may rule and a visitor may interfere. */

import * as z from "zod";

import { Count, JsonObject, moment, Name } from "../shape.js";
import { type Dialect, parser } from "../stream.js";

/** Lower-case words joined by dots, at least two; open, so that a scenario mints its own. */
export const KindSchema = z.string().regex(/^[a-z][a-z0-9]*(\.[a-z][a-z0-9]*)+$/);

/** The envelope, the same for every kind; its eight fields are all there are. */
export const FishbowlEventSchema = z.strictObject({
  id: Name,
  run_id: Name,
  /** Sim time, not the wall clock. */
  turn: Count,
  kind: KindSchema,
  /** An agent, the scenario, the visitor or the system. */
  actor: Name,
  payload: JsonObject,
  created_at: moment(/^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|\+00:00)$/),
  schema_version: z.literal(1),
});

export type FishbowlEvent = z.infer<typeof FishbowlEventSchema>;

export const dialect = {
  name: "fishbowl",
  kindKey: "kind",
  kinds: {},
  other: FishbowlEventSchema,
} satisfies Dialect;

export const parseFishbowlEvent = parser<FishbowlEvent>(dialect);
