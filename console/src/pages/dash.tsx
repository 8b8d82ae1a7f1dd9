/** One panel alone, at an address that stays: `#/dash/<panel>`. */

import { useRoute } from "../lib/route";
import { Empty } from "../parts/bits";
import { RalphRuns } from "../parts/panels";

export default function Dash() {
  const { parts } = useRoute();
  if (parts[1] !== "ralph-runs") return <Empty title="There is no such panel." run={<a href="#/">all runs</a>} />;
  return (
    <>
      <h1>ralph runs</h1>
      <div className="grid">
        <RalphRuns alone />
      </div>
    </>
  );
}
