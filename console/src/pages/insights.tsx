/** Cost, outcomes, tokens, failures and latency over time: one range, one split and one set of filters for all charts. */

import { useCallback, useMemo, useState } from "react";
import { spanText } from "../charts/scale";
import { edgesOf, SeriesChart } from "../charts/series-chart";
import type { Brush } from "../charts/time-series";
import { boardAddress, fleetView } from "../lib/fleet";
import { href, type Query, setQuery, useRoute } from "../lib/route";
import { type Bucket, type By, filtersIn, type Metric, seriesOf, totalOf, useSeries } from "../lib/series";
import { count, money } from "../lib/time";
import { useAnswer, useKeys, useLast } from "../lib/use";
import { Empty, ErrorCard } from "../parts/bits";
import { Facets } from "../parts/facets";
import { Icon } from "../parts/icons";
import { AuditsCard, CostDays, Dearest, LatencyHeat } from "../parts/insight-cards";
import { Panels } from "../parts/panels";
import { RangePicker } from "../parts/range-picker";
import { Segmented, Tools } from "../parts/tools";

const USUAL = "-7d";
const RANGES = [
  ["-24h", "24 h"],
  ["-7d", "7 d"],
  ["-30d", "30 d"],
  ["-90d", "90 d"],
] as const;
const SPLITS = [
  ["model", "Model"],
  ["agent", "Agent"],
  ["project", "Project"],
  ["tool", "Tool"],
] as const;
const BUCKETS: readonly Bucket[] = ["auto", "1m", "5m", "15m", "1h", "3h", "6h", "1d", "1w", "1mo"];
const MAIN: Partial<Record<Metric, string>> = {
  cost: "Cost",
  tokens: "Tokens",
  runs: "Runs",
  calls: "Tool calls",
  failures: "Failed calls",
  latency_p95: "Turn latency, p95",
  wait_p50: "Wait for a person, p50",
};
const BY_TOOL: readonly Metric[] = ["calls", "failures"];
const iso = (seconds: number): string => new Date(seconds * 1000).toISOString();

export function lengthText(seconds: number | null): string {
  if (seconds === null) return "by month";
  const units = [
    [604_800, "week"],
    [86_400, "day"],
    [3600, "h"],
    [60, "min"],
  ] as const;
  const [size, name] = units.find(([each]) => seconds >= each) ?? [1, "s"];
  const n = seconds / size;
  return `by ${n === 1 && (name === "day" || name === "week") ? name : `${n} ${name}`}`;
}

export default function Insights() {
  const { query } = useRoute();
  const view = useMemo(() => {
    const asked = fleetView(query);
    return { ...asked, since: asked.since || USUAL };
  }, [query]);
  const by: By = SPLITS.find(([key]) => key === query.get("by"))?.[0] ?? "model";
  const metric = (Object.keys(MAIN) as Metric[]).find((key) => key === query.get("metric")) ?? "cost";
  const bucket = BUCKETS.find((each) => each === query.get("bucket")) ?? "auto";
  const [tabled, setTabled] = useState(false);
  const board = useAnswer(boardAddress({ ...view, sort: "cost", dir: "desc", group: "none" }, 0));
  const dearest = useLast(board.data);
  const split = by === "tool" && !BY_TOOL.includes(metric) ? "none" : by;
  const scope = { view, bucket };
  const main = useChart(scope, [metric], split);
  const link = useCallback(
    (from: number, to: number): Query => ({ ...filtersIn(view), since: iso(from), until: iso(to) }),
    [view],
  );
  useKeys({ t: () => setTabled((old) => !old) });
  if (board.trouble && !dearest) return <ErrorCard trouble={board.trouble} again={board.again} />;
  if (dearest?.all === 0) return <Empty title="Nothing was recorded yet." run="tracklog import" />;
  const [first] = main.series ?? [];
  const card = { tabled, link };
  return (
    <>
      <h1 className="unseen">Insights</h1>
      <Tools>
        <span className="soft split-by">Split by</span>
        <Segmented
          label="Split by"
          value={by as (typeof SPLITS)[number][0]}
          options={SPLITS}
          onChange={(next) => setQuery({ by: next === "model" ? "" : next })}
        />
        <details className="menu filter-menu">
          <summary>
            <Icon name="filter" size={13} /> Filter
          </summary>
          <div className="sheet">{dearest && <Facets board={dearest} view={view} />}</div>
        </details>
        <RangePicker ranges={RANGES} usual={USUAL} more={first ? `, ${lengthText(first.bucket)}` : ""} />
      </Tools>
      <div className="insights">
        {main.trouble && !first ? (
          <ErrorCard trouble={main.trouble} again={main.again} />
        ) : (
          <MainChart title={MAIN[metric] ?? metric} series={main.series ?? []} view={view} {...card} />
        )}
        <Dearest board={dearest} view={view} total={metric === "cost" ? (first?.total ?? null) : null} />
        <Small title="Runs" about="by outcome" metric={["runs"]} by="outcome" legend="sums" scope={scope} {...card} />
        <Small title="Tokens" about="by kind" metric={["tokens"]} by="token_kind" scope={scope} {...card} />
        <FailedCalls scope={scope} {...card} />
        <Small title="Turn latency" about="p95, p50" metric={["latency_p95", "latency_p50"]} scope={scope} {...card} />
        <LatencyHeat view={view} bucket={bucket} {...card} />
        <CostDays view={view} {...card} />
        <AuditsCard since={view.since} />
      </div>
      <Panels />
    </>
  );
}

