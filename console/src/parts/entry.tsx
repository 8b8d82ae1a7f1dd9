/** One record of a transcript: its facts in words, and its findings. */

import { memo, useState } from "react";
import type { FindingRow, StoryFact, StoryRecord } from "../lib/answers";
import { address } from "../lib/api";
import type { Book } from "../lib/book";
import { runHref } from "../lib/route";
import type { Call } from "../lib/shape";
import { inert } from "../lib/text";
import { clock, duration, exact } from "../lib/time";
import { useAnswer } from "../lib/use";
import { Text } from "./bits";
import { type Block, Blocks, plain, Value } from "./blocks";

/** The run of a record, and the book that holds it. */
export interface Where {
  readonly family: string;
  readonly run: string;
  readonly book: Book;
  readonly choose: (seq: number) => void;
}

interface Props {
  readonly where: Where;
  readonly record: StoryRecord;
  /** How many of its calls have returned: a change makes it draw again. */
  readonly returned: number;
  readonly findings: readonly FindingRow[];
  readonly chosen: boolean;
}

export function returns(record: StoryRecord, book: Book): number {
  return record.facts.filter(
    (fact) => fact.fact === "Called" && book.shaping.call(fact, record.seq)?.returned !== undefined,
  ).length;
}

/** Drawn again only when it changed: scrolling draws what comes into view, and nothing else. */
export const Entry = memo(function Entry({ where, record, findings, chosen }: Props) {
  const [whole, setWhole] = useState(false);
  const { data } = useStoryOf(where, whole ? record.seq : null);
  const shown = data?.records[0] ?? record;
  const over = record.withdrawn ? "taken back" : record.superseded && "replaced by a later record";
  return (
    <article
      className={`entry${chosen ? " chosen" : ""}${over ? " over" : ""}`}
      aria-label={`record ${record.seq}`}
      id={`e${record.seq}`}
    >
      <button
        className="link soft small num seq"
        onClick={() => where.choose(record.seq)}
        title={exact(record.at ?? record.received)}
      >
        {clock(record.at ?? record.received)} <span className="soft">{record.seq}</span>
      </button>
      <div className="grow">
        {shown.facts.map((fact, n) => (
          <FactView key={n} fact={fact} record={shown} where={where} />
        ))}
        {over && (
          <span className="chip" title="it is not counted">
            {over}
          </span>
        )}
        {!record.facts.length && <span className="soft">{inert(record.kind)}</span>}
        {record.cut && !data && (
          <button className="link small" onClick={() => setWhole(true)}>
            {whole ? "loading …" : "show all of it"}
          </button>
        )}
        {findings.map((finding, n) => (
          <p key={n} className={`finding ${finding.level === "error" ? "failed" : "waiting"}`}>
            <span aria-hidden="true">⚠ </span>
            {inert(finding.name)}: {inert(finding.message)}
          </p>
        ))}
      </div>
    </article>
  );
});

/** One record with its full text; null asks nothing. */
function useStoryOf({ family, run }: Where, seq: number | null) {
  const asked = { family, run, after: (seq ?? 0) - 1, limit: 1, whole: true };
  return useAnswer(seq === null ? null : address("/api/runs/{family}/{run}/story", asked), "never");
}

function FactView({ fact, record, where }: { fact: StoryFact; record: StoryRecord; where: Where }) {
  const agent = fact.agent ?? record.agent ?? "";
  switch (fact.fact) {
    case "Said":
      return <Saying fact={fact} agent={agent} />;
    case "Called":
      return <CallView fact={fact} record={record} agent={agent} where={where} />;
    case "Returned": {
      const here = record.facts.some(
        (each) => each.fact === "Called" && each.call_id === fact.call_id && where.book.shaping.call(each, record.seq),
      );
      return here ? null : <Line mark="←" fact={fact} className={fact.ok === false ? "failed" : ""} />;
    }
    case "Asked":
      return <Line mark="?" fact={fact} className="waiting" />;
    case "Answered":
      return <Line mark="!" fact={fact} className="done" />;
    case "Decided":
      return <Line mark="◆" fact={fact} />;
    case "Moved":
      return <Line mark="·" fact={fact} className="soft" />;
    case "Began":
      return <Line mark="▸" fact={fact} className="strong" />;
    case "Ended":
      return <Line mark="■" fact={fact} className={fact.passed === false ? "strong failed" : "strong"} />;
    case "Linked":
      return <LinkLine fact={fact} family={where.family} />;
    default:
      return <Line mark="·" fact={fact} className="soft small" />;
  }
}

