/** The one live connection: it follows the journal by number, and comes back by itself. */

import { useSyncExternalStore } from "react";
import { parseFrame, type Heard } from "./frames";

export type Mark = "connecting" | "live" | "away";

export interface LiveState {
  readonly mark: Mark;
  /** The journal's last record, as far as it was told. */
  readonly last: number;
  /** Told once: records behind `after` and before `next` are not kept any more. */
  readonly gap: { after: number; next: number } | null;
  /** Frames that are no frames; they are counted and left alone. */
  readonly bad: number;
}

type Listener = (heard: readonly Heard[]) => void;

const QUIET = 20_000; // the server speaks every few seconds: a longer silence is a dead line
const AGAIN = 1_000;

export class Live {
  private state: LiveState = { mark: "connecting", last: 0, gap: null, bad: 0 };
  private readonly watchers = new Set<() => void>();
  private readonly listeners = new Set<Listener>();
  private source: EventSource | null = null;
  private waiting: Heard[] = [];
  private frame = 0;
  private heardAt = 0;
  private cursor: number | null = null;

  constructor(private readonly url = "/api/stream") {}

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

  /** Calls back with what was heard, at most once per painted frame. */
  hear(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
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
    source.onmessage = (message) => this.take(message as MessageEvent<string>);
    source.addEventListener("heartbeat", (event) => {
      this.alive();
      const { last } = JSON.parse((event as MessageEvent<string>).data) as { last: number };
      this.cursor ??= last;
      this.set({ mark: "live", last: Math.max(last, this.state.last) });
    });
    source.addEventListener("gap", (event) => {
      this.alive();
      this.set({ gap: JSON.parse((event as MessageEvent<string>).data) as LiveState["gap"] });
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

  private take(message: MessageEvent<string>): void {
    this.alive();
    const parsed = parseFrame(message.data);
    if (!parsed.ok) {
      this.set({ bad: this.state.bad + 1 });
      return;
    }
    const { heard } = parsed;
    if (this.cursor !== null && heard.seq <= this.cursor) return;
    this.cursor = heard.seq;
    this.waiting.push(heard);
    this.frame ||= requestAnimationFrame(() => this.deliver());
    if (document.hidden && this.waiting.length > 5_000) this.deliver();
  }

  private deliver(): void {
    const heard = this.waiting;
    this.waiting = [];
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const last = heard.at(-1)?.seq ?? this.state.last;
    this.set({ mark: "live", last: Math.max(last, this.state.last) });
    for (const listener of this.listeners) listener(heard);
  }

  private set(part: Partial<LiveState>): void {
    const next = { ...this.state, ...part };
    if ((Object.keys(part) as (keyof LiveState)[]).every((key) => this.state[key] === next[key]))
      return;
    this.state = next;
    for (const watcher of this.watchers) watcher();
  }
}

export const live = new Live();

export function useLive(): LiveState {
  return useSyncExternalStore(live.subscribe, live.snapshot);
}
