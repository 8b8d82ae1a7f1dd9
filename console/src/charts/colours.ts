/** The colours of a chart: a key has one, and it stays while filters change. */

import { useEffect, useState } from "react";
import type { Series } from "../lib/answers";

/** Keys with a colour, and a place in the stack, of their own. */
const FIXED: Record<string, Record<string, string>> = {
  outcome: {
    done: "--o-done",
    failed: "--o-failed",
    lost: "--o-lost",
    working: "--working-fill",
    waiting: "--waiting-fill",
  },
  token_kind: { "cache read": "--c5", input: "--c1", "cache write": "--c4", output: "--c2" },
};
const OTHER = "--c6";
const MOST = 5;

/** By what it is split, the place of each key that was ever shown. */
const places = new Map<string, Map<string, number>>();

/** The keys of a series in the order of its stack, each with its colour; the largest at the bottom, others on top. */
export function coloured(series: Pick<Series, "by" | "keys">): { key: Series["keys"][number]; colour: string }[] {
  const fixed = FIXED[series.by];
  if (fixed) return series.keys.map((key) => ({ key, colour: fixed[key.key ?? ""] ?? OTHER }));
  const known = places.get(series.by) ?? new Map<string, number>();
  places.set(series.by, known);
  const named = series.keys.filter((each) => !each.other);
  const taken = new Set<number>();
  for (const { key } of named) {
    const place = known.get(key ?? "");
    if (place !== undefined && taken.has(place)) known.delete(key ?? "");
    else if (place !== undefined) taken.add(place);
  }
  for (const { key } of named) {
    if (known.has(key ?? "")) continue;
    let place = 0;
    while (taken.has(place)) place += 1;
    taken.add(place);
    known.set(key ?? "", place);
  }
  const placed = named
    .map((key) => ({ key, place: known.get(key.key ?? "") ?? MOST }))
    .sort((a, b) => a.place - b.place)
    .map(({ key, place }) => ({ key, colour: place < MOST ? `--c${place + 1}` : OTHER }));
  return [...placed, ...series.keys.filter((each) => each.other).map((key) => ({ key, colour: OTHER }))];
}

/** A token as a canvas understands it. */
export function resolved(token: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${token})`;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

/** Another number whenever the theme has changed: a canvas has to be drawn again. */
export function useTheme(): number {
  const [version, setVersion] = useState(0);
  useEffect(() => {
    const changed = () => setVersion((n) => n + 1);
    const watch = new MutationObserver(changed);
    watch.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    const system = matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", changed);
    return () => {
      watch.disconnect();
      system.removeEventListener("change", changed);
    };
  }, []);
  return version;
}
