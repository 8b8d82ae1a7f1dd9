/** The programs that run agents: begin a run, end it, speak on its stage. */

import { type FormEvent, useId, useState } from "react";
import type { HostRow } from "../lib/answers";
import { address, explained, post } from "../lib/api";
import { operator } from "../lib/operator";
import { runHref } from "../lib/route";
import { inert } from "../lib/text";
import { useAnswer } from "../lib/use";
import { Card, Text } from "./bits";

type Outcome = { readonly ok: boolean; readonly text: string } | null;

/** Runs a request to a host, and keeps the sentence that says what became of it. */
function useAct(): [Outcome, boolean, (request: () => Promise<string>) => void] {
  const [outcome, setOutcome] = useState<Outcome>(null);
  const [busy, setBusy] = useState(false);
  const act = async (request: () => Promise<string>) => {
    setBusy(true);
    try {
      setOutcome({ ok: true, text: await request() });
    } catch (error) {
      setOutcome({ ok: false, text: explained(error) });
    } finally {
      setBusy(false);
    }
  };
  return [outcome, busy, (request) => void act(request)];
}

function Became({ outcome }: { outcome: Outcome }) {
  if (!outcome) return null;
  return (
    <p role="status" className={outcome.ok ? "done" : "failed"}>
      <Text>{outcome.text}</Text>
    </p>
  );
}

/** The hosts in this collector that can begin a run. */
export function useOffers(): HostRow[] {
  const { data } = useAnswer(address("/api/hosts"), "never");
  return (data ?? []).filter((host) => host.can.includes("start") && host.programs.length);
}

/** What can be begun here; nothing where no host runs in this collector. */
export function Begin() {
  const offers = useOffers();
  if (!offers.length) return null;
  return (
    <Card title="Start a run">
      {offers.map((host) => (
        <Offer key={host.host} host={host} />
      ))}
    </Card>
  );
}

function Offer({ host }: { host: HostRow }) {
  const [name, setName] = useState(host.programs[0]?.name ?? "");
  const [given, setGiven] = useState<Record<string, string>>({});
  const [outcome, busy, act] = useAct();
  const id = useId();
  const program = host.programs.find((each) => each.name === name);
  const inputs = Object.entries(program?.inputs ?? {});
  const begin = (event: FormEvent) => {
    event.preventDefault();
    const changed = inputs.flatMap(([key]) => (given[key] === undefined ? [] : [[key, meant(given[key])]]));
    const body = { program: name, inputs: Object.fromEntries(changed) };
    act(async () => {
      const { family, run } = await post("/api/hosts/{host}/runs", { host: host.host }, body);
      location.hash = runHref(family, run);
      return `started ${run}`;
    });
  };
  return (
    <form className="stack offer" onSubmit={begin}>
      <div className="row">
        <label className="row grow" title={inert(host.about)}>
          <span className="soft small">{inert(host.host)}</span>
          <select className="grow" value={name} onChange={(event) => setName(event.target.value)}>
            {host.programs.map((each) => (
              <option key={each.name} value={each.name}>
                {inert(each.name)}
              </option>
            ))}
          </select>
        </label>
        <button className="first" disabled={busy}>
          Begin
        </button>
      </div>
      {program?.about && (
        <p className="soft small">
          <Text>{program.about}</Text>
        </p>
      )}
      {inputs.map(([key, usual]) => (
        <label key={key} className="row small" htmlFor={`${id}-${key}`}>
          <span className="soft">{inert(key)}</span>
          <input
            id={`${id}-${key}`}
            className="grow"
            placeholder={inert(typeof usual === "string" ? usual : JSON.stringify(usual))}
            value={given[key] ?? ""}
            onChange={(event) => setGiven({ ...given, [key]: event.target.value })}
          />
        </label>
      ))}
      <Became outcome={outcome} />
    </form>
  );
}

/** What was typed: JSON where it is JSON, else the text. */
export function meant(typed: string): unknown {
  try {
    return JSON.parse(typed) as unknown;
  } catch {
    return typed;
  }
}

/** What can be done to a run that goes on, where a host carries out runs of its family. */
export function Controls({ family, run }: { family: string; run: string }) {
  const { data } = useAnswer(address("/api/hosts"), "never");
  const host = (data ?? []).find((each) => each.family === family && each.can.some((can) => can !== "start"));
  const [text, setText] = useState("");
  const [outcome, busy, act] = useAct();
  if (!host) return null;
  const inject = (event: FormEvent) => {
    event.preventDefault();
    if (!text.trim()) return;
    act(async () => {
      const { seq } = await post("/api/hosts/{host}/runs/{run}/inject", { host: host.host, run }, { text });
      setText("");
      return `sent, as record ${seq}`;
    });
  };
  const stop = () =>
    act(async () => {
      const { seq } = await post("/api/hosts/{host}/runs/{run}/stop", { host: host.host, run }, { by: operator() });
      return `asked to end, record ${seq}`;
    });
  return (
    <div className="row small controls">
      {host.can.includes("inject") && (
        <form className="row grow" onSubmit={inject}>
          <input
            className="grow"
            aria-label="Say something to the agents"
            placeholder="Say something to the agents"
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
          <button disabled={busy || !text.trim()}>Say</button>
        </form>
      )}
      {host.can.includes("stop") && (
        <button disabled={busy} onClick={stop}>
          End this run
        </button>
      )}
      <Became outcome={outcome} />
    </div>
  );
}
