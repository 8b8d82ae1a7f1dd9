/** A run as a stage: the scene, who is on it, what each said, and the verdict; thoughts are whispered. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useRef } from "react";
import type { ShowAnswer, StoryFact, StoryRecord } from "../lib/answers";
import { lowerBound, type Reading } from "../lib/run-records";
import { inert } from "../lib/text";
import { Text } from "./bits";
import { Blocks } from "./blocks";
import { Line } from "./entry";

const ROLES: Record<string, string> = {
  assistant: "says",
  thought: "thinks",
  belief: "believes",
  note: "notes",
  user: "from the audience",
  world: "the scene",
};

interface Props {
  readonly read: Reading;
  readonly shown: ShowAnswer | undefined;
  readonly at: number;
  readonly choose: (seq: number) => void;
}

export function Stage({ read, shown, at, choose }: Props) {
  const { runRecords } = read;
  const { said, scenes, verdicts, cast } = runRecords.staged;
  const end = at ? runRecords.place(at + 1) : runRecords.seqs.length;
  const length = lowerBound(said, end);
  const box = useRef<HTMLDivElement>(null);
  const list = useVirtualizer({
    count: length,
    getScrollElement: () => box.current,
    estimateSize: () => 72,
    overscan: 4,
    useFlushSync: false,
    getItemKey: useCallback((n: number) => said[n] ?? -1, [said]),
  });
  const latest = (places: readonly number[]) => {
    const place = places[lowerBound(places, end) - 1];
    return place === undefined ? undefined : runRecords.record(place);
  };
  const scene = latest(scenes)
    ?.facts.filter((fact) => fact.role === "world")
    .at(-1);
  const verdict = latest(verdicts)
    ?.facts.filter((fact) => fact.fact === "Decided")
    .at(-1);
  const last = latest(said.slice(0, length));
  const speaker = last && (last.facts.find(isShown)?.agent ?? last.agent);
  const players = shown?.summary?.cast ?? {};
  const speakers = [...cast].filter(([, first]) => first < end).map(([name]) => name);
  const names = [...new Set([...Object.keys(players), ...speakers])];
  return (
    <div className="stack stage">
      {(scene || shown?.stage?.scene || shown?.stage?.goal) && (
        <section className="card scene" aria-label="Scene">
          {scene ? <Blocks blocks={scene.blocks ?? []} /> : <Text>{shown?.stage?.scene}</Text>}
          {shown?.stage?.goal && (
            <p className="soft small line">
              goal: <Text>{shown.stage.goal}</Text>
            </p>
          )}
        </section>
      )}
      <ul className="cast" aria-label="Cast">
        {names.map((name) => (
          <li key={name} className={speaker === name ? "speaks" : ""}>
            <Text>{name}</Text>
            {players[name] && (
              <span className="soft small">
                {" "}
                <Text>{players[name].model ?? players[name].model_endpoint}</Text>
              </span>
            )}
            {speaker === name && <span className="unseen"> spoke last</span>}
          </li>
        ))}
      </ul>
      {verdict && (
        <section className="card verdict" aria-label="Verdict">
          <Line mark="◆" fact={verdict} className="strong" />
          <Ruling fact={verdict} />
        </section>
      )}
      <div ref={box} className="transcript" tabIndex={0} role="feed" aria-label="What was said">
        <div style={{ height: list.getTotalSize(), position: "relative" }}>
          {list.getVirtualItems().map((item) => {
            const record = runRecords.record(said[item.index] ?? 0);
            return (
              <div
                key={item.key}
                ref={record ? list.measureElement : null}
                data-index={item.index}
                className="place"
                style={{ transform: `translateY(${item.start}px)`, minHeight: record ? undefined : item.size }}
              >
                {record?.facts.filter(isShown).map((fact, n) => (
                  <Spoken key={n} fact={fact} record={record} choose={choose} />
                ))}
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}

const isShown = (fact: StoryFact): boolean => fact.fact === "Said" || fact.fact === "Decided";

function Spoken({ fact, record, choose }: { fact: StoryFact; record: StoryRecord; choose: (seq: number) => void }) {
  const role = String(fact.role ?? "verdict");
  const who = String(fact.agent ?? fact.by ?? record.agent ?? role);
  return (
    <article className={`entry said ${role}`} aria-label={`record ${record.seq}`}>
      <div className="grow">
        <h2>
          <button className="link" onClick={() => choose(record.seq)}>
            <Text>{who}</Text>
          </button>{" "}
          <span className="soft small">{inert(ROLES[role] ?? role)}</span>
        </h2>
        {fact.fact === "Decided" ? <Line mark="◆" fact={fact} /> : <Blocks blocks={fact.blocks ?? []} />}
      </div>
    </article>
  );
}

/** What a verdict says besides its words, where it does. */
function Ruling({ fact }: { fact: StoryFact }) {
  const scores = Object.entries(fact.scores ?? {});
  const rows: [string, unknown][] = [
    ["winner", fact.no_contest === true ? "no contest" : fact.winner],
    ["accused", fact.accused],
    ["correct", fact.correct],
    ...scores,
  ];
  const known = rows.filter(([, value]) => value !== undefined && value !== null);
  if (!known.length) return null;
  return (
    <dl className="facts">
      {known.map(([name, value]) => (
        <div key={name}>
          <dt>
            <Text>{name}</Text>
          </dt>
          <dd>
            <Text>{String(value)}</Text>
          </dd>
        </div>
      ))}
    </dl>
  );
}
