/** What a run spent: turn by turn on one axis, and by model, agent, tool and kind of token. */

import { useMemo, useState } from "react";
import { ChartCard, Legend, type Table } from "../charts/card";
import { type Line, TimeSeries } from "../charts/time-series";
import type { Series, ShowAnswer } from "../lib/answers";
import { address } from "../lib/api";
import { hits, isPriced, ofSpend, ofTurn, type Point } from "../lib/run-cost";
import { count, money, percent, short, spentBy } from "../lib/time";
import { useAnswer, useKeys, useLast } from "../lib/use";
import { Empty } from "./bits";
import { ByName, type CostBy, KINDS, Kinds, NoGain, REPORTED, Sources, sumOf } from "./cost-side";

const LOW = 98; // pixels
const HIGH = 138;

interface ChartProps {
  readonly title: string;
  readonly figure: string;
  readonly about: string;
  readonly unit: Series["unit"];
  readonly shape: "stack" | "lines";
  readonly lines: readonly Line[];
  readonly step: string;
  readonly height: number;
  readonly tabled: boolean;
  readonly legend?: boolean;
  readonly limit?: { readonly value: number; readonly label: string } | undefined;
  readonly marks?: readonly { readonly bucket: number; readonly label: string }[];
}

/** Figures of each turn, or of each call where no turn is known; the axis counts them. */
function Chart(props: ChartProps) {
  const { title, figure, about, lines, step, tabled, limit, marks = [] } = props;
  const [alone, setAlone] = useState<string | null>(null);
  const steps = lines[0]?.values.length ?? 0;
  const edges = Array.from({ length: steps + 1 }, (_, n) => n + 1);
  const noted = new Map(marks.map((each) => [each.bucket, each.label]));
  const table: Table = {
    heads: [step, ...lines.map((line) => line.name), ...(marks.length ? ["note"] : [])],
    rows: edges.slice(0, -1).map((n) => [
      String(n),
      ...lines.map((line) => {
        const value = line.values[n - 1] ?? null;
        return value === null ? "–" : line.say(value);
      }),
      ...(marks.length ? [noted.get(n - 1) ?? ""] : []),
    ]),
  };
  const shown = lines.some((line) => line.name === alone) ? lines.filter((line) => line.name === alone) : lines;
  const more = [limit?.label, ...marks.map((each) => `${each.label} before ${step} ${each.bucket + 1}`)];
  return (
    <ChartCard
      title={title}
      about={
        <>
          <strong>{figure}</strong> {about}
        </>
      }
      legend={props.legend && <Legend entries={lines} alone={alone} onAlone={setAlone} />}
      table={table}
      tabled={tabled}
    >
      <TimeSeries
        label={[`${title}: ${figure} ${about}`, ...more.filter(Boolean)].join(", ")}
        edges={edges}
        lines={shown}
        unit={props.unit}
        shape={props.shape}
        partial={false}
        height={props.height}
        counted={step}
        {...(limit ? { limit } : {})}
        marks={marks}
      />
    </ChartCard>
  );
}

interface Props {
  readonly family: string;
  readonly run: string;
  /** The record as of which everything is shown; 0 for the last. */
  readonly at: number;
  readonly shown: ShowAnswer | undefined;
}

/** Everything that is asked about the costs of a run. */
function useCosts({ family, run, at }: Props, by: CostBy) {
  const fresh = at ? "never" : { family, run };
  const then = at ? { at } : {};
  const key = `${family}:${run}`;
  const spends = useAnswer(address("/api/runs/{family}/{run}/spends", { family, run }), fresh).data;
  const turns = useAnswer(address("/api/runs/{family}/{run}/turns", { family, run, ...then }), fresh).data;
  const kinds = useAnswer(
    address("/api/series", { metric: ["cost"], by: "token_kind", bucket: "turn", run: key, ...then }),
    fresh,
  ).data;
  const rows = useAnswer(address("/api/costs", { run: key, by: [by], ...then }), fresh).data;
  const tokens = useAnswer(address("/api/costs", { run: key, by: ["token_kind"], ...then }), fresh).data;
  const limits = useAnswer(address("/api/runs/{family}/{run}/cost-limits", { family, run }), "seldom").data;
  return {
    spends: useLast(spends?.filter((each) => !at || each.seq <= at)),
    turns: useLast(turns?.rows),
    kinds: useLast(kinds) as Series | undefined,
    rows: useLast(rows),
    tokens: useLast(tokens),
    limit: useLast(limits)?.limits[0],
  };
}

