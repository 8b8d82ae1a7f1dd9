import { describe, expect, test } from "vitest";
import { AuditCheckpointSchema, parseKahnAgentEvent as parse } from "../src/dialects/kahn-agent.js";
import { dialects } from "../src/registry.js";
import { accepts, agents, refuses } from "./lines.js";

describe("a parser", () => {
  test("takes a line or what was parsed from it", () => {
    expect(parse(JSON.stringify(agents.start))).toEqual(parse(agents.start));
    const body = { ...agents.start };
    const parsed = parse(body);
    expect(parsed.ok && parsed.event).toBe(body);
  });

  test("never throws, whatever it is given", () => {
    for (const line of [undefined, null, 7, [], "", "nul", "{", "\0", '"text"', () => 7])
      expect(parse(line).ok).toBe(false);
  });

  test("names every fault, not the first, each by its pointer", () => {
    const parsed = parse({ ...agents.tool, ts: "now", step: -1, ok: "yes" });
    const pointers = parsed.ok ? [] : parsed.problems.map(({ pointer }) => pointer);
    expect(pointers.sort()).toEqual(["/ok", "/step", "/ts"]);
  });

  test("refuses what is no JSON to others: lone surrogates, infinite numbers, carriage returns", () => {
    const line = JSON.stringify(agents.start);
    refuses(parse, line.replace("Add", "\\ud800"), "");
    refuses(parse, line.replace('"task"', '"\\udc00":1,"task"'), "");
    refuses(parse, line.replace("{", '{"big":1e400,'), "");
    refuses(parse, line.replace("{", "{\r"), "");
    accepts(parse, { ...agents.start, task: "😀\u2028" });
  });

  test("keeps a key called __proto__, which zod alone drops", () => {
    const evidence = '{"__proto__":{"polluted":true},"constructor":1}';
    const line = JSON.stringify(agents.audit).replace("}", `,"evidence":${evidence},"__proto__":7}`);
    const parsed = parse(line);
    expect(parsed.ok && JSON.stringify(parsed.event)).toBe(line);
    expect(Object.keys(AuditCheckpointSchema.parse(JSON.parse(line)))).not.toContain("__proto__");
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });

  test("takes 3.0 for an integer, and refuses one that JavaScript cannot hold", () => {
    const line = JSON.stringify(agents.tool);
    expect(parse(line.replace('"step":0', '"step":3.0')).ok).toBe(true);
    expect(parse(line.replace('"step":0', '"step":9007199254740991')).ok).toBe(true);
    refuses(parse, line.replace('"step":0', '"step":9007199254740993'), "/step");
  });
});

describe("the registry", () => {
  test("knows each dialect by the name of its file, with a parser of its own", async () => {
    for (const dialect of await dialects()) {
      const plug: Record<string, unknown> = await import(`../src/dialects/${dialect.name}.ts`);
      expect(plug.dialect).toBe(dialect);
      const parsers = Object.keys(plug).filter((name) => /^parse\w+Event$/.test(name));
      expect(parsers).toHaveLength(1);
    }
  });
});
