/** The turns of a run: what a model said after its last input, and the calls that it made then. */

import { useEffect, useMemo, useRef, useState } from "react";
import type { StoryFact, StoryRecord, TurnRow } from "./answers";
import { address } from "./api";
import { cost, percent, short } from "./time";
import { useAnswer } from "./use";

const STEADY = 150; // milliseconds in which what is in view stays the same
const MOST = 1000; // turns that stay in memory

const VOICES = ["assistant", "thought", "belief"];
const isInput = (fact: StoryFact): boolean => fact.fact === "Said" && !VOICES.includes(String(fact.role));

/** The turn that a record is a part of; where those of several agents overlap, that of its agent. */
export function turnOf(
  turns: readonly TurnRow[],
  record: Pick<StoryRecord, "seq" | "agent" | "facts">,
): TurnRow | undefined {
  if (record.facts.some(isInput)) return undefined;
  const around = turns.filter((turn) => turn.seq <= record.seq && record.seq <= turn.last_seq);
  const agent = record.facts.find((fact) => fact.agent)?.agent ?? record.agent ?? null;
  return around.findLast((turn) => turn.agent === agent) ?? around.at(-1);
}

/** The turns around the records in view, and those that were asked for before. */
export function useTurns(family: string, run: string, seqs: readonly number[]): readonly TurnRow[] {
  const inView = seqs.join(" ");
  const [steady, setSteady] = useState(inView);
  useEffect(() => {
    const timer = setTimeout(() => setSteady(inView), STEADY);
    return () => clearTimeout(timer);
  }, [inView]);
  const seq = steady.split(" ").map(Number);
  const { data } = useAnswer(steady ? address("/api/runs/{family}/{run}/turns", { family, run, seq }) : null, {
    family,
    run,
  });
  const known = useRef(new Map<number, TurnRow>());
  return useMemo(() => {
    for (const row of data?.rows ?? []) {
      const before = known.current.get(row.turn);
      known.current.delete(row.turn); // so that it is the last that is forgotten
      // What is the same is not drawn again.
      known.current.set(row.turn, before && JSON.stringify(before) === JSON.stringify(row) ? before : row);
    }
    known.current = new Map([...known.current].slice(-MOST));
    return [...known.current.values()].sort((a, b) => a.turn - b.turn);
  }, [data]);
}

/** What a turn read and wrote, for a person. */
export function tokensOf(turn: TurnRow): string {
  const parts = [turn.input_tokens, turn.cache_read_tokens, turn.cache_write_tokens];
  const input = parts.reduce<number | null>((sum, each) => (each === null ? sum : (sum ?? 0) + each), null);
  const cached = turn.cache_read_tokens;
  const words = [
    input === null ? "" : `${short(input)} in${cached ? `, ${percent(cached / input)} cached` : ""}`,
    turn.output_tokens === null ? "" : `${short(turn.output_tokens)} out`,
  ];
  return words.filter(Boolean).join(" · ");
}

/** What a turn cost; nothing where that is not known. */
export const costOf = (turn: TurnRow): string => cost(turn).replace("–", "");
