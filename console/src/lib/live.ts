/** The one live connection: it follows the journal by number, and comes back by itself. */

import { useSyncExternalStore } from "react";
import type { Heard, Parsed } from "./frames";

export type Mark = "connecting" | "live" | "away";

export interface LiveState {
  readonly mark: Mark;
  /** The journal's last record, as far as it was told. */
  readonly last: number;
  /** The first record that is still kept. */
  readonly first: number;
  /** Frames that were turned away at the boundary, and why the last of them was. */
  readonly rejected: { count: number; why: string } | null;
}

type Listener = (heard: readonly Heard[]) => void;
type Parse = (raw: string) => Parsed;

const QUIET = 20_000; // the server speaks every few seconds: a longer silence is a dead line
const AGAIN = 1_000;
const TOGETHER = 100; // milliseconds: what comes within them is handed on at once

export class Live {
  private state: LiveState = { mark: "connecting", first: 1, last: 0, rejected: null };
  private readonly watchers = new Set<() => void>();
  private readonly listeners = new Set<Listener>();
  private source: EventSource | null = null;
  private waiting: string[] = [];
  private timer: ReturnType<typeof setTimeout> | undefined;
  private parse: Parse | null = null;
  private heardAt = 0;
  private cursor: number | null = null;

  /** The schemas are large: they are loaded when the page stands, and frames wait for them. */
  constructor(
    private readonly boundary: () => Promise<Parse>,
    private readonly url = "/api/stream",
  ) {}

  start(): void {
    this.connect();
    setInterval(() => this.checkPulse(), 5_000);
    document.addEventListener("visibilitychange", () => this.checkPulse());
    window.addEventListener("online", () => this.checkPulse());
  }

  readonly subscribe = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  readonly snapshot = (): LiveState => this.state;

  /** Calls back with what was heard, all that came together at once. */
  hear(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Calls back whenever the line is live again. */
  back(call: () => void): () => void {
    let { mark } = this.state;
    return this.subscribe(() => {
      const now = this.state.mark;
      if (now === "live" && mark === "away") call();
      mark = now;
    });
  }

  private connect(): void {
    this.source?.close();
    const after = this.cursor === null ? "" : `?after=${this.cursor}`;
    const source = new EventSource(this.url + after);
    this.source = source;
    this.heardAt = Date.now();
    source.onopen = () => this.set({ mark: "live" });
    source.onerror = () => {
      this.set({ mark: "away" });
      if (source.readyState === EventSource.CLOSED) setTimeout(() => this.again(source), AGAIN);
    };
    source.onmessage = ({ data }: MessageEvent<string>) => {
      this.alive();
      this.waiting.push(data);
      this.timer ??= setTimeout(() => void this.deliver(), TOGETHER);
    };
    source.addEventListener("heartbeat", ({ data }: MessageEvent<string>) => {
      this.alive();
      const { first = 1, last } = JSON.parse(data) as { first?: number; last: number };
      this.cursor ??= last;
      this.set({ mark: "live", first, last: Math.max(last, this.state.last) });
    });
    source.addEventListener("gap", ({ data }: MessageEvent<string>) => {
      this.alive();
      const { next } = JSON.parse(data) as { next: number };
      this.set({ first: Math.max(next, this.state.first) });
    });
    source.addEventListener("reset", () => location.reload());
  }

  private again(source: EventSource): void {
    if (source === this.source) this.connect();
  }

  private alive(): void {
    this.heardAt = Date.now();
  }

  /** After sleep the socket may be dead without anybody having been told. */
  private checkPulse(): void {
    if (document.hidden || Date.now() - this.heardAt < QUIET) return;
    this.set({ mark: "away" });
    this.connect();
  }

  private async deliver(): Promise<void> {
    try {
      this.parse ??= await this.boundary();
    } catch {
      this.timer = setTimeout(() => void this.deliver(), AGAIN); // the collector is away; frames wait
      return;
    }
    const came = this.waiting;
    this.waiting = [];
    this.timer = undefined;
    const heard: Heard[] = [];
    for (const raw of came) {
      const parsed = this.parse(raw);
      if (parsed.seq !== null) {
        if (this.cursor !== null && parsed.seq <= this.cursor) continue; // told again on coming back
        this.cursor = parsed.seq;
      }
      if (parsed.ok) heard.push(parsed.heard);
      else this.set({ rejected: { count: (this.state.rejected?.count ?? 0) + 1, why: parsed.why } });
    }
    this.set({ mark: "live", last: Math.max(this.cursor ?? 0, this.state.last) });
    if (heard.length) for (const listener of this.listeners) listener(heard);
  }

  private set(part: Partial<LiveState>): void {
    const next = { ...this.state, ...part };
    if ((Object.keys(part) as (keyof LiveState)[]).every((key) => this.state[key] === next[key]))
      return;
    this.state = next;
    for (const watcher of this.watchers) watcher();
  }
}

export const live = new Live(async () => (await import("./frames")).parseFrame);

export function useLive(): LiveState {
  return useSyncExternalStore(live.subscribe, live.snapshot);
}

/** One thing of it, so that a view is drawn again only when that changes. */
export function useLiveMark(): Mark {
  return useSyncExternalStore(live.subscribe, () => live.snapshot().mark);
}
