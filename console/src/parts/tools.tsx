/** What a page puts into the bar above it: its own actions. */

import { type ReactNode, useEffect, useState } from "react";
import { createPortal } from "react-dom";

const PLACE = "tools";

/** The place in the bar. */
export function ToolsPlace() {
  return <div id={PLACE} className="tools" />;
}

export function Tools({ children }: { children: ReactNode }) {
  return <In place={PLACE}>{children}</In>;
}

const TRAIL = "trail";

const ABOUT = "about-page";

/** The place behind the name of a page for what it says of itself. */
export function AboutPlace() {
  return <span id={ABOUT} className="soft about-page" />;
}

export function AboutPage({ children }: { children: ReactNode }) {
  return <In place={ABOUT}>{children}</In>;
}

/** The place of the way to what is shown; a page adds the rest of it. */
export function CrumbsPlace({ children }: { children: ReactNode }) {
  return <ol id={TRAIL}>{children}</ol>;
}

export function Crumbs({ children }: { children: ReactNode }) {
  return <In place={TRAIL}>{children}</In>;
}

function In({ place: id, children }: { place: string; children: ReactNode }) {
  const [place, setPlace] = useState<HTMLElement | null>(null);
  useEffect(() => setPlace(document.getElementById(id)), [id]);
  return place && createPortal(children, place);
}

interface Segments<T extends string> {
  readonly label: string;
  readonly value: T;
  readonly options: readonly (readonly [T, ReactNode])[];
  readonly onChange: (value: T) => void;
}

/** One of a few choices, side by side. */
export function Segmented<T extends string>({ label, value, options, onChange }: Segments<T>) {
  return (
    <fieldset className="segments-of">
      <legend className="unseen">{label}</legend>
      <div className="segmented">
        {options.map(([key, words]) => (
          <button key={key} aria-pressed={key === value} onClick={() => onChange(key)}>
            {words}
          </button>
        ))}
      </div>
    </fieldset>
  );
}
