/** The range of time of a page: four usual ones, yesterday, or any. */

import { type FormEvent, useState } from "react";
import { RANGES, rangeOf, rangeText, yesterday } from "../lib/range";
import { setQuery, useRoute } from "../lib/route";
import { useNow } from "../lib/use";
import { Icon } from "./icons";

interface Props {
  readonly ranges?: readonly (readonly [string, string])[];
  /** The range where the address names none; empty is all time. */
  readonly usual?: string;
  /** Behind the range, in words. */
  readonly more?: string;
}

export function RangePicker({ ranges = RANGES, usual = "", more = "" }: Props) {
  const { query } = useRoute();
  const now = useNow(30_000);
  const asked = rangeOf(query);
  const range = { since: asked.since || usual, until: asked.until };
  const [open, setOpen] = useState(false);
  const choose = (since: string, until = "") => {
    setQuery({ since: since === usual ? "" : since, until, within: "" });
    setOpen(false);
  };
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    const point = (name: string) => {
      const text = String(given.get(name) ?? "");
      return text ? new Date(text).toISOString() : "";
    };
    choose(point("since"), point("until"));
  };
  return (
    <fieldset className="range">
      <legend className="unseen">Range of time</legend>
      <div className="segmented">
        {ranges.map(([since, label]) => (
          <button
            key={since}
            aria-pressed={range.since === since && !range.until}
            onClick={() => choose(range.since === since && !range.until ? "" : since)}
          >
            {label}
          </button>
        ))}
      </div>
      <details
        className="menu"
        open={open}
        onToggle={(event) => setOpen(event.currentTarget.open)}
        onKeyDown={(event) => {
          if (event.key === "Escape") setOpen(false);
        }}
      >
        <summary>
          <Icon name="clock" size={14} />
          <span className="wide">
            {rangeText(range, now)}
            {more}
          </span>
          <span className="narrow">
            {ranges.find(([since]) => since === range.since)?.[1] ?? rangeText(range, now)}
          </span>
        </summary>
        <form className="sheet" onSubmit={submit}>
          <div className="usual">
            {ranges.map(([since, label]) => (
              <button key={since} type="button" onClick={() => choose(since)}>
                Last {label}
              </button>
            ))}
            <button
              type="button"
              onClick={() => {
                const { since, until } = yesterday(Date.now());
                choose(since, until);
              }}
            >
              Yesterday
            </button>
            <button type="button" onClick={() => choose(usual ? "all" : "")}>
              All time
            </button>
          </div>
          <label>
            From <input type="datetime-local" name="since" />
          </label>
          <label>
            Until <input type="datetime-local" name="until" />
          </label>
          <button className="first">Show this range</button>
        </form>
      </details>
    </fieldset>
  );
}
