/** The cards of Insights that are no lines over time: the most expensive runs, days, latencies and audits. */

import { useMemo, useState } from "react";
import { ChartCard, type Table } from "../charts/card";
import { Calendar, great, HeatMap, Scale } from "../charts/heat";
import { spanText } from "../charts/scale";
import { edgesOf } from "../charts/series-chart";
import type { AuditRow, BoardAnswer, Series } from "../lib/answers";
import { address } from "../lib/api";
import type { FleetView } from "../lib/fleet";
import { pointOf } from "../lib/range";
import { href, type Query, runHref } from "../lib/route";
import { amount, type Bucket, filtersIn, sums, useSeries } from "../lib/series";
import { inert } from "../lib/text";
import { cost, count, money, percent, spentBy } from "../lib/time";
import { useAnswer, useLast } from "../lib/use";
import { ErrorCard, Text } from "./bits";
import { StatusGlyph } from "./icons";

const RUNS = 7;

interface DearestProps {
  readonly board: BoardAnswer | undefined;
  readonly view: FleetView;
  /** The cost of the whole range, where it is known. */
  readonly total: number | null;
}

/** The runs of the range that cost most, each in full. */
export function Dearest({ board, view, total }: DearestProps) {
  const runs = (board?.runs ?? []).filter((run) => spentBy(run) > 0).slice(0, RUNS);
  const most = Math.max(...runs.map(spentBy), 0);
  const sum = runs.reduce((all, run) => all + spentBy(run), 0);
  return (
    <section className="chart-card dearest" aria-labelledby="chart-dearest">
      <header>
        <h2 id="chart-dearest">Most expensive runs</h2>
        <span className="grow" />
        <span className="soft">of {count(board?.matching)}</span>
      </header>
      {board && !runs.length && <p className="soft">No run has a cost.</p>}
      <ol>
        {runs.map((run) => (
          <li key={`${run.family}:${run.run}`}>
            <StatusGlyph status={run.status} />
            <a className="cut" href={runHref(run.family, run.run)} title={inert(run.title ?? run.run)}>
              <Text>{run.title ?? run.run}</Text>
            </a>
            <span className="share" aria-hidden="true">
              <i style={{ width: `${(spentBy(run) / most) * 100}%` }} />
            </span>
            <span className="num">{cost(run)}</span>
          </li>
        ))}
      </ol>
      {runs.length > 0 && (
        <p className="foot-line">
          {total !== null && sum <= total && (
            <span className="soft">
              {count(runs.length)} {runs.length === 1 ? "run makes" : "runs make"} {percent(sum / total)} of the cost
            </span>
          )}
          <a href={href([], { ...filtersIn(view), since: view.since, until: view.until, sort: "cost", group: "none" })}>
            All by cost →
          </a>
        </p>
      )}
    </section>
  );
}

interface Card {
  readonly view: FleetView;
  readonly tabled: boolean;
  readonly link: (from: number, to: number) => Query;
}

/** Rows of the map: the length of a turn from a second to a minute, doubling. */
const FASTEST = 1.1;
const SLOWEST = 60;

export function heatRows(series: Series): { name: string; values: (number | null)[] }[] {
  const rows = new Map<string, { values: (number | null)[]; order: number }>();
  const bounds = series.keys.map((key) => Number(key.key)).filter((each) => each > FASTEST && each / 2 < SLOWEST);
  const seconds = (value: number) => String(Math.round(value));
  const name = (bound: number) =>
    bound <= FASTEST ? "< 1 s" : bound / 2 >= SLOWEST ? "> 1 min" : `${seconds(bound / 2)}–${seconds(bound)} s`;
  const least = Math.min(...bounds, 2.097_152);
  const most = Math.max(...bounds, 2.097_152);
  for (let bound = least; bound <= most * 1.01; bound *= 2) rows.set(name(bound), { values: [], order: bound });
  for (const key of series.keys) {
    const bound = Number(key.key);
    const order = bound <= FASTEST ? 0 : bound / 2 >= SLOWEST ? Infinity : bound;
    const row = rows.get(name(bound)) ?? { values: [], order };
    rows.set(name(bound), row);
    key.values.forEach((value, n) => {
      if (value !== null) row.values[n] = (row.values[n] ?? 0) + value;
    });
  }
  return [...rows]
    .sort(([, a], [, b]) => b.order - a.order)
    .map(([of, { values }]) => ({ name: of, values: series.at.map((_, n) => values[n] ?? null) }));
}

export function LatencyHeat({ view, bucket, tabled, link }: Card & { bucket: Bucket }) {
  const { data, trouble, again } = useSeries(view, { metric: ["turns"], by: "latency_bucket", bucket });
  const series = useLast(data)?.[0];
  const rows = useMemo(() => (series ? heatRows(series) : []), [series]);
  const edges = useMemo(() => (series ? edgesOf(series) : [0, 1]), [series]);
  const table: Table = useMemo(
    () => ({
      heads: ["time", ...rows.map((row) => row.name)],
      rows: edges
        .slice(0, -1)
        .map((from, n) => [
          spanText(from, edges[n + 1] ?? from),
          ...rows.map((row) => (row.values[n] === null ? "no record" : count(row.values[n]))),
        ]),
    }),
    [edges, rows],
  );
  if (trouble && !series) return <ErrorCard trouble={trouble} again={again} />;
  if (!series) return <section className="chart-card heat-card" aria-busy="true" />;
  const most = great(rows.flatMap((row) => row.values.map((each) => each ?? 0)));
  return (
    <ChartCard
      title="Length of turns"
      about="turns per bucket"
      legend={<Scale from="0" to={count(most)} />}
      table={table}
      tabled={tabled}
      className="heat-card"
    >
      {series.total ? (
        <HeatMap
          label={`How long turns took: ${count(series.total)} turns, mostly ${mode(rows)}`}
          edges={edges}
          rows={rows}
          link={link}
        />
      ) : (
        <p className="soft">No turn was recorded in this range.</p>
      )}
    </ChartCard>
  );
}

