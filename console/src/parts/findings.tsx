/** What was unexpected in a run, the newest first; and what it repeats. */

import { useState } from "react";
import type { FindingRow } from "../lib/answers";
import { inert } from "../lib/text";
import { count } from "../lib/time";
import { Text } from "./bits";

const LISTED = 200; // at once: more would hold up the page

export function Findings({ findings, choose }: { findings: readonly FindingRow[]; choose: (seq: number) => void }) {
  const [listed, list] = useState(LISTED);
  if (!findings.length) return <p className="soft pad">No findings.</p>;
  return (
    <div className="findings-list">
      <table>
        <thead>
          <tr>
            <th>record</th>
            <th>finding</th>
            <th>what</th>
          </tr>
        </thead>
        <tbody>
          {findings.slice(0, listed).map((finding, n) => (
            <tr key={n}>
              <td>
                <button className="link num" onClick={() => choose(finding.seq)}>
                  {finding.seq}
                </button>
              </td>
              <td className={finding.level === "error" ? "failed" : "warn"}>{inert(finding.name)}</td>
              <td>
                <Text>{finding.message}</Text>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {findings.length > listed && (
        <p className="soft small">
          The newest {count(listed)} of {count(findings.length)}; each stands in the transcript, too.{" "}
          <button className="link" onClick={() => list(listed + LISTED)}>
            {count(Math.min(LISTED, findings.length - listed))} more
          </button>
        </p>
      )}
    </div>
  );
}
