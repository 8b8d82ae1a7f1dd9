/** The figures of a range in one strip; each leads to its chart. */

import { useContext } from "react";
import type { Series } from "../lib/answers";
import type { FleetView } from "../lib/fleet";
import { InboxContext, isOpen } from "../lib/inbox";
import { href } from "../lib/route";
import { amount, changeOf, filtersIn, type Metric, seriesOf, sums, totalOf, useSeries } from "../lib/series";
import { count, money, percent } from "../lib/time";
import { useLast } from "../lib/use";
import { ErrorCard } from "./bits";
import { Spark } from "./spark";

const PLAIN: readonly Metric[] = [
  "runs",
  "cost",
  "calls",
  "failures",
  "failure_share",
  "latency_p50",
  "latency_p95",
  "waits",
  "wait_p50",
];

interface Kpi {
  readonly label: string;
  readonly metric: Metric;
  readonly value: string;
  readonly beside: string;
  readonly series: Series | undefined;
  readonly spark: React.ComponentProps<typeof Spark>;
}

/** Of the runs that ended, the share that passed; in the whole range, and in each bucket. */
export function passed(series: Series | undefined) {
  const of = (name: string) => series?.keys.find((each) => each.key === name);
  const ended = [of("done"), of("failed"), of("lost")];
  const all = ended.reduce((sum, each) => sum + (each?.sum ?? 0), 0);
  const good = of("done")?.sum ?? 0;
  const values = (series?.at ?? []).map((_, n) => {
    const every = ended.reduce((sum, each) => sum + (each?.values[n] ?? 0), 0);
    return every ? (of("done")?.values[n] ?? 0) / every : null;
  });
  return { good, all, share: all ? good / all : null, values };
}

function cachedShare(series: Series | undefined): string {
  const of = (name: string) => series?.keys.find((each) => each.key === name)?.sum ?? 0;
  const input = of("cache read") + of("input") + of("cache write");
  return input ? `${percent(of("cache read") / input)} from cache` : "";
}

export function KpiStrip({ view }: { view: FleetView }) {
  const asked = [
    useSeries(view, { metric: PLAIN }, "news"),
    useSeries(view, { metric: ["runs"], by: "outcome" }, "news"),
    useSeries(view, { metric: ["tokens"], by: "token_kind" }, "news"),
  ] as const;
  const [plain, outcomes, kinds] = [useLast(asked[0].data), useLast(asked[1].data)?.[0], useLast(asked[2].data)?.[0]];
  const open = (useContext(InboxContext).data ?? []).filter(isOpen).length;
  const broken = asked.find((each) => each.trouble);
  if (broken?.trouble && !plain) return <ErrorCard trouble={broken.trouble} again={broken.again} />;
  const one = (metric: Metric) => seriesOf(plain, metric);
  const total = (metric: Metric) => {
    const series = one(metric);
    return series ? totalOf(series) : plain ? "–" : "…";
  };
  const values = (metric: Metric) => {
    const series = one(metric);
    return series ? sums(series) : [];
  };
  const good = passed(outcomes);
  const cost = one("cost");
  const kpis: readonly Kpi[] = [
    {
      label: "Runs",
      metric: "runs",
      value: total("runs"),
      beside: open ? `${count(open)} wait` : "",
      series: one("runs"),
      spark: { values: values("runs"), shape: "bars", colour: "--c1" },
    },
    {
      label: "Passed",
      metric: "runs",
      value: outcomes ? percent(good.share, 1) : "…",
      beside: good.all ? `${count(good.good)} of ${count(good.all)} ended` : outcomes ? "no run ended" : "",
      series: undefined,
      spark: { values: good.values, shape: "area", colour: "--done-fill", most: 1 },
    },
    {
      label: "Cost",
      metric: "cost",
      value: total("cost"),
      beside: cost?.computed ? `~${money(cost.computed)} computed` : "",
      series: cost,
      spark: { values: values("cost"), shape: "bars", colour: "--c1" },
    },
    {
      label: "Tokens",
      metric: "tokens",
      value: kinds ? totalOf(kinds) : "…",
      beside: cachedShare(kinds),
      series: kinds,
      spark: { values: kinds ? sums(kinds) : [], shape: "bars", colour: "--c1" },
    },
    {
      label: "Tool failures",
      metric: "failures",
      value: total("failure_share"),
      beside: one("calls")?.total ? `${total("failures")} of ${total("calls")} calls` : "no calls",
      series: one("failure_share"),
      spark: { values: values("failure_share"), shape: "bars", colour: "--failed-fill" },
    },
    {
      label: "Turn latency p95",
      metric: "latency_p95",
      value: total("latency_p95"),
      beside: `p50 ${total("latency_p50")}`,
      series: one("latency_p95"),
      spark: { values: values("latency_p95"), shape: "area", colour: "--c4" },
    },
    {
      label: "Wait for a person, p50",
      metric: "wait_p50",
      value: total("wait_p50"),
      beside: `${total("waits").replace("–", "0")} asked, ${count(open)} open`,
      series: one("wait_p50"),
      spark: { values: values("wait_p50"), shape: "area", colour: "--signal-fill" },
    },
  ];
  return (
    <nav className="kpis" aria-label="Figures of this range" aria-busy={!plain}>
      {kpis.map((kpi) => (
        <a
          key={kpi.label}
          className="kpi"
          href={href(["insights"], {
            since: view.since,
            until: view.until,
            ...filtersIn(view),
            metric: kpi.metric === "cost" ? "" : kpi.metric,
          })}
        >
          <span className="kpi-name">{kpi.label}</span>
          <Figure text={plain ? kpi.value : "…"} />
          <Spark {...kpi.spark} />
          <span className="kpi-foot">
            <span className="kpi-more soft cut">{kpi.beside}</span>
            <Delta series={kpi.series} />
          </span>
        </a>
      ))}
    </nav>
  );
}

/** A figure, with its units smaller. */
export function Figure({ text }: { text: string }) {
  const parts = text.split(/(\s?[A-Za-z%]+)/);
  return <strong className="figure">{parts.map((part, n) => (n % 2 ? <small key={n}>{part}</small> : part))}</strong>;
}

const MOST = 9.99; // a greater change says no more than "many times"

/** The change on the range before. */
export function Delta({ series }: { series: Series | undefined }) {
  const change = series ? changeOf(series) : null;
  if (!series || change === null) return null;
  const words = change > MOST ? "> +999 %" : `${change < 0 ? "−" : "+"}${percent(Math.abs(change))}`;
  return (
    <span className="delta soft num" title={`${amount(series.unit, series.before)} in the period before`}>
      {words}
      <span className="unseen"> compared with the period before</span>
    </span>
  );
}
