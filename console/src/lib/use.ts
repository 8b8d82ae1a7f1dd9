/** Answers that stay fresh: asked again when the journal grew, never more often than they can be. */

import { useEffect, useReducer, useRef, useState } from "react";
import { ask, type Trouble } from "./api";
import { live } from "./live";

export interface Answer<T> {
  readonly data: T | undefined;
  readonly trouble: Trouble | Error | undefined;
  readonly loading: boolean;
}

const LEAST = 400; // milliseconds between two questions of one view
const RATIO = 4; // and at least so many times as long as the last answer took

/** The answer at `path`; null asks nothing. Asked again when something new was heard. */
export function useAnswer<T>(path: string | null, fresh = true): Answer<T> {
  const [answer, setAnswer] = useState<Answer<T> & { path: string | null }>({
    data: undefined,
    trouble: undefined,
    loading: true,
    path: null,
  });
  useEffect(() => {
    if (path === null) return;
    const stop = new AbortController();
    let due = false;
    let busy = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const run = async () => {
      busy = true;
      due = false;
      const began = performance.now();
      try {
        const data = await ask<T>(path, stop.signal);
        if (!stop.signal.aborted) setAnswer({ data, trouble: undefined, loading: false, path });
      } catch (error) {
        if (stop.signal.aborted) return;
        setAnswer((old) => ({
          data: old.path === path ? old.data : undefined,
          trouble: error as Error,
          loading: false,
          path,
        }));
      }
      timer = setTimeout(
        () => {
          busy = false;
          if (due) void run();
        },
        Math.max(LEAST, (performance.now() - began) * RATIO),
      );
    };
    void run();
    const refresh = () => {
      due = true;
      if (!busy) void run();
    };
    const deaf = fresh ? live.hear(refresh) : () => undefined;
    let mark = live.snapshot().mark;
    const unwatch = live.subscribe(() => {
      const now = live.snapshot().mark;
      if (now === "live" && mark !== "live") refresh();
      mark = now;
    });
    return () => {
      stop.abort();
      clearTimeout(timer);
      deaf();
      unwatch();
    };
  }, [path, fresh]);
  const current = answer.path === path;
  return {
    data: current ? answer.data : undefined,
    trouble: current ? answer.trouble : undefined,
    loading: !current || answer.loading,
  };
}

/** The time, ticking; one clock for the page. */
export function useNow(every = 1000): number {
  const [, tick] = useReducer((n: number) => n + 1, 0);
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) tick();
    }, every);
    return () => clearInterval(timer);
  }, [every]);
  return Date.now();
}

export type Keys = Record<string, () => void>;

/** Keys that act while nobody types; the newest keys win. */
export function useKeys(keys: Keys): void {
  const held = useRef(keys);
  held.current = keys;
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (document.querySelector("dialog[open]")) return; // it has its own
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      const target = event.target as HTMLElement;
      const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.isContentEditable;
      if (typing && event.key !== "Escape") return;
      const act = held.current[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, []);
}
