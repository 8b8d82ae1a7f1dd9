/** Metrics over time: the question that a page asks, and its figures as a person reads them. */

import type { Series, SeriesKey } from "./answers";
import { address } from "./api";
import { FACETS, type FacetKey, type FleetView } from "./fleet";
import { cost, count, duration, percent, short } from "./time";
import { type Answer, type Fresh, useAnswer } from "./use";

type Asked = NonNullable<NonNullable<Parameters<typeof address<"/api/series">>[1]>>;
export type Metric = NonNullable<Asked["metric"]>[number];
export type By = NonNullable<Asked["by"]>;
export type Bucket = NonNullable<Asked["bucket"]>;

/** The filters that a series knows; it has no text, no status, and cannot exclude. */
const FILTERS = ["project", "branch", "model", "agent", "source"] as const satisfies readonly FacetKey[];

export type Scope = Pick<FleetView, "facets" | "since" | "until">;

/** The filters of the fleet that a series has, by their names in an address. */
export function filtersIn({ facets }: Pick<FleetView, "facets">): Partial<Record<FacetKey, readonly string[]>> {
  const given = FILTERS.map((key) => [key, facets[key].filter((each) => !each.startsWith("!"))] as const);
  return Object.fromEntries(given.filter(([, values]) => values.length));
}

export interface Wanted {
  readonly metric: readonly Metric[];
  readonly by?: By;
  readonly bucket?: Bucket;
  readonly top?: number;
}

export function seriesAddress(scope: Scope, { metric, by, bucket, top }: Wanted) {
  const facets = Object.entries(filtersIn(scope)).map(([key, values]) => [FACETS[key as FacetKey], values]);
  return address("/api/series", {
    metric,
    ...(by ? { by } : {}),
    ...(bucket ? { bucket } : {}),
    ...(top ? { top } : {}),
    since: scope.since || "all",
    until: scope.until,
    tz: Intl.DateTimeFormat().resolvedOptions().timeZone,
    ...(Object.fromEntries(facets) as Pick<Asked, "project" | "branch" | "model" | "agent" | "dialect">),
  });
}

/** One series for each metric that is asked for. */
export function useSeries(
  scope: Scope,
  wanted: Wanted,
  fresh: Fresh = "news",
): Answer<readonly Series[]> & { readonly path: string } {
  const path = seriesAddress(scope, wanted);
  const answer = useAnswer(path, fresh);
  const { data } = answer;
  return { ...answer, path, data: data && (Array.isArray(data) ? (data as readonly Series[]) : [data as Series]) };
}

/** The series of a metric among several. */
export function seriesOf(all: readonly Series[] | undefined, metric: Metric): Series | undefined {
  return all?.find((each) => each.metric === metric);
}

/** A key of a series as a person reads it. */
export function keyName(series: Pick<Series, "by">, { key, other }: Pick<SeriesKey, "key" | "other">): string {
  if (other) return "other";
  return key ?? `no ${series.by === "none" ? "name" : series.by.replace(/_/g, " ")}`;
}

/** What a series, or one of its keys, comes to: the only place that knows the units. */
export function amount(
  unit: Series["unit"],
  value: number | null | undefined,
  { computed = null, lower_bound = false }: { computed?: number | null; lower_bound?: boolean } = {},
): string {
  if (value === null || value === undefined) return "–";
  switch (unit) {
    case "usd":
      return cost({ cost_usd: value - (computed ?? 0), computed_usd: computed, lower_bound });
    case "tokens":
      return short(value);
    case "share":
      return percent(value, 1);
    case "seconds":
      return duration(value);
    default:
      return count(value);
  }
}

export const totalOf = (series: Series): string => amount(series.unit, series.total, series);

/** The change on the range before, in percent; null where there is nothing to compare. */
export function changeOf({ total, before }: Pick<Series, "total" | "before">): number | null {
  return total === null || !before ? null : total / before - 1;
}

/** The sum of all keys in each bucket; null where nothing was recorded. */
export function sums(series: Series, keys: readonly SeriesKey[] = series.keys): (number | null)[] {
  return series.at.map((_, n) => {
    const values = keys.map((key) => key.values[n] ?? null).filter((each) => each !== null);
    return values.length ? values.reduce((a, b) => a + b, 0) : null;
  });
}
