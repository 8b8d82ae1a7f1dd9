/** Below the waterfall: the details of the chosen row, and where it leads. */

import { address } from "../lib/api";
import { href, setQuery } from "../lib/route";
import type { RunRecords } from "../lib/run-records";
import { clock, cost, duration, percent } from "../lib/time";
import { useAnswer } from "../lib/use";
import type { Row } from "../lib/waterfall";
import { Text } from "./bits";
import { Icon, StatusGlyph } from "./icons";
import { Preview } from "./preview";

interface Props {
  readonly family: string;
  readonly run: string;
  readonly runRecords: RunRecords;
  readonly row: Row;
  readonly name: string;
  readonly detail: string;
  /** The number of its turn; empty where it is in none. */
  readonly turn: string;
  /** Seconds of the critical path. */
  readonly path: number;
  /** Seconds that calls of the same tool or model took, in this run. */
  readonly alike: readonly number[];
}

/** The value below which a share of the sorted numbers lies. */
function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.max(Math.ceil(sorted.length * share) - 1, 0)] ?? 0;
}

export function RowDock({ family, run, runRecords, row, name, detail, turn, path, alike }: Props) {
  const outcome = useOutcome(row.kind === "tool" ? { family, run, runRecords, row } : null);
  const code = outcome?.result.exit_code;
  const sorted = [...alike].sort((a, b) => a - b);
  const facts: [string, string][] = [
    ["Took", `${duration(row.seconds)}, own ${duration(row.own)}`],
    ["On the path", row.on_path ? `yes, ${percent(row.seconds / Math.max(path, 0.001), 1)} of it` : "no"],
    [
      "Usual",
      sorted.length > 2 ? `p50 ${duration(quantile(sorted, 0.5))}, p95 ${duration(quantile(sorted, 0.95))}` : "",
    ],
    ["Exit code", typeof code === "number" ? String(code) : ""],
    ["Cost", cost(row).replace("–", "")],
  ];
  return (
    <aside className="wf-dock" aria-label="The chosen row">
      <div className="wf-dock-name">
        <div className="row">
          {row.failed && <StatusGlyph status="failed" />}
          <strong className={row.failed ? "failed" : ""}>
            <Text>{name}</Text>
          </strong>
          <span className="soft cut">
            <Text>{detail}</Text>
          </span>
        </div>
        <p className="soft">
          {turn && `Turn ${turn}, `}record #{row.seq}, {clock(new Date(row.begin).toISOString())}
        </p>
        <div className="row">
          <button onClick={() => setQuery({ why: "1" })}>
            Why? <kbd>W</kbd>
          </button>
          <a className="button" href={href(["run", family, run], { seq: row.seq })}>
            In transcript
          </a>
          <a className="button" href={href(["run", family, run, "records"], { seq: row.seq })}>
            Raw
          </a>
        </div>
      </div>
      <dl>
        {facts
          .filter(([, value]) => value)
          .map(([label, value]) => (
            <div key={label}>
              <dt>{label}</dt>
              <dd>{value}</dd>
            </div>
          ))}
      </dl>
      {outcome && <Preview call={outcome.fact} result={outcome.result} failed={row.failed} />}
      <button className="quiet" aria-label="Close the details" onClick={() => setQuery({ seq: "", why: "" })}>
        <Icon name="close" size={13} />
      </button>
    </aside>
  );
}

/** A call, and what it returned; null until both are known. */
function useOutcome(of: Pick<Props, "family" | "run" | "runRecords" | "row"> | null) {
  const story = (seq: number | null | undefined) =>
    of && seq
      ? address("/api/runs/{family}/{run}/story", {
          family: of.family,
          run: of.run,
          limit: 1,
          whole: true,
          after: seq - 1,
        })
      : null;
  const called = useAnswer(story(of?.row.seq), "never").data?.records[0];
  const fact = called?.facts.find((each) => each.fact === "Called");
  const returned = fact && called && of?.runRecords.structure.call(fact, called.seq)?.returned;
  const other = useAnswer(story(returned !== of?.row.seq ? returned : null), "never").data?.records[0];
  const result = (returned === of?.row.seq ? called : other)?.facts.find(
    (each) => each.fact === "Returned" && each.call_id === fact?.call_id,
  );
  return fact && result ? { fact, result } : null;
}
