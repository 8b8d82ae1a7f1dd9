/** One record, from all sides: its bytes, what led to it, and what came of it. */

import { useEffect, useState } from "react";
import type { StoryFact, StoryRecord, WhyAnswer, WhyStep } from "../lib/answers";
import { address, fetched } from "../lib/api";
import { href, runHref } from "../lib/route";
import { inert } from "../lib/text";
import { count, duration, exact, size } from "../lib/time";
import { useAnswer } from "../lib/use";
import { ErrorCard, Pairs } from "./bits";
import { Icon } from "./icons";

const MOST = 100_000; // characters that are shown; copying takes all of them
const STEPS = 30; // of a way that are shown
const EVENT = ',"event":';

/** The event's own bytes, cut out of the frame; nothing is written anew. */
export function cut(page: string): { frame: string; event: string } | null {
  const begin = page.indexOf('"events":[') + 10;
  const frame = page.slice(begin, page.lastIndexOf("]}"));
  const at = frame.indexOf(EVENT);
  return at < 0 ? null : { frame, event: frame.slice(at + EVENT.length, -1) };
}

function useRaw(run: string, seq: number) {
  const [raw, setRaw] = useState<{ seq: number; text: string; trouble?: Error } | null>(null);
  useEffect(() => {
    const stop = new AbortController();
    fetched(address("/api/events", { limit: 1, after: seq - 1, run }), stop.signal)
      .then((response) => response.text())
      .then((page) => setRaw({ seq, text: cut(page)?.event ?? "pruned" }))
      .catch((trouble: Error) => stop.signal.aborted || setRaw({ seq, text: "", trouble }));
    return () => stop.abort();
  }, [run, seq]);
  return raw?.seq === seq ? raw : null;
}

interface Props {
  readonly family: string;
  readonly run: string;
  readonly seq: number;
  /** The record, if its content is in memory. */
  readonly record: StoryRecord | undefined;
  readonly close: () => void;
}

export function Detail({ family, run, seq, record, close }: Props) {
  const key = `${family}:${run}`;
  const raw = useRaw(key, seq);
  const why = useAnswer(address("/api/why", { run: key, seq, limit: STEPS }), "never");
  const [copied, setCopied] = useState(false);
  useEffect(() => setCopied(false), [seq]);
  const copy = async () => {
    await navigator.clipboard.writeText(raw?.text ?? "");
    setCopied(true);
  };
  return (
    <aside className="detail" aria-label={`Record ${seq}`}>
      <header>
        <h2>Why did this happen?</h2>
        <span className="soft grow">#{seq}</span>
        <button className="quiet" onClick={close} aria-label="Close the record">
          <Icon name="close" size={12} />
        </button>
      </header>
      {why.data && <p className="soft small">{exact(why.data.record.at ?? why.data.record.received)}</p>}
      {why.trouble && <ErrorCard trouble={why.trouble} again={why.again} />}
      {why.data && (
        <>
          <Chain title="Causes" steps={[...why.data.back].reverse()} left={why.data.left_out.back ?? 0} />
          {why.data.unseen.map((each) => (
            <p key={each.seq} className="waiting small">
              {inert(each.message)}
            </p>
          ))}
          <Chain title="It led to" steps={why.data.forward} left={why.data.left_out.forward ?? 0} />
          <section className="record-facts" aria-label="Facts of the record">
            <Pairs pairs={factsOf(why.data, record)} />
          </section>
        </>
      )}
      <div className="row">
        <h3 className="grow">Raw record</h3>
        <a className="button" href={href(["run", family, run, "waterfall"], { seq: String(seq) })}>
          In waterfall
        </a>
        {/* A browser lends its clipboard only to pages of this machine, or with a certificate. */}
        {isSecureContext && (
          <button onClick={() => void copy()} disabled={!raw?.text}>
            {copied ? "Copied" : "Copy"}
          </button>
        )}
      </div>
      {raw?.trouble ? (
        <ErrorCard trouble={raw.trouble} />
      ) : (
        <pre className="code raw" data-testid="raw" tabIndex={0}>
          {raw === null ? "…" : inert(raw.text.length > MOST ? `${raw.text.slice(0, MOST)}…` : raw.text)}
        </pre>
      )}
    </aside>
  );
}

/** What is known of a record, and whether its calls were made before. */
function factsOf({ record: step, seen_before: calls }: WhyAnswer, record: StoryRecord | undefined): [string, string][] {
  const of = (name: keyof StoryFact) =>
    record?.facts.find((fact) => fact[name] !== undefined && fact[name] !== null)?.[name];
  const seconds = of("seconds");
  const ok = of("ok");
  const facts: [string, string][] = [
    ["Record", `#${step.seq}${record ? `, ${size(record.bytes)}` : ""}`],
    ["Event", `${step.kind}${record ? `, ${record.dialect}` : ""}`],
    ["Agent", step.agent ?? ""],
    ["Tool", String(of("tool") ?? "")],
    ["Result", typeof ok === "boolean" ? (ok ? "ok" : "failed") : ""],
    ["Took", typeof seconds === "number" ? duration(seconds) : ""],
    ...calls.map((call): [string, string] => [
      "Seen before",
      `the same ${call.tool} call ${count(call.times)} times, first in #${call.first_seq}`,
    ]),
  ];
  return facts.filter(([, value]) => value).map(([name, value]) => [name, inert(value)]);
}

function Chain({ title, steps, left }: { title: string; steps: readonly WhyStep[]; left: number }) {
  if (!steps.length) return null;
  const shown = left ? [...steps.slice(0, STEPS / 2), null, ...steps.slice(STEPS / 2)] : steps;
  return (
    <section>
      <h3>{title}</h3>
      <ol className="chain small">
        {shown.map((step, n) =>
          step ? (
            <li key={step.seq}>
              <a href={runHref(step.family, step.run, { seq: step.seq })}>
                {step.prompt ? "prompt" : inert(step.kind)} {step.seq}
              </a>{" "}
              <span className="soft">{step.how === "order" ? "by order" : step.how}</span>{" "}
              <span className="cut">{inert(step.words)}</span>
            </li>
          ) : (
            <li key={`gap-${n}`} className="soft">
              {left} more
            </li>
          ),
        )}
      </ol>
    </section>
  );
}
