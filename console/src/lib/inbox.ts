/** The questions that wait for a person, asked for once for the whole page. */

import { createContext, useContext, useMemo, useRef } from "react";
import type { InboxRow } from "./answers";
import type { Answer } from "./use";

export const InboxContext = createContext<Answer<readonly InboxRow[]>>({
  data: undefined,
  trouble: undefined,
  loading: true,
  again: () => undefined,
});

export const isOpen = (question: InboxRow): boolean => question.state === "open";

export function keyOf(question: InboxRow): string {
  return `${question.family}:${question.run}/${question.question_id}`;
}

/** The open ones, and behind them those that were open when one began to look: who won is seen. */
export function useLooked(): InboxRow[] {
  const { data } = useContext(InboxContext);
  const seen = useRef(new Set<string>());
  return useMemo(() => {
    const now = (data ?? []).filter(isOpen);
    for (const question of now) seen.current.add(keyOf(question));
    const settled = (data ?? []).filter((question) => !isOpen(question) && seen.current.has(keyOf(question)));
    return [...now, ...settled];
  }, [data]);
}
