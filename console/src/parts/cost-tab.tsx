/** What a run spent: turn by turn on one axis, and by model, agent and kind of token. */

import { useMemo, useState } from "react";
import { ChartCard, type Table } from "../charts/card";
import { type Line, TimeSeries } from "../charts/time-series";
import type { Series, ShowAnswer, SpendRow } from "../lib/answers";
import { cost, count, money, percent, short, spentBy } from "../lib/time";
import { Empty, Text } from "./bits";
import { Segmented } from "./tools";

const COLOURS = ["--c1", "--c2", "--c3", "--c4", "--c5"];
const LOW = 116; // pixels
const HIGH = 150;

const isPriced = (spend: SpendRow): boolean => spend.cost_usd !== null || spend.computed_usd !== null;

/** Spends of one name, summed up; the most expensive first. */
export function grouped(spends: readonly SpendRow[], by: "model" | "agent") {
  const found = new Map<string, SpendRow[]>();
  for (const spend of spends) {
    const key = spend[by] ?? `no ${by}`;
    found.set(key, [...(found.get(key) ?? []), spend]);
  }
  return [...found]
    .map(([key, each]) => ({ key, ...sumOf(each) }))
    .sort((a, b) => b.usd - a.usd || b.tokens - a.tokens);
}

export function sumOf(spends: readonly SpendRow[]) {
  const add = (of: (spend: SpendRow) => number | null) =>
    spends.reduce<number | null>((sum, each) => (of(each) === null ? sum : (sum ?? 0) + (of(each) ?? 0)), null);
  const row = {
    cost_usd: add((each) => each.cost_usd),
    computed_usd: add((each) => each.computed_usd),
    lower_bound: spends.some((each) => each.lower_bound || !isPriced(each)),
  };
  const tokens = spends.reduce((sum, each) => sum + (each.total_tokens ?? 0), 0);
  return { words: cost(row), usd: spentBy(row), tokens, row };
}

/** Each spend of a series as a chart; the axis counts the spends. */
function Chart(props: {
  readonly title: string;
  readonly about: string;
  readonly figure?: string;
  readonly unit: Series["unit"];
  readonly shape: "stack" | "lines";
  readonly lines: readonly Line[];
  readonly edges: readonly number[];
  readonly height: number;
  readonly tabled: boolean;
}) {
  const { title, about, figure, unit, shape, lines, edges, height, tabled } = props;
  const table: Table = {
    heads: ["call", ...lines.map((line) => line.name)],
    rows: edges.slice(0, -1).map((n) => [
      String(n),
      ...lines.map((line) => {
        const value = line.values[n - 1] ?? null;
        return value === null ? "–" : line.say(value);
      }),
    ]),
  };
  return (
    <ChartCard title={title} about={about} table={table} tabled={tabled}>
      <TimeSeries
        label={`${title}: ${figure ?? about}`}
        edges={edges}
        lines={lines}
        unit={unit}
        shape={shape}
        partial={false}
        height={height}
        counted
      />
    </ChartCard>
  );
}

