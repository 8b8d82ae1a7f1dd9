/** Who waits for a person, the longest first. */

import { useMemo, useRef } from "react";
import type { Question } from "../lib/api";
import { useAnswer } from "../lib/use";
import { Empty, Sorry, Text } from "../parts/bits";
import { Asked } from "../parts/question";
import { runHref } from "../lib/route";

export function open(questions: readonly Question[]): Question[] {
  return questions
    .filter((question) => question.state === "open")
    .sort((a, b) => (b.waiting_seconds ?? 0) - (a.waiting_seconds ?? 0));
}

export function keyOf(question: Question): string {
  return `${question.family}:${question.run}/${question.question_id}`;
}

/** The open ones, and behind them those that were open when one began to look: who won is seen. */
export function useLooked(questions: readonly Question[] | undefined): Question[] {
  const seen = useRef(new Set<string>());
  return useMemo(() => {
    const now = open(questions ?? []);
    for (const question of now) seen.current.add(keyOf(question));
    const settled = (questions ?? []).filter(
      (question) => question.state !== "open" && seen.current.has(keyOf(question)),
    );
    return [...now, ...settled];
  }, [questions]);
}

export function Inbox() {
  const { data, trouble } = useAnswer<Question[]>("/api/inbox");
  const waiting = useLooked(data);
  if (trouble && !data) return <Sorry trouble={trouble} />;
  const past = (data ?? [])
    .filter((question) => question.state !== "unasked" && !waiting.includes(question))
    .slice(0, 50);
  return (
    <div className="stack">
      <h1>Inbox</h1>
      {data && !waiting.length && (
        <Empty title="Nobody waits for you." run={"tracklog inbox        # the same in a terminal"} />
      )}
      {waiting.map((question, n) => (
        <Asked
          key={keyOf(question)}
          question={question}
          focus={n === 0}
          context
        />
      ))}
      {past.length > 0 && (
        <section className="stack">
          <h2>Before</h2>
          <ul>
            {past.map((question) => (
              <li key={keyOf(question)} className="wrap">
                <a href={runHref(question.family, question.run, { seq: question.asked_seq })}>
                  <Text>{question.text ?? question.question_id}</Text>
                </a>{" "}
                <span className="soft small">
                  {question.state}
                  {question.answered_by.length > 0 && (
                    <>
                      {" "}
                      by <Text>{question.answered_by.join(", ")}</Text>
                    </>
                  )}
                </span>
              </li>
            ))}
          </ul>
        </section>
      )}
    </div>
  );
}
