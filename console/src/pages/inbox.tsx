/** Who waits for a person, the longest first; one question at a time with what led to it, and those of before. */

import { useContext, useRef, useState } from "react";
import type { InboxRow, StoryFact, StoryRecord } from "../lib/answers";
import { address } from "../lib/api";
import { InboxContext, isOpen, keyOf, useLooked } from "../lib/inbox";
import { go, href, runHref, setQuery, useRoute } from "../lib/route";
import { inert, start } from "../lib/text";
import { clock, cost, count, duration, exact } from "../lib/time";
import { useAnswer, useKeys, useNow } from "../lib/use";
import { Coded, Empty, ErrorCard, Pairs, Text } from "../parts/bits";
import { Blocks } from "../parts/blocks";
import { argumentOf } from "../parts/entry";
import { StatusGlyph } from "../parts/icons";
import { NotifyMe } from "../parts/notify";
import { previewOf } from "../parts/preview";
import { Asked, inWords, lapse, useWaiting } from "../parts/question";
import { AboutPage, Segmented, Tools } from "../parts/tools";

const BACK = 50; // records before a question in which the last words of the agent are looked for
const WIDE = 240; // characters of a line
const LISTED = 100; // of those that were answered
const STATES = { waiting: ["open"], answered: ["answered"], lapsed: ["expired", "abandoned"] } as const;
type Shown = keyof typeof STATES;

const isOf = (shown: Shown) => (question: InboxRow) => (STATES[shown] as readonly string[]).includes(question.state);

export default function Inbox() {
  const { data, trouble, again } = useContext(InboxContext);
  const { parts, query } = useRoute();
  const looked = useLooked();
  const [later, setLater] = useState<readonly string[]>([]);
  const shown = (Object.keys(STATES) as Shown[]).find((each) => each === query.get("state")) ?? "waiting";
  const all = data ?? [];
  const past = all
    .filter((question) => !looked.includes(question) && isOf(shown === "lapsed" ? "lapsed" : "answered")(question))
    .toSorted((a, b) => (b.answered_seq ?? b.asked_seq ?? 0) - (a.answered_seq ?? a.asked_seq ?? 0));
  const waiting = looked.toSorted((a, b) => later.indexOf(keyOf(a)) - later.indexOf(keyOf(b)));
  const list = shown === "waiting" ? [...waiting, ...past.slice(0, LISTED)] : past.slice(0, LISTED);
  const chosen =
    list.find((question) => [keyOf(question), question.question_id].includes(parts[1] ?? "")) ??
    (shown === "waiting" ? waiting[0] : list[0]);
  const show = (question: InboxRow | undefined) =>
    question && go(href(["inbox", keyOf(question)], { state: shown === "waiting" ? "" : shown }));
  const stepped = useRef(false); // who goes through the list goes on with its keys
  const step = (by: number) => {
    stepped.current = true;
    const here = chosen ? list.indexOf(chosen) : -1;
    show(list[Math.min(Math.max(here + by, 0), list.length - 1)]);
  };
  const press = (n: number) => document.querySelectorAll<HTMLElement>(".inbox-detail [data-choice]")[n]?.click();
  useKeys({
    j: () => step(1),
    k: () => step(-1),
    r: () => document.querySelector<HTMLElement>(".inbox-detail textarea")?.focus(),
    o: () => chosen && go(runHref(chosen.family, chosen.run, { seq: chosen.asked_seq ?? "" })),
    z: () => chosen && setLater((old) => [...old.filter((each) => each !== keyOf(chosen)), keyOf(chosen)]),
    ...Object.fromEntries(Array.from({ length: 9 }, (_, n) => [String(n + 1), () => press(n)])),
  });
  if (trouble && !data) return <ErrorCard trouble={trouble} again={again} />;
  const open = all.filter(isOpen).length;
  return (
    <div className="inbox">
      <AboutPage>
        {open > 0 && (
          <>
            {count(open)} {open === 1 ? "waits" : "wait"}, longest <Longest question={waiting[0]} />
          </>
        )}
      </AboutPage>
      <Tools>
        <Segmented
          label="Questions"
          value={shown}
          options={[
            ["waiting", `Waiting ${open}`],
            ["answered", "Answered"],
            ["lapsed", "Lapsed"],
          ]}
          onChange={(next) => setQuery({ state: next === "waiting" ? "" : next })}
        />
        <NotifyMe />
      </Tools>
      <section className="inbox-list" aria-labelledby="inbox-title">
        <h1 id="inbox-title" className="unseen">
          Inbox
        </h1>
        <ul>
          {list.map((question, n) => (
            <li key={keyOf(question)}>
              {shown === "waiting" && n === waiting.length && (
                <h2 className="before-head">
                  {past.every(isToday) ? "Answered today" : "Answered"}{" "}
                  <span className="soft">{count(past.length)}</span>
                </h2>
              )}
              <a
                href={href(["inbox", keyOf(question)], { state: shown === "waiting" ? "" : shown })}
                aria-current={question === chosen ? "true" : undefined}
              >
                <Item question={question} />
              </a>
            </li>
          ))}
        </ul>
      </section>
      <section className="inbox-detail" aria-label="The chosen question">
        {chosen ? (
          <Asked key={keyOf(chosen)} question={chosen} focus={!stepped.current && !chosen.options.length} context>
            <Leading question={chosen} />
          </Asked>
        ) : (
          data && <Empty title="Nobody waits for you." run={"tracklog inbox        # the same in a terminal"} />
        )}
        <p className="inbox-keys soft">
          <kbd>J</kbd> <kbd>K</kbd> next, previous <kbd>1</kbd>–<kbd>9</kbd> choose <kbd>R</kbd> reply <kbd>O</kbd> open
          the run <kbd>Z</kbd> later <span className="grow" /> 5 s to undo before it is sent
        </p>
      </section>
    </div>
  );
}

