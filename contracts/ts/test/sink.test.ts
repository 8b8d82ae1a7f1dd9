import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { retryAfter } from "../src/emit/answer.js";
import { AgentEmitter, type Body, Emitter, HttpSink, TracklogEmitter } from "../src/emit.js";

type Mood = "kind" | "hang" | "reset" | "forget" | "half" | Said | ((lines: string[]) => Mood);
type Said = { status: number; headers?: Record<string, string>; body?: unknown };

/** Keeps each batch once, by its key; for each request it is in the next of its moods. */
class Rude {
  readonly batches = new Map<string, { dialect: string; lines: string[] }>();
  readonly conflicts: string[] = [];
  readonly asked: { at: number; url: string; headers: IncomingMessage["headers"] }[] = [];
  readonly moods: Mood[];
  url = "";
  port = 0;
  #server: Server | undefined;

  constructor(...moods: Mood[]) {
    this.moods = moods;
  }

  /** On a port that nobody gets by chance while it is away. */
  async start(port = 20_000 + Math.floor(Math.random() * 10_000)): Promise<this> {
    const server = createServer((asked, answer) => void this.#answer(asked, answer));
    await new Promise<void>((then) => server.listen(port, "127.0.0.1", then));
    this.#server = server;
    this.port = server.address().port;
    this.url = `http://127.0.0.1:${this.port}`;
    running.push(this);
    return this;
  }

  stop(): void {
    this.#server?.close();
    this.#server?.closeAllConnections();
  }

  lines(dialect?: string): string[] {
    return [...this.batches.values()]
      .filter((batch) => dialect === undefined || batch.dialect === dialect)
      .flatMap(({ lines }) => lines);
  }

  numbers(): number[] {
    return this.lines().map((line) => (JSON.parse(line) as { n: number }).n);
  }

  async #answer(asked: IncomingMessage, answer: ServerResponse): Promise<void> {
    let text = "";
    const decoder = new TextDecoder();
    for await (const part of asked) text += decoder.decode(part, { stream: true });
    this.asked.push({ at: Date.now(), url: asked.url, headers: asked.headers });
    const lines = text.split("\n").slice(0, -1);
    let mood = this.moods.shift() ?? "kind";
    if (typeof mood === "function") mood = mood(lines);
    if (mood === "hang") return;
    if (mood === "reset") return asked.socket.resetAndDestroy();
    if (typeof mood === "object") {
      answer.writeHead(mood.status, { "Tracklog-Protocol": "1", ...mood.headers });
      return answer.end(mood.status === 204 ? "" : JSON.stringify(mood.body ?? {}));
    }
    const key = asked.headers["idempotency-key"] ?? "";
    const batch = { dialect: asked.url.split("/").at(-1) ?? "", lines };
    const known = this.batches.get(key) ?? batch;
    if (JSON.stringify(known) !== JSON.stringify(batch)) this.conflicts.push(key);
    this.batches.set(key, known);
    if (mood === "forget") return asked.socket.destroy();
    const said = `{"accepted":${lines.length},"duplicate":0,"refused":0,"verdicts":[]}`;
    answer.writeHead(200, { "Content-Length": said.length, "Tracklog-Protocol": "1" });
    if (mood === "kind") return answer.end(said);
    answer.write(said.slice(0, 9));
    setTimeout(() => asked.socket.destroy(), 10);
  }
}

const running: Rude[] = [];
const started: ChildProcess[] = [];
let warnings: string[] = [];
beforeEach(() => {
  warnings = [];
  vi.spyOn(process.stderr, "write").mockImplementation((text) => warnings.push(text) > 0);
});
afterEach(() => {
  vi.restoreAllMocks();
  for (const server of running.splice(0)) server.stop();
  for (const child of started.splice(0)) child.kill("SIGTERM");
});

const fresh = () => mkdtempSync(`${tmpdir()}/sink-`);
const range = (end: number) => Array.from({ length: end }, (_, index) => index);
const sleep = (millis: number) => new Promise<void>((then) => void setTimeout(then, millis));

async function until(isSo: () => boolean): Promise<void> {
  for (let tries = 0; !isSo(); tries += 1) {
    expect(tries).toBeLessThan(2000);
    await sleep(10);
  }
}

