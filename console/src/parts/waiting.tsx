/** Who waits for a person, in one line each, and the choices as buttons; an answer can be taken back. */

import { type FormEvent, useId, useState } from "react";
import type { InboxRow } from "../lib/answers";
import { isOpen, keyOf } from "../lib/inbox";
import { answerSoon, usePending } from "../lib/pending";
import { useToasts } from "../lib/toasts";
import { Coded, Text } from "./bits";
import { Icon, StatusGlyph } from "./icons";
import { AgentInRun, InTerminal, inWords, Settled, useCause, useDraft, useWaiting } from "./question";

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
        <WaitRow key={keyOf(question)} question={question} pending={pending.has(keyOf(question))} />
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

function WaitRow({ question, pending }: { question: InboxRow; pending: boolean }) {
  const key = keyOf(question);
  const [text, setText] = useDraft(key);
  const [asked, ask] = useState(text !== "");
  const waited = useWaiting(question.waiting_seconds, true);
  const cause = useCause(question) || question.what;
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
  const open = isOpen(question) && !pending && question.answerable;
  return (
    <article className="wait-row" aria-labelledby={id}>
      <h2 id={id}>
        <Coded>{question.text ?? name}</Coded>
      </h2>
      <span className="since waiting">{waited}</span>
      <span className="cause soft cut">
        <Text>{cause}</Text>
      </span>
      <span className="who cut">
        <AgentInRun question={question} />
      </span>
      {!isOpen(question) && <Settled question={question} />}
      {isOpen(question) && !question.answerable && <InTerminal />}
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

/** What was done here a moment ago, and can be taken back. */
export function UndoToast() {
  const toasts = useToasts();
  return (
    <div className="toasts" role="status">
      {toasts.map(({ key, words, failed, undo }) => (
        <p key={key} className={`toast${failed ? " failed" : ""}`}>
          <Text>{words}</Text>
          {undo && <button onClick={undo}>{failed ? "Close" : "Undo"}</button>}
        </p>
      ))}
    </div>
  );
}
