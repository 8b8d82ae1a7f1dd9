/** Answers that stay fresh: asked again when the journal grew, never more often than they can be. */

import { startTransition, useEffect, useReducer, useRef, useState } from "react";
import { type Address, ask, type Trouble } from "./api";
import { singleKeys } from "./keys";
import { live } from "./live";

export interface Answer<T> {
  readonly data: T | undefined;
  readonly trouble: Trouble | Error | undefined;
  readonly loading: boolean;
  /** Asks once more, at once. */
  readonly again: () => void;
}

const LEAST = 1_000; // milliseconds between two questions of one view
const RATIO = 4; // and at least so many times as long as an answer takes
const IDLE = 15_000; // without news, too: who is silent for long is lost

/** When an answer is asked for again: upon news of anything or of a run, while somebody looks, or always;
 * seldom, without any; or never, once it came. */
export type Fresh = "never" | "seldom" | "news" | "always" | { readonly family: string; readonly run: string };

/** How long a view rests after an answer: of the last two the quicker counts, the other may have slept in between. */
export function rest(took: number, before: number): number {
  return Math.max(LEAST, Math.min(took, before) * RATIO);
}

/** The answer at `path`; null asks nothing. What was answered to another path is forgotten. */
export function useAnswer<T>(path: Address<T> | null, fresh: Fresh = "news"): Answer<T> {
  const [round, again] = useReducer((n: number) => n + 1, 0);
  const [answer, setAnswer] = useState<Omit<Answer<T>, "again"> & { path: string | null }>({
    data: undefined,
    trouble: undefined,
    loading: true,
    path: null,
  });
  const family = typeof fresh === "object" ? fresh.family : null;
  const run = typeof fresh === "object" ? fresh.run : null;
  const never = fresh === "never";
  const seldom = fresh === "seldom";
  const always = fresh === "always";
  useEffect(() => {
    if (path === null) return;
    const stop = new AbortController();
    let [due, busy, answered] = [false, false, false];
    let timer: ReturnType<typeof setTimeout> | undefined;
    let before = 0;
    const get = async () => {
      busy = true;
      due = false;
      const began = performance.now();
      try {
        const data = await ask<T>(path, stop.signal);
        if (stop.signal.aborted) return;
        answered = true;
        startTransition(() => setAnswer({ data, trouble: undefined, loading: false, path }));
      } catch (error) {
        if (stop.signal.aborted) return;
        setAnswer((old) => ({
          data: old.path === path ? old.data : undefined,
          trouble: error as Error,
          loading: false,
          path,
        }));
      }
      const took = performance.now() - began;
      timer = setTimeout(
        () => {
          busy = false;
          go();
        },
        rest(took, before),
      );
      before = took;
    };
    const go = () => {
      if (due && !busy && (always || !document.hidden)) void get();
    };
    const refresh = () => {
      due = true;
      go();
    };
    const again = () => (never && answered) || refresh();
    void get();
    const idle = setInterval(again, IDLE);
    document.addEventListener("visibilitychange", go);
    const deaf = live.hear((said) => {
      if (never || seldom) return;
      if (run === null || said.some((each) => each.run === run && each.family === family)) refresh();
    });
    const unwatch = live.stands(again);
    return () => {
      stop.abort();
      clearTimeout(timer);
      clearInterval(idle);
      document.removeEventListener("visibilitychange", go);
      deaf();
      unwatch();
    };
  }, [path, family, run, never, seldom, always, round]);
  const current = answer.path === path;
  return {
    again,
    data: current ? answer.data : undefined,
    trouble: current ? answer.trouble : undefined,
    loading: !current || answer.loading,
  };
}

/** The last that was there, while the next is on its way. */
export function useLast<T>(value: T | undefined): T | undefined {
  const last = useRef(value);
  if (value !== undefined) last.current = value;
  return last.current;
}

/** The collector's time, ticking: ours may be another. */
export function useNow(every = 1000): number {
  const [, tick] = useReducer((n: number) => n + 1, 0);
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) tick();
    }, every);
    return () => clearInterval(timer);
  }, [every]);
  return Date.now() + live.snapshot().ahead;
}

export type Keys = Record<string, () => void>;

const NEXT = 1_500; // milliseconds in which the second key of two comes
const [FIRST, NONE] = ["g", { key: "", time: 0 }];
let [before, latest] = [NONE, NONE];

const isField = (target: HTMLElement) =>
  target.isContentEditable || target.matches("input:not([type=checkbox], [type=radio]), textarea, select");

globalThis.window?.addEventListener?.(
  "keydown",
  (event) => {
    const typed = event.target instanceof HTMLElement && isField(event.target);
    [before, latest] = [latest, typed ? NONE : { key: event.key, time: event.timeStamp }];
  },
  true,
);

/** Keys that act while nobody types; those of a page win over those of the frame. `g f` is one key after another. */
export function useKeys(keys: Keys, of: "page" | "frame" = "page"): void {
  const held = useRef(keys);
  held.current = keys;
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (document.querySelector("dialog[open]")) return; // it has its own
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      const target = event.target as HTMLElement;
      if (event.key.length === 1 && !singleKeys()) return;
      if (isField(target)) {
        if (event.key === "Escape") target.blur(); // what was typed stays
        return;
      }
      // A dialog that was closed a moment ago may still have the focus; a button of it cannot be pressed.
      const pressed = target.closest("a, button, summary, input");
      if ((event.key === "Enter" || event.key === " ") && pressed && !pressed.closest("dialog:not([open])")) return; // it is pressed itself
      const second = before.key === FIRST && event.timeStamp - before.time < NEXT;
      const act = held.current[second ? `${FIRST} ${event.key}` : event.key];
      if (!act) return;
      event.preventDefault();
      act();
    };
    const place = of === "page" ? document : window; // an event comes to the document first
    place.addEventListener("keydown", press as EventListener);
    return () => place.removeEventListener("keydown", press as EventListener);
  }, [of]);
}
