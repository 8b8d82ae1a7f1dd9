/** What the records of a run are, and which belong together: calls and their results, status changes. */

import type { StoryFact, StoryRecord } from "./answers";

export interface Call {
  readonly tool: string;
  readonly agent: string;
  /** The record that called. */
  readonly called: number;
  /** The record that returned, once there is one. */
  returned?: number;
  ok?: boolean;
  seconds?: number;
}

export interface Move {
  readonly from: string;
  readonly to: string;
  readonly count: number;
  readonly illegal: number;
  readonly seq: number;
}

export const KINDS = ["said", "thinking", "tools", "failed", "waits", "moves"] as const;
export type Kind = (typeof KINDS)[number];

const isThinking = (fact: StoryFact): boolean =>
  fact.role === "thought" || fact.blocks?.some((each) => each.type === "thinking") === true;

/** What a record is, for the chips of a transcript. */
export function kindsOf(record: StoryRecord): Kind[] {
  const found = new Set<Kind>();
  for (const fact of record.facts) {
    if (fact.fact === "Said") found.add("said");
    if (fact.fact === "Said" && isThinking(fact)) found.add("thinking");
    if (fact.fact === "Called") found.add("tools");
    if (fact.ok === false || fact.passed === false) found.add("failed");
    if (fact.fact === "Asked" || fact.fact === "Answered") found.add("waits");
  }
  if (record.facts.length && record.facts.every((fact) => fact.fact === "Moved")) found.add("moves");
  return [...found];
}

const word = (value: unknown): string => (typeof value === "string" ? value : "");

export function moment(record: Pick<StoryRecord, "at" | "received">): number {
  const at = Date.parse(record.at ?? "");
  return Number.isNaN(at) ? Date.parse(record.received) : at;
}

/** An id that the importer made up is only valid within its record. */
function callId(fact: StoryFact, seq: number): string {
  return fact.synthetic_id === true ? `${seq}/${String(fact.call_id)}` : String(fact.call_id);
}

/** Grows with the run: each record is read once, and its text is not stored. */
export class RunStructure {
  readonly roles = new Set<string>();
  /** The records in which something failed. */
  readonly failures: number[] = [];
  private readonly calls = new Map<string, Call>();
  /** By id, the call that has not returned, or did so last. */
  private readonly latest = new Map<string, Call>();
  private readonly found = new Map<string, Omit<Move, "count" | "illegal"> & { readonly seqs: number[] }>();

  /** The call that a fact of a record made. */
  call(fact: StoryFact, seq: number): Call | undefined {
    return this.calls.get(`${seq} ${callId(fact, seq)}`);
  }

  /** The moves up to a record with their counts, and how many of each were found to be illegal. */
  moves(illegal: ReadonlySet<number>, until = Infinity): Move[] {
    const moves = [...this.found.values()].map(({ seqs, ...move }) => {
      const shown = seqs.filter((seq) => seq <= until);
      return { ...move, count: shown.length, illegal: shown.filter((seq) => illegal.has(seq)).length };
    });
    return moves.filter((move) => move.count);
  }

  /** Adds the next record; returns the record of the call that it only returns from, or null. */
  add(record: StoryRecord): number | null {
    let beside: number | null = null;
    let alone = record.facts.length === 0;
    if (record.facts.some((fact) => fact.ok === false || fact.passed === false)) this.failures.push(record.seq);
    for (const fact of record.facts) {
      const call = this.take(fact, record);
      if (call && call.called !== record.seq) beside = call.called;
      else alone = true;
    }
    return alone ? null : beside;
  }

  /** Adds a fact; returns the call that it ended, if it ended one. */
  private take(fact: StoryFact, record: StoryRecord): Call | undefined {
    const agent = word(fact.agent) || record.agent || "";
    const { seq } = record;
    switch (fact.fact) {
      case "Called": {
        const id = callId(fact, seq);
        const known = this.latest.get(id);
        if (known && known.returned === undefined) break;
        const call: Call = { tool: word(fact.tool), agent, called: seq };
        this.latest.set(id, call);
        this.calls.set(`${seq} ${id}`, call);
        break;
      }
      case "Returned": {
        const id = callId(fact, seq);
        const call = this.latest.get(id);
        if (!call || call.returned !== undefined) break;
        call.returned = seq;
        if (typeof fact.ok === "boolean") call.ok = fact.ok;
        if (typeof fact.seconds === "number") call.seconds = fact.seconds;
        return call;
      }
      case "Moved": {
        const [from, to] = [word(fact.from), word(fact.to)];
        const move = this.found.get(`${from}→${to}`) ?? { from, to, seq, seqs: [] };
        move.seqs.push(seq);
        this.found.set(`${from}→${to}`, move);
        break;
      }
      case "Said":
        this.roles.add(word(fact.role));
    }
    return undefined;
  }
}
