/** Judges lines: `judge.js DIALECT < lines` prints a verdict for each, `{accepted, pointers}`. */

import { readFileSync } from "node:fs";

import { dialects } from "./registry.js";
import { parser } from "./stream.js";

const known = await dialects();
const dialect = known.find(({ name }) => name === process.argv[2]);
if (dialect) {
  const parse = parser(dialect);
  for (const line of readFileSync(0, "utf8").split("\n").filter(Boolean)) {
    const parsed = parse(line);
    const pointers = parsed.ok ? [] : parsed.problems.map(({ pointer }) => pointer);
    process.stdout.write(`${JSON.stringify({ accepted: parsed.ok, pointers })}\n`);
  }
} else {
  const names = known.map(({ name }) => name).join(", ");
  process.stderr.write(`no such dialect; the dialects are: ${names}\n`);
  process.exitCode = 2;
}
