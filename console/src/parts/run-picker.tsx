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
  /** The run that it is compared with: those of the same task stand first. */
  readonly like: RunRow | undefined;
  readonly choose: (run: RunRow) => void;
  readonly close: () => void;
}

export function RunPicker({ title, like, choose, close }: Props) {
  const box = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState("");
  const now = useNow(10_000);
  const { data } = useAnswer(address("/api/runs", { limit: SHOWN, text }), "never");
  const runs = useLast(data) ?? [];
  const task = like?.title ?? "";
  const named = useAnswer(task && !text ? address("/api/runs", { limit: SHOWN, text: task }) : null, "never").data;
  const same = (text ? [] : (named ?? [])).filter((run) => run.title === task && !isSame(run, like));
  const rest = runs.filter((run) => !same.some((each) => isSame(each, run)));
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
      {same.length > 0 && (
        <>
          <h3 id="same-task">Same task</h3>
          <ul aria-labelledby="same-task">
            {same.map((run) => (
              <Choice key={`${run.family}:${run.run}`} run={run} now={now} choose={choose} />
            ))}
          </ul>
          <h3>Other runs</h3>
        </>
      )}
      <ul>
        {rest.map((run) => (
          <Choice key={`${run.family}:${run.run}`} run={run} now={now} choose={choose} />
        ))}
      </ul>
      {!runs.length && data && <p className="soft">No run has this in its title, its id or an agent's name.</p>}
      <form method="dialog">
        <button>Close</button>
      </form>
    </dialog>
  );
}

const isSame = (one: RunRow, other: RunRow | undefined): boolean =>
  one.family === other?.family && one.run === other.run;

function Choice({ run, now, choose }: { run: RunRow; now: number; choose: (run: RunRow) => void }) {
  return (
    <li>
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
  );
}
