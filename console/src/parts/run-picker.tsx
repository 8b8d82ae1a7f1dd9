/** A dialog in which a run is chosen from the list, by its title; nobody types an id. */

import { useEffect, useRef, useState } from "react";
import type { RunRow } from "../lib/answers";
import { address } from "../lib/api";
import { ago, cost } from "../lib/time";
import { useAnswer, useLast, useNow } from "../lib/use";
import { Text } from "./bits";
import { StatusGlyph } from "./icons";

const SHOWN = 50;

interface Props {
  readonly title: string;
  readonly choose: (run: RunRow) => void;
  readonly close: () => void;
}

export function RunPicker({ title, choose, close }: Props) {
  const box = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState("");
  const now = useNow(10_000);
  const { data } = useAnswer(address("/api/runs", { limit: SHOWN, text }), "never");
  const runs = useLast(data) ?? [];
  useEffect(() => box.current?.showModal(), []);
  return (
    <dialog ref={box} className="picker" aria-label={title} onClose={close}>
      <h2>{title}</h2>
      <input
        type="search"
        aria-label="Find a run by its title"
        placeholder="Find a run by its title"
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      <ul>
        {runs.map((run) => (
          <li key={`${run.family}:${run.run}`}>
            <button className="quiet" onClick={() => choose(run)}>
              <StatusGlyph status={run.status} />
              <span className="unseen">{run.status}</span>
              <b className="cut">
                <Text>{run.title ?? run.run}</Text>
              </b>
              <span className="soft cut mono">
                <Text>{run.title ? run.run : ""}</Text>
              </span>
              <span className="num">{cost(run)}</span>
              <span className="soft num">{ago(run.last_activity, now)}</span>
            </button>
          </li>
        ))}
      </ul>
      {!runs.length && data && <p className="soft">No run has this in its title, its id or an agent's name.</p>}
      <form method="dialog">
        <button>Close</button>
      </form>
    </dialog>
  );
}
