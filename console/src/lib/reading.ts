/** Where one reads in a transcript, for those who show it elsewhere: scrolling draws nothing else anew. */

import { useSyncExternalStore } from "react";

export interface ReadingRange {
  /** The moments of the first and the last record in view. */
  readonly from: number;
  readonly to: number;
}

let range: ReadingRange | null = null;
const watchers = new Set<() => void>();

export function reads(next: ReadingRange | null): void {
  if (range?.from === next?.from && range?.to === next?.to) return;
  range = next;
  for (const watcher of watchers) watcher();
}

export function useReading(): ReadingRange | null {
  return useSyncExternalStore(
    (watcher) => {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
    () => range,
  );
}