function Longest({ question }: { question: InboxRow | undefined }) {
  return useWaiting(question?.waiting_seconds ?? null, true);
}

function Item({ question }: { question: InboxRow }) {
  const waited = useWaiting(question.waiting_seconds, true);
  const open = isOpen(question);
  return (
    <>
      <span className="inbox-line">
        <StatusGlyph status={open ? "waiting" : question.state === "answered" ? "done" : "lost"} />
        {open && <span className="waiting">{waited}</span>}
        {!open && (
          <b className="cut">
            <Coded>{question.text ?? question.question_id}</Coded>
          </b>
        )}
        <span className="grow" />
        <span className="soft">{open ? <Text>{question.what}</Text> : whenOf(question)}</span>
      </span>
      {open && (
        <b>
          <Coded>{question.text ?? question.question_id}</Coded>
        </b>
      )}
      <span className="soft small cut">
        {open ? (
          <Text>{[question.agent, question.title ?? question.run].filter(Boolean).join(" in ")}</Text>
        ) : (
          <Text>
            {question.state === "answered"
              ? [
                  question.answer && `“${start(inWords(question.answer), 80)}”`,
                  [
                    question.answered_by.join(", "),
                    question.waiting_seconds !== null && `after ${duration(question.waiting_seconds)}`,
                  ]
                    .filter(Boolean)
                    .join(", "),
                ]
                  .filter(Boolean)
                  .join(" · ")
              : lapse(question)}
          </Text>
        )}
      </span>
    </>
  );
}

const isToday = ({ answered_at: at }: InboxRow): boolean =>
  at !== null && new Date(at).toDateString() === new Date().toDateString();

/** When a question was settled: the time of today, or the day. */
function whenOf(question: InboxRow): string {
  const at = question.answered_at ?? question.lapses_at ?? question.asked_at;
  if (!at) return "";
  return new Date(at).toDateString() === new Date().toDateString() ? clock(at).slice(0, 5) : exact(at).slice(5, 10);
}

/** What a question holds up: its run, who waits, until when, and what was answered before. */
function Stopped({ question }: { question: InboxRow }) {
  const { family, run, times_asked: times, alike, lapses_at: lapses } = question;
  const { data } = useAnswer(address("/api/runs/{family}/{run}", { family, run }), { family, run });
  const now = useNow();
  const left = lapses === null ? null : (Date.parse(lapses) - now) / 1000;
  const given = Object.entries(alike).map(([answer, many]) => `${start(inWords(answer), 30)} ${count(many)} times`);
  const facts: [string, string][] = [
    ["Run", data ? `${duration(data.seconds ?? data.age_seconds)}, ${cost(data)}` : "…"],
    ["Blocked", question.agent ?? (data?.agents.join(", ") || "the run")],
    ["Lapses", left === null ? "never" : left > 0 ? `in ${duration(Math.floor(left))}` : "it has"],
    ["Like it", given.join(", ") || "never answered before"],
    ...(times > 1 ? [["Asked", `${count(times)} times`] as [string, string]] : []),
  ];
  return (
    <section className="stopped" aria-labelledby="what-stops">
      <h3 id="what-stops">What it stops</h3>
      <Pairs pairs={facts} />
    </section>
  );
}

/** What the question holds up, what it asks leave for, and what was said before it. */
function Leading({ question }: { question: InboxRow }) {
  const { family, run, asked_seq: seq } = question;
  const asked = { family, run, before: (seq ?? 0) + 1, limit: BACK };
  const { data } = useAnswer(seq === null ? null : address("/api/runs/{family}/{run}/story", asked), "never");
  return (
    <>
      <div className="stopped-side">
        <Stopped question={question} />
        <Wanted question={question} records={data?.records} />
      </div>
      <SaidLast question={question} records={data?.records} />
    </>
  );
}

interface Before {
  readonly question: InboxRow;
  /** The records before the question, as far as they are known. */
  readonly records: readonly StoryRecord[] | undefined;
}

/** The call that waits for leave: what it would do. */
function Wanted({ question, records }: Before) {
  const call = question.call_id;
  const fact = records
    ?.flatMap((record) => record.facts)
    .findLast((each) => call !== null && each.fact === "Called" && each.call_id === call);
  if (!fact) return null;
  const { lines } = previewOf(fact, undefined, false);
  return (
    <section aria-labelledby="what-wants">
      <h3 id="what-wants">What it wants to do</h3>
      <pre className="code">
        <b>{inert(String(fact.tool ?? ""))}</b> {inert(argumentOf(fact))}
        {lines.map((line, n) => (
          <span key={n} className={line.kind}>
            {"\n"}
            {inert(start(line.text, WIDE))}
          </span>
        ))}
      </pre>
    </section>
  );
}

/** The last words of the agent before it asked. */
function SaidLast({ question, records }: Before) {
  const { family, run, agent } = question;
  const isSaid = (fact: StoryFact) => fact.fact === "Said" && fact.role === "assistant";
  const record = records?.findLast((each) => each.facts.some(isSaid));
  const said = record?.facts.find(isSaid);
  if (!record || !said) return null;
  return (
    <section className="said-last" aria-label="What the agent said last">
      <h3>
        What <Text>{agent ?? record.agent ?? "the agent"}</Text> said last
      </h3>
      <div>
        <Blocks blocks={said.blocks ?? []} />
        <p className="row small">
          <span className="soft grow">
            {clock(record.at ?? record.received)}, #{record.seq}
          </span>
          <a href={runHref(family, run, { seq: record.seq })}>Open at this moment</a>
        </p>
      </div>
    </section>
  );
}
