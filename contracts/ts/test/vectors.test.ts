/** The vectors that the Python suite reads too: inputs, and the exact bytes. */

import { mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";

import { describe, expect, test } from "vitest";

import * as emit from "../src/emit.js";
import { dialects } from "../src/registry.js";
import { parser } from "../src/stream.js";

interface Vector {
  readonly name: string;
  readonly call?: string;
  readonly function?: string;
  readonly arguments: Record<string, unknown>;
  readonly bound?: Record<string, unknown>;
  readonly environment?: Record<string, string>;
  readonly validate?: boolean;
  /** False where the line is written as asked, though the dialect refuses it. */
  readonly accepted?: boolean;
  readonly line?: string;
  readonly result?: unknown;
  readonly error?: string;
}

const FOLDER = new URL("../../vectors/", import.meta.url);
const folder = mkdtempSync(`${tmpdir()}/vectors-`);
let files = 0;

/** JSON has no word for some values: {"$text": [[piece, times], …]}, {"$float": …}, {"$int": …}. */
function spelled(_: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  const { $text, $float, $int } = value as {
    $text?: [string, number][];
    $float?: string;
    $int?: string;
  };
  if ($text) return $text.map(([piece, times]) => piece.repeat(times)).join("");
  if ($float) return Number($float);
  return $int ? BigInt($int) : value;
}

type Methods = Record<string, (...given: unknown[]) => unknown>;
const camel = (word: string) => word.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

/** Opens an emitter, binds, calls, and closes it again. */
function kahn(kind: typeof emit.Emitter | typeof emit.AgentEmitter) {
  return (path: string, vector: Vector) => {
    const { environment: environ = {}, validate, bound = {} } = vector;
    const run = new kind(path, { environ, validate }).bind(bound);
    try {
      (run as unknown as Methods)[camel(vector.call ?? "")]?.(vector.arguments);
    } finally {
      run.close();
    }
  };
}

function envelope(path: string, vector: Vector): void {
  const emitter = emit.TracklogEmitter.file(path, "os", vector.environment ?? {});
  try {
    speak(emitter.bind(vector.bound ?? {}), vector);
  } finally {
    emitter.close();
  }
}

function speak(emitter: emit.TracklogEmitter, { call, arguments: given }: Vector): void {
  const { payload, at, ...rest } = given as { payload?: emit.Body; at?: string };
  const say = emitter as unknown as Methods;
  if (call === "fishbowl") {
    const { kind, ...more } = rest as { kind?: string };
    say.fishbowl?.(kind, payload, { ...more, at });
  } else if (call === "tracklog") {
    const { fact, id, origin, ...fields } = rest as {
      fact?: string;
      id?: string;
      origin?: emit.Body;
    };
    say.tracklog?.(fact, fields, { id, at, origin });
  } else {
    const { type, node, cause, path, iteration, child, ...extra } = rest as Record<string, string>;
    say[call ?? ""]?.(type, payload, { node, cause, path, iteration, child, at, extra });
  }
}

const EMITTERS: Record<string, (path: string, vector: Vector) => void> = {
  "kahn-ci": kahn(emit.Emitter),
  "kahn-agent": kahn(emit.AgentEmitter),
  openwop: envelope,
  fishbowl: envelope,
  awf: envelope,
  tracklog: envelope,
};

const FUNCTIONS: Record<string, (given: Record<string, never>) => unknown> = {
  outcome_of: (given) => emit.outcomeOf(given as never),
  severity_outcome: ({ severity }) => emit.severityOutcome(severity ?? ("" as never)),
  worst: ({ outcomes }) => emit.worst(outcomes as never),
  backoff_s: ({ attempt }) => emit.backoffSeconds(attempt as never),
  flakes: ({ attempts }) => emit.flakes(attempts as never),
};

/** Runs it, and gives the pointers of its faults if it was refused. */
function faults(run: () => unknown): string[] {
  try {
    run();
  } catch (error) {
    if (error instanceof emit.Invalid) return error.faults.map(({ pointer }) => pointer);
    throw error;
  }
  return [];
}

/** Whether JavaScript can read all its numbers back. */
function isExact({ arguments: given }: Vector): boolean {
  return typeof given.step !== "bigint";
}

const known = await dialects();

for (const file of readdirSync(FOLDER).filter((name) => name.endsWith(".json"))) {
  const text = readFileSync(new URL(file, FOLDER), "utf8");
  const { emitter, twin, asking, answering, vectors } = JSON.parse(text, spelled) as {
    emitter?: string;
    twin?: string;
    asking?: boolean;
    answering?: boolean;
    vectors: Vector[];
  };
  // What a twin elsewhere computes is proven there, and what a collector answers beside the sink.
  if (twin || asking || answering) continue;

  describe(file, () => {
    const parse = parser(known.find(({ name }) => name === emitter) ?? known[0]!);

    for (const vector of vectors)
      test(vector.name, () => {
        if (vector.function) {
          const compute = FUNCTIONS[vector.function]!;
          const run = () => compute(vector.arguments as Record<string, never>);
          if (vector.error) expect(faults(run)).toContain(vector.error);
          else expect(run()).toEqual(vector.result);
          return;
        }
        const path = `${folder}/${++files}.jsonl`;
        const found = faults(() => EMITTERS[emitter ?? ""]!(path, vector));
        const written = readFileSync(path, "utf8");
        if (vector.error) {
          expect(found).toContain(vector.error);
          expect(written).toBe("");
        } else {
          expect(found).toEqual([]);
          expect(written).toBe(vector.line);
          expect(parse(written.trimEnd()).ok).toBe((vector.accepted ?? true) && isExact(vector));
        }
      });
  });
}