interface Scope {
  readonly view: ReturnType<typeof fleetView>;
  readonly bucket: Bucket;
}

/** A series that stays on the screen while the next is on its way. */
function useChart({ view, bucket }: Scope, metric: readonly Metric[], by: By = "none") {
  const { data, trouble, again } = useSeries(view, { metric, by, bucket });
  return { series: useLast(data), trouble, again };
}

interface Card {
  readonly tabled: boolean;
  readonly link: (from: number, to: number) => Query;
}

interface SmallProps extends Card {
  readonly title: string;
  readonly about: string;
  readonly metric: readonly Metric[];
  readonly by?: By;
  readonly legend?: "below" | "sums";
  readonly scope: Scope;
}

const LOW = 118; // pixels

function Small({ title, about, metric, by, legend, scope, tabled, link }: SmallProps) {
  const { series, trouble, again } = useChart(scope, metric, by);
  if (trouble && !series) return <ErrorCard trouble={trouble} again={again} />;
  return (
    <SeriesChart
      title={title}
      about={about}
      series={series ?? []}
      height={LOW}
      tabled={tabled}
      brief
      link={link}
      className="quarter"
      {...(legend ? { legend } : {})}
    />
  );
}

/** The failed calls of each tool; the figure is their share of all calls. */
function FailedCalls({ scope, tabled, link }: Card & { scope: Scope }) {
  const failed = useChart(scope, ["failures"], "tool");
  const share = useChart(scope, ["failure_share"]);
  if (failed.trouble && !failed.series) return <ErrorCard trouble={failed.trouble} again={failed.again} />;
  const all = seriesOf(share.series, "failure_share");
  return (
    <SeriesChart
      title="Failed calls"
      about="by tool"
      series={failed.series ?? []}
      height={LOW}
      tabled={tabled}
      brief
      legend="sums"
      link={link}
      className="quarter"
      {...(all ? { figure: totalOf(all) } : {})}
    />
  );
}

const HIGH = 220; // pixels

interface MainProps extends Card {
  readonly title: string;
  readonly series: NonNullable<ReturnType<typeof useChart>["series"]>;
  readonly view: Scope["view"];
}

function MainChart({ title, series, view, tabled, link }: MainProps) {
  const [brush, setBrush] = useState<Brush>(null);
  const [first] = series;
  const edges = first ? edgesOf(first) : [0, 1];
  const last = edges.length - 2;
  const range: Brush = brush && brush[0] <= last ? [brush[0], Math.min(brush[1], last)] : null;
  const [from, to] = range ? [edges[range[0]] ?? 0, edges[range[1] + 1] ?? 0] : [0, 0];
  const inside = useAnswer(
    range ? boardAddress({ ...view, since: iso(from), until: iso(to), group: "none" }, 0) : null,
    "never",
  ).data;
  const clamp = (n: number) => Math.min(Math.max(n, 0), last);
  const move = (left: number, right: number) =>
    setBrush((old) => {
      const [a, b] = old ?? [last, last];
      const [begin, end] = old ? [clamp(a + left), clamp(b + right)] : [a, b];
      return [Math.min(begin, end), Math.max(begin, end)];
    });
  const zoom = () => {
    if (!range) return;
    setBrush(null);
    setQuery({ since: iso(from), until: iso(to), within: "" }, true);
  };
  useKeys({
    "[": () => move(-1, 0),
    "]": () => move(0, 1),
    ArrowLeft: () => move(-1, -1),
    ArrowRight: () => move(1, 1),
    z: zoom,
    Escape: () => (range ? setBrush(null) : history.back()),
  });
  if (!first) return <section className="chart-card main-chart" aria-busy="true" style={{ minHeight: HIGH }} />;
  const computed = first.computed ? `~${money(first.computed)} of it computed from prices` : "";
  return (
    <SeriesChart
      title={title}
      about={
        <>
          <strong>{totalOf(first)}</strong> {computed}
        </>
      }
      series={series}
      height={HIGH}
      tabled={tabled}
      legend="above"
      className="main-chart"
      brush={range}
      onBrush={setBrush}
      link={link}
    >
      <div className="brushed">
        {range ? (
          <>
            <button className="chip on" onClick={() => setBrush(null)}>
              {spanText(from, to)} <Icon name="close" size={10} />
            </button>
            <span className="soft">brushed; zoom to apply it to every chart</span>
            <button onClick={zoom}>
              Zoom in <kbd>Z</kbd>
            </button>
            <a className="end" href={href([], link(from, to))}>
              {inside ? `${count(inside.matching)} runs in it →` : "The runs in it →"}
            </a>
          </>
        ) : (
          <span className="soft">Drag over the bars, or press [ and ], to choose a part of the time.</span>
        )}
      </div>
    </SeriesChart>
  );
}
