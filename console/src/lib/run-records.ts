/** A run of any length: the position of every record, and the content of those near the reader. */

import { startTransition, useEffect, useReducer, useRef, useState } from "react";
import type { StoryAnswer, StoryRecord } from "./answers";
import { address, ask } from "./api";
import { live } from "./live";
import { type Kind, kindsOf, moment, RunStructure } from "./run-structure";

const FIRST = 200; // records before the first screen is drawn
const PAGE = 250;
const READ = 1000; // records per request after the first; more hold up the page while they are read
const PAGES = 24; // pages whose content stays in memory; the others are requested when they come into view
const LEAST = 250; // milliseconds between two readings of a run that grows
const AGAIN = 5_000; // milliseconds until a failed request is repeated

const GLIMPSE = 100; // records before and after one that was not reached yet

export type Reader = (after: number, limit: number) => Promise<StoryAnswer>;

/** What the stage view shows, by the places of the records. */
interface Staged {
  /** Everything that was said or decided. */
  readonly said: number[];
  readonly scenes: number[];
  readonly verdicts: number[];
  /** Each speaker, and the place where it spoke first. */
  readonly cast: Map<string, number>;
}

export class RunRecords {
  /** The number of the record at each place. */
  readonly seqs: number[] = [];
  readonly moments: number[] = [];
  /** The places that have a row of their own: all but results, which are shown with their call. */
  readonly rows: number[] = [];
  readonly staged: Staged = { said: [], scenes: [], verdicts: [], cast: new Map() };
  /** The places of the records that only say what was spent: the head of their turn says it, too. */
  readonly spends: number[] = [];
  readonly structure = new RunStructure();
  /** The places of the records of each kind. */
  readonly kinds: Record<Kind, number[]> = { said: [], thinking: [], tools: [], failed: [], waits: [], moves: [] };
  private readonly beside = new Map<number, number>();
  private readonly pages = new Map<number, (StoryRecord | undefined)[]>();
  private readonly asked = new Set<number>();

  constructor(
    private readonly read: Reader,
    private readonly changed: () => void = () => undefined,
  ) {}

  /** The next records, each once and in order. */
  add(records: readonly StoryRecord[]): void {
    for (const record of records) {
      const place = this.seqs.length;
      this.seqs.push(record.seq);
      this.moments.push(moment(record));
      const call = this.structure.add(record);
      if (call === null) this.rows.push(place);
      else this.beside.set(record.seq, call);
      for (const kind of kindsOf(record)) this.kinds[kind].push(place);
      if (record.facts.length && record.facts.every((fact) => fact.fact === "Spent")) this.spends.push(place);
      this.stage(record, place);
      this.page(Math.floor(place / PAGE))[place % PAGE] = record;
    }
  }

  /** The record at a place; if its content is not in memory it is requested, and `changed` is called later. */
  record(place: number): StoryRecord | undefined {
    const number = Math.floor(place / PAGE);
    const record = this.pages.get(number) && this.page(number)[place % PAGE];
    if (!record && place < this.seqs.length) void this.fetch(number);
    return record;
  }

  /** A record by its number, if its content is in memory. */
  held(seq: number): StoryRecord | undefined {
    const place = lowerBound(this.seqs, seq);
    return this.seqs[place] === seq ? this.pages.get(Math.floor(place / PAGE))?.[place % PAGE] : undefined;
  }

  /** The first place whose record is `seq` or later. */
  place(seq: number): number {
    return lowerBound(this.seqs, seq);
  }

  /** The row in which a record is shown: its own, or that of the call whose result it is. */
  row(seq: number): number {
    return lowerBound(this.rows, this.place(this.beside.get(seq) ?? seq));
  }

  private stage(record: StoryRecord, place: number): void {
    const { said, scenes, verdicts, cast } = this.staged;
    for (const fact of record.facts) {
      if (fact.fact !== "Said" && fact.fact !== "Decided") continue;
      if (said.at(-1) !== place) said.push(place);
      if (fact.role === "world") scenes.push(place);
      if (fact.fact === "Decided") verdicts.push(place);
      const who = fact.agent ?? record.agent;
      if (who && !cast.has(who)) cast.set(who, place);
    }
  }

  /** A page, marked as used last; the page that was not used for longest is dropped. */
  private page(number: number): (StoryRecord | undefined)[] {
    const page = this.pages.get(number) ?? [];
    this.pages.delete(number);
    this.pages.set(number, page);
    if (this.pages.size > PAGES) {
      const [oldest] = this.pages.keys();
      if (oldest !== undefined) this.pages.delete(oldest);
    }
    return page;
  }

