/** One open question, and the box in which a person answers it. */

import { type FormEvent, useId, useMemo, useState } from "react";
import type { InboxRow } from "../lib/answers";
import { address, explained, post } from "../lib/api";
import { keyOf } from "../lib/inbox";
import { operator, remember } from "../lib/operator";
import { runHref } from "../lib/route";
import { inert } from "../lib/text";
import { briefly, duration } from "../lib/time";
import { useAnswer, useNow } from "../lib/use";
import { Text } from "./bits";

/** What led to a question, so that nobody answers blindly. */
function Before({ question }: { question: InboxRow }) {
  const { family, run, asked_seq: seq } = question;
  const { data } = useAnswer(seq === null ? null : address("/api/why", { run: `${family}:${run}`, seq }), "never");
  const steps = (data?.back ?? []).filter((step) => step.words && step.seq !== question.asked_seq);
  if (!steps.length) return null;
  return (
    <ol className="before small soft" aria-label="What led to it">
      {steps
        .slice(0, 5)
        .reverse()
        .map((step) => (
          <li key={step.seq} className="cut">
            <a className="num" href={runHref(question.family, question.run, { seq: step.seq })}>
              {step.seq}
            </a>{" "}
            <Text>{step.words}</Text>
          </li>
        ))}
    </ol>
  );
}

/** How long somebody waits, counting on; briefly, or to the second. */
export function useWaiting(seconds: number | null, brief = false): string {
  useNow(); // it ticks
  const since = useMemo(() => Date.now() - (seconds ?? 0) * 1000, [seconds]);
  const waited = seconds === null ? null : Math.floor((Date.now() - since) / 1000);
  return brief ? briefly(waited) : duration(waited);
}

function Waiting({ seconds }: { seconds: number | null }) {
  return <span className="status waiting">waiting {useWaiting(seconds)}</span>;
}

/** An answer, or something that can be answered, as a person reads it. */
export function inWords(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "string" && value.startsWith("{")) return inWords(parsed(value));
  if (typeof value !== "object") return String(value);
  const parts = Object.entries(value);
  if (Array.isArray(value) || parts.some(([, each]) => typeof each === "object")) return JSON.stringify(value);
  return parts.length === 1 ? String(parts[0]?.[1]) : parts.map(([name, each]) => `${name}: ${each}`).join(", ");
}

/** An object that was told as text, or the text. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return ` ${text}`;
  }
}

/** A question that somebody answered while it was looked at. */
export function Settled({ question }: { question: InboxRow }) {
  const who = question.answered_by.join(", ") || "the agent itself";
  const said = inWords(question.answer);
  return (
    <p className="done" role="status">
      <Text>{`${question.state} by ${who}${said ? `: ${said}` : ""}`}</Text>
    </p>
  );
}

/** What was typed and not sent yet: it outlives its box, and a page that is loaded again. */
export function useDraft(key: string): [string, (text: string) => void] {
  const name = `tracklog.draft.${key}`;
  const [text, setText] = useState(() => sessionStorage.getItem(name) ?? "");
  const keep = (typed: string) => {
    if (typed) sessionStorage.setItem(name, typed);
    else sessionStorage.removeItem(name);
    setText(typed);
  };
  return [text, keep];
}

export function Asked(props: { question: InboxRow; focus?: boolean; context?: boolean }) {
  const { question, focus = false, context = false } = props;
  const [text, setText] = useDraft(keyOf(question));
  const [by, setBy] = useState(operator);
  const [busy, setBusy] = useState(false);
  const [said, setSaid] = useState<{ ok: boolean; text: string } | null>(null);
  const id = useId();
  const { family, run, question_id: name } = question;

  const send = async (answer: unknown) => {
    setBusy(true);
    try {
      remember(by);
      await post("/api/inbox/{question}/answer", { question: name, run: `${family}:${run}` }, { answer, by });
      setText("");
      setSaid({ ok: true, text: "answered; the agent goes on" });
    } catch (error) {
      setSaid({ ok: false, text: explained(error) });
    } finally {
      setBusy(false);
    }
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (text.trim()) void send(text);
  };

  return (
    <article className="card question" aria-labelledby={id}>
      <div className="row small">
        {question.state === "open" ? (
          <Waiting seconds={question.waiting_seconds} />
        ) : (
          <span className="status done">{question.state}</span>
        )}
        <span className="grow cut">
          {question.agent && (
            <>
              <Text>{question.agent}</Text> in{" "}
            </>
          )}
          <a href={runHref(family, run, { seq: question.asked_seq ?? "" })} title={inert(run)}>
            <Text>{question.title ?? run}</Text>
          </a>
        </span>
        {question.what && <span className="soft">{inert(question.what)}</span>}
      </div>
      <h3 id={id}>
        <Text>{question.text ?? name}</Text>
      </h3>
      {context && <Before question={question} />}
      {question.state !== "open" && !said?.ok && <Settled question={question} />}
      {said && (
        <p role="status" className={said.ok ? "done" : "failed"}>
          <Text>{said.text}</Text>
        </p>
      )}
      {question.state !== "open" || said?.ok ? (
        text && (
          <p className="soft small">
            not sent: <Text>{text}</Text>
          </p>
        )
      ) : (
        <form onSubmit={submit}>
          <label className="unseen" htmlFor={`${id}-text`}>
            Your answer
          </label>
          <textarea
            id={`${id}-text`}
            value={text}
            // biome-ignore lint/a11y/noAutofocus: only in a form that the person has just opened
            autoFocus={focus}
            placeholder="Your answer"
            rows={context ? 2 : 1}
            onChange={(event) => setText(event.target.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
            }}
          />
          <div className="row">
            {question.options.map((option, n) => (
              <button key={n} type="button" disabled={busy} onClick={() => void send(option)}>
                <Text>{inWords(option)}</Text>
              </button>
            ))}
            <button className="first" disabled={busy || !text.trim()}>
              Answer
            </button>
            <label className="soft small row">
              as
              <input value={by} size={12} maxLength={256} onChange={(event) => setBy(event.target.value)} />
            </label>
          </div>
        </form>
      )}
    </article>
  );
}
