/** What belongs together in a run: calls with their results, spans of time, moves with counts. */

import type { Fact, Told } from "./api";

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

export function moment(told: Pick<Told, "at" | "received">): number {
  const at = Date.parse(told.at ?? "");
  return Number.isNaN(at) ? Date.parse(told.received) : at;
}

/** A made-up id means something within its own record only. */
function callId(fact: Fact, seq: number): string {
  return fact.synthetic_id === true ? `${seq}/${String(fact.call_id)}` : String(fact.call_id);
}

/** Grows with the run: each record is gone through once, and of its words nothing is kept. */
export class Shaping {
  readonly spans: Span[] = [];
  readonly roles = new Set<string>();
  /** The records that told of something that failed. */
  readonly failures: number[] = [];
  private readonly calls = new Map<string, Call>();
  /** By id, the call that has not returned, or did so last. */
  private readonly latest = new Map<string, Call>();
  private readonly open = new Map<string, Span>();
  private readonly found = new Map<string, Omit<Move, "count" | "illegal"> & { readonly seqs: number[] }>();

  /** The call that a fact of a record made. */
  call(fact: Fact, seq: number): Call | undefined {
    return this.calls.get(`${seq} ${callId(fact, seq)}`);
  }

  /** The moves up to a record with their counts, and how many of each were found to be illegal. */
  moves(illegal: ReadonlySet<number>, until = Infinity): Move[] {
    const moves = [...this.found.values()].map(({ seqs, ...move }) => {
      const told = seqs.filter((seq) => seq <= until);
      return { ...move, count: told.length, illegal: told.filter((seq) => illegal.has(seq)).length };
    });
    return moves.filter((move) => move.count);
  }

  /** Takes the next record; the call beside whose words all of it stands, if there is one. */
  add(told: Told): number | null {
    let beside: number | null = null;
    let alone = told.facts.length === 0;
    if (told.facts.some((fact) => fact.ok === false || fact.passed === false)) this.failures.push(told.seq);
    for (const fact of told.facts) {
      const call = this.take(fact, told);
      if (call && call.called !== told.seq) beside = call.called;
      else alone = true;
    }
    return alone ? null : beside;
  }

  /** The call that a fact returned, where it did. */
  private take(fact: Fact, told: Told): Call | undefined {
    const at = moment(told);
    const agent = word(fact.agent) || told.agent || "";
    const { seq } = told;
    const begin = (what: Span["what"], key: string, name: string) => {
      const span: Span = { what, lane: agent, name: name.slice(0, NAME), seq, begin: at, end: null, ok: null };
      this.spans.push(span);
      this.open.set(`${what}/${key}`, span);
    };
    /** A step is ended by who began it, or by the run itself. */
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
          end("step", step(word(fact.step)), (fact.passed as boolean | undefined) ?? null);
          // What was begun below a step is over with it.
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
