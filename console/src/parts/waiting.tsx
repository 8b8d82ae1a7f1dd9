/** Who waits for a person, in one line each, and the choices as buttons; an answer can be taken back. */

import { type FormEvent, useId, useState } from "react";
import type { InboxRow } from "../lib/answers";
import { isOpen, keyOf } from "../lib/inbox";
import { answerSoon, takeBack, usePending } from "../lib/pending";
import { runHref } from "../lib/route";
import { inert } from "../lib/text";
import { Text } from "./bits";
import { Icon, StatusGlyph } from "./icons";
import { inWords, Settled, useDraft, useWaiting } from "./question";

const SHOWN = 3;

export function WaitStrip({ questions }: { questions: readonly InboxRow[] }) {
  const open = questions.filter(isOpen);
  const pending = usePending();
  const shown = questions.slice(0, SHOWN);
  const more = questions.length - shown.length;
  const longest = useWaiting(open[0]?.waiting_seconds ?? null, true);
  if (!questions.length) return null;
  // What one has to answer is read first, whatever stands above it on the screen.
  return (
    <section className="waits" aria-label="Waiting for you">
      {shown.map((question) => (
        <WaitRow
          key={keyOf(question)}
          question={question}
          pending={pending.find((each) => each.key === keyOf(question))?.state}
        />
      ))}
      <div className="waits-head">
        <StatusGlyph status="waiting" />
        <strong className="waiting">{open.length} wait for you</strong>
        {open.length > 0 && <span className="soft">longest {longest}</span>}
        <a href="#/inbox">{more > 0 ? `${more} more in the inbox` : "Inbox"}</a>
      </div>
    </section>
  );
}

function WaitRow({ question, pending }: { question: InboxRow; pending: string | undefined }) {
  const key = keyOf(question);
  const [text, setText] = useDraft(key);
  const [asked, ask] = useState(text !== "");
  const waited = useWaiting(question.waiting_seconds, true);
  const id = useId();
  const { family, run, question_id: name } = question;
  const send = (answer: unknown) => {
    answerSoon(key, inWords(answer), { question: name, run: `${family}:${run}`, answer });
    setText("");
    ask(false);
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (text.trim()) send(text);
  };
  const open = isOpen(question) && !pending;
  return (
    <article className="wait-row" aria-labelledby={id}>
      <h2 id={id}>
        <Text>{question.text ?? name}</Text>
      </h2>
      <span className="since waiting">{waited}</span>
      <span className="cause soft cut">{question.what && inert(question.what)}</span>
      <span className="who cut">
        {question.agent && (
          <>
            <Text>{question.agent}</Text> in{" "}
          </>
        )}
        <a href={runHref(family, run, { seq: question.asked_seq ?? "" })} title={inert(run)}>
          <Text>{question.title ?? run}</Text>
        </a>
      </span>
      {!isOpen(question) && <Settled question={question} />}
      {open && (
        <span className="choices">
          {question.options.map((option, n) => (
            <button key={n} type="button" onClick={() => send(option)}>
              <Text>{inWords(option)}</Text>
            </button>
          ))}
          <button aria-label="Reply" aria-expanded={asked} title="Reply in your own words" onClick={() => ask(!asked)}>
            <Icon name="reply" size={14} />
          </button>
        </span>
      )}
      {open && asked && (
        <form onSubmit={submit}>
          <label className="unseen" htmlFor={`${id}-text`}>
            Your answer
          </label>
          <textarea
            id={`${id}-text`}
            value={text}
            rows={1}
            placeholder="Your answer"
            onChange={(event) => setText(event.target.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
            }}
          />
          <button className="first" disabled={!text.trim()}>
            Answer
          </button>
        </form>
      )}
    </article>
  );
}

/** What was answered here a moment ago, and can be taken back. */
export function UndoToast() {
  const pending = usePending();
  return (
    <div className="toasts" role="status">
      {pending.map((each) => (
        <p key={each.key} className={`toast ${each.state}`}>
          {each.state === "failed" ? (
            <>
              Not sent: <Text>{each.why}</Text>
            </>
          ) : (
            <>
              {each.state === "sent" ? "Answered" : "Answering"} “<Text>{each.words}</Text>”
            </>
          )}
          {each.state === "waits" && <button onClick={() => takeBack(each.key)}>Undo</button>}
          {each.state === "failed" && <button onClick={() => takeBack(each.key)}>Close</button>}
        </p>
      ))}
    </div>
  );
}