function left(spool: string): string[] {
  if (!existsSync(spool)) return [];
  return readdirSync(spool)
    .flatMap((folder) => readdirSync(`${spool}/${folder}`).map((name) => `${folder}/${name}`))
    .filter((name) => name.endsWith(".nspool"));
}

/** A process of its own; `emit(first, end)` is there for its code. */
function producer(url: string, spool: string, code: string, deadline = 2) {
  const head = `
    import { TracklogEmitter } from "@tracklog/contracts/emit";
    const given = { spool: ${JSON.stringify(spool)}, deadline: ${deadline}, environ: {} };
    const emitter = TracklogEmitter.http(${JSON.stringify(url)}, given).bind({ run: "r" });
    const sleep = (millis) => new Promise((then) => setTimeout(then, millis));
    function emit(first, end) {
      for (let n = first; n < end; n += 1) emitter.tracklog("Noted", { label: "x", n });
    }`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", `${head}\n${code}`]);
  let [out, err] = ["", ""];
  child.stdout.on("data", (part) => (out += part.toString()));
  child.stderr.on("data", (part) => (err += part.toString()));
  const ended = new Promise<{ code: number | null; signal: string | null }>((then) =>
    child.on("close", (code, signal) => then({ code, signal })),
  );
  return { child, ended, out: () => out, err: () => err };
}

