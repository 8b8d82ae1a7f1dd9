import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { News } from "../src/lib/live";

type Hear = (event: { data: string; lastEventId?: string }) => void;

/** A stream that sends only what the test gives it. */
class Stream {
  static all: Stream[] = [];
  onopen?: () => void;
  onerror?: () => void;
  onmessage?: Hear;
  readyState = 1;
  readonly named = new Map<string, Hear>();

  constructor(readonly url: string) {
    Stream.all.push(this);
  }
  addEventListener(name: string, hear: Hear) {
    this.named.set(name, hear);
  }
  close() {
    this.readyState = 2;
  }
}

const news: News[] = [];
const frame = (seq: number) =>
  JSON.stringify({ seq, received: "2026-05-05T09:00:00.000Z", dialect: "d", run: `r${seq % 2}`, event: { n: seq } });
const newest = () => Stream.all.at(-1)!;
const say = (seq: number, lastEventId = `${seq}`) => newest().onmessage!({ data: frame(seq), lastEventId });
const beat = (last: number, more = {}) =>
  newest().named.get("heartbeat")!({ data: JSON.stringify({ first: 1, last, ...more }), lastEventId: "4" });
const look = () => (globalThis as unknown as { onmessage: (event: object) => void }).onmessage({ data: "look" });

beforeEach(async () => {
  vi.useFakeTimers();
  vi.resetModules();
  Stream.all.length = news.length = 0;
  vi.stubGlobal("EventSource", Object.assign(Stream, { CLOSED: 2 }));
  vi.stubGlobal("onmessage", null);
  vi.stubGlobal("postMessage", (said: News) => news.push(said));
  await import("../src/lib/stream-worker");
  news.length = 0;
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("a record that was written while the stream was opened arrives, although the journal seemed to end before it", () => {
  beat(6);
  say(5);
  vi.advanceTimersByTime(200);
  expect(news.at(-1)).toMatchObject({ said: [{ family: "d", run: "r1" }], last: 5 });
});

test("tabs share one stream; a new tab gets the current state, and all tabs get new records", async () => {
  const heard = new Map<string, News[]>();
  const come = (name: string) => {
    const said: News[] = [];
    heard.set(name, said);
    const tab = { postMessage: (each: News) => said.push(each), onmessage: null as null | (() => void) };
    (globalThis as unknown as { onconnect: (event: object) => void }).onconnect({ ports: [tab] });
    return tab;
  };
  vi.resetModules();
  Stream.all.length = 0;
  vi.stubGlobal("onconnect", null);
  await import("../src/lib/stream-worker");
  come("first");
  beat(4, { now: new Date(Date.now() - 7_200_000).toISOString() });
  const second = come("second");
  expect(heard.get("second")).toEqual([{ connection: "live", first: 1, last: 4, ahead: -7_200_000 }]);
  say(5);
  vi.advanceTimersByTime(200);
  for (const said of heard.values()) expect(said.at(-1)).toMatchObject({ last: 5, said: [{ family: "d", run: "r1" }] });
  vi.setSystemTime(Date.now() + 3_600_000);
  second.onmessage!();
  expect(Stream.all.map((stream) => stream.url)).toEqual(["/api/stream", "/api/stream?after=5"]);
  for (const said of heard.values()) expect(said.at(-1)).toEqual({ connection: "away" });
});

test("after sleep a stream that fell silent is closed and opened again where it stopped", () => {
  beat(4);
  say(5);
  vi.advanceTimersByTime(200);
  look();
  expect(Stream.all).toHaveLength(1); // it spoke a moment ago
  vi.setSystemTime(Date.now() + 3_600_000);
  look();
  expect(news.at(-1)).toEqual({ connection: "away" });
  expect(Stream.all.map((stream) => stream.url)).toEqual(["/api/stream", "/api/stream?after=5"]);
  expect(Stream.all[0]?.readyState).toBe(2);
});

test("what came together is handed on at once, each run and each record once", () => {
  beat(4);
  for (const seq of [4, 5, 6, 7, 7]) say(seq);
  newest().onmessage!({ data: "no frame", lastEventId: "7" });
  expect(news).toHaveLength(1);
  vi.advanceTimersByTime(200);
  const [, told] = news;
  expect(told?.said).toEqual([
    { family: "d", run: "r1" },
    { family: "d", run: "r0" },
  ]);
  expect(told).toMatchObject({ connection: "live", last: 7, rejected: { count: 1 } });
});

test("after the journal was replaced by another, its records arrive although their numbers came before", () => {
  beat(4);
  newest().named.get("reset")!({ data: '{"after":4,"last":1}', lastEventId: "1" });
  expect(news.at(-1)).toEqual({ reset: true });
  beat(1);
  say(2);
  vi.advanceTimersByTime(200);
  expect(news.at(-1)).toMatchObject({ last: 2, said: [{ family: "d", run: "r0" }] });
});

test("a stream that the collector closed is opened again, one that was replaced is not", () => {
  beat(4);
  const old = newest();
  old.readyState = 2;
  old.onerror!();
  old.onerror!();
  vi.advanceTimersByTime(1_500);
  expect(Stream.all).toHaveLength(2);
  expect(newest().url).toBe("/api/stream?after=4");
});

test("a record of another shard has a smaller number, and arrives; the stream resumes at its place in every shard", () => {
  newest().named.get("heartbeat")!({ data: '{"first":1,"last":9}', lastEventId: "0.8,1.1" });
  say(21, "0.11,1.1");
  say(4, "0.11,1.2");
  say(4, "0.11,1.2");
  vi.advanceTimersByTime(200);
  expect(news.at(-1)).toMatchObject({ last: 13, said: [{ run: "r1" }, { run: "r0" }] });
  vi.setSystemTime(Date.now() + 3_600_000);
  look();
  expect(newest().url).toBe("/api/stream?cursor=0.11,1.2");
});
