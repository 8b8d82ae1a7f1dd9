/** What the settings say about the journal itself: its storage, its checkpoints, its sources. */

import { useState } from "react";
import { address, explained, post } from "../lib/api";
import { href } from "../lib/route";
import { inert } from "../lib/text";
import { ago, count, size } from "../lib/time";
import { useAnswer, useNow } from "../lib/use";
import { ErrorCard, Pairs, Text } from "./bits";
import { StatusGlyph } from "./icons";
import { Command, SettingCard } from "./setting-card";

const SILENT = 3_600_000; // milliseconds after which a source is called silent

export function StorageSettings() {
  const { data, trouble, again } = useAnswer(address("/api/settings/storage"), "seldom");
  const health = useAnswer(address("/healthz"), "seldom").data;
  const parts = data
    ? ([
        ["journal", data.journal_bytes, "--c1"],
        ["blobs", data.blob_bytes, "--c2"],
        ["index", data.index_bytes, "--c4"],
      ] as const)
    : [];
  const used = parts.reduce((sum, [, amount]) => sum + amount, 0);
  return (
    <SettingCard id="storage" title="Storage" about={data?.local ? `${size(used)} in this home` : "of this collector"}>
      {trouble && <ErrorCard trouble={trouble} again={again} />}
      {data && (
        <>
          <span className="bars" aria-hidden="true">
            {parts.map(([name, amount, colour]) => (
              <i key={name} style={{ flexGrow: amount / Math.max(used, 1), background: `var(${colour})` }} />
            ))}
          </span>
          <ul className="keys-of">
            {parts.map(([name, amount, colour]) => (
              <li key={name}>
                <i className="swatch" style={{ background: `var(${colour})` }} /> {name} {size(amount)}
              </li>
            ))}
            <li>{size(data.free_bytes)} free on the disk</li>
          </ul>
          <Pairs
            pairs={[
              ["Records", `${count(data.records)}, up to #${count(data.last)}`],
              ["Pruned", data.first > 1 ? `records 1 to ${count(data.first - 1)}` : "none"],
              ["Version", health?.version ?? "–"],
            ]}
          />
        </>
      )}
      <Command command={"tracklog backup FOLDER\ntracklog prune --older-than 90d\ntracklog doctor"}>
        Backups, pruning and checks are commands.
      </Command>
    </SettingCard>
  );
}

export function CheckpointSettings() {
  const now = useNow(30_000);
  const { data, again } = useAnswer(address("/api/settings/checkpoints"), "seldom");
  const [message, setMessage] = useState("");
  const make = async () => {
    try {
      await post("/api/settings/checkpoints", {}, {});
      setMessage("");
      again();
    } catch (error) {
      setMessage(explained(error));
    }
  };
  return (
    <SettingCard
      id="witnesses"
      title="Checkpoints"
      about="what others remember of this journal"
      action={<button onClick={() => void make()}>Checkpoint now</button>}
    >
      {data?.origin ? (
        <>
          {data.witnesses.length > 0 && (
            <table>
              <thead>
                <tr>
                  <th>Witness</th>
                  <th>Last head</th>
                  <th>When</th>
                </tr>
              </thead>
              <tbody>
                {data.witnesses.map((each) => (
                  <tr key={each.name}>
                    <td>
                      <Text>{each.name}</Text>
                    </td>
                    <td className="mono">#{count(data.records)}</td>
                    <td>{ago(each.at, now)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
          <p>
            {count(data.records)} records signed as <Text>{data.origin}</Text>, {count(data.newer)} newer.
            {data.witnesses.length === 0 && " No witness has signed it."}
          </p>
        </>
      ) : (
        <p className="soft">Not set up: nobody outside this collector remembers the journal.</p>
      )}
      {message && (
        <p className="failed" role="alert">
          {inert(message)}
        </p>
      )}
      {data?.witnesses.length === 0 && (
        <Command command={"tracklog checkpoint --out FILE\ntracklog serve --witness http://witness.example:4319"}>
          A checkpoint that is stored elsewhere, or that a witness signed, shows if the journal was rewritten since.
        </Command>
      )}
    </SettingCard>
  );
}

/** Each dialect that was received, and its newest run. */
export function SourceSettings() {
  const now = useNow(5_000);
  const { data } = useAnswer(address("/api/board", { limit: 1000, sort: "activity", group: "none" }), "seldom");
  const found = new Map<string, string | null>();
  for (const run of data?.runs ?? [])
    for (const dialect of run.dialects) if (!found.has(dialect)) found.set(dialect, run.last_activity);
  return (
    <SettingCard id="sources" title="Sources" about="who sends events">
      {found.size ? (
        <table>
          <thead>
            <tr>
              <th>Dialect</th>
              <th>Last event</th>
              <th>
                <span className="unseen">State</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {[...found].map(([dialect, at]) => {
              const live = at !== null && now - Date.parse(at) < SILENT;
              return (
                <tr key={dialect}>
                  <td>
                    <a href={href([], { source: dialect })}>{inert(dialect)}</a>
                  </td>
                  <td>{ago(at, now)}</td>
                  <td className={live ? "working" : "soft"}>
                    <StatusGlyph status={live ? "working" : "lost"} /> {live ? "live" : "silent"}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      ) : (
        <p className="soft">Nothing was recorded yet.</p>
      )}
    </SettingCard>
  );
}
