/** What an emitter takes for an acknowledgement: the table that the Python tests read, too. */

import { existsSync, mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { createServer, type Listener, type Socket } from "node:net";
import { tmpdir } from "node:os";

import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { HttpSink } from "../src/emit.js";

interface Said {
  readonly status: number;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: string;
  readonly framing?: "length" | "short" | "chunked" | "short chunked" | "close";
}

interface Vector {
  readonly name: string;
  readonly answers: readonly Said[];
  /** What stands behind the batch's key, request by request. */
  readonly requests: readonly string[];
  /** The lines that end in `refused.jsonl`. */
  readonly aside: readonly number[];
}

const TABLE = JSON.parse(readFileSync(new URL("../../vectors/acknowledgements.json", import.meta.url), "utf8")) as {
  lines: string[];
  vectors: Vector[];
  checkpoints: { name: string; seen: unknown[]; warns: boolean }[];
};

/** Gives the answers of a vector, byte by byte as they stand there, then acknowledges all. */
class Scripted {
  readonly requests: { key: string; lines: string[] }[] = [];
  readonly #answers: Said[];
  readonly #listener: Listener;
  url = "";

  constructor(answers: readonly Said[]) {
    this.#answers = [...answers];
    this.#listener = createServer((socket) => this.#serve(socket));
  }

  async start(): Promise<this> {
    await new Promise<void>((then) => this.#listener.listen(0, "127.0.0.1", then));
    this.url = `http://127.0.0.1:${this.#listener.address().port}`;
    return this;
  }

  stop(): void {
    this.#listener.close();
  }

  #serve(socket: Socket): void {
    let text = "";
    socket.on("error", () => undefined);
    socket.on("data", (part) => {
      text += new TextDecoder().decode(part);
      const [head = "", body] = text.split("\r\n\r\n", 2);
      const size = Number(/content-length: (\d+)/i.exec(head)?.[1]);
      if (body === undefined || body.length < size) return;
      text = "";
      this.#answer(socket, /idempotency-key: (\S+)/i.exec(head)?.[1] ?? "", body);
    });
  }

  #answer(socket: Socket, key: string, body: string): void {
    const lines = body.trimEnd().split("\n");
    this.requests.push({ key, lines });
    const counts = `{"accepted":${lines.length},"duplicate":0,"refused":0}`;
    const good: Said = { status: 200, headers: [["Tracklog-Protocol", "1"]], body: counts };
    const answer = this.#answers.shift() ?? good;
    if ((answer.framing ?? "length") === "length" || answer.framing === "chunked") socket.write(written(answer));
    else socket.end(written(answer));
  }
}

/** The bytes of an answer; one that is short ends before it says that it does. */
function written({ status, headers, body, framing = "length" }: Said): string {
  const head = [`HTTP/1.1 ${status} Said`, ...headers.map(([name, value]) => `${name}: ${value}`)];
  let text = body;
  if (framing === "length" || framing === "short")
    head.push(`Content-Length: ${body.length + (framing === "short" ? 1 : 0)}`);
  else if (framing === "close") head.push("Connection: close");
  else {
    head.push("Transfer-Encoding: chunked");
    text = `${body.length.toString(16)}\r\n${body}\r\n`;
    if (framing === "chunked") text += "0\r\n\r\n";
  }
  return `${head.join("\r\n")}\r\n\r\n${text}`;
}

let warnings: string[] = [];
beforeEach(() => {
  warnings = [];
  vi.spyOn(process.stderr, "write").mockImplementation((text) => warnings.push(text) > 0);
});
afterEach(() => {
  vi.restoreAllMocks();
});

test.each(TABLE.vectors)(
  "only an acknowledgement of the collector itself takes a batch out of the spool: $name",
  async ({ answers, requests, aside }) => {
    const server = await new Scripted(answers).start();
    const sink = new HttpSink(server.url, { spool: mkdtempSync(`${tmpdir()}/ack-`), environ: {} });
    for (const line of TABLE.lines) sink.write(`${line}\n`, "tracklog");
    expect(await sink.flush(60)).toBe(true);
    const sent = [...server.requests];
    sink.write('{"n":4}\n', "tracklog");
    expect(await sink.flush(60)).toBe(true);
    await sink.close();
    server.stop();
    expect(server.requests.slice(sent.length).map(({ lines }) => lines)).toEqual([['{"n":4}']]);
    const key = sent[0]?.key ?? "";
    expect(sent.map((each) => each.key.replace(key, ""))).toEqual(requests);
    for (const { key: under, lines } of sent) {
      const half = { ".0": TABLE.lines.slice(0, 1), ".1": TABLE.lines.slice(1) };
      expect(lines).toEqual(half[under.replace(key, "") as ".0" | ".1"] ?? TABLE.lines);
    }
    const path = `${sink.folder}/refused.jsonl`;
    const put = existsSync(path) ? readFileSync(path, "utf8").trimEnd().split("\n") : [];
    const numbers = put.map((line) => {
      const { line: text } = JSON.parse(line) as { line: string };
      return (JSON.parse(text) as { n: number }).n;
    });
    expect(numbers).toEqual(aside);
    expect([sink.setAside, sink.lost]).toEqual([aside.length, 0]);
    expect(readdirSync(sink.folder)).toEqual(put.length > 0 ? ["refused.jsonl"] : []);
    expect(warnings.length).toBeLessThanOrEqual(2);
    for (const warning of warnings) expect(warning).not.toMatch(/\(\)|: *(;|$)/); // a reason is given
  },
);

test.each(TABLE.checkpoints)(
  "an emitter complains about a journal that was cut or rewritten: $name",
  async ({ seen, warns }) => {
    const counts = { accepted: 1, duplicate: 0, refused: 0 };
    const answers = seen.map(
      (checkpoint): Said => ({
        status: 200,
        headers: [["Tracklog-Protocol", "1"]],
        body: JSON.stringify({ ...counts, checkpoint }),
      }),
    );
    const server = await new Scripted(answers).start();
    const sink = new HttpSink(server.url, { spool: mkdtempSync(`${tmpdir()}/ack-`), environ: {} });
    for (const _ of answers) {
      sink.write('{"n":1}\n', "tracklog");
      expect(await sink.flush(60)).toBe(true);
    }
    await sink.close();
    server.stop();
    expect(warnings.join("").includes("was rewritten or cut")).toBe(warns);
  },
);
