/** Runs that a person marks as seen; for 5 seconds that can be taken back. */

import { explained, post } from "./api";
import { operator } from "./operator";
import { PATIENCE } from "./pending";
import { count } from "./time";
import { dropToast, showToast } from "./toasts";

const MOST = 10_000; // runs of one request

let made = 0;

/** Marks runs, given as `family:run`. */
export async function markSeen(runs: readonly string[], done: () => void): Promise<void> {
  if (!runs.length) return;
  made += 1;
  const key = `seen ${made}`;
  const words = `${runs.length === 1 ? "1 run" : `${count(runs.length)} runs`} marked as seen`;
  const undo = () => {
    dropToast(key);
    void send(key, runs, false, done);
  };
  if (!(await send(key, runs, true, done))) return;
  showToast({ key, words, undo });
  setTimeout(() => dropToast(key), PATIENCE);
}

async function send(key: string, runs: readonly string[], seen: boolean, done: () => void): Promise<boolean> {
  try {
    for (let n = 0; n < runs.length; n += MOST)
      await post("/api/marks", {}, { run: runs.slice(n, n + MOST), seen, by: operator() });
    return true;
  } catch (error) {
    showToast({ key, words: `Not marked: ${explained(error)}`, failed: true, undo: () => dropToast(key) });
    return false;
  } finally {
    done();
  }
}
