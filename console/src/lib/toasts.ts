/** Short messages at the edge of the page, each with a button that takes its deed back. */

import { useSyncExternalStore } from "react";

export interface Toast {
  readonly key: string;
  readonly words: string;
  readonly failed?: boolean;
  readonly undo?: () => void;
}

let toasts: readonly Toast[] = [];
const watchers = new Set<() => void>();

function change(next: readonly Toast[]): void {
  toasts = next;
  for (const watcher of watchers) watcher();
}

/** Shows a message; one of the same key is replaced. */
export function showToast(toast: Toast): void {
  change([...toasts.filter((each) => each.key !== toast.key), toast]);
}

export function dropToast(key: string): void {
  change(toasts.filter((each) => each.key !== key));
}

export function useToasts(): readonly Toast[] {
  return useSyncExternalStore(
    (watcher) => {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
    () => toasts,
  );
}
