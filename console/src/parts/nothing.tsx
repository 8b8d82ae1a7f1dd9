/** The first page of a collector that has recorded nothing: the logs on this machine, and other ways to begin. */

import { useState } from "react";
import type { FoundSource } from "../lib/answers";
import { address, explained, post } from "../lib/api";
import { inert } from "../lib/text";
import { count, exact, size } from "../lib/time";
import { useAnswer } from "../lib/use";
import { Text } from "./bits";
import { Begin } from "./hosts";
import { Icon } from "./icons";

const WAYS = [
  ["tool", "Run an agent", "Its output is shown unchanged.", "tracklog exec -- claude"],
  ["sub", "Pipe or post lines", "From any language, any CI.", "some-agent | tracklog record"],
  ["play", "Look around first", "An invented fleet, in a folder of its own.", "tracklog demo"],
] as const;

export function Nothing() {
  return (
    <div className="page nothing">
      <svg className="pulse-line" viewBox="0 0 560 60" aria-hidden="true">
        <path className="rail" d="M0 10H560M0 50H560" />
        <path className="rest" d="M0 30H560" />
        <path className="beat" d="M250 30h22l10-22 14 42 8-20h14" />
        <circle cx="320" cy="30" r="4" />
      </svg>
      <h2>Nothing was recorded yet.</h2>
      <p className="soft">tracklog listens. The first event appears here within a second, without a reload.</p>
      <Found />
      <div className="ways">
        {WAYS.map(([icon, title, about, command]) => (
          <section key={title} className="chart-card">
            <h3>
              <Icon name={icon} size={14} /> {title}
            </h3>
            <p className="soft">{about}</p>
            <pre className="code" tabIndex={0}>
              {command}
            </pre>
          </section>
        ))}
      </div>
      <p className="soft">
        Agents that send OpenTelemetry: set <code>OTEL_EXPORTER_OTLP_ENDPOINT={location.origin}</code>.
      </p>
      <Begin />
    </div>
  );
}

/** The logs of agents on this machine, to be imported; nothing where the collector runs elsewhere. */
function Found() {
  const { data } = useAnswer(address("/api/sources/found"), "seldom");
  const [left, setLeft] = useState<readonly string[]>([]);
  const [trouble, setTrouble] = useState("");
  const [begun, setBegun] = useState(false);
  const sources = data?.sources ?? [];
  if (!data) return null;
  if (!sources.length)
    return (
      <section className="chart-card found">
        <p className="soft">
          No logs of agents were found in their usual folders. <code>tracklog import FOLDER</code> reads others.
        </p>
      </section>
    );
  const chosen = sources.filter((each) => !left.includes(each.name));
  const files = chosen.reduce((sum, each) => sum + each.files, 0);
  const bring = async () => {
    setBegun(true);
    try {
      await post("/api/import", {}, { names: chosen.map((each) => each.name) });
    } catch (error) {
      setTrouble(explained(error));
      setBegun(false);
    }
  };
  const busy = begun || data.importing;
  return (
    <section className="chart-card found" aria-labelledby="found">
      <header>
        <h3 id="found">Found on this machine</h3>
        <span className="soft about">nothing is sent anywhere</span>
        <span className="grow" />
        <button className="first" disabled={busy || !chosen.length} onClick={() => void bring()}>
          {busy ? "Importing …" : `Import ${count(files)} ${files === 1 ? "session" : "sessions"}`}
        </button>
      </header>
      {trouble && <p className="failed">{inert(trouble)}</p>}
      <ul>
        {sources.map((each) => (
          <Source
            key={each.name}
            source={each}
            on={!left.includes(each.name)}
            turn={() =>
              setLeft((old) => (old.includes(each.name) ? old.filter((one) => one !== each.name) : [...old, each.name]))
            }
          />
        ))}
      </ul>
    </section>
  );
}

function Source({ source, on, turn }: { source: FoundSource; on: boolean; turn: () => void }) {
  const day = (at: string) => exact(at).slice(0, 10);
  const [first, last] = [day(source.first), day(source.last)];
  return (
    <li>
      <label title={inert(source.about)}>
        <input type="checkbox" checked={on} onChange={turn} />
        <b>
          <Text>{source.name}</Text>
        </b>
        <span className="soft grow">
          {count(source.files)} {source.files === 1 ? "session" : "sessions"}, {first}
          {last === first ? "" : ` – ${last}`}
        </span>
        <span className="num soft">{size(source.bytes)}</span>
      </label>
    </li>
  );
}
