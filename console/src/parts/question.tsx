/** One open question, and the box in which a person answers it. */

import { type FormEvent, type ReactNode, useEffect, useId, useMemo, useRef, useState } from "react";
import type { InboxRow } from "../lib/answers";
import { address } from "../lib/api";
import { keyOf } from "../lib/inbox";
import { operator, remember } from "../lib/operator";
import { answerSoon, usePending } from "../lib/pending";
import { runHref } from "../lib/route";
import { inert } from "../lib/text";
import { briefly, clock, duration } from "../lib/time";
import { useAnswer, useKeys, useNow } from "../lib/use";
import { Coded, Text } from "./bits";
import { StatusGlyph } from "./icons";
import { saying, WhySteps } from "./why-steps";

const CAUSES = 6; // steps back in which the cause of a question is looked for

/** What led to a question, so that nobody answers blindly. */
function Before({ question }: { question: InboxRow }) {
  const { family, run, asked_seq: seq } = question;
  const { data } = useAnswer(seq === null ? null : address("/api/why", { run: `${family}:${run}`, seq }), "never");
  const steps = (data?.back ?? []).filter((step) => step.words && step.seq !== question.asked_seq);
  if (!steps.length) return <p className="soft small">Nothing before it was recorded.</p>;
  return <WhySteps steps={steps.slice(0, 5).reverse()} label="What led to it" />;
}

/** What the agent did or said last before it asked, in words; empty until that is known. */
export function useCause({ family, run, asked_seq: seq }: InboxRow): string {
  // A page that nobody sees asks for nothing; when it is seen, the times on it make it draw again.
  const unseen = seq === null || document.hidden;
  const asked = unseen ? null : address("/api/why", { run: `${family}:${run}`, seq, limit: CAUSES });
  const { data } = useAnswer(asked, "never");
  const step = (data?.back ?? []).find((each) => each.words && each.seq !== seq && !/^(Moved|Spent)/.test(each.kind));
  const { tool, words } = saying(step ?? { words: "" });
  return /^failed: /.test(words) || step?.kind === "Called" ? `${tool} ${words}`.trim() : words;
}

function Cause({ question }: { question: InboxRow }) {
  return <Text>{useCause(question)}</Text>;
}

/** How long somebody waits, counting on; briefly, or to the second. */
export function useWaiting(seconds: number | null, brief = false): string {
  useNow(); // it ticks
  const since = useMemo(() => Date.now() - (seconds ?? 0) * 1000, [seconds]);
  const waited = seconds === null ? null : Math.floor((Date.now() - since) / 1000);
  return brief ? briefly(waited) : duration(waited);
}

