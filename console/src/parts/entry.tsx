/** One record of a transcript: what it means, in words, and what was found amiss in it. */

import { memo, useState } from "react";
import { type Fact, type Finding, runPath, type Story, type Told } from "../lib/api";
import type { Book } from "../lib/book";
import { runHref } from "../lib/route";
import type { Call } from "../lib/shape";
import { inert } from "../lib/text";
import { clock, duration, exact } from "../lib/time";
import { useAnswer } from "../lib/use";
import { Text } from "./bits";
import { type Block, Blocks, plain, Value } from "./blocks";

/** Where a record is told: its run, and the book it stands in. */
export interface Where {
  readonly family: string;
  readonly run: string;
  readonly book: Book;
  readonly choose: (seq: number) => void;
}

interface Props {
  readonly where: Where;
  readonly told: Told;
  /** How many of its calls have returned: then there is more to show. */
  readonly returned: number;
  readonly amiss: readonly Finding[];
  readonly chosen: boolean;
}

export function returns(told: Told, book: Book): number {
  return told.facts.filter(
    (fact) => fact.fact === "Called" && book.shaping.call(fact, told.seq)?.returned !== undefined,
  ).length;
}

/** Drawn again only when it changed: scrolling draws what comes into view, and nothing else. */
export const Entry = memo(function Entry({ where, told, amiss, chosen }: Props) {
  const [whole, setWhole] = useState(false);
  const { data } = useStoryOf(where, whole ? told.seq : null);
  const shown = data?.records[0] ?? told;
  const over = told.withdrawn ? "taken back" : told.superseded && "told again later";
  return (
    <article
      className={`entry${chosen ? " chosen" : ""}${over ? " over" : ""}`}
      aria-label={`record ${told.seq}`}
      id={`e${told.seq}`}
    >
      <button
        className="link soft small num seq"
        onClick={() => where.choose(told.seq)}
        title={exact(told.at ?? told.received)}
      >
        {clock(told.at ?? told.received)} <span className="soft">{told.seq}</span>
      </button>
      <div className="grow">
        {shown.facts.map((fact, n) => (
          <FactView key={n} fact={fact} told={shown} where={where} />
        ))}
        {over && (
          <span className="chip" title="it counts no more">
            {over}
          </span>
        )}
        {!told.facts.length && <span className="soft">{inert(told.kind)}</span>}
        {told.cut && !data && (
          <button className="link small" onClick={() => setWhole(true)}>
            {whole ? "reading the rest …" : "it goes on: show all of it"}
          </button>
        )}
        {amiss.map((finding, n) => (
          <p key={n} className={`finding ${finding.level === "error" ? "failed" : "waiting"}`}>
            <span aria-hidden="true">⚠ </span>
            {inert(finding.name)}: {inert(finding.message)}
          </p>
        ))}
      </div>
    </article>
  );
});

/** One record with all its words; null asks nothing. */
function useStoryOf({ family, run }: Where, seq: number | null) {
  const path = seq === null ? null : runPath(family, run, `/story?after=${seq - 1}&limit=1&whole=true`);
  return useAnswer<Story>(path, "never");
}

function FactView({ fact, told, where }: { fact: Fact; told: Told; where: Where }) {
  const agent = fact.agent ?? told.agent ?? "";
  switch (fact.fact) {
    case "Said":
      return <Saying fact={fact} agent={agent} />;
    case "Called":
      return <CallView fact={fact} told={told} agent={agent} where={where} />;
    case "Returned": {
      const here = told.facts.some(
        (each) => each.fact === "Called" && each.call_id === fact.call_id && where.book.shaping.call(each, told.seq),
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

function Saying({ fact, agent }: { fact: Fact; agent: string }) {
  const role = String(fact.role);
  return (
    <section className={`said ${role}`}>
      <h3>
        <Text>{agent || role}</Text>{" "}
        {agent && role !== "assistant" && <span className="soft small">{inert(role)}</span>}
        {fidelities(fact).map((word) => (
          <Fidelity key={word} word={word} />
        ))}
        {fact.copied === true && <span className="soft small"> · told again</span>}
      </h3>
      <Blocks blocks={(fact.blocks ?? []) as Block[]} />
    </section>
  );
}

/** How directly it was seen, where that was told: of all of it, else of its blocks. */
function fidelities(fact: Fact): string[] {
  const blocks = (fact.blocks ?? []) as { fidelity?: unknown }[];
  const all = typeof fact.fidelity === "string" ? [fact.fidelity] : blocks.map((block) => block.fidelity);
  return [...new Set(all.filter((each) => typeof each === "string"))];
}

function Fidelity({ word }: { word: string }) {
  return (
    <span className="chip" title="how directly it was seen">
      {inert(word.replace("_", " "))}
    </span>
  );
}

export function Line({ mark, fact, className = "" }: { mark: string; fact: Fact; className?: string }) {
  return (
    <p className={`line ${className}`}>
      <span aria-hidden="true">{mark} </span>
      <Text>{fact.words || fact.fact}</Text>
    </p>
  );
}

function LinkLine({ fact, family }: { fact: Fact; family: string }) {
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

function CallView({ fact, told, agent, where }: { fact: Fact; told: Told; agent: string; where: Where }) {
  const [open, setOpen] = useState(false);
  const call = where.book.shaping.call(fact, told.seq);
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
          {call && call.returned === undefined && " · no result heard"}
          {!call && " · told again"}
          {call?.seconds !== undefined && ` · ${duration(call.seconds)}`}
          {failed && <span className="failed"> · failed</span>}
        </span>
      </summary>
      {open && fact.input !== undefined && <pre className="code">{plain(fact.input)}</pre>}
      {open && call?.returned !== undefined && <Result call={call} fact={fact} told={told} where={where} />}
    </details>
  );
}

/** What a call came to; it may stand in a record far away, which is asked for then. */
function Result({ call, fact, told, where }: { call: Call; fact: Fact; told: Told; where: Where }) {
  const returned = call.returned ?? 0;
  const here = returned === told.seq ? told : where.book.held(returned);
  const { data } = useStoryOf(where, here && !here.cut ? null : returned);
  const record = data?.records[0] ?? here;
  const result = record?.facts.find((each) => each.fact === "Returned" && each.call_id === fact.call_id);
  return (
    <>
      {result ? <Value value={result.error ?? result.output ?? result.status} /> : <p className="soft small">…</p>}
      {returned !== told.seq && (
        <button className="link small" onClick={() => where.choose(returned)}>
          the result is record {returned}
        </button>
      )}
    </>
  );
}
