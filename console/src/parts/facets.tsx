/** Facets: what runs can be narrowed by, and how many runs each value would show. */

import { type MouseEvent, useState } from "react";
import type { BoardAnswer, RunRow } from "../lib/answers";
import { FACETS, type FacetKey, type FleetView, shown } from "../lib/fleet";
import { setQuery } from "../lib/route";
import { inert } from "../lib/text";
import { count } from "../lib/time";
import { Model, Text } from "./bits";
import { StatusGlyph } from "./icons";

const LABELS: [FacetKey, string][] = [
  ["status", "Status"],
  ["project", "Project"],
  ["model", "Model"],
  ["agent", "Agent"],
  ["branch", "Branch"],
  ["source", "Source"],
  ["outcome", "Outcome"],
  ["tag", "Tag"],
  ["seen", "Seen"],
];
const STATUSES = ["waiting", "working", "failed", "lost", "done"];
const FEW = 5; // values that are shown at once

export function Facets({ board, view }: { board: BoardAnswer; view: FleetView }) {
  return (
    <>
      {LABELS.map(([key, label]) => (
        <Facet key={key} name={key} label={label} board={board} view={view} />
      ))}
      <ScoreRange view={view} />
    </>
  );
}

/** From which score of a person to which. */
function ScoreRange({ view }: { view: FleetView }) {
  const [from = "", to = ""] = view.score.includes("..") ? view.score.split("..") : [view.score, view.score];
  const set = (low: string, high: string) => setQuery({ score: low || high ? `${low}..${high}` : "" });
  return (
    <fieldset className="facet score-range">
      <legend>Score</legend>
      <input
        type="number"
        step="any"
        aria-label="Score from"
        placeholder="from"
        value={from}
        onChange={(event) => set(event.target.value, to)}
      />
      <input
        type="number"
        step="any"
        aria-label="Score to"
        placeholder="to"
        value={to}
        onChange={(event) => set(from, event.target.value)}
      />
    </fieldset>
  );
}

function Facet(props: { name: FacetKey; label: string; board: BoardAnswer; view: FleetView }) {
  const { name, label, board, view } = props;
  const [all, setAll] = useState(false);
  const facet = board.facets.find((each) => each.name === FACETS[name]);
  const on = view.facets[name];
  // Where there is nothing to choose, there is nothing to show.
  const real = (facet?.values ?? []).filter((each) => each.value !== null);
  if (!facet || (!on.length && (name === "status" ? false : real.length === 0))) return null;
  const wanted = (value: string | null) => value ?? "(none)";
  const values = facet.values.filter(
    (each, n) => all || n < FEW || name === "status" || on.some((one) => one.replace(/^!/, "") === wanted(each.value)),
  );
  if (name === "status") values.sort((a, b) => STATUSES.indexOf(a.value ?? "") - STATUSES.indexOf(b.value ?? ""));
  const choose = (value: string, event?: MouseEvent) => {
    const rest = on.filter((each) => each !== value && each !== `!${value}`);
    const next = event?.altKey ? `!${value}` : value;
    setQuery({ [name]: on.includes(next) ? rest : [...rest, next], ...(name === "source" ? { dialect: [] } : {}) });
  };
  const hidden = facet.distinct - values.length;
  return (
    <fieldset className="facet">
      <legend>
        {label}
        {name !== "status" && facet.distinct > FEW && <span className="soft"> {count(facet.distinct)}</span>}
      </legend>
      {values.map((each) => {
        const value = wanted(each.value);
        const not = on.includes(`!${value}`);
        return (
          <label key={value} className={not ? "not" : ""} title={inert(each.value ?? `no ${name}`)}>
            <input
              type="checkbox"
              checked={on.includes(value) || not}
              onChange={() => undefined}
              onClick={(event) => choose(value, event)}
            />
            {name === "status" && <StatusGlyph status={each.value as RunRow["status"]} />}
            <span className="cut">
              {not && "not "}
              {name === "model" && each.value !== null ? (
                <Model name={each.value} />
              ) : (
                <Text>{each.value === null ? `no ${name}` : shown(name, each.value)}</Text>
              )}
            </span>
            <span className="num soft">{count(each.count)}</span>
          </label>
        );
      })}
      {hidden > 0 && (
        <button className="link more" onClick={() => setAll(true)}>
          {count(hidden)} more
        </button>
      )}
    </fieldset>
  );
}
