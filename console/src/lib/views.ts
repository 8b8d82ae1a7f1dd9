/** Views that a person saved: a name, and a page with its filters. The collector stores them for everybody. */

import { useSyncExternalStore } from "react";
import type { SavedView } from "./answers";
import { address, ask, explained, put } from "./api";
import { dropToast, showToast } from "./toasts";

export type { SavedView };

/** Where an earlier version stored them in the browser. */
const STORED = "tracklog.views";
const TROUBLE = "views";

const watchers = new Set<() => void>();
let views: readonly SavedView[] = [];
let asked = false;

function change(next: readonly SavedView[]): void {
  views = next;
  for (const watcher of watchers) watcher();
}

/** The views of this browser that the collector does not have. */
function earlier(known: readonly SavedView[]): SavedView[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(STORED) ?? "[]");
    return (Array.isArray(found) ? (found as SavedView[]) : [])
      .filter((each) => typeof each?.name === "string" && !known.some((one) => one.name === each.name))
      .map(({ name, query }) => ({ name, page: "", query }));
  } catch {
    return [];
  }
}

async function load(): Promise<void> {
  const { views: known } = await ask(address("/api/views"));
  change(known);
  const own = earlier(known);
  if (own.length) await store([...known, ...own]);
  localStorage.removeItem(STORED);
}

async function store(next: readonly SavedView[]): Promise<void> {
  const before = views;
  change(next);
  try {
    change((await put("/api/views", { views: next })).views);
  } catch (error) {
    change(before);
    const undo = () => dropToast(TROUBLE);
    showToast({ key: TROUBLE, words: `Not saved: ${explained(error)}`, failed: true, undo });
  }
}

/** Saves a view; one of the same name is replaced. */
export function saveView(view: SavedView): void {
  void store([...views.filter((each) => each.name !== view.name), view]);
}

export function dropView(name: string): void {
  void store(views.filter((each) => each.name !== name));
}

export function useViews(): readonly SavedView[] {
  return useSyncExternalStore(
    (watcher) => {
      watchers.add(watcher);
      if (!asked) {
        asked = true;
        load().catch(() => {
          asked = false; // it is asked for again with the next page
        });
      }
      return () => watchers.delete(watcher);
    },
    () => views,
  );
}