describe("a sink", () => {
  test("sends every line once, in order, in its dialect, with the token", async () => {
    const server = await new Rude().start();
    const spool = fresh();
    const options = { url: server.url, spool, token: "secret", environ: {} };
    const ci = new Emitter(undefined, { ...options, runId: "ci-1" });
    const agent = new AgentEmitter(undefined, { ...options, runId: "a-1" });
    for (const n of range(1500)) ci.runStart({ total_nodes: 0, n });
    agent.agentRunStart({ agent_id: "coder", task: "é\u2028" });
    await Promise.all([ci.close(), agent.close()]);
    const numbers = server.lines("kahn-ci").map((line) => (JSON.parse(line) as { n: number }).n);
    expect(numbers).toEqual(range(1500));
    expect(server.lines("kahn-agent")[0]).toContain('"task":"é\u2028"');
    for (const { headers } of server.asked) {
      expect(headers.authorization).toBe("Bearer secret");
      expect(headers["content-type"]).toBe("application/x-ndjson");
    }
    expect(server.batches.size).toBeLessThan(20);
    expect(left(spool)).toEqual([]);
  });

  test("keeps the order of several dialects", async () => {
    const server = await new Rude().start();
    const emitter = TracklogEmitter.http(server.url, { spool: fresh(), environ: {} });
    const stage = emitter.bind({ run: crypto.randomUUID(), actor: "host" });
    for (const n of range(5)) {
      stage.fishbowl("a.b", { n });
      stage.awf("run.started", { n });
    }
    await emitter.close();
    const said = server.lines().map((line) => JSON.parse(line) as { payload: { n: number } });
    expect(said.map(({ payload }) => payload.n)).toEqual(range(5).flatMap((n) => [n, n]));
  });

  test("writes beside a file what the file holds, when the environment says where", async () => {
    const server = await new Rude().start();
    const folder = fresh();
    const environ = { TRACKLOG_URL: server.url, TRACKLOG_SPOOL: `${folder}/spool` };
    const emitter = TracklogEmitter.file(`${folder}/a.jsonl`, "os", environ).bind({ run: "r" });
    for (const n of range(9)) emitter.tracklog("Noted", { label: "é", n });
    await emitter.close();
    const text = server.lines().map((line) => `${line}\n`);
    expect(text.join("")).toBe(readFileSync(`${folder}/a.jsonl`, "utf8"));
  });

  test("gets every line once to a rude collector", async () => {
    const moods: Mood[] = [
      "reset",
      { status: 500 },
      "forget",
      { status: 429, headers: { "Retry-After": "0" } },
      "half",
      { status: 503, headers: { "Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT" } },
      { status: 302, headers: { Location: "http://example.invalid/" } },
      "forget",
    ];
    const server = await new Rude(...moods.flatMap((mood): Mood[] => [mood, "kind"])).start();
    const spool = fresh();
    const sink = new HttpSink(server.url, { spool, environ: {} });
    for (const n of range(100)) {
      sink.write(`{"n":${n}}\n`, "tracklog");
      if (n % 5 === 4) expect(await sink.flush(20)).toBe(true);
    }
    await sink.close();
    expect(server.numbers()).toEqual(range(100));
    expect(server.conflicts).toEqual([]);
    expect(server.moods).toEqual([]);
    expect(left(spool)).toEqual([]);
  });

  test("keeps privately what cannot be sent, and the next one sends it", async () => {
    const gone = await new Rude().start();
    gone.stop();
    const spool = fresh();
    const sink = new HttpSink(gone.url, { spool, environ: {} });
    const began = Date.now();
    for (const n of range(1000)) sink.write(`{"n":${n}}\n`, "tracklog");
    expect((Date.now() - began) / 1000).toBeLessThan(1);
    await sleep(100);
    const closing = Date.now();
    await sink.close();
    expect(Date.now() - closing).toBeLessThan(1000);
    const [kept = ""] = left(spool);
    expect(statSync(`${spool}/${kept}`).mode & 0o777).toBe(0o600);
    const back = await new Rude().start(gone.port);
    const next = new HttpSink(gone.url, { spool, environ: {} });
    next.write('{"n":1000}\n', "tracklog");
    await next.close();
    expect(back.numbers()).toEqual(range(1001));
    expect(left(spool)).toEqual([]);
  });

  test("goes on when the collector is back", async () => {
    const gone = await new Rude().start();
    gone.stop();
    const sink = new HttpSink(gone.url, { spool: fresh(), environ: {} });
    for (const n of range(10)) sink.write(`{"n":${n}}\n`, "tracklog");
    await sleep(150);
    const back = await new Rude().start(gone.port);
    await until(() => back.lines().length === 10);
    await sink.close();
    expect(back.numbers()).toEqual(range(10));
  });

  test("leaves a collector alone for as long as it asks", async () => {
    const server = await new Rude({ status: 429, headers: { "Retry-After": "1" } }).start();
    const sink = new HttpSink(server.url, { spool: fresh(), environ: {} });
    sink.write('{"n":0}\n', "tracklog");
    await until(() => server.lines().length === 1);
    const [first, second] = server.asked.map(({ at }) => at);
    expect((second ?? 0) - (first ?? 0)).toBeGreaterThan(940);
    await sink.close();
  });

  test("sends in parts what is too large, and puts aside what never will be taken", async () => {
    const limited = (lines: string[]): Mood =>
      lines.join("").length > 2000 ? { status: 413, body: { error: "too large" } } : "kind";
    const server = await new Rude(...Array.from({ length: 99 }, () => limited)).start();
    const spool = fresh();
    const sink = new HttpSink(server.url, { spool, environ: {} });
    for (const n of range(60)) sink.write(`{"n":${n},"x":"${"x".repeat(n === 7 ? 3000 : 100)}"}\n`, "tracklog");
    await sink.close();
    expect(server.numbers()).toEqual(range(60).filter((n) => n !== 7));
    const path = `${sink.folder}/refused.jsonl`;
    expect(statSync(path).mode & 0o777).toBe(0o600);
    const kept = readFileSync(path, "utf8").trimEnd().split("\n");
    expect(kept.map((line) => (JSON.parse(line) as { status: number }).status)).toEqual([413]);
    expect(kept[0]).toContain('\\"n\\":7');
    expect(left(spool)).toEqual([]);
  });

  test("puts aside the lines that the collector refuses, with the reason", async () => {
    const verdicts = [{ line: 2, verdict: "refused", problems: [{ message: "odd" }] }];
    const body = { accepted: 2, duplicate: 0, refused: 1, verdicts };
    const server = await new Rude({ status: 200, body }).start();
    const sink = new HttpSink(server.url, { spool: fresh(), environ: {} });
    for (const n of range(3)) sink.write(`{"n":${n}}\n`, "tracklog");
    await sink.close();
    const kept = JSON.parse(readFileSync(`${sink.folder}/refused.jsonl`, "utf8")) as object;
    expect(kept).toMatchObject({ status: 200, dialect: "tracklog", line: '{"n":1}' });
    expect(JSON.stringify(kept)).toContain("odd");
    expect(warnings).toHaveLength(1);
  });

  test("keeps its lines until the right token is in its file", async () => {
    const folder = fresh();
    writeFileSync(`${folder}/token`, "wrong\n");
    const strict = (): Mood =>
      server.asked.at(-1)?.headers.authorization === "Bearer right" ? "kind" : { status: 401 };
    const server = await new Rude(...Array.from({ length: 50 }, () => strict)).start();
    const environ = { TRACKLOG_TOKEN_FILE: `${folder}/token` };
    const sink = new HttpSink(server.url, { spool: `${folder}/spool`, environ });
    sink.write('{"n":0}\n', "tracklog");
    expect(await sink.flush(0.3)).toBe(false);
    writeFileSync(`${folder}/token`, "right\n");
    expect(await sink.flush(20)).toBe(true);
    await sink.close();
    expect(server.numbers()).toEqual([0]);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain("answers 401");
  });

  test("where no spool can be written keeps lines in memory", async () => {
    const folder = fresh();
    writeFileSync(`${folder}/spool`, "no folder");
    const gone = await new Rude().start();
    gone.stop();
    const sink = new HttpSink(gone.url, { spool: `${folder}/spool`, environ: {} });
    for (const n of range(50)) sink.write(`{"n":${n}}\n`, "tracklog");
    const back = await new Rude().start(gone.port);
    await until(() => back.lines().length === 50);
    await sink.close();
    expect(back.numbers()).toEqual(range(50));
    expect(sink.lost).toBe(0);
  });

  test("puts aside what a crash left that is no line", async () => {
    const gone = await new Rude().start();
    gone.stop();
    const spool = fresh();
    const sink = new HttpSink(gone.url, { spool, environ: {} });
    sink.write('{"n":0}\n', "tracklog");
    await sink.close();
    const [name = ""] = left(spool);
    const whole = readFileSync(`${spool}/${name}`, "utf8");
    writeFileSync(`${spool}/${name}`, `${whole}nonsense\ntracklog {"torn":`);
    const back = await new Rude().start(gone.port);
    const next = new HttpSink(gone.url, { spool, environ: {} });
    next.write('{"n":1}\n', "tracklog");
    await next.close();
    expect(back.numbers()).toEqual([0, 1]);
    const aside = readFileSync(`${sink.folder}/refused.jsonl`, "utf8");
    expect(aside).toContain('"line":"nonsense"');
    expect(aside).toContain("torn");
    expect(left(spool)).toEqual([]);
  });

  test.each([
    ["beyond the end", "00000000000010000000\n"],
    ["inside a line", "00000000000000000030\n"],
    ["before the first line", "00000000000000000003\n"],
    ["no number", `${"x".repeat(20)}\n`],
    ["zeros of a lost page", "\0".repeat(21)],
  ])("loses no line where a mark is %s", async (_, head) => {
    const gone = await new Rude().start();
    gone.stop();
    const spool = fresh();
    const sink = new HttpSink(gone.url, { spool, environ: {} });
    for (const n of range(5)) sink.write(`{"n":${n}}\n`, "tracklog");
    await sink.close();
    const [name = ""] = left(spool);
    const whole = readFileSync(`${spool}/${name}`, "utf8");
    writeFileSync(`${spool}/${name}`, head + whole.slice(21));
    const back = await new Rude().start(gone.port);
    const next = new HttpSink(gone.url, { spool, environ: {} });
    expect(await next.flush(60)).toBe(true);
    await next.close();
    expect(back.numbers()).toEqual(range(5));
    expect(left(spool)).toEqual([]);
  });

  test.each([401, 403, 404, 405])("is not held up by a batch that alone is %d", async (status) => {
    const picky = (lines: string[]): Mood => (lines[0] === "poison" ? { status } : "kind");
    const server = await new Rude(...Array.from({ length: 99 }, () => picky)).start();
    const sink = new HttpSink(server.url, { spool: fresh(), environ: {} });
    for (const n of range(2)) {
      sink.write("poison\n", "awf");
      sink.write(`{"n":${n}}\n`, "tracklog");
    }
    expect(await sink.flush(60)).toBe(true);
    await sink.close();
    expect(server.numbers()).toEqual([0, 1]);
    expect([sink.setAside, sink.lost]).toEqual([2, 0]);
    const aside = readFileSync(`${sink.folder}/refused.jsonl`, "utf8").trimEnd().split("\n");
    const put = aside.map((line) => JSON.parse(line) as object);
    expect(put).toMatchObject([
      { status, line: "poison" },
      { status, line: "poison" },
    ]);
  });

  test("waits with all its lines where everything is refused", async () => {
    const strict = Array.from({ length: 999 }, (): Mood => ({ status: 403 }));
    const server = await new Rude(...strict).start();
    const sink = new HttpSink(server.url, { spool: fresh(), environ: {} });
    for (const n of range(3)) {
      sink.write(`{"n":${2 * n}}\n`, "awf");
      sink.write(`{"n":${2 * n + 1}}\n`, "tracklog");
    }
    expect(await sink.flush(0)).toBe(false);
    await until(() => new Set(server.asked.map(({ url }) => url)).size === 2);
    server.moods.length = 0;
    expect(await sink.flush(60)).toBe(true);
    await sink.close();
    expect(server.lines()).toHaveLength(6);
    expect(sink.setAside).toBe(0);
  });

  const ODD: [string, (path: string) => void][] = [
    ["a pipe", (path) => void spawnSync("mkfifo", [path])],
    ["a loop of links", (path) => symlinkSync(path, path)],
    ["a device", (path) => symlinkSync("/dev/zero", path)],
  ];
  test.each(ODD)("is not kept waiting by %s", async (_, make) => {
    const folder = fresh();
    make(`${folder}/spool`);
    make(`${folder}/token`);
    const server = await new Rude().start();
    const environ = { TRACKLOG_TOKEN_FILE: `${folder}/token` };
    const sink = new HttpSink(server.url, { spool: `${folder}/spool`, environ });
    for (const n of range(5)) sink.write(`{"n":${n}}\n`, "tracklog");
    expect(await sink.flush(60)).toBe(true);
    await sink.close();
    expect(server.numbers()).toEqual(range(5));
    expect(warnings.filter((text) => text.includes("kept in memory"))).toHaveLength(1);
  });

  test.each(ODD)("counts as lost what it cannot set aside because of %s", async (_, make) => {
    const server = await new Rude({ status: 422 }).start();
    const sink = new HttpSink(server.url, { spool: fresh(), environ: {} });
    sink.write('{"n":0}\n', "tracklog");
    make(`${sink.folder}/refused.jsonl`);
    expect(await sink.flush(60)).toBe(true);
    sink.write('{"n":1}\n', "tracklog");
    await sink.close();
    expect(server.numbers()).toEqual([1]);
    expect([sink.setAside, sink.lost]).toEqual([0, 1]);
    expect(warnings.join("")).toContain("1 lines were lost");
  });

  test("prints nothing that steers a terminal", async () => {
    const body = "\u001b]0;owned\u0007\u001b[2J";
    const server = await new Rude({ status: 418, body }).start();
    const sink = new HttpSink(server.url, { spool: fresh(), environ: {} });
    sink.write('{"n":0}\n', "tracklog");
    expect(await sink.flush(60)).toBe(true);
    await sink.close();
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).not.toMatch(/[\u001b\u0007]/);
  });

  test("says at once that an address is none, and that there is none", () => {
    const spool = fresh();
    for (const url of ["127.0.0.1:4318", "ftp://x", "nonsense"])
      expect(() => new HttpSink(url, { spool, environ: {} })).toThrow("no address of a collector");
    const secret = "http://ada:s3cret@127.0.0.1:4318";
    expect(() => new HttpSink(secret, { spool, environ: {} })).toThrow(/^an address holds no/);
    expect(() => new AgentEmitter(undefined, { environ: {} })).toThrow("TRACKLOG_URL");
    expect(() => TracklogEmitter.http(undefined, { environ: {} })).toThrow("TRACKLOG_URL");
    const emitter = TracklogEmitter.file(`${spool}/a`, "os", { TRACKLOG_URL: "nonsense" });
    emitter.tracklog("Noted", { label: "x" });
    void emitter.close();
    expect(readFileSync(`${spool}/a`, "utf8").trimEnd().split("\n").length).toBe(1);
  });

  test("that is closed says so, and can be closed again", async () => {
    const sink = new HttpSink("http://127.0.0.1:9", { spool: fresh(), environ: {} });
    await sink.close();
    await sink.close();
    expect(() => sink.write("{}\n", "tracklog")).toThrow("closed");
  });

  test("reads Retry-After within reason", () => {
    const past = "Wed, 21 Oct 2015 07:28:00 GMT";
    const said = ["2", "1e9", "-1", "tomorrow", past, "Fri, 01 Jan 2038 00:00:00 GMT", undefined];
    expect(said.map(retryAfter)).toEqual([2, 300, 0, 0, 0, 300, 0]);
  });
});