function Waiting({ seconds }: { seconds: number | null }) {
  return (
    <span className="state waiting">
      <StatusGlyph status="waiting" /> waiting {useWaiting(seconds)}
    </span>
  );
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

/** Why a question cannot be answered any more. */
export function lapse(question: InboxRow): string {
  return question.state === "expired"
    ? `lapsed at ${clock(question.lapses_at)}, nobody had answered`
    : "lapsed: the run ended before somebody answered";
}

/** A question that somebody answered while it was looked at. */
export function Settled({ question }: { question: InboxRow }) {
  if (question.state === "expired" || question.state === "abandoned")
    return (
      <p className="lost" role="status">
        {lapse(question)}
      </p>
    );
  const who = question.answered_by.join(", ") || "the agent itself";
  const said = inWords(question.answer);
  const after = question.waiting_seconds === null ? "" : `, after ${duration(question.waiting_seconds)}`;
  return (
    <p className="done" role="status">
      <Text>{`${question.state} by ${who}${said ? `: ${said}` : ""}${after}`}</Text>
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

/** Who asks, and in which run. */
export function AgentInRun({ question }: { question: InboxRow }) {
  const { agent, family, run, title, asked_seq: seq } = question;
  return (
    <>
      {agent && (
        <>
          <Text>{agent}</Text> in{" "}
        </>
      )}
      <a href={runHref(family, run, { seq: seq ?? "" })} title={inert(run)}>
        <Text>{title ?? run}</Text>
      </a>
    </>
  );
}

/** A question that only the agent's own terminal can answer. */
export function InTerminal() {
  return <p className="soft small">Answer in the agent’s own terminal: an answer from here would not reach it.</p>;
}

interface AskedProps {
  readonly question: InboxRow;
  readonly focus?: boolean;
  /** With what led to it. */
  readonly context?: boolean;
  /** What stands beside what led to it. */
  readonly children?: ReactNode;
}

function Digit({ n }: { n: number }) {
  if (n > 9) return null;
  return (
    <span aria-hidden="true">
      <kbd>{n}</kbd>
    </span>
  );
}

export function Asked({ question, focus = false, context = false, children }: AskedProps) {
  const key = keyOf(question);
  const [text, setText] = useDraft(key);
  const [by, setBy] = useState(operator);
  const [replying, setReplying] = useState(text !== "" || !question.options.length);
  const asked = useRef(false);
  const reply = () => {
    asked.current = true;
    setReplying(true);
    box.current?.focus();
  };
  const box = useRef<HTMLTextAreaElement>(null);
  const pending = usePending().get(key);
  const id = useId();
  const { family, run, question_id: name } = question;
  useKeys(context ? {} : { r: reply });
  useEffect(() => {
    if (replying && asked.current) box.current?.focus();
  }, [replying]);

  const send = (answer: unknown) => {
    remember(by);
    const words = inWords(answer);
    answerSoon(key, words, { question: name, run: `${family}:${run}`, answer, by, done: () => setText("") });
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (text.trim()) send(text);
  };
  const busy = pending?.state === "waits" || pending?.state === "sending";
  const open = question.state === "open" && pending?.state !== "sent";

  return (
    <article className="card question" aria-labelledby={id}>
      <div className="row small">
        {question.state === "open" ? (
          <Waiting seconds={question.waiting_seconds} />
        ) : (
          <span className={`status ${question.state === "answered" ? "done" : "lost"}`}>{question.state}</span>
        )}
        <span className="grow cut">{context ? <AgentInRun question={question} /> : <Cause question={question} />}</span>
        <span className="soft">
          {[question.what && inert(question.what), question.asked_seq && `#${question.asked_seq}`]
            .filter(Boolean)
            .join(", ")}
        </span>
      </div>
      <h2 id={id}>
        {!context && <StatusGlyph status="waiting" />}
        <Coded>{question.text ?? name}</Coded>
      </h2>
      {context && (
        <div className="reasons">
          <section aria-label="Why it asks">
            <h3>Why it asks</h3>
            <Before question={question} />
          </section>
          {children}
        </div>
      )}
      {question.state !== "open" && pending?.state !== "sent" && <Settled question={question} />}
      {pending?.state === "sent" && (
        <p role="status" className="done">
          answered; the agent goes on
        </p>
      )}
      {pending?.state === "failed" && (
        <p role="status" className="failed">
          <Text>{pending.why}</Text>
        </p>
      )}
      {open && !question.answerable ? (
        <InTerminal />
      ) : !open ? (
        text && (
          <p className="soft small">
            not sent: <Text>{text}</Text>
          </p>
        )
      ) : (
        <form onSubmit={submit} className={context || replying ? "" : "brief"}>
          {question.options.length > 0 && (
            <div className="options">
              {question.options.map((option, n) => (
                <button key={n} type="button" data-choice={n + 1} disabled={busy} onClick={() => send(option)}>
                  {context && <Digit n={n + 1} />} <Text>{inWords(option)}</Text> {!context && <Digit n={n + 1} />}
                </button>
              ))}
            </div>
          )}
          {!context && !replying && (
            <button type="button" className="reply" onClick={reply}>
              Reply{" "}
              <span aria-hidden="true">
                <kbd>R</kbd>
              </span>
            </button>
          )}
          <label className="unseen" htmlFor={`${id}-text`}>
            Your answer
          </label>
          <div className="answer-box">
            <textarea
              id={`${id}-text`}
              value={text}
              // biome-ignore lint/a11y/noAutofocus: only where a person came to answer in words
              autoFocus={focus}
              ref={box}
              placeholder={
                context
                  ? `${question.options.length ? "Or say" : "Say"} it in words. The agent reads it as your answer.`
                  : "Your answer"
              }
              rows={context ? 2 : 1}
              onChange={(event) => setText(event.target.value)}
              onKeyDown={(event) => {
                if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
              }}
            />
            {context && !text && (
              <span aria-hidden="true">
                <kbd>R</kbd>
              </span>
            )}
          </div>
          <div className="row">
            <label className="soft small row">
              as
              <input value={by} size={12} maxLength={256} onChange={(event) => setBy(event.target.value)} />
            </label>
            <span className="soft small grow">
              {pending?.state === "waits"
                ? "It is sent in 5 seconds, unless you take it back."
                : "Your answer is recorded; for 5 seconds it can be taken back."}
            </span>
            <button disabled={busy || !text.trim()}>
              Answer{" "}
              {context && (
                <span aria-hidden="true">
                  <kbd>⌘↵</kbd>
                </span>
              )}
            </button>
          </div>
        </form>
      )}
    </article>
  );
}
