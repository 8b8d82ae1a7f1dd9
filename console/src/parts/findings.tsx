/** What was unexpected in a run, the newest first; and what it repeats. */

import type { FindingRow } from "../lib/answers";
import { inert } from "../lib/text";
import { count } from "../lib/time";
import { Text } from "./bits";

const LISTED = 1000;

export function Findings({ findings, choose }: { findings: readonly FindingRow[]; choose: (seq: number) => void }) {
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
          {findings.slice(0, LISTED).map((finding, n) => (
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
      {findings.length > LISTED && (
        <p className="soft small">
          The newest {count(LISTED)} of {count(findings.length)}; each stands in the transcript, too.
        </p>
      )}
    </div>
  );
}
