/** One record of a transcript: its facts in words, and its findings. */

import { memo, useState } from "react";
import type { FindingRow, StoryFact, StoryRecord, TurnRow } from "../lib/answers";
import { address } from "../lib/api";
import { runHref } from "../lib/route";
import type { RunRecords } from "../lib/run-records";
import { type Call, kindsOf } from "../lib/run-structure";
import { inert, TELLING, telling } from "../lib/text";
import { clock, duration, exact } from "../lib/time";
import { costOf, tokensOf } from "../lib/turns";
import { useAnswer } from "../lib/use";
import { Model, Text } from "./bits";
import { Blocks, plain, Value } from "./blocks";
import { Icon, StatusGlyph, toolIcon } from "./icons";
import { Preview, resultOf } from "./preview";

/** The run of a record, and the set of records that holds it. */
export interface Where {
  readonly family: string;
  readonly run: string;
  readonly runRecords: RunRecords;
  readonly choose: (seq: number) => void;
}

interface Props {
  readonly where: Where;
  readonly record: StoryRecord;
  /** How many of its calls have returned: a change makes it draw again. */
  readonly returned: number;
  readonly findings: readonly FindingRow[];
  readonly chosen: boolean;
  /** The turn that it is a part of, whether it is the first of it that is shown, and whether it is the last. */
  readonly turn: TurnRow | undefined;
  readonly begins: boolean;
  readonly ends: boolean;
}

export function returns(record: StoryRecord, runRecords: RunRecords): number {
  return record.facts.filter(
    (fact) => fact.fact === "Called" && runRecords.structure.call(fact, record.seq)?.returned !== undefined,
  ).length;
}