  private async fetch(number: number): Promise<void> {
    if (this.asked.has(number)) return;
    this.asked.add(number);
    try {
      const first = this.seqs[number * PAGE];
      if (first === undefined) return;
      const { records } = await this.read(first - 1, PAGE);
      const page = this.page(number);
      for (const record of records) {
        const place = lowerBound(this.seqs, record.seq);
        if (Math.floor(place / PAGE) === number && this.seqs[place] === record.seq) page[place % PAGE] = record;
      }
      this.changed();
    } catch {
      // Requested again when it comes into view again.
    } finally {
      this.asked.delete(number);
    }
  }
}

/** How many of the sorted numbers are less than a value: the place of the first that is not. */
export function lowerBound(rising: readonly number[], value: number): number {
  let [low, high] = [0, rising.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((rising[middle] ?? Infinity) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

export interface Reading {
  readonly runRecords: RunRecords;
  /** A few records around the wanted one, until reading has reached it. */
  readonly glimpse: RunRecords | null;
  /** Another number whenever the set of records has changed. */
  readonly version: number;
  /** Whether the end was not reached yet. */
  readonly reading: boolean;
  readonly trouble: Error | undefined;
}

type State = Omit<Reading, "version">;

/** Reads a run from its beginning, and on as it grows; the wanted record is shown before reading reaches it.
 *
 * `wanted` is a record, 0 for the beginning, null while it is not known.
 */
export function useRunRecords(family: string, run: string, wanted: number | null): Reading {
  const [version, changed] = useReducer((n: number) => n + 1, 0);
  const [state, setState] = useState<State>(() => ({
    runRecords: new RunRecords(nothing),
    glimpse: null,
    reading: true,
    trouble: undefined,
  }));
  const aim = useRef(0);
  const seek = useRef<() => void>(undefined);
  aim.current = wanted ?? 0;
  const known = wanted !== null;
  useEffect(() => {
    if (!known) return;
    const stop = new AbortController();
    const story = (part: { after: number } | { before: number }, limit: number) =>
      ask(address("/api/runs/{family}/{run}/story", { family, run, ...part, limit }), stop.signal);
    const read: Reader = (after, limit) => story({ after }, limit);
    const runRecords = new RunRecords(read, changed);
    let [glimpse, seen] = [null as RunRecords | null, 0];
    let [busy, due, limit] = [false, false, FIRST];
    let timer: ReturnType<typeof setTimeout> | undefined;
    let reading = true;
    const show = (more: boolean) => {
      reading = more;
      setState({ runRecords, glimpse, reading, trouble: undefined });
      changed();
    };
    const reached = (to: number) => !reading || to <= (runRecords.seqs.at(-1) ?? 0);
    const look = async () => {
      const to = aim.current;
      if (reached(to)) glimpse = null;
      else if (to !== seen) {
        seen = to;
        const around = [story({ before: to + 1 }, GLIMPSE), story({ after: to }, GLIMPSE)];
        const [until, from] = await Promise.all(around);
        if (seen !== to || reached(to)) return; // by now something else is wanted, or it was read
        glimpse = new RunRecords(read, changed);
        glimpse.add([...(until?.records ?? []), ...(from?.records ?? [])]);
      }
    };
    seek.current = () => {
      if (!reading || !runRecords.seqs.length) return;
      look().then(
        () => stop.signal.aborted || show(reading),
        () => (seen = 0),
      );
    };
    const go = () => {
      if (due && !busy && !document.hidden) void more();
    };
    const again = () => {
      due = true;
      go();
    };
    const more = async () => {
      busy = true;
      clearTimeout(timer);
      try {
        do {
          due = false;
          let next: number | null = runRecords.seqs.at(-1) ?? 0;
          while (next !== null) {
            const page: StoryAnswer = await read(next, limit);
            const first = !runRecords.seqs.length;
            limit = READ;
            next = page.next;
            runRecords.add(page.records);
            reading = next !== null;
            await look();
            if (first) show(next !== null);
            else if (page.records.length || next === null) startTransition(() => show(next !== null));
          }
          await new Promise((go) => setTimeout(go, LEAST));
        } while (due && !document.hidden && !stop.signal.aborted);
      } catch (error) {
        if (stop.signal.aborted) return;
        setState({ runRecords, glimpse, reading: false, trouble: error as Error });
        timer = setTimeout(again, AGAIN);
      }
      busy = false;
    };
    setState({ runRecords, glimpse: null, reading: true, trouble: undefined });
    void more();
    const deaf = live.hear((said) => {
      if (said.some((each) => each.run === run && each.family === family)) again();
    });
    const unwatch = live.stands(again);
    document.addEventListener("visibilitychange", go);
    return () => {
      stop.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", go);
      deaf();
      unwatch();
    };
  }, [family, run, known]);
  useEffect(() => seek.current?.(), [wanted]);
  return { ...state, version };
}

const nothing: Reader = () => Promise.reject(new Error("no run was named"));