export default function CostTab({
  spends,
  run,
}: {
  spends: readonly SpendRow[] | undefined;
  run: ShowAnswer | undefined;
}) {
  const [by, setBy] = useState<"model" | "agent">("model");
  const groups = useMemo(() => grouped(spends ?? [], by), [spends, by]);
  const drawn = useMemo(() => charts(spends ?? []), [spends]);
  if (!spends) return <p className="soft pad">Loading …</p>;
  if (!spends.length) return <Empty title="This run reported no tokens and no cost." run="" />;
  const all = sumOf(spends);
  const reported = sumOf(spends.filter((each) => each.cost_usd !== null));
  const computed = sumOf(spends.filter((each) => each.cost_usd === null && each.computed_usd !== null));
  const unknown = spends.filter((each) => !isPriced(each));
  const last = spends.at(-1);
  return (
    <div className="cost-tab">
      <div className="cost-charts">
        <Chart
          title="Cost per model call"
          about={`${all.words}, ${count(spends.length)} ${spends.length === 1 ? "call" : "calls"}`}
          unit="usd"
          shape="stack"
          lines={drawn.cost}
          edges={drawn.edges}
          height={HIGH}
          tabled={false}
        />
        <Chart
          title="Cumulative"
          about={all.words}
          unit="usd"
          shape="lines"
          lines={drawn.sum}
          edges={drawn.edges}
          height={LOW}
          tabled={false}
        />
        <Chart
          title="Context"
          about={last?.input_tokens ? `${short(last.input_tokens)} tokens of input at last` : ""}
          unit="tokens"
          shape="lines"
          lines={drawn.context}
          edges={drawn.edges}
          height={LOW}
          tabled={false}
        />
        <Chart
          title="Cache hits"
          about={`${percent(cachedShare(spends))} of input tokens`}
          unit="share"
          shape="lines"
          lines={drawn.hits}
          edges={drawn.edges}
          height={LOW}
          tabled={false}
        />
      </div>
      <div className="cost-side">
        <section className="chart-card" aria-labelledby="cost-by">
          <header>
            <h2 id="cost-by">By {by}</h2>
            <span className="grow" />
            <Segmented
              label="Cost by"
              value={by}
              options={[
                ["model", "Model"],
                ["agent", "Agent"],
              ]}
              onChange={setBy}
            />
          </header>
          <span className="bars" aria-hidden="true">
            {groups.map(
              (group, n) =>
                group.usd > 0 && (
                  <i
                    key={group.key}
                    style={{ flexGrow: group.usd / all.usd, background: `var(${COLOURS[n] ?? "--c6"})` }}
                  />
                ),
            )}
          </span>
          <table>
            <tbody>
              {groups.map((group, n) => (
                <tr key={group.key}>
                  <th scope="row">
                    <i className="swatch" style={{ background: `var(${COLOURS[n] ?? "--c6"})` }} />{" "}
                    <Text>{group.key}</Text>
                  </th>
                  <td className="num">{short(group.tokens)}</td>
                  <td className="num">{all.usd ? percent(group.usd / all.usd) : "–"}</td>
                  <td className="num">{group.words}</td>
                </tr>
              ))}
            </tbody>
            <tfoot>
              <tr>
                <th scope="row">Total</th>
                <td className="num">{short(all.tokens)}</td>
                <td className="num">100 %</td>
                <td className="num">{all.words}</td>
              </tr>
            </tfoot>
          </table>
        </section>
        <section className="chart-card" aria-labelledby="cost-from">
          <header>
            <h2 id="cost-from">Where the figures come from</h2>
          </header>
          <dl className="pairs">
            <div>
              <dt>{reported.row.cost_usd === null ? "–" : money(reported.usd)}</dt>
              <dd>reported by the agent</dd>
            </div>
            <div>
              <dt>{computed.row.computed_usd === null ? "–" : `~${money(computed.usd)}`}</dt>
              <dd>computed from tokens and list prices</dd>
            </div>
            <div>
              <dt>{unknown.length ? count(unknown.length) : "0"} calls</dt>
              <dd>without a known price</dd>
            </div>
          </dl>
        </section>
        <Kinds spends={spends} />
        {(run?.loops.length ?? 0) > 0 && (
          <section className="chart-card" aria-labelledby="cost-vain">
            <header>
              <h2 id="cost-vain">Repeated without a change</h2>
            </header>
            <ul className="plain-list">
              {run?.loops.map((loop) => (
                <li key={`${loop.first_seq}/${loop.tool}`} className="warn">
                  <Text>{`${loop.tool}(${loop.input ?? ""})`}</Text> {loop.times} times, same input
                </li>
              ))}
            </ul>
          </section>
        )}
      </div>
    </div>
  );
}

function cachedShare(spends: readonly SpendRow[]): number | null {
  const sum = (of: (spend: SpendRow) => number | null) => spends.reduce((all, each) => all + (of(each) ?? 0), 0);
  const input = sum((each) => each.input_tokens);
  return input ? Math.min(sum((each) => each.cached_tokens) / input, 1) : null;
}

function Kinds({ spends }: { spends: readonly SpendRow[] }) {
  const sum = (of: (spend: SpendRow) => number | null) => spends.reduce((all, each) => all + (of(each) ?? 0), 0);
  const [read, written] = [sum((each) => each.cached_tokens), sum((each) => each.cache_write_tokens)];
  const input = Math.max(sum((each) => each.input_tokens) - read - written, 0);
  const rows: [string, number][] = [
    ["cache read", read],
    ["cache write", written],
    ["input", input],
    ["output", sum((each) => each.output_tokens)],
  ];
  return (
    <section className="chart-card" aria-labelledby="cost-kinds">
      <header>
        <h2 id="cost-kinds">By kind of token</h2>
      </header>
      <table>
        <tbody>
          {rows.map(([name, tokens]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td className="num">{short(tokens)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** The lines of the four charts; each spend is one step of the axis. */
function charts(spends: readonly SpendRow[]) {
  const models = [...new Set(spends.map((each) => each.model ?? "no model"))];
  const dollars = (value: number) => money(value);
  let sum = 0;
  const one = (name: string, colour: string, values: (number | null)[], say: (value: number) => string): Line => ({
    name,
    colour,
    values,
    say,
  });
  return {
    edges: Array.from({ length: spends.length + 1 }, (_, n) => n + 1),
    cost: models.map((model, n) =>
      one(
        model,
        COLOURS[n] ?? "--c6",
        spends.map((each) => (isPriced(each) ? ((each.model ?? "no model") === model ? spentBy(each) : 0) : null)),
        dollars,
      ),
    ),
    sum: [
      one(
        "cost so far",
        "--c1",
        spends.map((each) => {
          sum += spentBy(each);
          return sum;
        }),
        dollars,
      ),
    ],
    context: [
      one(
        "input",
        "--c4",
        spends.map((each) => each.input_tokens),
        (value) => `${short(value)} tokens`,
      ),
    ],
    hits: [
      one(
        "from the cache",
        "--c2",
        spends.map((each) => (each.input_tokens ? Math.min((each.cached_tokens ?? 0) / each.input_tokens, 1) : null)),
        (value) => percent(value),
      ),
    ],
  };
}
