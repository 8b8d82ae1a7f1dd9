/** A run as it is told, page by page, kept in step with what is heard live. */

import { startTransition, useEffect, useState } from "react";
import { ask, runPath, type Fact, type Story, type Told } from "./api";
import { live } from "./live";

const FIRST = 300; // records before the first screen is drawn
const PAGE = 2000;
const LEAST = 250; // milliseconds between two pages of a run that grows

export interface Read {
  readonly records: readonly Told[];
  /** Whether more is still being read. */
  readonly reading: boolean;
  readonly trouble: Error | undefined;
  readonly shaping: Shaping;
}

export function useStory(family: string, run: string): Read {
  const [read, setRead] = useState<Read>(() => ({ records: [], reading: true, trouble: undefined, shaping: new Shaping() }));
  useEffect(() => {
    const stop = new AbortController();
    const shaping = new Shaping();
    let records: Told[] = [];
    let busy = false;
    let due = false;
    let limit = FIRST;
    const more = async () => {
      busy = true;
      try {
        do {
          due = false;
          let next: number | null = records.at(-1)?.seq ?? 0;
          while (next !== null) {
            const path = runPath(family, run, `/story?after=${next}&limit=${limit}`);
            const page: Story = await ask<Story>(path, stop.signal);
            limit = PAGE;
            next = page.next;
            if (page.records.length) {
              records = [...records, ...page.records];
              shaping.add(page.records);
            }
            const read = { records, reading: next !== null, trouble: undefined, shaping };
            if (page.records.length === records.length) setRead(read);
            else startTransition(() => setRead(read));
          }
          await new Promise((go) => setTimeout(go, LEAST));
        } while (due && !stop.signal.aborted);
      } catch (error) {
        if (!stop.signal.aborted) setRead({ records, reading: false, trouble: error as Error, shaping });
      }
      busy = false;
    };
    setRead({ records, reading: true, trouble: undefined, shaping });
    void more();
    const again = () => {
      due = true;
      if (!busy) void more();
    };
    const deaf = live.hear((heard) => {
      if (heard.some((each) => each.run === run && each.family === family)) again();
    });
    let mark = live.snapshot().mark;
    const unwatch = live.subscribe(() => {
      const now = live.snapshot().mark;
      if (now === "live" && mark !== "live") again();
      mark = now;
    });
    return () => {
      stop.abort();
      deaf();
      unwatch();
    };
  }, [family, run]);
  return read;
}

export interface Call {
  readonly id: string;
  readonly tool: string;
  readonly agent: string | undefined;
  readonly called: Told;
  returned?: Told;
  result?: Fact;
}

export interface Span {
  readonly what: "step" | "call" | "wait" | "sub-run";
  readonly lane: string;
  readonly name: string;
  readonly seq: number;
  readonly begin: number;
  end: number | null;
  ok: boolean | null;
}

export interface Move {
  readonly from: string;
  readonly to: string;
  count: number;
  illegal: number;
  readonly seq: number;
}

export interface Shape {
  readonly calls: ReadonlyMap<string, Call>;
  readonly spans: readonly Span[];
  readonly moves: readonly Move[];
  readonly roles: ReadonlySet<string>;
}

/** A made-up id means something within its own record only. */
export function callKey(fact: Fact, seq: number): string {
  return fact.synthetic_id === true ? `${seq}/${String(fact.call_id)}` : String(fact.call_id);
}

const word = (value: unknown): string => (typeof value === "string" ? value : "");

export function moment(told: Told): number {
  const at = Date.parse(told.at ?? "");
  return Number.isNaN(at) ? Date.parse(told.received) : at;
}

/** What belongs together in a run: calls with their results, spans of time, moves with counts. */
export class Shaping {
  private readonly calls = new Map<string, Call>();
  private readonly spans: Span[] = [];
  private readonly open = new Map<string, Span>();
  private readonly moves = new Map<string, Move & { readonly seqs: number[] }>();
  private readonly roles = new Set<string>();

  /** Each record once, in order: a run that grows is not gone through again. */
  add(records: readonly Told[]): void {
  const { calls, spans, open, moves, roles } = this;
  for (const told of records) {
    const at = moment(told);
    for (const fact of told.facts) {
      const agent = word(fact.agent) || told.agent || "";
      const begin = (what: Span["what"], key: string, name: string) => {
        const span: Span = { what, lane: agent, name, seq: told.seq, begin: at, end: null, ok: null };
        spans.push(span);
        open.set(`${what}/${key}`, span);
      };
      const end = (what: Span["what"], key: string, ok: boolean | null, seconds?: unknown) => {
        const span = open.get(`${what}/${key}`);
        if (!span) return;
        open.delete(`${what}/${key}`);
        const told = typeof seconds === "number" ? span.begin + seconds * 1000 : 0;
        span.end = Math.max(at, told, span.begin);
        span.ok = ok;
      };
      switch (fact.fact) {
        case "Began":
          if (fact.what === "step") begin("step", `${agent}/${word(fact.step)}`, word(fact.step) || "step");
          break;
        case "Ended":
          if (fact.what === "step") {
            end("step", `${agent}/${word(fact.step)}`, (fact.passed as boolean | undefined) ?? null);
            // What was begun below a step is over with it.
            for (const [key, span] of open)
              if (span.what === "sub-run" && span.lane === agent) end("sub-run", key.slice(8), span.ok);
          }
          break;
        case "Called": {
          const id = callKey(fact, told.seq);
          const known = calls.get(id);
          if (!known || known.returned) {
            calls.set(id, { id, tool: word(fact.tool), agent, called: told });
            begin("call", id, word(fact.tool));
          }
          break;
        }
        case "Returned": {
          const id = callKey(fact, told.seq);
          const call = calls.get(id);
          if (call && !call.returned) {
            call.returned = told;
            call.result = fact;
          }
          end("call", id, (fact.ok as boolean | undefined) ?? null, fact.seconds);
          break;
        }
        case "Asked":
          begin("wait", word(fact.question_id), word(fact.text) || "a question");
          break;
        case "Answered":
          end("wait", word(fact.question_id), true);
          break;
        case "Linked":
          if (fact.kind === "sub-run" && fact.child !== undefined) {
            const child = fact.child as string | { run?: string };
            begin("sub-run", String(told.seq), typeof child === "string" ? child : (child.run ?? ""));
          }
          break;
        case "Moved": {
          const key = `${word(fact.from)}→${word(fact.to)}`;
          const move = moves.get(key) ?? {
            from: word(fact.from),
            to: word(fact.to),
            count: 0,
            illegal: 0,
            seq: told.seq,
            seqs: [],
          };
          move.count += 1;
          move.seqs.push(told.seq);
          moves.set(key, move);
          break;
        }
        case "Said":
          roles.add(word(fact.role));
      }
    }
  }
  }

  shape(illegal: ReadonlySet<number>): Shape {
    const moves = [...this.moves.values()].map(({ seqs, ...move }) => ({
      ...move,
      illegal: illegal.size ? seqs.filter((seq) => illegal.has(seq)).length : 0,
    }));
    return { calls: this.calls, spans: [...this.spans], moves, roles: this.roles };
  }
}

export function shape(records: readonly Told[], illegal: ReadonlySet<number>): Shape {
  const shaping = new Shaping();
  shaping.add(records);
  return shaping.shape(illegal);
}
