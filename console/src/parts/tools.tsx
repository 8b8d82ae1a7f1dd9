/** What a page puts into the bar above it: its own actions. */

import { type ReactNode, useEffect, useState } from "react";
import { createPortal } from "react-dom";

const PLACE = "tools";

/** The place in the bar. */
export function ToolsPlace() {
  return <div id={PLACE} className="tools" />;
}

export function Tools({ children }: { children: ReactNode }) {
  const [place, setPlace] = useState<HTMLElement | null>(null);
  useEffect(() => setPlace(document.getElementById(PLACE)), []);
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
