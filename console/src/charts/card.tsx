/** A chart in its card: what it comes to, its legend, and the same figures as a table. */

import { type ReactNode, useMemo, useState } from "react";
import { inert } from "../lib/text";
import { Model, Text } from "../parts/bits";

export interface Entry {
  readonly name: string;
  readonly colour: string;
  /** What it comes to, behind its name. */
  readonly sum?: string;
  readonly dashed?: boolean;
}

/** The figures of a chart, row by row. */
export interface Table {
  readonly heads: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

interface Props {
  readonly title: string;
  readonly about?: ReactNode;
  readonly figure?: ReactNode;
  readonly legend?: ReactNode;
  readonly table: Table;
  readonly tabled: boolean;
  readonly className?: string;
  readonly children: ReactNode;
}

export function ChartCard({ title, about, figure, legend, table, tabled, className = "", children }: Props) {
  const [alone, setAlone] = useState(false);
  const shown = tabled !== alone;
  const id = `chart-${title.replace(/\W+/g, "-").toLowerCase()}`;
  return (
    <section className={`chart-card ${className}`} aria-labelledby={id}>
      <header>
        <h2 id={id}>{title}</h2>
        {about && <span className="soft about">{about}</span>}
        <span className="grow" />
        {legend}
        {figure && <strong>{figure}</strong>}
        <button
          className="quiet"
          aria-pressed={shown}
          aria-label={`${title} as a table`}
          title="as a table  T"
          onClick={() => setAlone(!alone)}
        >
          <span aria-hidden="true">⊞</span>
        </button>
      </header>
      {shown ? <TableView title={title} table={table} /> : children}
    </section>
  );
}

const cell = (text: string): string => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

function TableView({ title, table: { heads, rows } }: { title: string; table: Table }) {
  const link = useMemo(() => {
    const text = [heads, ...rows].map((row) => row.map(cell).join(",")).join("\r\n");
    return `data:text/csv;charset=utf-8,${encodeURIComponent(text)}`;
  }, [heads, rows]);
  return (
    <section className="chart-table" tabIndex={0} aria-label={`${title}, as a table`}>
      <a href={link} download={`${title.toLowerCase().replace(/\W+/g, "-")}.csv`}>
        CSV
      </a>
      <table>
        <thead>
          <tr>
            {heads.map((head, n) => (
              <th key={n} className={n ? "num" : ""}>
                {inert(head)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, n) => (
            <tr key={n}>
              {row.map((each, place) => (
                <td key={place} className={place ? "num" : ""}>
                  <Text>{each}</Text>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

interface LegendProps {
  readonly entries: readonly Entry[];
  readonly alone?: string | null;
  readonly onAlone?: (name: string | null) => void;
}

/** Which colour is what; an entry shows it alone. */
export function Legend({ entries, alone = null, onAlone }: LegendProps) {
  return (
    <ul className="chart-legend">
      {entries.map(({ name, colour, sum, dashed }) => {
        const words = (
          <>
            <i className={dashed ? "dashed" : ""} style={{ background: `var(${colour})` }} />
            {name.startsWith("claude-") ? <Model name={name} /> : <Text>{name}</Text>}
            {sum && <span className="num"> {sum}</span>}
          </>
        );
        return (
          <li key={name} className={alone !== null && alone !== name ? "off" : ""}>
            {onAlone ? (
              <button
                className="quiet"
                aria-pressed={alone === name}
                title="show it alone"
                onClick={() => onAlone(alone === name ? null : name)}
              >
                {words}
              </button>
            ) : (
              words
            )}
          </li>
        );
      })}
    </ul>
  );
}
