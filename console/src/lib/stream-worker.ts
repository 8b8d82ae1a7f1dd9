/** The event stream, in a worker that all tabs share: follows the journal by number, checks each frame, reconnects by itself. */

import { parseFrame } from "./frames";
import type { ConnectionState, News, Said } from "./live";

type Tab = Pick<MessagePort, "postMessage" | "onmessage">;

const QUIET = 20_000; // the server speaks every few seconds: a longer silence is a dead stream
const AGAIN = 1_000;
const EXACT = 2_000; // milliseconds by which two clocks may differ, or a stream be late
const TOGETHER = 100; // milliseconds: what comes within them is handed on at once

let source: EventSource | null = null;
let waiting: { data: string; id: string }[] = [];
let heardAt = 0;
/** Where to go on: the id of the last event, and how many records there are up to it. */
let cursor: { id: string; count: number } | null = null;

/** A number; of a store with several shards one for each, as `0.118,3.97`. */
function at(id: string): { id: string; count: number } {
  const ends = id.split(",").map((end) => Number(end.split(".").pop()));
  return { id, count: ends.reduce((sum, end) => sum + end, 0) };
}

/** The tabs that listen, and what one that joins them must know; to tell those that are gone costs nothing. */
const tabs: Tab[] = [];
let known: News = { connection: "connecting" };

function tell(news: News): void {
  const { said, rejected, reset, ...state } = news;
  known = { ...known, ...state };
  for (const tab of tabs) tab.postMessage(news);
}

const report = (connection: ConnectionState) => tell({ connection });

function connect(): void {
  source?.close();
  const after = cursor === null ? "" : `?${cursor.id.includes(".") ? "cursor" : "after"}=${cursor.id}`;
  const stream = new EventSource(`/api/stream${after}`);
  source = stream;
  heardAt = Date.now();
  stream.onopen = () => report("live");
  stream.onerror = () => {
    report("away");
    if (stream.readyState === EventSource.CLOSED) setTimeout(() => stream === source && connect(), AGAIN);
  };
  stream.onmessage = ({ data, lastEventId }: MessageEvent<string>) => {
    heardAt = Date.now();
    waiting.push({ data, id: lastEventId });
    if (waiting.length === 1) setTimeout(deliver, TOGETHER);
  };
  stream.addEventListener("heartbeat", ({ data, lastEventId }: MessageEvent<string>) => {
    heardAt = Date.now();
    const { first = 1, last, now } = JSON.parse(data) as { first?: number; last: number; now?: string };
    cursor ??= at(lastEventId); // behind `last` there may be some that are still on their way
    const ahead = Date.parse(now ?? "") - Date.now() || 0;
    tell({ connection: "live", first, last, ahead: Math.abs(ahead) < EXACT ? 0 : ahead });
  });
  stream.addEventListener("gap", ({ data }: MessageEvent<string>) => {
    heardAt = Date.now();
    const { next } = JSON.parse(data) as { next: number };
    tell({ first: next });
  });
  stream.addEventListener("reset", ({ lastEventId }: MessageEvent<string>) => {
    cursor = at(lastEventId);
    known = { connection: "live" };
    tell({ reset: true });
  });
}

/** Checks what came together, and hands on of which runs it was. */
function deliver(): void {
  const came = waiting;
  waiting = [];
  const runs = new Map<string, Said>();
  let [failed, why] = [0, ""];
  for (const { data, id } of came) {
    const parsed = parseFrame(data);
    if (parsed.seq !== null) {
      const here = at(id);
      if (cursor !== null && here.count <= cursor.count) continue; // told again on coming back
      cursor = here;
    }
    if (parsed.ok) runs.set(`${parsed.said.family}:${parsed.said.run}`, parsed.said);
    else [failed, why] = [failed + 1, parsed.why];
  }
  tell({
    connection: "live",
    said: [...runs.values()],
    ...(cursor === null ? {} : { last: cursor.count }),
    ...(failed ? { rejected: { count: failed, why } } : {}),
  });
}

/** Somebody looks: after sleep the socket may be dead without anybody having been told. */
function look(): void {
  if (Date.now() - heardAt < QUIET) return;
  report("away");
  connect();
}

function join(tab: Tab): void {
  tabs.push(tab);
  tab.onmessage = look;
  tab.postMessage(known);
}

connect();
const thread = globalThis as unknown as Tab & { onconnect?: (event: MessageEvent) => void };
if ("onconnect" in thread) thread.onconnect = ({ ports: [tab] }) => tab && join(tab);
else join(thread); // where a thread cannot be shared, each tab has its own
