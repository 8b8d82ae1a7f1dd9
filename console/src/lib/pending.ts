/** Answers that can still be taken back: each is sent 5 seconds after it was chosen. */

import { useSyncExternalStore } from "react";
import { explained, post } from "./api";
import { operator } from "./operator";
import { dropToast, showToast } from "./toasts";

export const PATIENCE = 5_000; // milliseconds

export interface Pending {
  readonly state: "waits" | "sending" | "sent" | "failed";
  /** Why it was not sent. */
  readonly why?: string;
}

interface Wanted {
  readonly question: string;
  readonly run: string;
  readonly answer: unknown;
  /** Who answers. */
  readonly by?: string;
  /** Called once it was sent. */
  readonly done?: () => void;
}

let states: ReadonlyMap<string, Pending> = new Map();
const wanted = new Map<string, { timer: ReturnType<typeof setTimeout>; words: string; answer: Wanted }>();
const watchers = new Set<() => void>();

function mark(key: string, state: Pending | null): void {
  const next = new Map(states);
  if (state) next.set(key, state);
  else next.delete(key);
  states = next;
  for (const watcher of watchers) watcher();
}

/** Sends an answer to the question of this key in 5 seconds; until then a message offers to take it back. */
export function answerSoon(key: string, words: string, answer: Wanted): void {
  takeBack(key);
  wanted.set(key, { timer: setTimeout(() => void send(key), PATIENCE), words, answer });
  mark(key, { state: "waits" });
  showToast({ key, words: `Answering “${words}”`, undo: () => takeBack(key) });
}

export function takeBack(key: string): void {
  clearTimeout(wanted.get(key)?.timer);
  wanted.delete(key);
  mark(key, null);
  dropToast(key);
}

async function send(key: string): Promise<void> {
  const found = wanted.get(key);
  if (!found) return;
  wanted.delete(key);
  clearTimeout(found.timer);
  const { words } = found;
  const { question, run, answer, by = operator(), done } = found.answer;
  mark(key, { state: "sending" });
  showToast({ key, words: `Answering “${words}”` });
  try {
    await post("/api/inbox/{question}/answer", { question, run }, { answer, by });
    mark(key, { state: "sent" });
    done?.();
    showToast({ key, words: `Answered “${words}”` });
    setTimeout(() => dropToast(key), PATIENCE);
  } catch (error) {
    mark(key, { state: "failed", why: explained(error) });
    showToast({ key, words: `Not sent: ${explained(error)}`, failed: true, undo: () => takeBack(key) });
  }
}

// Who leaves the page has decided: what waits is sent at once.
window.addEventListener("pagehide", () => {
  for (const key of [...wanted.keys()]) void send(key);
});

/** By the key of a question, how far its answer is. */
export function usePending(): ReadonlyMap<string, Pending> {
  return useSyncExternalStore(
    (watcher) => {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
    () => states,
  );
}
