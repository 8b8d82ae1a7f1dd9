/** One record, from all sides: its bytes, what led to it, and what came of it. */

import { useEffect, useState } from "react";
import type { StoryFact, StoryRecord, WhyAnswer, WhyStep } from "../lib/answers";
import { address, fetched } from "../lib/api";
import { href } from "../lib/route";
import { inert } from "../lib/text";
import { count, duration, exact, size } from "../lib/time";
import { useAnswer } from "../lib/use";
import { ErrorCard, Pairs } from "./bits";
import { Icon } from "./icons";
import { previewOf } from "./preview";
import { telling, WhySteps } from "./why-steps";

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
  const [shown, show] = useState(false);
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
        <kbd>W</kbd>
        <button className="quiet" onClick={close} aria-label="Close the record">
          <Icon name="close" size={12} />
        </button>
      </header>
      {why.trouble && <ErrorCard trouble={why.trouble} again={why.again} />}
      {why.data && (
        <>
          <Causes key={seq} why={why.data} record={record} />
          {why.data.unseen.map((each) => (
            <p key={each.seq} className="waiting small">
              {inert(each.message)}
            </p>
          ))}
          <Effects key={-seq} why={why.data} />
          <section className="record-facts" aria-label="Facts of the record">
            <Pairs pairs={factsOf(why.data, record)} />
          </section>
        </>
      )}
      {shown &&
        (raw?.trouble ? (
          <ErrorCard trouble={raw.trouble} />
        ) : (
          <pre className="code raw" data-testid="raw" tabIndex={0}>
            {raw === null ? "…" : inert(raw.text.length > MOST ? `${raw.text.slice(0, MOST)}…` : raw.text)}
          </pre>
        ))}
      <footer>
        <button aria-expanded={shown} onClick={() => show(!shown)}>
          Raw record
        </button>
        <a className="button" href={href(["run", family, run, "waterfall"], { seq: String(seq) })}>
          In waterfall
        </a>
        {/* A browser lends its clipboard only to pages of this machine, or with a certificate. */}
        {isSecureContext && (
          <button className="copy-link" onClick={() => void copy()} disabled={!raw?.text}>
            <Icon name="link" size={13} /> {copied ? "Copied" : "Copy"}
          </button>
        )}
      </footer>
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
    ["At", exact(step.at ?? step.received)],
    ["Event", `${step.kind}${record ? `, ${record.dialect}` : ""}`],
    ["Agent", step.agent ?? ""],
    ["Tool", String(of("tool") ?? "")],
    ["Result", typeof ok === "boolean" ? (ok ? "ok" : "failed") : ""],
    ["Exit code", String(of("exit_code") ?? "")],
    ["Known by", String(of("fidelity") ?? "")],
    ["Took", typeof seconds === "number" ? duration(seconds) : ""],
    ...calls.map((call): [string, string] => [
      "Seen before",
      `the same ${call.tool} call ${count(call.times)} times, first in #${call.first_seq}`,
    ]),
  ];
  return facts.filter(([, value]) => value).map(([name, value]) => [name, inert(value)]);
}

const FEW = 5; // causes that are shown at first
const NEXT = 3; // effects that are shown at first

/** What led to the record: what explains it, or all of it. */
function Causes({ why, record }: { why: WhyAnswer; record: StoryRecord | undefined }) {
  const [all, setAll] = useState(false);
  const steps = [...why.back].reverse();
  const told = telling(steps);
  const short = told.length > FEW ? [...told.slice(0, 1), ...told.slice(1 - FEW)] : told;
  const hidden = steps.length + (why.left_out.back ?? 0) - short.length;
  if (!steps.length) return null;
  return (
    <section aria-label="Causes">
      <h3 className="unseen">Causes</h3>
      <WhySteps
        steps={all ? steps : [...short, inShort(why.record, record)]}
        label="What led to it"
        left={all ? (why.left_out.back ?? 0) : 0}
        after={STEPS / 2}
      />
      {!all && hidden > 0 && (
        <button className="link small" onClick={() => setAll(true)}>
          {count(hidden)} more on the way
        </button>
      )}
    </section>
  );
}

/** Of the result of a failed call, the line that says why, and its exit code. */
function inShort(step: WhyStep, record: StoryRecord | undefined): WhyStep {
  const result = record?.facts.find((fact) => fact.fact === "Returned" && fact.ok === false);
  const [line] = result ? previewOf({}, result, true).lines : [];
  const tool = /^\S+ failed: /.exec(step.words)?.[0];
  if (!result || !line || !tool) return step;
  const code = typeof result.exit_code === "number" ? `, exit code ${result.exit_code}` : "";
  return { ...step, words: `${tool}${line.text.trim()}${code}` };
}

/** What came of the record. */
function Effects({ why }: { why: WhyAnswer }) {
  const [all, setAll] = useState(false);
  const told = all ? why.forward : telling(why.forward).slice(0, NEXT);
  const steps = told.length ? told : why.forward.slice(0, NEXT);
  const hidden = why.forward.length + (why.left_out.forward ?? 0) - steps.length;
  if (!steps.length) return null;
  return (
    <section className="led-to">
      <h3>It led to</h3>
      <WhySteps steps={steps} label="What came of it" left={all ? (why.left_out.forward ?? 0) : 0} after={STEPS / 2} />
      {!all && hidden > 0 && (
        <button className="link small" onClick={() => setAll(true)}>
          and {count(hidden)} more {hidden === 1 ? "record" : "records"}
        </button>
      )}
    </section>
  );
}
