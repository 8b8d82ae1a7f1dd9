/** Settings: what the collector can be told and by which command, and how this browser shows it. */

import { useState } from "react";
import { address } from "../lib/api";
import { setSingleKeys, singleKeys } from "../lib/keys";
import { useLive } from "../lib/live";
import { href, useRoute } from "../lib/route";
import { inert } from "../lib/text";
import { ago, count } from "../lib/time";
import { useAnswer, useNow } from "../lib/use";
import { Pairs, Text } from "../parts/bits";
import { KeyList } from "../parts/key-list";
import { NotifyMe } from "../parts/notify";
import { Segmented } from "../parts/tools";

const PARTS = [
  ["tokens", "Access tokens"],
  ["prices", "Prices"],
  ["alerts", "Alerts"],
  ["storage", "Storage"],
  ["secrets", "Secrets"],
  ["witnesses", "Checkpoints"],
  ["sources", "Sources"],
  ["appearance", "Appearance"],
  ["keys", "Keyboard"],
] as const;
type Part = (typeof PARTS)[number][0];

interface Props {
  readonly theme: string;
  readonly turn: () => void;
}

export default function Settings({ theme, turn }: Props) {
  const { parts } = useRoute();
  const part: Part | undefined = PARTS.find(([key]) => key === parts[1])?.[0];
  const shows = (key: Part) => part === undefined || part === key;
  return (
    <div className="settings">
      <h1 className="unseen">Settings</h1>
      <nav className="settings-parts" aria-label="Parts of the settings">
        {PARTS.map(([key, label]) => (
          <a key={key} href={href(["settings", key])} aria-current={part === key ? "page" : undefined}>
            {label}
          </a>
        ))}
      </nav>
      <div className="settings-cards">
        {shows("tokens") && (
          <Part id="tokens" title="Access tokens" about="who may read, write and answer">
            <NotSetUp command="tracklog token create NAME --role write">
              Tokens with a role are made, listed and revoked on the command line.
            </NotSetUp>
          </Part>
        )}
        {shows("prices") && <Prices />}
        {shows("alerts") && (
          <Part id="alerts" title="Alerts" about="in this browser">
            <p className="row">
              <span className="grow">A question begins to wait while this page is not looked at.</span>
              <NotifyMe />
            </p>
            <p className="row">
              <span className="grow">A run fails, or is lost, while this page is not looked at.</span>
              <NotifyMe of="failures" label="Notify me of failures" />
            </p>
            <NotSetUp command="tracklog alerts ready > alerts.yaml">
              The command prints rules to begin with; `tracklog serve --alerts alerts.yaml` follows them.
            </NotSetUp>
          </Part>
        )}
        {shows("storage") && <Storage />}
        {shows("secrets") && (
          <Part id="secrets" title="Secrets" about="what looks like a key or a password">
            <NotSetUp command="tracklog secrets">Not looked for from here; the command lists the records.</NotSetUp>
          </Part>
        )}
        {shows("witnesses") && (
          <Part id="witnesses" title="Checkpoints" about="what others remember of this record">
            <NotSetUp command="tracklog checkpoint --out FILE">
              A signed checkpoint that is stored elsewhere shows if the record was rewritten since.
            </NotSetUp>
          </Part>
        )}
        {shows("sources") && <Sources />}
        {shows("appearance") && <Appearance theme={theme} turn={turn} />}
        {shows("keys") && (
          <Part id="keys" title="Keyboard" about="every key">
            <KeyList />
          </Part>
        )}
      </div>
    </div>
  );
}

function Part(props: { id: string; title: string; about: string; children: React.ReactNode }) {
  return (
    <section className="chart-card" aria-labelledby={`setting-${props.id}`}>
      <header>
        <h2 id={`setting-${props.id}`}>{props.title}</h2>
        <span className="soft about">{props.about}</span>
      </header>
      {props.children}
    </section>
  );
}

function NotSetUp({ command, children }: { command: string; children: React.ReactNode }) {
  return (
    <>
      <p className="soft">{children}</p>
      <pre className="code">{command}</pre>
    </>
  );
}

/** The models that were used, and those that have no price. */
function Prices() {
  const { data } = useAnswer(address("/api/costs", { by: ["model"] }), "seldom");
  const rows = data ?? [];
  const missing = [...new Set(rows.flatMap((row) => row.unpriced_models))];
  return (
    <Part id="prices" title="Prices" about="for costs marked ~">
      {rows.length > 0 && (
        <table>
          <thead>
            <tr>
              <th>Model</th>
              <th>Cost</th>
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, 12).map((row) => (
              <tr key={row.of ?? ""}>
                <td>
                  <Text>{row.of ?? "no model"}</Text>
                </td>
                <td className={row.unpriced_models.length ? "warn" : "soft"}>
                  {row.unpriced_models.length
                    ? "no price is known"
                    : row.computed_usd === null
                      ? row.cost_usd === null
                        ? "not known"
                        : "reported by the source"
                      : "computed from list prices"}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {missing.length > 0 && (
        <p className="warn">
          Without a price: <Text>{missing.join(", ")}</Text>
        </p>
      )}
      <p className="soft">
        Your own prices go into the file <code>prices.json</code> in the home.
      </p>
    </Part>
  );
}

function Storage() {
  const { first, last } = useLive();
  const { data } = useAnswer(address("/healthz"), "seldom");
  const facts: [string, string][] = [
    ["Records", `${count(Math.max(last - first + 1, 0))}, up to #${count(last)}`],
    ["Pruned", first > 1 ? `records 1 to ${count(first - 1)}` : "none"],
    ["Version", data?.version ?? "–"],
  ];
  return (
    <Part id="storage" title="Storage" about="the journal of this collector">
      <Pairs pairs={facts} />
      <NotSetUp command={"tracklog backup FOLDER\ntracklog prune --older-than 90d\ntracklog doctor"}>
        Backups, pruning and checks are commands.
      </NotSetUp>
    </Part>
  );
}

/** Each dialect that was received, and its newest run. */
function Sources() {
  const now = useNow(5_000);
  const { data } = useAnswer(address("/api/board", { limit: 1000, sort: "activity", group: "none" }), "seldom");
  const found = new Map<string, string | null>();
  for (const run of data?.runs ?? [])
    for (const dialect of run.dialects) if (!found.has(dialect)) found.set(dialect, run.last_activity);
  return (
    <Part id="sources" title="Sources" about="who sends events">
      {found.size ? (
        <table>
          <thead>
            <tr>
              <th>Dialect</th>
              <th>Last event</th>
            </tr>
          </thead>
          <tbody>
            {[...found].map(([dialect, at]) => (
              <tr key={dialect}>
                <td>
                  <a href={href([], { source: dialect })}>{inert(dialect)}</a>
                </td>
                <td>{ago(at, now)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <p className="soft">Nothing was recorded yet.</p>
      )}
    </Part>
  );
}

function Appearance({ theme, turn }: Props) {
  const [single, setSingle] = useState(singleKeys);
  return (
    <Part id="appearance" title="Appearance" about="of this browser">
      <p className="row">
        <span className="grow">Colours</span>
        <Segmented
          label="Colours"
          value={theme === "dark" ? "dark" : "light"}
          options={[
            ["light", "Light"],
            ["dark", "Dark"],
          ]}
          onChange={(next) => next !== theme && turn()}
        />
      </p>
      <label className="row">
        <span className="grow">Single keys act, such as J and K</span>
        <input
          type="checkbox"
          checked={single}
          onChange={(event) => {
            setSingleKeys(event.target.checked);
            setSingle(event.target.checked);
          }}
        />
      </label>
    </Part>
  );
}