export default function CostTab(props: Props) {
  const { shown } = props;
  const [by, setBy] = useState<CostBy>("model");
  const [tabled, setTabled] = useState(false);
  useKeys({ t: () => setTabled(!tabled) });
  const { spends, turns, kinds, rows, tokens, limit } = useCosts(props, by);
  const drawn = useMemo(() => {
    if (!spends || !turns) return null;
    const points = turns.some((each) => isPriced(each) || each.context_tokens !== null)
      ? turns.map(ofTurn)
      : spends.map(ofSpend);
    return { points, byTurn: points.length === turns.length && turns.length > 0 };
  }, [spends, turns]);
  const charts = useMemo(() => drawn && linesOf(drawn.points, drawn.byTurn ? kinds : undefined), [drawn, kinds]);
  if (!spends || !drawn || !charts) return <p className="soft pad">Loading …</p>;
  if (!spends.length) return <Empty title="This run reported no tokens and no cost." run="" />;
  const { points, byTurn } = drawn;
  const step = byTurn ? "turn" : "call";
  const all = sumOf(spends);
  const contexts = points.flatMap(({ context }) => (context === null ? [] : [context]));
  const share = limit ? percent(all.usd / limit.usd) : all.words;
  return (
    <div className="cost-tab">
      <div className="cost-charts">
        <Chart
          title={`Cost per ${step}`}
          figure={all.words}
          about={`${count(points.length)} ${points.length === 1 ? step : `${step}s`}`}
          unit="usd"
          shape="stack"
          lines={charts.cost}
          step={step}
          height={HIGH}
          tabled={tabled}
          legend={charts.cost.length > 1}
        />
        <Chart
          title="Cumulative"
          figure={share}
          about={limit ? `of the alert ${limit.rule}` : "so far"}
          unit="usd"
          shape="lines"
          lines={charts.sum}
          step={step}
          height={LOW}
          tabled={tabled}
          limit={limit && { value: limit.usd, label: `alert at ${money(limit.usd)}` }}
        />
        <Chart
          title="Context window"
          figure={contexts.length ? `${short(contexts.at(-1))} tokens` : "–"}
          about={
            contexts.length ? `now, ${short(Math.max(...contexts))} at its fullest` : "no input tokens were reported"
          }
          unit="tokens"
          shape="lines"
          lines={charts.context}
          step={step}
          height={LOW}
          tabled={tabled}
          marks={charts.compactions}
        />
        <Chart
          title="Cache hits"
          figure={percent(cachedShare(points))}
          about="of input tokens"
          unit="share"
          shape="lines"
          lines={charts.hits}
          step={step}
          height={LOW}
          tabled={tabled}
        />
      </div>
      <div className="cost-side">
        <ByName rows={rows ?? []} by={by} setBy={setBy} />
        <Sources spends={spends} shown={shown} />
        <Kinds rows={tokens ?? []} />
        <NoGain points={points} kinds={kinds} loops={shown?.loops ?? []} byTurn={byTurn} />
      </div>
    </div>
  );
}

function cachedShare(points: readonly Point[]): number | null {
  const sum = (of: (point: Point) => number | null) => points.reduce((all, each) => all + (of(each) ?? 0), 0);
  const known = points.some((each) => each.fresh !== null);
  return hits({
    read: sum((each) => each.read),
    written: sum((each) => each.written),
    fresh: known ? sum((each) => each.fresh) : null,
  });
}

/** The lines of the four charts. */
function linesOf(points: readonly Point[], kinds: Series | undefined) {
  const dollars = (value: number) => money(value);
  let sum = 0;
  const whole: Line = {
    name: "cost",
    colour: "--c1",
    values: points.map((each) => (isPriced(each) ? spentBy(each) : null)),
    say: dollars,
  };
  const split = kinds?.keys.map(
    ({ key, values }): Line => ({
      name: key ?? REPORTED,
      colour: (key && KINDS[key]) || "--c6",
      values,
      say: (value) => (key ? `~${money(value)}` : money(value)),
    }),
  );
  const one = (name: string, colour: string, of: (point: Point) => number | null, say: Line["say"]): Line[] => [
    { name, colour, values: points.map(of), say, filled: true },
  ];
  return {
    cost: split?.length && split[0]?.values.length === points.length ? split : [whole],
    sum: one(
      "cost so far",
      "--c1",
      (each) => {
        sum += spentBy(each);
        return sum;
      },
      dollars,
    ),
    context: one(
      "context",
      "--c4",
      (each) => each.context,
      (value) => `${short(value)} tokens`,
    ),
    compactions: points.flatMap(({ compaction }, bucket) => {
      if (!compaction) return [];
      const { before_tokens: before, after_tokens: after } = compaction;
      const from = before ?? points[bucket - 1]?.context ?? null;
      const to = after ?? points[bucket]?.context ?? null;
      const told = from !== null && to !== null ? `: ${short(from)} → ${short(to)}` : "";
      return [{ bucket, label: `compacted${told}` }];
    }),
    hits: one("from the cache", "--c2", hits, (value) => percent(value)),
  };
}
