/** Beside the charts of a run's cost: by model, agent or tool, where the figures come from, and what was in vain. */

import type { CostRow, Series, ShowAnswer, SpendRow } from "../lib/answers";
import { href } from "../lib/route";
import { isPriced, type Point, rewritten } from "../lib/run-cost";
import { telling } from "../lib/text";
import { cost, count, money, percent, short, spentBy } from "../lib/time";
import { Text } from "./bits";
import { Segmented } from "./tools";

const COLOURS = ["--c1", "--c2", "--c4", "--c3", "--c5"];
/** Kinds of token, in the order of a stack; a cost that was reported has none. */
export const KINDS: Record<string, string> = {
  "cache read": "--c5",
  input: "--c1",
  "cache write": "--c4",
  output: "--c2",
};
export const REPORTED = "reported as a whole";
export type CostBy = "model" | "agent" | "tool";

export function ByName({ rows, by, setBy }: { rows: readonly CostRow[]; by: CostBy; setBy: (by: CostBy) => void }) {
  const all = sumOf(rows);
  return (
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
            ["tool", "Tool"],
          ]}
          onChange={setBy}
        />
      </header>
      <span className="bars" aria-hidden="true">
        {rows.map(
          (row, n) =>
            spentBy(row) > 0 && (
              <i
                key={row.of}
                style={{ flexGrow: spentBy(row) / all.usd, background: `var(${COLOURS[n] ?? "--c6"})` }}
              />
            ),
        )}
      </span>
      <table>
        <tbody>
          {rows.map((row, n) => (
            <tr key={row.of}>
              <th scope="row">
                <i className="swatch" style={{ background: `var(${COLOURS[n] ?? "--c6"})` }} />{" "}
                <Text>{row.of ?? `no ${by}`}</Text>
              </th>
              <td className="num">{short(row.total_tokens)}</td>
              <td className="num">{all.usd ? percent(spentBy(row) / all.usd) : "–"}</td>
              <td className="num">{cost(row)}</td>
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row">Total</th>
            <td className="num">{short(all.tokens)}</td>
            <td className="num">{all.usd ? "100 %" : "–"}</td>
            <td className="num">{all.words}</td>
          </tr>
        </tfoot>
      </table>
      {by === "tool" && (
        <p className="soft small">The cost of a turn is that of the tools it called, in equal parts.</p>
      )}
    </section>
  );
}

export function Sources({ spends, shown }: { spends: readonly SpendRow[]; shown: ShowAnswer | undefined }) {
  const reported = sumOf(spends.filter((each) => each.cost_usd !== null));
  const computed = sumOf(spends.filter((each) => each.cost_usd === null && each.computed_usd !== null));
  const unknown = spends.filter((each) => !isPriced(each)).length;
  const whole = shown?.cost_with_sub_runs;
  const below = whole && shown ? spentBy(whole) - spentBy(shown) : 0;
  return (
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
          <dt>
            {count(unknown)} {unknown === 1 ? "call" : "calls"}
          </dt>
          <dd>without a known price</dd>
        </div>
        {whole && below > 0 && (
          <div>
            <dt>{cost({ ...whole, cost_usd: below, computed_usd: whole.computed_usd === null ? null : 0 })}</dt>
            <dd>in sub-runs, which are not drawn here</dd>
          </div>
        )}
      </dl>
      <a href={href(["settings", "prices"])}>Prices →</a>
    </section>
  );
}

/** Tokens and cost by kind, with what a million of them came to. */
export function Kinds({ rows }: { rows: readonly CostRow[] }) {
  const order = [...Object.keys(KINDS), null];
  const found = order.flatMap((kind) => rows.filter((row) => row.of === kind));
  return (
    <section className="chart-card" aria-labelledby="cost-kinds">
      <header>
        <h2 id="cost-kinds">By kind of token</h2>
      </header>
      <table>
        <tbody>
          {found.map((row) => (
            <tr key={row.of}>
              <th scope="row">{row.of ?? REPORTED}</th>
              <td className="num">{row.of === null ? "" : short(row.total_tokens)}</td>
              <td className="num soft">
                {row.of !== null && row.total_tokens && row.computed_usd && !row.lower_bound
                  ? `${money((row.computed_usd / row.total_tokens) * 1e6)} / M`
                  : ""}
              </td>
              <td className="num">{cost(row)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

interface NoGainProps {
  readonly points: readonly Point[];
  readonly kinds: Series | undefined;
  readonly loops: ShowAnswer["loops"];
  readonly byTurn: boolean;
}

export function NoGain({ points, kinds, loops, byTurn }: NoGainProps) {
  const again = byTurn ? rewritten(points, kinds) : [];
  if (!again.length && !loops.length) return null;
  return (
    <section className="chart-card" aria-labelledby="cost-vain">
      <header>
        <h2 id="cost-vain">Expensive for no gain</h2>
      </header>
      <ul className="plain-list vain">
        {again.map(({ turn, compacted, usd }) => (
          <li key={turn}>
            <span aria-hidden="true">⚠</span>
            <span className="grow">
              Turn {turn} wrote the cache again{compacted ? " after a compaction" : ""}
            </span>
            <span className="num">{usd === null ? "" : `~${money(usd)}`}</span>
          </li>
        ))}
        {loops.map((loop) => (
          <li key={`${loop.first_seq}/${loop.tool}`}>
            <span aria-hidden="true">⚠</span>
            <span className="grow">
              <code>
                <Text>{`${loop.tool}(${telling(loop.input ?? "")})`}</Text>
              </code>{" "}
              {loop.times} times, same input
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

type Priced = Pick<SpendRow, "cost_usd" | "computed_usd" | "lower_bound" | "total_tokens">;

/** What some rows come to together. */
export function sumOf(rows: readonly Priced[]) {
  const add = (of: (row: Priced) => number | null) =>
    rows.reduce<number | null>((sum, each) => (of(each) === null ? sum : (sum ?? 0) + (of(each) ?? 0)), null);
  const row = {
    cost_usd: add((each) => each.cost_usd),
    computed_usd: add((each) => each.computed_usd),
    lower_bound: rows.some((each) => each.lower_bound || !isPriced(each)),
  };
  return { words: cost(row), usd: spentBy(row), tokens: add((each) => each.total_tokens) ?? 0, row };
}
