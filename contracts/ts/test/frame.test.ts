import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";

import { afterAll, describe, expect, test } from "vitest";

import { parseKahnAgentEvent } from "../src/dialects/kahn-agent.js";
import { parseKahnEvent } from "../src/dialects/ralph.js";
import { parseTracklogFrame } from "../src/stream.js";
import { agents, ralph, without } from "./lines.js";

const frame = {
  seq: 7,
  received: "2026-05-05T09:00:00.000Z",
  dialect: "ralph",
  family: "kahn",
  run: "rocky-7",
  event: ralph.start,
};

describe("a frame of a collector's stream", () => {
  test("gives the event that it carries to the parser of its dialect", () => {
    const parsers = { ralph: parseKahnEvent, "kahn-agent": parseKahnAgentEvent };
    for (const given of [frame, JSON.stringify(frame)])
      expect(parseTracklogFrame(given, parsers)).toEqual({ ok: true, frame, event: ralph.start });
    const other = { ...frame, dialect: "kahn-agent", event: agents.start };
    expect(parseTracklogFrame(other, parsers)).toMatchObject({ ok: true, event: agents.start });
  });

  test("of a dialect without a parser, or of an erased event, is passed on as it is", () => {
    for (const given of [
      { ...frame, dialect: "fishbowl", event: { any: "thing" } },
      { ...frame, event: null },
      { ...frame, dialect: "toString" },
    ])
      expect(parseTracklogFrame(given, { ralph: parseKahnEvent })).toEqual({
        ok: true,
        frame: given,
        event: undefined,
      });
    expect(parseTracklogFrame(frame)).toEqual({ ok: true, frame, event: undefined });
  });

  test("with a bad event is refused, with the places inside the event", () => {
    const bad = { ...frame, event: { ...ralph.start, actor: "" } };
    const parsed = parseTracklogFrame(bad, { ralph: parseKahnEvent });
    expect(parsed).toMatchObject({ ok: false, frame: { seq: 7 } });
    expect(!parsed.ok && parsed.problems.map(({ pointer }) => pointer)).toEqual(["/event/actor"]);
  });

  test("that is no frame is refused, and nothing is thrown", () => {
    for (const given of [undefined, null, 7, "", "{", "[]", ralph.start, JSON.stringify(ralph.end)])
      expect(parseTracklogFrame(given).ok).toBe(false);
    for (const key of ["seq", "received", "dialect", "run", "event"]) {
      const parsed = parseTracklogFrame(without(frame, key));
      expect(!parsed.ok && parsed.problems.map(({ pointer }) => pointer)).toEqual([`/${key}`]);
    }
    for (const seq of [0, 1.5, "7", null]) expect(parseTracklogFrame({ ...frame, seq }).ok).toBe(false);
    expect(parseTracklogFrame({ ...frame, family: 7 }).ok).toBe(false);
  });
});

/** A browser has an EventSource; Node of this age has none, so this stands in for it. */
const EVENT_SOURCE = `
globalThis.EventSource ??= class {
  constructor(url) { void this.#read(url); }
  async #read(url) {
    const { body } = await fetch(url, { headers: { accept: "text/event-stream" } });
    let text = "";
    for await (const part of body.pipeThrough(new TextDecoderStream())) {
      text += part;
      const blocks = text.split("\\n\\n");
      text = blocks.pop();
      for (const block of blocks) {
        const field = (name) => block.split("\\n").filter((line) => line.startsWith(name + ":")).map((line) => line.slice(name.length + 1).trim());
        if (!field("event").length && field("data").length) this.onmessage?.({ data: field("data").join("\\n") });
      }
    }
  }
};
`;

const python = new URL("../../../.venv/bin/python", import.meta.url).pathname;
const running: ChildProcess[] = [];
/** Node has it; no package of types is needed for the one use. */
const { fetch } = globalThis as unknown as {
  fetch: (url: string, asked: object) => Promise<{ json(): Promise<unknown> }>;
};
afterAll(() => {
  for (const child of running) child.kill("SIGKILL");
});

async function until(done: () => boolean): Promise<void> {
  for (const end = Date.now() + 60_000; !done(); await new Promise((then) => setTimeout(then, 20)))
    if (Date.now() > end) throw new Error("it did not come about");
}

test("[RALPH-33] the README's sample reads a real collector's stream", { timeout: 120_000 }, async () => {
  const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
  const [, code = ""] = /```ts\n(.*?)```/s.exec(readme) ?? [];
  expect(code).toContain("parseTracklogFrame");
  const home = `${mkdtempSync(`${tmpdir()}/frame-`)}/home`;
  const server = spawn(python, ["-m", "tracklog", "serve", "--home", home, "--port", "0"]);
  running.push(server);
  let said = "";
  server.stdout.on("data", (part) => (said += part.toString()));
  server.stderr.on("data", () => undefined);
  await until(() => /http:\/\/\S+:\d+\s/.test(said));
  const [url = ""] = /http:\/\/\S+:\d+/.exec(said) ?? [];

  const whole = EVENT_SOURCE + code.replace("http://127.0.0.1:4318", url);
  const reader = spawn(process.execPath, ["--input-type=module", "-e", whole]);
  running.push(reader);
  let [out, err] = ["", ""];
  reader.stdout.on("data", (part) => (out += part.toString()));
  reader.stderr.on("data", (part) => (err += part.toString()));

  const post = async (dialect: string, ...lines: object[]) => {
    const body = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
    const headers = { "content-type": "application/x-ndjson" };
    const answer = await fetch(`${url}/api/events/${dialect}`, { method: "POST", body, headers });
    expect(await answer.json()).toMatchObject({ accepted: lines.length });
  };
  await post("ralph", ralph.start, ralph.transition);
  await post("kahn-agent", agents.start); // another dialect, for which it has no parser
  await post("ralph", ralph.end);
  await until(() => out.split("\n").length > 3 || err !== "");
  expect(err).toBe("");
  expect(out).toBe("1 run_start rocky-7\n2 node_transition rocky-7\n4 run_end rocky-7\n");
});
