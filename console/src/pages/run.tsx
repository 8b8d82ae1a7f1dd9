/** One run: what happened, when, why, what it cost, and its state at any record. */

import { lazy, Suspense, useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import type { FindingRow } from "../lib/answers";
import { address, Trouble } from "../lib/api";
import { keyOf, useLooked } from "../lib/inbox";
import { go, href, setQuery, useRoute } from "../lib/route";
import { lowerBound, type RunRecords, useRunRecords } from "../lib/run-records";
import { inert } from "../lib/text";
import { cost, count } from "../lib/time";
import { useAnswer, useKeys, useLast } from "../lib/use";
import { ErrorCard } from "../parts/bits";
import { Detail } from "../parts/detail";
import { Findings } from "../parts/findings";
import { Icon } from "../parts/icons";
import { Lifecycle } from "../parts/lifecycle";
import { Downloads } from "../parts/proof";
import { Asked } from "../parts/question";
import { Records } from "../parts/records";
import { MoreAbout, RunCrumbs, RunHeader } from "../parts/run-header";
import { Scrubber } from "../parts/scrubber";
import { Stage } from "../parts/stage";
import { Timeline } from "../parts/timeline";
import { Segmented, Tools } from "../parts/tools";
import { Transcript } from "../parts/transcript";
import { Waterfall } from "../parts/waterfall";

const Topology = lazy(() => import("../parts/topology"));
const CostTab = lazy(() => import("../parts/cost-tab"));

const VIEWS = ["transcript", "waterfall", "topology", "cost", "findings", "records", "lifecycle", "stage"] as const;
type View = (typeof VIEWS)[number];
/** Views by the names that they had in older addresses. */
const OLDER: Record<string, View> = { timeline: "waterfall", tree: "topology" };
/** The views with the time of the run above them; the waterfall has a map of its own. */
const SCRUBBED: readonly View[] = ["transcript", "topology", "lifecycle", "stage"];
const ILLEGAL = "illegal-transition";
const PATIENCE = 2500; // milliseconds
const PHONE = "(max-width: 44rem)";
const STAGED = ["world", "belief", "note"]; // what is said on a stage, and nowhere else

const choose = (seq: number) => setQuery({ seq: seq ? String(seq) : "" });

/** The view of an address: `/run/family/run/view`, or `?view=` in an older one. */
function viewOf(part: string | undefined, query: URLSearchParams): View {
  const name = part ?? query.get("view") ?? "";
  return VIEWS.find((each) => each === name) ?? OLDER[name] ?? "transcript";
}

export default function RunPage() {
  const { parts, query } = useRoute();
  const [, family = "", run = "", tab] = parts;
  const [seq = 0, at = 0] = ["seq", "at"].map((name) => Math.max(Number(query.get(name)) || 0, 0));
  const view = viewOf(tab, query);
  const drawn = useDeferredValue(view); // the tab answers at once, what it shows follows
  const key = `${family}:${run}`;
  const then = at ? { at } : {};
  const summary = useAnswer(
    address("/api/runs/{family}/{run}", { family, run, ...then }),
    at ? "never" : { family, run },
  );
  const shown = useLast(summary.data);
  const [later, setLater] = useState(false); // what takes long is asked for when the first records are there
  const asked = { family, run };
  const found = useAnswer(later ? address("/api/findings", { limit: 10_000, run: key }) : null, asked);
  const turns =
    useLast(
      useAnswer(later ? address("/api/runs/{family}/{run}/turns", { family, run, limit: 1, ...then }) : null, asked)
        .data,
    )?.turns ?? 0;
  const tree = useAnswer(shown ? address("/api/runs/{family}/{run}/tree", asked) : null, asked).data;
  const findings = useMemo(() => (found.data ?? []).filter((each) => !at || each.seq <= at), [found.data, at]);
  // What goes on is opened at its end, what is over at its beginning, a link at its record.
  const opened = useRef<number | null>(seq ? 0 : null);
  const patient = usePatience();
  if (shown || !patient) opened.current ??= !shown || shown.ended || at ? 0 : shown.last_seq;
  const read = useRunRecords(family, run, opened.current === null ? null : seq || at || opened.current);
  const { runRecords, version, reading, trouble } = read;
  const begun = runRecords.seqs.length > 0 || !patient;
  useEffect(() => setLater(begun), [begun]);
  const place = useRef<number | null>(null);
  const questions = useLooked().filter((each) => !at && each.family === family && each.run === run);
  const told = read.glimpse ?? runRecords;
  const where = useMemo(() => ({ family, run, runRecords: told, choose }), [family, run, told]);
  const moves = runRecords.kinds.moves.length > 0 || runRecords.structure.moves(new Set()).length > 0;
  const views = VIEWS.filter((name) => {
    if (name === "stage") return shown?.stage || STAGED.some((role) => runRecords.structure.roles.has(role));
    return name !== "lifecycle" || moves || view === "lifecycle";
  });
  const failures = runRecords.structure.failures.slice(
    0,
    at ? lowerBound(runRecords.structure.failures, at + 1) : undefined,
  );
  const fail = () => choose(failures[lowerBound(failures, seq + 1)] ?? failures[0] ?? 0);
  const show = useCallback(
    (next: View) => {
      const rest = Object.fromEntries([...query.keys()].map((name) => [name, query.getAll(name)]));
      go(
        href(next === "transcript" ? ["run", family, run] : ["run", family, run, next], {
          ...rest,
          view: "",
          rows: "",
        }),
      );
    },
    [family, run, query],
  );
  const lanes = query.get("rows") === "agents" || query.get("view") === "timeline";
  // The waterfall shows what is chosen below it, the topology beside it, and a phone has room for one thing:
  // why it came about only if one asks.
  const beside = (view === "waterfall" && !lanes) || view === "topology" || matchMedia(PHONE).matches;
  const explains = seq > 0 && (!beside || query.get("why") === "1");
  const close = () => (beside ? setQuery({ why: "" }) : choose(0));
  const why = () => {
    if (explains) close();
    else
      setQuery({
        seq: String(seq || (failures.at(-1) ?? runRecords.seqs.at(-1) ?? "")),
        why: beside ? "1" : "",
      });
  };
  const compare = href(["compare", key]);
  useKeys({
    ...Object.fromEntries(views.map((name, n) => [String(n + 1), () => show(name)])),
    w: why,
    c: () => go(compare),
    Escape: () => (explains ? close() : seq ? choose(0) : history.back()),
  });
  if (summary.trouble && !shown)
    return (
      <>
        <h1 className="unseen">{inert(run)}</h1>
        <ErrorCard trouble={summary.trouble} again={summary.again} />
      </>
    );
  const rowsBy = (
    <Segmented
      label="Rows by"
      value={lanes ? "agents" : query.get("rows") === "tools" ? "tools" : "turns"}
      options={[
        ["turns", "Turns"],
        ["agents", "Agents"],
        ["tools", "Tools"],
      ]}
      onChange={(next) => setQuery({ rows: next === "turns" ? "" : next, view: "" })}
    />
  );
  const subRuns = Math.max((tree?.length ?? 1) - 1, 0);
  const counts: Partial<Record<View, string>> = {
    transcript: turns ? count(turns) : "",
    topology: subRuns ? count(subRuns + 1) : "",
    cost: shown && (shown.cost_usd !== null || shown.computed_usd !== null) ? cost(shown) : "",
    findings: findings.length ? count(findings.length) : "",
    records: reading ? "" : count(runRecords.seqs.length),
  };
  return (
    <div className="run-page">
      <Tools>
        <a className="button" href={compare}>
          <Icon name="compare" size={13} /> Compare <kbd>C</kbd>
        </a>
        <CopyLink />
        <Downloads family={family} run={run} />
        {shown && <MoreAbout run={shown} />}
      </Tools>
      {view === "transcript" && questions.map((question) => <Asked key={keyOf(question)} question={question} />)}
      {shown && <RunCrumbs run={shown} />}
      {shown && (
        <RunHeader
          run={shown}
          at={at}
          records={reading ? null : runRecords.seqs.length}
          turns={turns}
          subRuns={subRuns}
          fail={fail}
        />
      )}
      <div className="tabs">
        <Tabs views={views} view={view} counts={counts} show={show} />
        <span className={reading ? "soft small records-read" : "unseen"} role="status">
          {count(runRecords.seqs.length)} {runRecords.seqs.length === 1 ? "record" : "records"}
          {reading ? ", loading …" : ""}
        </span>
        <span className="hints soft" aria-hidden="true">
          <kbd>1</kbd>–<kbd>{views.length}</kbd> tabs
        </span>
        <span className="hints soft" aria-hidden="true">
          <kbd>[</kbd> <kbd>]</kbd> step
        </span>
        <button className="why" aria-pressed={explains} onClick={why}>
          Why? <kbd>W</kbd>
        </button>
      </div>
      <Scrubber
        family={family}
        run={run}
        runRecords={runRecords}
        shown={shown}
        reading={reading}
        at={at}
        seq={seq}
        choose={choose}
        drawn={SCRUBBED.includes(view)}
        ready={later}
      />
      {trouble instanceof Trouble && <ErrorCard trouble={trouble} />}
      <div className={explains ? "view split" : "view"}>
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
          {drawn === "waterfall" && (
            <div className="rows-by">
              {lanes ? (
                <>
                  {rowsBy}
                  <Timeline
                    key={key}
                    family={family}
                    run={run}
                    runRecords={runRecords}
                    chosen={seq}
                    reading={place.current ?? opened.current ?? 0}
                    at={at}
                    choose={choose}
                  />
                </>
              ) : (
                <Waterfall
                  key={key}
                  family={family}
                  run={run}
                  runRecords={runRecords}
                  shown={shown}
                  seq={seq}
                  at={at}
                  choose={choose}
                  rowsBy={rowsBy}
                />
              )}
            </div>
          )}
          {drawn === "stage" && <Stage read={read} shown={shown} at={at} choose={choose} />}
          {drawn === "lifecycle" && (
            <LifecycleView runRecords={runRecords} version={version} findings={findings} at={at} />
          )}
          {drawn === "findings" && <Findings findings={findings} choose={choose} />}
          {drawn === "records" && (
            <Records runRecords={runRecords} version={version} at={at} seq={seq} choose={choose} />
          )}
          <Suspense fallback={<p className="soft pad">Loading …</p>}>
            {drawn === "topology" && <Topology family={family} run={run} />}
            {drawn === "cost" && <CostTab key={key} family={family} run={run} at={at} shown={shown} />}
          </Suspense>
        </div>
        {explains && <Detail family={family} run={run} seq={seq} record={told.held(seq)} close={close} />}
      </div>
    </div>
  );
}

/** Copies the address of what is shown. */
function CopyLink() {
  const [copied, setCopied] = useState(false);
  // A browser lends its clipboard only to pages of this machine, or with a certificate.
  if (!isSecureContext) return null;
  const copy = async () => {
    await navigator.clipboard.writeText(location.href);
    setCopied(true);
    setTimeout(() => setCopied(false), PATIENCE);
  };
  return (
    <button className="copy-link" onClick={() => void copy()}>
      <Icon name="link" size={13} /> {copied ? "Link copied" : "Copy link"}
    </button>
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

interface TabsProps {
  readonly views: readonly View[];
  readonly view: View;
  readonly counts: Partial<Record<View, string>>;
  readonly show: (view: View) => void;
}

function Tabs({ views, view, counts, show }: TabsProps) {
  const move = (name: View, by: number) => {
    const next = views[(views.indexOf(name) + by + views.length) % views.length];
    if (!next) return;
    show(next);
    document.getElementById(`tab-${next}`)?.focus();
  };
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
          {counts[name] && <span className="soft"> {counts[name]}</span>}
        </button>
      ))}
    </div>
  );
}

function LifecycleView(props: {
  runRecords: RunRecords;
  version: number;
  findings: readonly FindingRow[];
  at: number;
}) {
  const { runRecords, version, findings, at } = props;
  const illegal = useMemo(
    () => new Set(findings.filter((each) => each.name === ILLEGAL).map((each) => each.seq)),
    [findings],
  );
  // The version is named because the set of records grows.
  const moves = useMemo(() => runRecords.structure.moves(illegal, at || Infinity), [runRecords, version, illegal, at]);
  return <Lifecycle moves={moves} choose={choose} />;
}