describe("a process", () => {
  test("that just ends has sent its lines", async () => {
    const server = await new Rude().start();
    const spool = fresh();
    const { ended, err } = producer(server.url, spool, "emit(0, 2000)");
    expect(await ended).toEqual({ code: 0, signal: null });
    expect(err()).toBe("");
    expect(server.numbers()).toEqual(range(2000));
    expect(left(spool)).toEqual([]);
  });

  test("ends at the deadline even when a collector hangs", async () => {
    const server = await new Rude("hang", "hang", "hang").start();
    const spool = fresh();
    const code = "emit(0, 9); await sleep(200); console.log(Date.now())";
    const { ended, out, err } = producer(server.url, spool, code, 0.5);
    expect(await ended).toEqual({ code: 0, signal: null });
    const took = Date.now() - Number(out());
    expect(took).toBeGreaterThan(300);
    expect(took).toBeLessThan(9000); // an answer is waited for longer
    expect(err()).toBe("");
    server.moods.length = 0;
    expect(await producer(server.url, spool, "emit(9, 10)").ended).toMatchObject({ code: 0 });
    expect(server.numbers()).toEqual(range(10));
  });

  test("waits once for all its emitters, however they are closed", async () => {
    const server = await new Rude(...Array.from({ length: 99 }, (): Mood => "hang")).start();
    const spool = fresh();
    const code = `
      const url = ${JSON.stringify(server.url)};
      const made = Array.from({ length: 12 }, () => TracklogEmitter.http(url, given));
      for (const each of made) each.bind({ run: "r" }).tracklog("Noted", { label: "x" });
      console.log("closing");
      for (const each of made.slice(0, 8)) await each.close();`;
    const { ended, out } = producer(server.url, spool, code, 2);
    await until(() => out() !== "");
    const began = Date.now();
    expect(await ended).toEqual({ code: 0, signal: null });
    expect(Date.now() - began).toBeLessThan(10_000); // twelve deadlines are more
    expect(left(spool)).toHaveLength(12);
  });

  test("that closes many emitters has sent their lines", async () => {
    const server = await new Rude().start();
    const spool = fresh();
    const code = `
      for (let n = 0; n < 40; n += 1) {
        const each = TracklogEmitter.http(${JSON.stringify(server.url)}, given);
        each.bind({ run: "r" }).tracklog("Noted", { label: "x", n });
        await each.close();
      }`;
    const { ended, err } = producer(server.url, spool, code, 20);
    expect(await ended).toEqual({ code: 0, signal: null });
    expect(err()).toBe("");
    expect(server.numbers().sort((a, b) => a - b)).toEqual(range(40));
    expect(left(spool)).toEqual([]);
  });

  test.each([
    ["closes", "await emitter.close();"],
    ["just ends", ""],
    ["calls process.exit", "process.exit(0);"],
  ])("that %s counts to the last what only memory held", async (_, code) => {
    const server = await new Rude("hang", "hang", "hang").start();
    const folder = fresh();
    writeFileSync(`${folder}/spool`, "no folder");
    const emitting = "emit(0, 40); await sleep(200); emit(40, 100);";
    const { ended, err } = producer(server.url, `${folder}/spool`, `${emitting}${code}`, 0.5);
    expect(await ended).toEqual({ code: 0, signal: null });
    expect(err().match(/100 lines were lost/g)).toHaveLength(1);
    expect(err().match(/kept in memory/g)).toHaveLength(1);
    expect(err()).not.toMatch(/lines are kept in/);
  });

  test("ends at once where nobody answers, and says so once", async () => {
    const code = "emit(0, 9); await sleep(300); console.log(Date.now())";
    const { ended, out, err } = producer("http://127.0.0.1:9", fresh(), code, 60);
    expect(await ended).toEqual({ code: 0, signal: null });
    expect(Date.now() - Number(out())).toBeLessThan(30_000);
    expect(err().match(/does not answer/g)).toHaveLength(1);
  });

  test.each(["SIGKILL", "SIGINT"])("that is ended by %s has lost nothing", async (signal) => {
    const server = await new Rude("forget", "hang").start();
    const spool = fresh();
    const { child, ended } = producer(server.url, spool, "emit(0, 300); await sleep(60000)");
    await until(() => server.lines().length > 0);
    child.kill(signal);
    expect(await ended).toEqual({ code: null, signal });
    server.moods.length = 0;
    expect(await producer(server.url, spool, "emit(300, 301)").ended).toMatchObject({ code: 0 });
    expect(server.numbers()).toEqual(range(301));
    expect(server.conflicts).toEqual([]);
    expect(left(spool)).toEqual([]);
  });

  test("leaves the files of a living one alone, and shares those of a dead one", async () => {
    const gone = await new Rude().start();
    gone.stop();
    const spool = fresh();
    for (const first of [0, 50]) await producer(gone.url, spool, `emit(${first}, ${first + 50}); process.exit()`).ended;
    expect(left(spool)).toHaveLength(2);
    const back = await new Rude().start(gone.port);
    const heirs = range(3).map((n) => producer(gone.url, spool, `emit(${100 + n}, ${101 + n})`));
    await Promise.all(heirs.map(({ ended }) => ended));
    expect(back.numbers().sort((a, b) => a - b)).toEqual(range(103));
    expect(back.conflicts).toEqual([]);
    expect(left(spool)).toEqual([]);
  });
});

