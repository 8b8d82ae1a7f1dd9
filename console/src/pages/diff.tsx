/** Two runs side by side, and the place where they part on the screen at once. */

import { useEffect, useRef, useState } from "react";
import type { DiffAnswer, DiffStep } from "../lib/answers";
import { address } from "../lib/api";
import { runHref, setQuery, useRoute } from "../lib/route";
import { count, duration, money } from "../lib/time";
import { useAnswer } from "../lib/use";
import { Empty, Sorry, Text } from "../parts/bits";
import { plain } from "../parts/blocks";

export default function DiffPage() {
  const { parts, query } = useRoute();
  const a = query.get("a") ?? parts[1] ?? "";
  const b = query.get("b") ?? parts[2] ?? "";
  const runs = useAnswer(address("/api/runs", { limit: 500 }), "never");
  const path = a && b ? address("/api/diff", { a, b }) : null;
  const { data, trouble } = useAnswer(path, "never");
  const [all, setAll] = useState(false);
  const first = useRef<HTMLTableRowElement>(null);
  useEffect(() => {
    void first.current?.scrollIntoView({ block: "center" }); // a promise, in some browsers
  }, [data]);
  const names = (runs.data ?? []).map((run) => `${run.family}:${run.run}`);
  const rows = data?.rows ?? [];
  return (
    <div className="stack">
      <h1>Compare</h1>
      <div className="filters">
        {(["a", "b"] as const).map((side) => (
          <label key={side}>
            {side.toUpperCase()}
            <input
              list="known-runs"
              size={40}
              placeholder="a run: its name, or a part of it"
              defaultValue={side === "a" ? a : b}
              onBlur={(event) => setQuery({ [side]: event.target.value })}
              onKeyDown={(event) => {
                if (event.key === "Enter") setQuery({ [side]: event.currentTarget.value });
              }}
            />
          </label>
        ))}
        <datalist id="known-runs">
          {names.map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
      </div>
      {!path && <Empty title="Name two runs." run="tracklog diff RUN_A RUN_B" />}
      {trouble && <Sorry trouble={trouble} />}
      {data && (
        <>
          <p className={data.same ? "done" : "waiting"}>
            {data.same
              ? "They are the same, step by step."
              : `They differ: ${data.counts.same ?? 0} steps are equal, ${data.counts.changed ?? 0} changed, ${data.counts.only_a ?? 0} only in A, ${data.counts.only_b ?? 0} only in B.`}
          </p>
          <Deltas deltas={data.deltas} />
          <table className="diff">
            <thead>
              <tr>
                <th>
                  A <Text>{data.a}</Text>
                </th>
                <th>
                  B <Text>{data.b}</Text>
                </th>
              </tr>
            </thead>
            <tbody>
              {rows.slice(0, all ? undefined : 500).map((row, n) => (
                <tr key={n} ref={n ? null : first} className={`${row.kind} ${n ? "" : "first"}`}>
                  <Cell side={row.a} of={data.a} />
                  <td>
                    <Words side={row.b} of={data.b} />
                    {row.changes.map((change) => (
                      <div key={change.pointer} className="small">
                        <code>{plain(change.pointer)}</code>: <del>{plain(change.a)}</del> <ins>{plain(change.b)}</ins>
                      </div>
                    ))}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
          {!all && rows.length > 500 && <button onClick={() => setAll(true)}>Show {rows.length - 500} more</button>}
        </>
      )}
    </div>
  );
}

function Cell({ side, of }: { side: DiffStep | null; of: string }) {
  return (
    <td>
      <Words side={side} of={of} />
    </td>
  );
}

function Words({ side, of }: { side: DiffStep | null; of: string }) {
  if (!side) return <span className="soft">–</span>;
  const [family = "", ...rest] = of.split(":");
  return (
    <>
      <a className="small num" href={runHref(family, rest.join(":"), { seq: side.seq })}>
        {side.seq}
      </a>{" "}
      <Text>{side.words}</Text>
    </>
  );
}

function Deltas({ deltas }: { deltas: DiffAnswer["deltas"] }) {
  const say = (name: string, value: number | null) =>
    name.includes("usd") ? money(value) : name.includes("second") ? duration(value) : count(value);
  const found = Object.entries(deltas).filter(([, { a, b }]) => a || b);
  if (!found.length) return null;
  return (
    <dl className="facts">
      {found.map(([name, { a, b }]) => (
        <div key={name}>
          <dt>{name.replace(/_usd$/, "").replace(/_/g, " ")}</dt>
          <dd>
            {say(name, a)} → {say(name, b)}
          </dd>
        </div>
      ))}
    </dl>
  );
}
