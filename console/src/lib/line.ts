/** The live line, in a thread that all tabs share: follows the journal by number, checks each frame, comes back by itself. */

import { parseFrame } from "./frames";
import type { Mark, News, Said } from "./live";

type Tab = Pick<MessagePort, "postMessage" | "onmessage">;

const QUIET = 20_000; // the server speaks every few seconds: a longer silence is a dead line
const AGAIN = 1_000;
const EXACT = 2_000; // milliseconds by which two clocks may differ, or a line be late
const TOGETHER = 100; // milliseconds: what comes within them is handed on at once

let source: EventSource | null = null;
let waiting: { data: string; id: string }[] = [];
let heardAt = 0;
/** Where to go on: the id of the last event, and how many records there are up to it. */
let cursor: { id: string; count: number } | null = null;

/** A number; of a record with several shards one for each, as `0.118,3.97`. */
function at(id: string): { id: string; count: number } {
  const ends = id.split(",").map((end) => Number(end.split(".").pop()));
  return { id, count: ends.reduce((sum, end) => sum + end, 0) };
}

/** The tabs that listen, and what one that joins them must know; to tell those that are gone costs nothing. */
const tabs: Tab[] = [];
let known: News = { mark: "connecting" };

function tell(news: News): void {
  const { said, rejected, reset, ...state } = news;
  known = { ...known, ...state };
  for (const tab of tabs) tab.postMessage(news);
}

const marked = (mark: Mark) => tell({ mark });

function connect(): void {
  source?.close();
  const after = cursor === null ? "" : `?${cursor.id.includes(".") ? "cursor" : "after"}=${cursor.id}`;
  const line = new EventSource(`/api/stream${after}`);
  source = line;
  heardAt = Date.now();
  line.onopen = () => marked("live");
  line.onerror = () => {
    marked("away");
    if (line.readyState === EventSource.CLOSED) setTimeout(() => line === source && connect(), AGAIN);
  };
  line.onmessage = ({ data, lastEventId }: MessageEvent<string>) => {
    heardAt = Date.now();
    waiting.push({ data, id: lastEventId });
    if (waiting.length === 1) setTimeout(deliver, TOGETHER);
  };
  line.addEventListener("heartbeat", ({ data, lastEventId }: MessageEvent<string>) => {
    heardAt = Date.now();
    const { first = 1, last, now } = JSON.parse(data) as { first?: number; last: number; now?: string };
    cursor ??= at(lastEventId); // behind `last` there may be some that are still on their way
    const ahead = Date.parse(now ?? "") - Date.now() || 0;
    tell({ mark: "live", first, last, ahead: Math.abs(ahead) < EXACT ? 0 : ahead });
  });
  line.addEventListener("gap", ({ data }: MessageEvent<string>) => {
    heardAt = Date.now();
    const { next } = JSON.parse(data) as { next: number };
    tell({ first: next });
  });
  line.addEventListener("reset", ({ lastEventId }: MessageEvent<string>) => {
    cursor = at(lastEventId);
    known = { mark: "live" };
    tell({ reset: true });
  });
}

/** Checks what came together, and hands on of which runs it was. */
function deliver(): void {
  const came = waiting;
  waiting = [];
  const runs = new Map<string, Said>();
  let [turned, why] = [0, ""];
  for (const { data, id } of came) {
    const parsed = parseFrame(data);
    if (parsed.seq !== null) {
      const here = at(id);
      if (cursor !== null && here.count <= cursor.count) continue; // told again on coming back
      cursor = here;
    }
    if (parsed.ok) runs.set(`${parsed.said.family}:${parsed.said.run}`, parsed.said);
    else [turned, why] = [turned + 1, parsed.why];
  }
  tell({
    mark: "live",
    said: [...runs.values()],
    ...(cursor === null ? {} : { last: cursor.count }),
    ...(turned ? { rejected: { count: turned, why } } : {}),
  });
}

/** Somebody looks: after sleep the socket may be dead without anybody having been told. */
function look(): void {
  if (Date.now() - heardAt < QUIET) return;
  marked("away");
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