/** The row with the most turns. */
function mode(rows: ReturnType<typeof heatRows>): string {
  const size = (values: readonly (number | null)[]) => values.reduce<number>((sum, each) => sum + (each ?? 0), 0);
  return [...rows].sort((a, b) => size(b.values) - size(a.values))[0]?.name ?? "";
}

const WEEKS = 24;

/** The cost of each day of the last weeks, whatever the range. */
export function CostDays({ view, tabled, link }: Card) {
  const scope = { facets: view.facets, since: `-${WEEKS * 7}d`, until: "" };
  const { data, trouble, again } = useSeries(scope, { metric: ["cost"], bucket: "1d" });
  const series = useLast(data)?.[0];
  const edges = useMemo(() => (series ? edgesOf(series) : [0, 1]), [series]);
  const values = useMemo(() => (series ? sums(series) : []), [series]);
  if (trouble && !series) return <ErrorCard trouble={trouble} again={again} />;
  if (!series) return <section className="chart-card days-card" aria-busy="true" />;
  const say = (value: number | null) =>
    value === null ? "no record" : amount("usd", value, series.computed ? { computed: value } : {});
  const days = edges.slice(0, -1);
  const working = values.filter(
    (value, n) => value !== null && ![0, 6].includes(new Date((days[n] ?? 0) * 1000).getDay()),
  ) as number[];
  const top = values.reduce<number>((best, value, n) => ((value ?? 0) > (values[best] ?? 0) ? n : best), 0);
  const table: Table = {
    heads: ["day", "cost"],
    rows: days.map((at, n) => [spanText(at, edges[n + 1] ?? at), say(values[n] ?? null)]),
  };
  return (
    <ChartCard
      title="Cost per day"
      about={`${WEEKS} weeks`}
      legend={<Scale from="$0" to={money(great(values.map((each) => each ?? 0)))} />}
      table={table}
      tabled={tabled}
      className="days-card"
    >
      <Calendar
        label={`Cost per day in ${WEEKS} weeks, ${say(series.total)} in all`}
        days={days}
        values={values}
        say={say}
        link={link}
      />
      <dl className="day-figures">
        <div>
          <dt>Today</dt>
          <dd>{say(values.at(-1) ?? null).replace("no record", "–")}</dd>
        </div>
        <div>
          <dt>Mean working day</dt>
          <dd>{working.length ? say(working.reduce((a, b) => a + b, 0) / working.length) : "–"}</dd>
        </div>
        {values[top] ? (
          <div>
            <dt>Most expensive, {spanText(days[top] ?? 0, edges[top + 1] ?? 0).replace(/^\w+ /, "")}</dt>
            <dd>{say(values[top] ?? null)}</dd>
          </div>
        ) : null}
      </dl>
    </ChartCard>
  );
}

const DAY = 86_400_000;
type Column = "total" | "failed" | "flakiness";

/** Audits that pass and fail in turns, over the shortest window that covers the range. */
export function AuditsCard({ since }: { since: string }) {
  const length = Date.now() - pointOf(since, Date.now());
  const window = length <= DAY * 1.01 ? "24h" : length <= 7.01 * DAY ? "7d" : "all";
  const { data, trouble, again } = useAnswer(address("/api/audits", { window }));
  const [sort, setSort] = useState<Column>("flakiness");
  const audits = useLast(data);
  if (trouble && !audits) return <ErrorCard trouble={trouble} again={again} />;
  const heads: [Column, string][] = [
    ["total", "Ran"],
    ["failed", "Fail"],
    ["flakiness", "Flaky"],
  ];
  const rows = [...(audits ?? [])].sort((a, b) => b[sort] - a[sort]);
  return (
    <section className="chart-card audits-card" aria-labelledby="chart-audits">
      <header>
        <h2 id="chart-audits">Audit flakiness</h2>
        <span className="soft about">{window === "all" ? "all time" : window.replace(/(\D)$/, " $1")}</span>
      </header>
      {audits && !audits.length && <p className="soft">No audit was recorded.</p>}
      {rows.length > 0 && (
        <table>
          <thead>
            <tr>
              <th>Audit</th>
              <th>Last 12</th>
              {heads.map(([key, label]) => (
                <th key={key} className="num" aria-sort={sort === key ? "descending" : "none"}>
                  <button className="quiet" onClick={() => setSort(key)}>
                    {label}
                    {sort === key && <span aria-hidden="true"> ↓</span>}
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, RUNS).map((audit) => (
              <Audit key={audit.checkpoint} audit={audit} />
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

function Audit({ audit }: { audit: AuditRow }) {
  const name = <Text>{audit.checkpoint}</Text>;
  return (
    <tr>
      <td className="cut mono" title={inert(audit.checkpoint)}>
        {audit.last_fail_run_id && audit.last_fail_family ? (
          <a href={runHref(audit.last_fail_family, audit.last_fail_run_id)} title="the run in which it failed last">
            {name}
          </a>
        ) : (
          name
        )}
      </td>
      <td>
        <span className="verdicts" role="img" aria-label={audit.recent.join(", ")}>
          {audit.recent.map((verdict, n) => (
            <i key={n} className={verdict} />
          ))}
        </span>
      </td>
      <td className="num">{count(audit.total)}</td>
      <td className={audit.failed ? "num failed" : "num"}>{count(audit.failed)}</td>
      <td className={audit.colour === "green" ? "num" : "num warn"}>{percent(audit.flakiness)}</td>
    </tr>
  );
}
