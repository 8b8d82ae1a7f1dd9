/** Answers that can still be taken back: each is sent 5 seconds after it was chosen. */

import { useSyncExternalStore } from "react";
import { explained, post } from "./api";
import { operator } from "./operator";

const PATIENCE = 5_000; // milliseconds

export interface Pending {
  /** The question, as `keyOf` names it. */
  readonly key: string;
  readonly words: string;
  readonly state: "waits" | "sending" | "sent" | "failed";
  readonly why?: string;
}

interface Wanted {
  readonly question: string;
  readonly run: string;
  readonly answer: unknown;
}

let list: readonly Pending[] = [];
const wanted = new Map<string, { timer: ReturnType<typeof setTimeout>; answer: Wanted }>();
const watchers = new Set<() => void>();

function change(next: readonly Pending[]): void {
  list = next;
  for (const watcher of watchers) watcher();
}

function mark(key: string, state: Pending["state"], why = ""): void {
  change(list.map((each) => (each.key === key ? { ...each, state, why } : each)));
}

export function answerSoon(key: string, words: string, answer: Wanted): void {
  takeBack(key);
  change([...list, { key, words, state: "waits" }]);
  wanted.set(key, { timer: setTimeout(() => void send(key), PATIENCE), answer });
}

export function takeBack(key: string): void {
  clearTimeout(wanted.get(key)?.timer);
  wanted.delete(key);
  change(list.filter((each) => each.key !== key));
}

async function send(key: string): Promise<void> {
  const found = wanted.get(key);
  if (!found) return;
  wanted.delete(key);
  clearTimeout(found.timer);
  const { question, run, answer } = found.answer;
  mark(key, "sending");
  try {
    await post("/api/inbox/{question}/answer", { question, run }, { answer, by: operator() });
    mark(key, "sent");
    setTimeout(() => change(list.filter((each) => each.key !== key)), PATIENCE);
  } catch (error) {
    mark(key, "failed", explained(error));
  }
}

// Who leaves the page has decided: what waits is sent at once.
window.addEventListener("pagehide", () => {
  for (const key of [...wanted.keys()]) void send(key);
});

export function usePending(): readonly Pending[] {
  return useSyncExternalStore(
    (watcher) => {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
    () => list,
  );
}