function Saying({ fact, agent }: { fact: StoryFact; agent: string }) {
  const role = String(fact.role);
  return (
    <section className={`said ${role}`}>
      <h3>
        <Text>{agent || role}</Text>{" "}
        {agent && role !== "assistant" && <span className="soft small">{inert(role)}</span>}
        {fidelities(fact).map((word) => (
          <Fidelity key={word} word={word} />
        ))}
        {fact.copied === true && <span className="soft small"> · repeated</span>}
      </h3>
      <Blocks blocks={(fact.blocks ?? []) as Block[]} />
    </section>
  );
}

/** How directly the content was observed, where the event says so: of the whole, else of its blocks. */
function fidelities(fact: StoryFact): string[] {
  const blocks = (fact.blocks ?? []) as { fidelity?: unknown }[];
  const all = typeof fact.fidelity === "string" ? [fact.fidelity] : blocks.map((block) => block.fidelity);
  return [...new Set(all.filter((each) => typeof each === "string"))];
}

function Fidelity({ word }: { word: string }) {
  return (
    <span className="chip" title="how directly this was observed">
      {inert(word.replace("_", " "))}
    </span>
  );
}

export function Line({ mark, fact, className = "" }: { mark: string; fact: StoryFact; className?: string }) {
  return (
    <p className={`line ${className}`}>
      <span aria-hidden="true">{mark} </span>
      <Text>{fact.words || fact.fact}</Text>
    </p>
  );
}

function LinkLine({ fact, family }: { fact: StoryFact; family: string }) {
  const end = (fact.child ?? fact.parent ?? fact.other) as string | { family?: string; run?: string } | undefined;
  const run = typeof end === "string" ? end : end?.run;
  const of = typeof end === "object" ? (end.family ?? family) : family;
  return (
    <p className="line">
      <span aria-hidden="true">⤷ </span>
      {run ? (
        <a href={runHref(of, run)}>
          <Text>{fact.words}</Text>
        </a>
      ) : (
        <Text>{fact.words}</Text>
      )}
    </p>
  );
}

function CallView({
  fact,
  record,
  agent,
  where,
}: {
  fact: StoryFact;
  record: StoryRecord;
  agent: string;
  where: Where;
}) {
  const [open, setOpen] = useState(false);
  const call = where.book.shaping.call(fact, record.seq);
  const failed = call?.ok === false;
  return (
    <details className={failed ? "call bad" : "call"} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <span className="mono">
          <Text>{fact.words || String(fact.tool)}</Text>
        </span>{" "}
        <span className="soft small">
          {agent && <Text>{agent}</Text>}
          {typeof fact.fidelity === "string" && <Fidelity word={fact.fidelity} />}
          {call && call.returned === undefined && " · no result yet"}
          {!call && " · repeated"}
          {call?.seconds !== undefined && ` · ${duration(call.seconds)}`}
          {failed && <span className="failed"> · failed</span>}
        </span>
      </summary>
      {open && fact.input !== undefined && <pre className="code">{plain(fact.input)}</pre>}
      {open && call?.returned !== undefined && <Result call={call} fact={fact} record={record} where={where} />}
    </details>
  );
}

/** The result of a call; its record may be far away, and is then requested. */
function Result({ call, fact, record, where }: { call: Call; fact: StoryFact; record: StoryRecord; where: Where }) {
  const returned = call.returned ?? 0;
  const known = returned === record.seq ? record : where.book.held(returned);
  const { data } = useStoryOf(where, known && !known.cut ? null : returned);
  const result = (data?.records[0] ?? known)?.facts.find(
    (each) => each.fact === "Returned" && each.call_id === fact.call_id,
  );
  return (
    <>
      {result ? <Value value={result.error ?? result.output ?? result.status} /> : <p className="soft small">…</p>}
      {returned !== record.seq && (
        <button className="link small" onClick={() => where.choose(returned)}>
          result: record {returned}
        </button>
      )}
    </>
  );
}
