/** Who waits for a person, the longest first. */

import { useContext } from "react";
import { InboxContext, keyOf, useLooked } from "../lib/inbox";
import { runHref } from "../lib/route";
import { start } from "../lib/text";
import { Empty, Sorry, Text } from "../parts/bits";
import { Asked, inWords } from "../parts/question";

export default function Inbox() {
  const { data, trouble } = useContext(InboxContext);
  const waiting = useLooked();
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
        <Asked key={keyOf(question)} question={question} focus={n === 0} context />
      ))}
      {past.length > 0 && (
        <section className="stack">
          <h2>Before</h2>
          <ul className="before">
            {past.map((question) => (
              <li key={keyOf(question)} className="wrap">
                <a href={runHref(question.family, question.run, { seq: question.asked_seq ?? "" })}>
                  <Text>{question.text ?? question.question_id}</Text>
                </a>{" "}
                <span className="soft small">
                  {question.state}
                  {question.answer !== null && question.answer !== undefined && (
                    <>
                      {" "}
                      “<Text>{start(inWords(question.answer), 120)}</Text>”
                    </>
                  )}
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
