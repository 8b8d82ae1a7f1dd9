/** One run: what happened, when, why, and its state at any record. */

import { useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import type { FindingRow } from "../lib/answers";
import { address, Trouble } from "../lib/api";
import { type Book, lowerBound, useBook } from "../lib/book";
import { keyOf, useLooked } from "../lib/inbox";
import { runHref, setQuery, useRoute } from "../lib/route";
import { inert } from "../lib/text";
import { clock, cost, count, exact } from "../lib/time";
import { useAnswer, useKeys, useLast } from "../lib/use";
import { outcomeOf, Sorry, StatusMark, Text } from "../parts/bits";
import { Detail } from "../parts/detail";
import { Lifecycle } from "../parts/lifecycle";
import { Asked } from "../parts/question";
import { Stage } from "../parts/stage";
import { Summary } from "../parts/summary";
import { Timeline } from "../parts/timeline";
import { Transcript } from "../parts/transcript";

const VIEWS = ["transcript", "timeline", "stage", "lifecycle", "findings", "tree"] as const;
type View = (typeof VIEWS)[number];
const ILLEGAL = "illegal-transition";
const LISTED = 1000; // findings
const PATIENCE = 2500; // milliseconds
const STEADY = 150; // milliseconds between two moments that are asked for while the slider is drawn
const STAGED = ["world", "belief", "note"]; // what is said on a stage, and nowhere else

const choose = (seq: number) => setQuery({ seq: seq ? String(seq) : "" });
const show = (view: View) => setQuery({ view: view === "transcript" ? "" : view }, true);

export default function RunPage() {
  const { parts, query } = useRoute();
  const [, family = "", run = ""] = parts;
  const [seq = 0, at = 0] = ["seq", "at"].map((name) => Math.max(Number(query.get(name)) || 0, 0));
  const view = VIEWS.find((name) => name === query.get("view")) ?? "transcript";
  const drawn = useDeferredValue(view); // the tab answers at once, what it shows follows
  const key = `${family}:${run}`;
  const summary = useAnswer(
    address("/api/runs/{family}/{run}", { family, run, ...(at ? { at } : {}) }),
    at ? "never" : { family, run },
  );
  const found = useAnswer(address("/api/findings", { limit: 10_000, run: key }), { family, run });
  const findings = useMemo(() => (found.data ?? []).filter((each) => !at || each.seq <= at), [found.data, at]);
  const shown = useLast(summary.data);
  // What goes on is opened at its end, what is over at its beginning, a link at its record.
  const opened = useRef<number | null>(seq ? 0 : null);
  const patient = usePatience();
  if (shown || !patient) opened.current ??= !shown || shown.ended || at ? 0 : shown.last_seq;
  const read = useBook(family, run, opened.current === null ? null : seq || opened.current);
  const { book, version, reading, trouble } = read;
  const place = useRef<number | null>(null);
  const asked = useLooked().filter((each) => !at && each.family === family && each.run === run);
  const told = read.glimpse ?? book;
  const where = useMemo(() => ({ family, run, book: told, choose }), [family, run, told]);
  const views = VIEWS.filter(
    (name) => name !== "stage" || shown?.stage || STAGED.some((role) => book.shaping.roles.has(role)),
  );
  const failures = book.shaping.failures.slice(0, at ? lowerBound(book.shaping.failures, at + 1) : undefined);
  const fail = () => choose(failures[lowerBound(failures, seq + 1)] ?? failures[0] ?? 0);
  useKeys({
    ...Object.fromEntries(views.map((name, n) => [String(n + 1), () => show(name)])),
    f: fail,
    Escape: () => (seq ? choose(0) : history.back()),
  });
  if (summary.trouble && !shown) return <Sorry trouble={summary.trouble} />;
  return (
    <div className="stack run-page">
      {asked.map((question) => (
        <Asked key={keyOf(question)} question={question} />
      ))}
      {shown && <Summary run={shown} at={at} records={reading ? null : book.seqs.length} />}
      <div className="tabs">
        <Tabs views={views} view={view} findings={findings.length} />
        <span className="soft small" role="status">
          {count(book.seqs.length)} {book.seqs.length === 1 ? "record" : "records"}
          {reading ? ", loading …" : ""}
        </span>
        {failures.length > 0 && (
          <button className="link small failed" onClick={fail} title="go to the next failure  f">
            {count(failures.length)} failed
          </button>
        )}
        <Slider book={book} at={at} end={reading ? (shown?.last_seq ?? 0) : 0} />
      </div>
      {trouble instanceof Trouble && <Sorry trouble={trouble} />}
      <div className={seq ? "view split" : "view"}>
        <div id="view" role="tabpanel" aria-labelledby={`tab-${drawn}`}>
          {drawn === "transcript" && opened.current !== null && (
            <Transcript
              key={key}
              where={where}
              read={read}
              findings={findings}
              seq={seq}
              at={at}
              opened={opened.current}
              place={place}
            />
          )}
          {drawn === "timeline" && (
            <Timeline
              book={book}
              version={version}
              over={at > 0 || shown?.ended !== false}
              chosen={seq}
              reading={place.current ?? opened.current ?? 0}
              at={at}
              choose={choose}
            />
          )}
          {drawn === "stage" && <Stage read={read} shown={shown} at={at} choose={choose} />}
          {drawn === "lifecycle" && <LifecycleView book={book} version={version} findings={findings} at={at} />}
          {drawn === "findings" && <Findings findings={findings} />}
          {drawn === "tree" && <Tree family={family} run={run} />}
        </div>
        {seq > 0 && <Detail family={family} run={run} seq={seq} close={() => choose(0)} />}
      </div>
    </div>
  );
}

/** Whether it is too early to go on without an answer; an index may have much to catch up with. */
function usePatience(): boolean {
  const [patient, setPatient] = useState(true);
  useEffect(() => {
    const timer = setTimeout(() => setPatient(false), PATIENCE);
    return () => clearTimeout(timer);
  }, []);
  return patient;
}

function Tabs({ views, view, findings }: { views: readonly View[]; view: View; findings: number }) {
  const move = useCallback(
    (name: View, by: number) => {
      const next = views[(views.indexOf(name) + by + views.length) % views.length];
      if (!next) return;
      show(next);
      document.getElementById(`tab-${next}`)?.focus();
    },
    [views],
  );
  return (
    <div role="tablist" aria-label="Views">
      {views.map((name) => (
        <button
          key={name}
          role="tab"
          id={`tab-${name}`}
          aria-selected={view === name}
          aria-controls="view"
          tabIndex={view === name ? 0 : -1}
          onKeyDown={(event) => {
            const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
            if (!by) return;
            event.preventDefault();
            move(name, by);
          }}
          onClick={() => show(name)}
        >
          {name}
          {name === "findings" && findings > 0 && <span className="badge">{findings}</span>}
        </button>
      ))}
    </div>
  );
}

/** The slider: chooses a record of the run; its right end is the present.
 *
 * It counts records; while the run loads it counts their numbers up to `end`, so that it covers the whole run.
 */
function Slider({ book, at, end }: { book: Book; at: number; end: number }) {
  const [first = 0] = book.seqs;
  const loading = end > (book.seqs.at(-1) ?? 0);
  const last = loading ? end : book.seqs.length - 1;
  const seqOf = (place: number) => (loading ? place : (book.seqs[place] ?? 0));
  const [drawn, draw] = useState<number | null>(null);
  const newest = useRef("");
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  if (last < 1) return null;
  const settle = () => {
    timer.current = undefined;
    draw(null);
    setQuery({ at: newest.current });
  };
  const place = drawn ?? (at ? Math.min(loading ? at : book.place(at), last) : last);
  const known = book.moments[loading ? book.place(place) : place];
  const when = known === undefined ? null : new Date(known).toISOString();
  const label = `${when ? `${clock(when)} · ` : ""}${seqOf(place)}`;
  return (
    <div className="row slider">
      <label htmlFor="moment" className="soft small">
        at record
      </label>
      <input
        id="moment"
        type="range"
        min={loading ? first : 0}
        max={last}
        value={place}
        aria-valuetext={`record ${seqOf(place)}${when ? `, ${exact(when)}` : ""}`}
        onChange={(event) => {
          const chosen = Number(event.target.value);
          newest.current = chosen === last ? "" : String(seqOf(chosen));
          timer.current ??= setTimeout(settle, STEADY);
          draw(chosen);
        }}
      />
      <span className="soft small num moment">{at || drawn !== null ? label : "now"}</span>
    </div>
  );
}

function LifecycleView(props: { book: Book; version: number; findings: readonly FindingRow[]; at: number }) {
  const { book, version, findings, at } = props;
  const illegal = useMemo(
    () => new Set(findings.filter((each) => each.name === ILLEGAL).map((each) => each.seq)),
    [findings],
  );
  // The version is named because the book grows.
  const moves = useMemo(() => book.shaping.moves(illegal, at || Infinity), [book, version, illegal, at]);
  return <Lifecycle moves={moves} choose={choose} />;
}

function Findings({ findings }: { findings: readonly FindingRow[] }) {
  if (!findings.length) return <p className="soft">No findings.</p>;
  return (
    <div className="card">
      <table>
        <thead>
          <tr>
            <th>record</th>
            <th>finding</th>
            <th>what</th>
          </tr>
        </thead>
        <tbody>
          {findings.slice(0, LISTED).map((finding, n) => (
            <tr key={n}>
              <td>
                <button className="link num" onClick={() => choose(finding.seq)}>
                  {finding.seq}
                </button>
              </td>
              <td className={finding.level === "error" ? "failed" : "waiting"}>{inert(finding.name)}</td>
              <td>
                <Text>{finding.message}</Text>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {findings.length > LISTED && (
        <p className="soft small">
          The newest {count(LISTED)} of {count(findings.length)}; each stands in the transcript, too.
        </p>
      )}
    </div>
  );
}

/** The tree of runs that this run belongs to: its parents and its sub-runs. */
function Tree({ family, run }: { family: string; run: string }) {
  const { data, trouble } = useAnswer(address("/api/runs/{family}/{run}/tree", { family, run, around: true }));
  if (trouble) return <Sorry trouble={trouble} />;
  return (
    <ul className="tree card">
      {(data ?? []).map((node, n) => {
        const [of = "", ...rest] = node.key.split(":");
        const name = rest.join(":");
        const here = of === family && name === run;
        return (
          <li key={n} style={{ paddingLeft: `min(${node.depth * 1.4}rem, 45%)` }}>
            {node.run ? <StatusMark status={node.run.status} /> : <span className="status soft">not recorded</span>}
            <a href={runHref(of, name)} aria-current={here ? "page" : undefined}>
              <Text>{node.run?.title ?? name}</Text>
            </a>
            <span className="soft small cut">
              <Text>
                {[node.run?.title ? name : "", node.run ? outcomeOf(node.run) : "", node.again ? "shown above" : ""]
                  .filter((each) => each && each !== "–")
                  .join(" · ")}
              </Text>
            </span>
            <span className="soft small num">{node.run && cost(node.run)}</span>
          </li>
        );
      })}
    </ul>
  );
}
