/** A series as a chart: its keys in the order and the colours that they keep. */

import { type ReactNode, useMemo, useState } from "react";
import type { Series } from "../lib/answers";
import { shown } from "../lib/fleet";
import type { Query } from "../lib/route";
import { amount, keyName, sums, totalOf } from "../lib/series";
import { ChartCard, Legend, type Table } from "./card";
import { coloured } from "./colours";
import { spanText } from "./scale";
import { type Brush, type Line, TimeSeries } from "./time-series";

/** The begin of each bucket and the end of the last one, in seconds since 1970. */
export function edgesOf({ at, bucket }: Pick<Series, "at" | "bucket">): number[] {
  const begins = at.map((each) => Date.parse(each) / 1000);
  const last = begins.at(-1);
  if (last === undefined) return [0, 1];
  if (bucket !== null) return [...begins, last + bucket];
  const end = new Date(last * 1000);
  end.setMonth(end.getMonth() + 1);
  return [...begins, end.getTime() / 1000];
}

const nameOf = (series: Series, key: Series["keys"][number]): string => shown(series.by, keyName(series, key));

export function linesOf(series: Series): Line[] {
  return coloured(series).map(({ key, colour }) => ({
    name: nameOf(series, key),
    colour,
    values: key.values,
    say: (value) => amount(series.unit, value, key.computed ? { computed: value } : {}),
  }));
}

/** Percentiles are drawn as lines, each in a colour and a dash of its own. */
export function percentileLines(all: readonly Series[]): Line[] {
  return all.flatMap((series, n) =>
    series.keys.slice(0, 1).map((key) => ({
      name: series.metric.replace(/^\w+_/, ""),
      colour: n ? "--c1" : "--c4",
      dashed: n > 0,
      values: key.values,
      say: (value: number) => amount(series.unit, value),
    })),
  );
}

function tableOf(edges: readonly number[], lines: readonly Line[]): Table {
  return {
    heads: ["time", ...lines.map((line) => line.name)],
    rows: edges.slice(0, -1).map((from, n) => [
      spanText(from, edges[n + 1] ?? from),
      ...lines.map((line) => {
        const value = line.values[n] ?? null;
        return value === null ? "no record" : line.say(value);
      }),
    ]),
  };
}

interface Props {
  readonly title: string;
  readonly about?: ReactNode;
  /** Of percentiles several, each a line; else one, whose keys are stacked. */
  readonly series: readonly Series[];
  readonly height: number;
  readonly tabled: boolean;
  readonly figure?: string;
  readonly brief?: boolean;
  readonly legend?: "above" | "below" | "sums";
  readonly className?: string;
  readonly brush?: Brush;
  readonly onBrush?: (brush: Brush) => void;
  readonly link?: (from: number, to: number) => Query;
  readonly children?: React.ReactNode;
}

export function SeriesChart(props: Props) {
  const {
    title,
    about,
    series,
    height,
    tabled,
    brief = false,
    legend = "below",
    className,
    brush,
    onBrush,
    link,
  } = props;
  const [alone, setAlone] = useState<string | null>(null);
  const [first] = series;
  const lined = first?.unit === "seconds" || first?.unit === "share";
  const edges = useMemo(() => (first ? edgesOf(first) : [0, 1]), [first]);
  const every = useMemo(() => (lined ? percentileLines(series) : first ? linesOf(first) : []), [series, first, lined]);
  const table = useMemo(() => tableOf(edges, every), [edges, every]);
  if (!first) return null;
  const lines = every.some((line) => line.name === alone) ? every.filter((line) => line.name === alone) : every;
  const figure = props.figure ?? totalOf(first);
  const all = sums(first);
  const keys = coloured(first);
  const entries = every.map((line, n) => ({
    name: line.name,
    colour: line.colour,
    ...(line.dashed ? { dashed: true } : {}),
    ...(legend === "sums" ? { sum: amount(first.unit, keys[n]?.key.sum ?? null) } : {}),
  }));
  const names = <Legend entries={entries} alone={alone} onAlone={setAlone} />;
  return (
    <ChartCard
      title={title}
      about={about}
      figure={legend === "above" ? null : figure}
      legend={legend === "above" ? names : null}
      table={table}
      tabled={tabled}
      {...(className ? { className } : {})}
    >
      <TimeSeries
        label={`${title}: ${figure} from ${spanText(edges[0] ?? 0, edges.at(-1) ?? 0)}, ${every.map((line) => line.name).join(", ")}`}
        edges={edges}
        lines={lines}
        unit={first.unit}
        shape={lined ? "lines" : "stack"}
        partial={first.partial_last}
        height={height}
        brief={brief}
        {...(brush === undefined ? {} : { brush })}
        {...(onBrush ? { onBrush } : {})}
        {...(link ? { link } : {})}
        {...(lined || lines.length < 2
          ? {}
          : { total: (n: number) => amount(first.unit, all[n], first.computed ? { computed: all[n] ?? null } : {}) })}
      />
      {legend !== "above" && names}
      {props.children}
    </ChartCard>
  );
}
