/** The runs that belong together as a list: a run, its parents and its sub-runs. */

import type { TreeRow } from "../lib/answers";
import { runHref } from "../lib/route";
import { cost } from "../lib/time";
import { outcomeOf, StatusMark, Text } from "./bits";

export function Tree({ rows, family, run }: { rows: readonly TreeRow[]; family: string; run: string }) {
  return (
    <ul className="tree card">
      {rows.map((node, n) => {
        const [of = "", ...rest] = node.key.split(":");
        const name = rest.join(":");
        const here = of === family && name === run;
        return (
          <li key={n} style={{ paddingLeft: `min(${node.depth * 1.4}rem, 45%)` }}>
            {node.run ? <StatusMark status={node.run.status} /> : <span className="status soft">not recorded</span>}
            <a href={runHref(of, name)} aria-current={here ? "page" : undefined}>
              <Text>{node.run?.title ?? name}</Text>
            </a>
            <span className="soft small cut">
              <Text>
                {[node.run?.title ? name : "", node.run ? outcomeOf(node.run) : "", node.again ? "shown above" : ""]
                  .filter((each) => each && each !== "–")
                  .join(" · ")}
              </Text>
            </span>
            <span className="soft small num">{node.run && cost(node.run)}</span>
          </li>
        );
      })}
    </ul>
  );
}
