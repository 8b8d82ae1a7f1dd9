/** Judges lines: `judge.js DIALECT < lines` prints `{accepted, event}` or `{accepted, pointers}`. */

import { readFileSync } from "node:fs";

import { dialects } from "./registry.js";
import { parser } from "./stream.js";

const known = await dialects();
const dialect = known.find(({ name }) => name === process.argv[2]);
if (dialect) {
  const parse = parser(dialect);
  for (const line of readFileSync(0, "utf8").split("\n").filter(Boolean)) {
    const parsed = parse(line);
    const verdict = parsed.ok
      ? { accepted: true, event: parsed.event }
      : { accepted: false, pointers: parsed.problems.map(({ pointer }) => pointer) };
    process.stdout.write(`${JSON.stringify(verdict)}\n`);
  }
} else {
  const names = known.map(({ name }) => name).join(", ");
  process.stderr.write(`no such dialect; the dialects are: ${names}\n`);
  process.exitCode = 2;
}