/** Drawn again only when it changed: scrolling draws what comes into view, and nothing else. */
export const Entry = memo(function Entry(props: Props) {
  const { where, record, findings, chosen, turn, begins, ends } = props;
  const [whole, setWhole] = useState(false);
  const { data } = useStoryOf(where, whole ? record.seq : null);
  const shown = data?.records[0] ?? record;
  const over = record.withdrawn ? "taken back" : record.superseded && "replaced by a later record";
  return (
    <article
      className={`entry ${railOf(record, where)}${turn ? " in-turn" : ""}${begins || !turn ? " begins" : ""}${ends ? " ends" : ""}${chosen ? " chosen" : ""}${over ? " over" : ""}`}
      aria-label={`record ${record.seq}`}
      id={`e${record.seq}`}
    >
      <button
        className="link soft small num seq"
        onClick={() => where.choose(record.seq)}
        title={exact(record.at ?? record.received)}
      >
        {begins && turn && <b>Turn {turn.turn}</b>}
        {clock(record.at ?? record.received)} <span className="unseen">{record.seq}</span>
      </button>
      <i className="rail" title={record.facts.map((fact) => fact.fact).join(", ")} />
      <div className="grow bubble">
        {begins && turn && <TurnHead turn={turn} />}
        {shown.facts.map((fact, n) => (
          <FactView key={n} fact={fact} record={shown} where={where} inTurn={turn !== undefined} />
        ))}
        {over && (
          <span className="chip" title="it is not counted">
            {over}
          </span>
        )}
        {record.erased ? (
          <Erased of={record.erased} />
        ) : (
          !record.facts.length && <span className="soft">{inert(record.kind)}</span>
        )}
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

/** In place of what was erased: when, by whom and why. */
function Erased({ of }: { of: NonNullable<StoryRecord["erased"]> }) {
  return (
    <p className="line soft" title={inert(of.reason)}>
      erased on {exact(of.at).slice(0, 10)} by <Text>{of.by}</Text>: <Text>{of.reason}</Text>
    </p>
  );
}

/** The colour of the rail beside a record: what kind of work it is. */
function railOf(record: StoryRecord, where: Where): string {
  const kinds = kindsOf(record);
  const failed = record.facts.some(
    (fact) => fact.fact === "Called" && where.runRecords.structure.call(fact, record.seq)?.ok === false,
  );
  if (failed || kinds.includes("failed")) return "k-fail";
  if (kinds.includes("waits")) return "k-wait";
  if (kinds.includes("tools")) return "k-tool";
  const [said] = record.facts.filter((fact) => fact.fact === "Said");
  if (said) return said.role === "assistant" ? "k-model" : said.role === "thought" ? "k-think" : "k-person";
  return record.facts.some((fact) => fact.fact === "Linked") ? "k-sub" : "k-other";
}

/** Who speaks in a turn, with which model, how much it read and wrote, how long it took and what it cost. */
function TurnHead({ turn }: { turn: TurnRow }) {
  const [tokens, cost] = [tokensOf(turn), costOf(turn)];
  return (
    <header className="turn-head">
      <Icon name="robot" size={14} />
      <strong>
        <Text>{turn.agent || "agent"}</Text>
      </strong>
      <span className="soft">
        <Model name={turn.model} />
      </span>
      <span className="grow" />
      {tokens && <span className="soft words">{tokens}</span>}
      {turn.seconds > 0 && <span>{duration(turn.seconds)}</span>}
      {cost && <span className="cost-chip">{cost}</span>}
    </header>
  );
}

/** One record with its full text; null asks nothing. */
function useStoryOf({ family, run }: Where, seq: number | null) {
  const asked = { family, run, after: (seq ?? 0) - 1, limit: 1, whole: true };
  return useAnswer(seq === null ? null : address("/api/runs/{family}/{run}/story", asked), "never");
}

interface FactProps {
  readonly fact: StoryFact;
  readonly record: StoryRecord;
  readonly where: Where;
  readonly inTurn: boolean;
}

function FactView({ fact, record, where, inTurn }: FactProps) {
  const agent = fact.agent ?? record.agent ?? "";
  switch (fact.fact) {
    case "Said":
      return <Saying fact={fact} agent={agent} />;
    case "Called":
      return <CallView fact={fact} record={record} agent={agent} where={where} />;
    case "Returned": {
      const here = record.facts.some(
        (each) =>
          each.fact === "Called" && each.call_id === fact.call_id && where.runRecords.structure.call(each, record.seq),
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
    case "Spent":
      // The head of its turn says it, too.
      return record.facts.length > 1 && inTurn ? null : <Line mark="·" fact={fact} className="soft small" />;
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
      <div className="who">
        <Text>{agent || role}</Text>{" "}
        {agent && role !== "assistant" && <span className="soft small">{inert(role)}</span>}
        {fidelities(fact).map((word) => (
          <Fidelity key={word} word={word} />
        ))}
        {fact.copied === true && <span className="soft small"> · repeated</span>}
      </div>
      <Blocks blocks={fact.blocks ?? []} />
    </section>
  );
}

/** How directly the content was observed, where the event says so: of the whole, else of its blocks. */
function fidelities(fact: StoryFact): string[] {
  const all = fact.fidelity ? [fact.fidelity] : (fact.blocks ?? []).map((block) => block.fidelity);
  return [...new Set(all.filter((each) => typeof each === "string"))];
}

function Fidelity({ word }: { word: string }) {
  return <span className="unseen"> {inert(word.replace("_", " "))}</span>;
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

/** What a call was given: its only argument, or the one that says most; else what its words say in brackets. */
export function argumentOf(fact: StoryFact): string {
  const given = typeof fact.input === "object" && fact.input !== null ? Object.values(fact.input) : [];
  const [only, ...more] = given;
  if (typeof only === "string" && !more.length) return only;
  const named = (fact.input ?? {}) as Record<string, unknown>;
  const most = TELLING.map((name) => named[name]).find((each) => typeof each === "string" && each);
  if (typeof most === "string") return most;
  if (Array.isArray(only) && !more.length && only.every((each) => typeof each === "string")) return only.join(", ");
  const list = more.length ? [] : only;
  if (Array.isArray(list) && list.length === 1) {
    const told = JSON.stringify(list);
    const inside = telling(told);
    if (inside !== told) return inside;
  }
  const [words, tool] = [String(fact.words ?? ""), String(fact.tool ?? "")];
  return words.startsWith(`${tool}(`) && words.endsWith(")") ? words.slice(tool.length + 1, -1) : "";
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
  const call = where.runRecords.structure.call(fact, record.seq);
  const failed = call?.ok === false;
  const result = call?.returned === undefined ? undefined : where.runRecords.held(call.returned);
  const returned = result?.facts.find((each) => each.call_id === fact.call_id);
  const summary = inert(resultOf(fact, returned));
  return (
    <>
      <details
        className={failed ? "call bad" : "call"}
        open={open}
        onToggle={(event) => setOpen(event.currentTarget.open)}
      >
        <summary>
          <Icon name={toolIcon(String(fact.tool))} size={13} />
          <span className="mono cut">
            <b>
              <Text>{String(fact.tool ?? fact.words)}</Text>
            </b>{" "}
            <Text>{argumentOf(fact)}</Text>
          </span>
          <span className="soft small call-more">
            {typeof fact.fidelity === "string" && <Fidelity word={fact.fidelity} />}
            {call && call.returned === undefined && "no result yet"}
            {!call && "repeated"}
            {failed ? (
              <span className="failed">
                <StatusGlyph status="failed" /> {summary || "failed"}
                {summary && <span className="unseen"> failed</span>}
              </span>
            ) : (
              summary && <span>{summary}</span>
            )}
            {call?.seconds !== undefined && <span className="num">{duration(call.seconds)}</span>}
            {agent && (
              <span className="unseen">
                {" "}
                <Text>{agent}</Text>
              </span>
            )}
          </span>
        </summary>
        {open && fact.input !== undefined && <pre className="code">{plain(fact.input)}</pre>}
        {open && call?.returned !== undefined && <Result call={call} fact={fact} record={record} where={where} />}
      </details>
      {!open && <Preview call={fact} result={returned} failed={failed} open={() => setOpen(true)} />}
    </>
  );
}

/** The result of a call; its record may be far away, and is then requested. */
function Result({ call, fact, record, where }: { call: Call; fact: StoryFact; record: StoryRecord; where: Where }) {
  const returned = call.returned ?? 0;
  const known = returned === record.seq ? record : where.runRecords.held(returned);
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
