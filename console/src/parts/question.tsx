/** One open question, and the box in which a person answers it. */

import { useId, useState, type FormEvent } from "react";
import { tell, Trouble, type Question } from "../lib/api";
import { runHref } from "../lib/route";
import { duration } from "../lib/time";
import { Text } from "./bits";

const NAME = "tracklog.operator";

export function Asked({ question, focus = false }: { question: Question; focus?: boolean }) {
  const [text, setText] = useState("");
  const [by, setBy] = useState(() => localStorage.getItem(NAME) ?? "operator");
  const [busy, setBusy] = useState(false);
  const [said, setSaid] = useState<{ ok: boolean; text: string } | null>(null);
  const id = useId();
  const { family, run, question_id: name } = question;

  const send = async (answer: unknown) => {
    setBusy(true);
    try {
      localStorage.setItem(NAME, by);
      const path = `/api/inbox/${encodeURIComponent(name)}/answer`;
      await tell(`${path}?run=${encodeURIComponent(`${family}:${run}`)}`, { answer, by });
      setSaid({ ok: true, text: "answered; the agent goes on" });
    } catch (error) {
      const hint = error instanceof Trouble ? error.hint : "";
      setSaid({ ok: false, text: [(error as Error).message, hint].filter(Boolean).join(" · ") });
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
        <span className="status waiting">waiting {duration(question.waiting_seconds)}</span>
        <span className="grow cut">
          <Text>{question.agent ?? "an agent"}</Text> in{" "}
          <a href={runHref(family, run, { seq: question.asked_seq })}>
            <Text>{run}</Text>
          </a>
        </span>
        {question.what && <span className="soft">{question.what}</span>}
      </div>
      <h3 id={id}>
        <Text>{question.text ?? name}</Text>
      </h3>
      {said ? (
        <p role="status" className={said.ok ? "done" : "failed"}>
          <Text>{said.text}</Text>
        </p>
      ) : (
        <form onSubmit={submit}>
          <label className="unseen" htmlFor={`${id}-text`}>
            Your answer
          </label>
          <textarea
            id={`${id}-text`}
            value={text}
            autoFocus={focus}
            placeholder="Your answer"
            onChange={(event) => setText(event.target.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
            }}
          />
          <div className="row">
            {question.options.map((option, n) => (
              <button key={n} type="button" disabled={busy} onClick={() => void send(option)}>
                <Text>{typeof option === "string" ? option : JSON.stringify(option)}</Text>
              </button>
            ))}
            <button className="first" disabled={busy || !text.trim()}>
              Answer
            </button>
            <label className="soft small row">
              as
              <input
                value={by}
                size={12}
                maxLength={256}
                onChange={(event) => setBy(event.target.value)}
              />
            </label>
          </div>
        </form>
      )}
    </article>
  );
}