const python = new URL("../../../.venv/bin/python", import.meta.url).pathname;

/** The collector itself, in a process of its own. */
async function collector(home: string) {
  const command = ["-m", "tracklog", "serve", "--home", home, "--port", "0"];
  const child = spawn(python, command);
  started.push(child);
  let out = "";
  child.stdout.on("data", (part) => (out += part.toString()));
  child.stderr.on("data", () => undefined);
  const ended = new Promise<void>((then) => child.on("close", () => then()));
  await until(() => /http:\/\/\S+:\d+\s/.test(out));
  const [url = ""] = /http:\/\/\S+:\d+/.exec(out) ?? [];
  const stop = () => {
    child.kill("SIGTERM");
    return ended;
  };
  return { url, stop };
}

function tracklog(...given: string[]) {
  return spawnSync(python, ["-m", "tracklog", ...given], { encoding: "utf8" });
}

describe("an agent", () => {
  test("asks a person, and both the question and the answer are on record", async () => {
    const folder = fresh();
    const home = `${folder}/home`;
    const { url, stop } = await collector(home);
    const run = new AgentEmitter(undefined, { url, runId: "r1", spool: folder, environ: {} });
    const coder = run.bind({ agent_id: "coder" });
    coder.agentRunStart({ task: "t" });
    coder.agentTransition({ step: 2, from: "thinking", to: "tool_call" });
    const asked = coder.ask("Which port?", 100, { questionId: "q1" });
    await until(() => tracklog("inbox", "--home", home).stdout.includes("Which port?"));
    expect(tracklog("answer", "q1", "4318", "--home", home).status).toBe(0);
    expect(await asked).toBe("4318");
    await run.close();
    const told = tracklog("events", "r1", "--home", home, "--json").stdout;
    expect(told).toContain('"reason":"clarification:q1","question":"Which port?"');
    expect(told).toContain('"reason":"operator_response:q1","answer":"4318"');
    expect(told).toContain('"step":2,"from":"blocked-on-clarification","to":"thinking"');
    const again = new AgentEmitter(undefined, { url, runId: "r1", spool: folder, environ: {} });
    const restarted = again.bind({ agent_id: "coder" });
    expect(await restarted.ask("Which port?", 30, { questionId: "q1" })).toBe("4318");
    expect(await restarted.ask("Anybody?", 0.5)).toBeNull();
    await again.close();
    await stop();
  });

  const vectors = readFileSync(new URL("../../vectors/kahn-ask.json", import.meta.url), "utf8");
  type Asked = { name: string; question: string; question_id: string; answer?: unknown };
  type Vector = Asked & { bound: Body; arguments: Body; lines: string };
  test.each((JSON.parse(vectors) as { vectors: Vector[] }).vectors)(
    "writes to the byte what the vector holds: $name",
    async ({ question, question_id: questionId, answer, bound, arguments: given, lines }) => {
      const server = createServer((_, said) => {
        said.writeHead(answer === undefined ? 410 : 200);
        said.end(JSON.stringify({ answer }));
      });
      await new Promise<void>((then) => server.listen(0, "127.0.0.1", then));
      const url = `http://127.0.0.1:${server.address().port}`;
      const path = `${fresh()}/a`;
      const run = new AgentEmitter(path, { url, spool: fresh(), deadline: 0.1, environ: {} });
      const found = await run.bind(bound).ask(question, undefined, { questionId, ...given });
      await run.close();
      server.close();
      server.closeAllConnections();
      expect(found).toEqual(answer ?? null);
      expect(readFileSync(path, "utf8")).toBe(lines);
    },
  );

  test("does what the README shows", async () => {
    const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
    const code = [...readme.matchAll(/```ts\n(.*?)```/gs)].map(([, text]) => text ?? "").at(-1);
    const [home, spool] = [`${fresh()}/home`, fresh()];
    const { url, stop } = await collector(home);
    const whole = `process.env.TRACKLOG_SPOOL = ${JSON.stringify(spool)};
      ${code?.replace("http://127.0.0.1:4318", url)}
      console.log(port);`;
    const child = spawn(process.execPath, ["--input-type=module", "-e", whole]);
    let out = "";
    child.stdout.on("data", (part) => (out += part.toString()));
    child.stderr.on("data", () => undefined);
    const ended = new Promise<number | null>((then) => child.on("close", (code) => then(code)));
    let asked = "";
    await until(() => {
      const told = tracklog("inbox", "--home", home, "--json").stdout;
      asked = /"question_id": ?"([^"]+)"/.exec(told)?.[1] ?? "";
      return asked !== "";
    });
    expect(tracklog("answer", asked, "4318", "--home", home).status).toBe(0);
    expect(await ended).toBe(0);
    expect(out).toBe("4318\n");
    await stop();
  });

  test.each(["hangs", "drips"])("is not held beyond its time by one that %s", async (rude) => {
    let [heard, isOver] = [0, false];
    const server = createServer((_, said) => {
      heard += 1;
      if (rude === "hangs") return;
      said.writeHead(200);
      void (async () => {
        for (; !isOver; await sleep(50)) said.write("x");
      })();
    });
    await new Promise<void>((then) => server.listen(0, "127.0.0.1", then));
    const path = `${fresh()}/a`;
    const url = `http://127.0.0.1:${server.address().port}`;
    const run = new AgentEmitter(path, { url, spool: fresh(), deadline: 0.1, environ: {} });
    const coder = run.bind({ agent_id: "coder" });
    coder.agentRunStart({ task: "t" });
    // Who waited for the collector to hang up would wait for ever.
    expect(await coder.ask("Anybody?", 0.5, { questionId: "q1" })).toBeNull();
    await run.close();
    expect(heard).toBeGreaterThan(0);
    expect(readFileSync(path, "utf8")).toContain('"to":"thinking","reason":"timeout:q1"}');
    isOver = true;
    server.close();
    server.closeAllConnections();
  });

  test("that has no collector gets an error, and nothing is written", async () => {
    const path = `${fresh()}/a`;
    const run = new AgentEmitter(path, { runId: "r1", environ: {} });
    const coder = run.bind({ agent_id: "coder" });
    await expect(coder.ask("Which port?")).rejects.toThrow("TRACKLOG_URL");
    await run.close();
    expect(readFileSync(path, "utf8")).toBe("");
  });

  test("goes on without an answer when the collector stays away", async () => {
    const path = `${fresh()}/a`;
    const options = { url: "http://127.0.0.1:9", runId: "r1", spool: fresh(), environ: {} };
    const run = new AgentEmitter(path, options);
    expect(await run.bind({ agent_id: "coder" }).ask("Which port?", 0.3, { step: 7 })).toBeNull();
    await run.close();
    const [asked = "", wentOn = ""] = readFileSync(path, "utf8").split("\n");
    expect(asked).toContain('"step":7,"from":"thinking","to":"blocked-on-clarification"');
    expect(asked).toMatch(/"reason":"clarification:[^"]+","question":"Which port\?","expires":"/);
    expect(wentOn).toMatch(/"to":"thinking","reason":"timeout:[^"]+"}$/);
  });
});
