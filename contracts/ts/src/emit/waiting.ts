/** Waits that can be ended early, and the seconds that the end of a process may wait in total. */

/** Ends a wait before its time. */
export class Bell {
  #wake: (() => void) | undefined;
  #isRung = false;

  ring(): void {
    this.#isRung = true;
    this.#wake?.();
  }

  /** Waits until it rings or the time is over; only if `isHeld`, the process stays alive for it. */
  wait(time: number, isHeld = false): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.#isRung = false;
        this.#wake = undefined;
        resolve();
      };
      const timer = setTimeout(done, time * 1000);
      if (!isHeld) timer.unref();
      this.#wake = done;
      if (this.#isRung) done();
    });
  }
}

export function seconds(time: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, time * 1000);
  });
}

/** Of the deadline, how much a process that continues regains per second. */
const REGAINED = 0.1;

/**
 * Seconds that closing has waited of late, and as of when: for each collector, and under "" for all
 * since an emitter was last made. Other copies of this module share it.
 */
const WAITS = Symbol.for("tracklog.waits");
type Waits = Map<string, { readonly spent: number; readonly at: number }>;
const shared = globalThis as unknown as Record<symbol, Waits | undefined>;
const waits: Waits = shared[WAITS] ?? new Map();
shared[WAITS] = waits;

function spentOn(url: string): number {
  const { spent, at } = waits.get(url) ?? { spent: 0, at: 0 };
  return Math.max(0, spent - REGAINED * (performance.now() / 1000 - at));
}

/** How many seconds closing may still wait now; a process that goes on regains them slowly. */
export function allowed(url: string, deadline: number): number {
  return Math.max(0, deadline - Math.max(spentOn(url), spentOn("")));
}

/** Adds a wait of so many seconds to those of a collector, and to the total. */
export function charge(waited: number, deadline: number, url: string): void {
  for (const name of [url, ""]) {
    const spent = spentOn(name);
    const at = performance.now() / 1000;
    waits.set(name, { spent: Math.max(spent, Math.min(spent + waited, deadline)), at });
  }
}

/** Begins the total again: an emitter was made. */
export function resetTotal(): void {
  waits.delete("");
}
