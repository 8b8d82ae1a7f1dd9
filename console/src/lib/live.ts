/** The state of the event stream: whether it is connected, how far the journal goes, and which runs had news. */

import { useSyncExternalStore } from "react";

export type ConnectionState = "connecting" | "live" | "away";

export interface LiveState {
  readonly connection: ConnectionState;
  /** The journal's last record, as far as it was told. */
  readonly last: number;
  /** The first record that is still kept. */
  readonly first: number;
  /** Milliseconds by which the collector's clock is ahead of ours. */
  readonly ahead: number;
  /** Frames of the stream that were rejected, and the reason for the last of them. */
  readonly rejected: { count: number; why: string } | null;
}

/** A run with new records. */
export interface Said {
  readonly family: string;
  readonly run: string;
}

/** What the worker sends; what is not there has not changed. */
export interface News extends Partial<LiveState> {
  readonly said?: readonly Said[];
  /** Another journal stands there now: nothing that is shown holds. */
  readonly reset?: true;
}

type Listener = (said: readonly Said[]) => void;

const LOOK = 5_000; // milliseconds between two looks at whether the worker is alive
const SILENT = 40_000; // even without a connection it says so: after that the worker is gone

export class Live {
  private state: LiveState = { connection: "connecting", first: 1, last: 0, ahead: 0, rejected: null };
  private readonly watchers = new Set<() => void>();
  private readonly listeners = new Set<Listener>();

  start(open: (failed: () => void) => MessagePort | Worker): void {
    let [worker, lastMessageAt] = [null as MessagePort | Worker | null, 0];
    const begin = () => {
      if (worker && "terminate" in worker) worker.terminate();
      else worker?.close();
      lastMessageAt = Date.now();
      worker = open(() => {
        this.take({ connection: "away" });
        lastMessageAt = 0; // it is opened again at the next look
      });
      worker.onmessage = ({ data }: MessageEvent<News>) => {
        lastMessageAt = Date.now();
        this.take(data);
      };
    };
    begin();
    const look = () => {
      if (document.hidden) return;
      if (Date.now() - lastMessageAt > SILENT) begin();
      worker?.postMessage("look");
    };
    setInterval(look, LOOK);
    document.addEventListener("visibilitychange", look);
    window.addEventListener("online", look);
  }

  readonly subscribe = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  readonly snapshot = (): LiveState => this.state;

  /** Calls back with the runs that have new records, those that came together in one call. */
  hear(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Calls back whenever the stream is connected again: what was asked before may have missed something. */
  stands(call: () => void): () => void {
    let { connection } = this.state;
    return this.subscribe(() => {
      const now = this.state.connection;
      if (now === "live" && connection !== "live") call();
      connection = now;
    });
  }

  private take({ connection, first, last, ahead, rejected, said, reset }: News): void {
    if (reset) location.reload();
    const old = this.state;
    const total = rejected && { ...rejected, count: rejected.count + (old.rejected?.count ?? 0) };
    const next: LiveState = {
      connection: connection ?? old.connection,
      first: Math.max(first ?? 1, old.first),
      last: Math.max(last ?? 0, old.last),
      ahead: ahead ?? old.ahead,
      rejected: total ?? old.rejected,
    };
    if ((Object.keys(next) as (keyof LiveState)[]).some((key) => next[key] !== old[key])) {
      this.state = next;
      for (const watcher of this.watchers) watcher();
    }
    if (said?.length) for (const listener of this.listeners) listener(said);
  }
}

export const live = new Live();

export function useLive(): LiveState {
  return useSyncExternalStore(live.subscribe, live.snapshot);
}
