/** The programs that run agents: begin a run, end it, speak on its stage. */

import { type FormEvent, useId, useState } from "react";
import { Trouble, tell } from "../lib/api";
import { operator } from "../lib/operator";
import { runHref } from "../lib/route";
import { inert } from "../lib/text";
import { useAnswer } from "../lib/use";
import { Card, Text } from "./bits";

interface Program {
  name: string;
  about: string;
  inputs: Record<string, unknown>;
}
interface Host {
  host: string;
  about: string;
  family: string;
  can: string[];
  programs: Program[];
}

const pathOf = (host: string, run?: string, act?: string) =>
  `/api/hosts/${encodeURIComponent(host)}/runs${run === undefined ? "" : `/${encodeURIComponent(run)}/${act ?? ""}`}`;

type Said = { readonly ok: boolean; readonly text: string } | null;

/** Does something over there, and keeps what became of it. */
function useAct(): [
  Said,
  boolean,
  (path: string, body: unknown, done: (answer: Record<string, string>) => string) => void,
] {
  const [said, setSaid] = useState<Said>(null);
  const [busy, setBusy] = useState(false);
  const act = async (path: string, body: unknown, done: (answer: Record<string, string>) => string) => {
    setBusy(true);
    try {
      setSaid({ ok: true, text: done(await tell(path, body)) });
    } catch (error) {
      const hint = error instanceof Trouble ? error.hint : "";
      setSaid({ ok: false, text: [(error as Error).message, hint].filter(Boolean).join(" · ") });
    } finally {
      setBusy(false);
    }
  };
  return [said, busy, (path, body, done) => void act(path, body, done)];
}

function Became({ said }: { said: Said }) {
  if (!said) return null;
  return (
    <p role="status" className={said.ok ? "done" : "failed"}>
      <Text>{said.text}</Text>
    </p>
  );
}

/** What can be begun here; nothing where no host runs in this collector. */
export function Begin() {
  const { data } = useAnswer<Host[]>("/api/hosts", "never");
  const offers = (data ?? []).filter((host) => host.can.includes("start") && host.programs.length);
  if (!offers.length) return null;
  return (
    <Card title="Begin a run">
      {offers.map((host) => (
        <Offer key={host.host} host={host} />
      ))}
    </Card>
  );
}

function Offer({ host }: { host: Host }) {
  const [name, setName] = useState(host.programs[0]?.name ?? "");
  const [given, setGiven] = useState<Record<string, string>>({});
  const [said, busy, act] = useAct();
  const id = useId();
  const program = host.programs.find((each) => each.name === name);
  const inputs = Object.entries(program?.inputs ?? {});
  const begin = (event: FormEvent) => {
    event.preventDefault();
    const changed = inputs.flatMap(([key]) => (given[key] === undefined ? [] : [[key, meant(given[key])]]));
    act(
      pathOf(host.host),
      { program: name, inputs: Object.fromEntries(changed) as object },
      ({ family = host.family, run = "" }) => {
        location.hash = runHref(family, run);
        return `began ${run}`;
      },
    );
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
      <Became said={said} />
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
  const { data } = useAnswer<Host[]>("/api/hosts", "never");
  const host = (data ?? []).find((each) => each.family === family && each.can.some((can) => can !== "start"));
  const [text, setText] = useState("");
  const [said, busy, act] = useAct();
  if (!host) return null;
  const inject = (event: FormEvent) => {
    event.preventDefault();
    if (!text.trim()) return;
    act(pathOf(host.host, run, "inject"), { text }, ({ seq }) => {
      setText("");
      return `said, as record ${seq ?? ""}`;
    });
  };
  return (
    <div className="row small controls">
      {host.can.includes("inject") && (
        <form className="row grow" onSubmit={inject}>
          <input
            className="grow"
            aria-label="Say something on the stage"
            placeholder="Say something on the stage"
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
          <button disabled={busy || !text.trim()}>Say</button>
        </form>
      )}
      {host.can.includes("stop") && (
        <button
          disabled={busy}
          onClick={() =>
            act(pathOf(host.host, run, "stop"), { by: operator() }, ({ seq }) => `asked to end, record ${seq ?? ""}`)
          }
        >
          End this run
        </button>
      )}
      <Became said={said} />
    </div>
  );
}
