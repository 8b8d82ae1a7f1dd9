/** What the fleet comes to: tools, tokens, cost, audits, agents. */

import { address } from "../lib/api";
import { useAnswer } from "../lib/use";
import { Panels } from "../parts/panels";

export default function Insights() {
  const { data } = useAnswer(address("/api/board", { limit: 1 }), "never");
  return (
    <>
      <h1 className="unseen">Insights</h1>
      <Panels bare={data?.all === 0} />
    </>
  );
}
