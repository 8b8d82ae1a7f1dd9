/** Prints the JSON Schemas that are derived from the shapes, dialects and documents apart. */

import * as z from "zod";

import { dialects } from "./registry.js";
import type { Dialect } from "./stream.js";

const schemaOf = (shape: z.ZodType) => z.toJSONSchema(shape, { io: "input" });

/** One schema for all lines of a dialect: a `oneOf` over its kinds, or its one shape. */
function contract({ kinds, other }: Dialect) {
  const shapes = [...Object.values(kinds), ...(other ? [other] : [])];
  const [only, ...more] = shapes.map(schemaOf);
  return more.length > 0 ? { oneOf: [only, ...more] } : only;
}

const known = await dialects();
const derived = {
  dialects: Object.fromEntries(known.map((dialect) => [dialect.name, contract(dialect)])),
  documents: Object.fromEntries(
    known.flatMap(({ documents }) => Object.entries(documents ?? {})).map(([name, shape]) => [name, schemaOf(shape)]),
  ),
};
process.stdout.write(`${JSON.stringify(derived)}\n`);
