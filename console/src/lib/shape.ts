/** What belongs together in a run: calls and their results, spans of time, status changes and their counts. */

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
  readonly count: number;
  readonly illegal: number;
  readonly seq: number;
}

const NAME = 120; // characters of a span's name that are kept

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
export class Shaping {
  readonly spans: Span[] = [];
  readonly roles = new Set<string>();
  /** The records in which something failed. */
  readonly failures: number[] = [];
  private readonly calls = new Map<string, Call>();
  /** By id, the call that has not returned, or did so last. */
  private readonly latest = new Map<string, Call>();
  private readonly open = new Map<string, Span>();
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
    const at = moment(record);
    const agent = word(fact.agent) || record.agent || "";
    const { seq } = record;
    const begin = (what: Span["what"], key: string, name: string) => {
      const span: Span = { what, lane: agent, name: name.slice(0, NAME), seq, begin: at, end: null, ok: null };
      this.spans.push(span);
      this.open.set(`${what}/${key}`, span);
    };
    /** A step may be ended by the agent that began it, or by the run. */
    const step = (name: string): string => {
      const whole = `${agent}/${name}`;
      if (this.open.has(`step/${whole}`)) return whole;
      const keys = [...this.open.keys()].reverse();
      return keys.find((key) => key.startsWith("step/") && key.endsWith(`/${name}`))?.slice(5) ?? whole;
    };
    const end = (what: Span["what"], key: string, ok: boolean | null, seconds?: unknown) => {
      const span = this.open.get(`${what}/${key}`);
      if (!span) return;
      this.open.delete(`${what}/${key}`);
      const measured = typeof seconds === "number" ? span.begin + seconds * 1000 : 0;
      span.end = Math.max(at, measured, span.begin);
      span.ok = ok;
    };
    switch (fact.fact) {
      case "Began":
        if (fact.what === "step") begin("step", `${agent}/${word(fact.step)}`, word(fact.step) || "step");
        break;
      case "Ended":
        if (fact.what === "step") {
          end("step", step(word(fact.step)), (fact.passed as boolean | undefined) ?? null);
          // Sub-runs of a step end with it.
          for (const [key, span] of this.open)
            if (span.what === "sub-run" && span.lane === agent) end("sub-run", key.slice(8), span.ok);
        }
        break;
      case "Called": {
        const id = callId(fact, seq);
        const known = this.latest.get(id);
        if (known && known.returned === undefined) break;
        const call: Call = { tool: word(fact.tool), agent, called: seq };
        this.latest.set(id, call);
        this.calls.set(`${seq} ${id}`, call);
        begin("call", id, call.tool);
        break;
      }
      case "Returned": {
        const id = callId(fact, seq);
        end("call", id, (fact.ok as boolean | undefined) ?? null, fact.seconds);
        const call = this.latest.get(id);
        if (!call || call.returned !== undefined) break;
        call.returned = seq;
        if (typeof fact.ok === "boolean") call.ok = fact.ok;
        if (typeof fact.seconds === "number") call.seconds = fact.seconds;
        return call;
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
          begin("sub-run", String(seq), typeof child === "string" ? child : (child.run ?? ""));
        }
        break;
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
