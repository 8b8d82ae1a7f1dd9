/** A small drawing of values over time, beside a figure that says what they come to. */

const [WIDE, HIGH] = [46, 22];

export type Shape = "bars" | "area" | "line";

interface Props {
  readonly values: readonly (number | null)[];
  readonly shape: Shape;
  /** A token of the style sheet. */
  readonly colour: string;
  /** The value of the full height; else the greatest one. */
  readonly most?: number;
}

const COLUMNS = 24; // bars that can be told apart

/** Neighbours taken together, so that each has a pixel or two. */
export function thinned(values: readonly (number | null)[], most = COLUMNS): (number | null)[] {
  const size = Math.ceil(values.length / most);
  if (size < 2) return [...values];
  return Array.from({ length: Math.ceil(values.length / size) }, (_, n) => {
    const part = values.slice(n * size, (n + 1) * size).filter((each) => each !== null);
    return part.length ? part.reduce((a, b) => a + b, 0) / part.length : null;
  });
}

export function Spark({ values, shape, colour, most }: Props) {
  const shown = thinned(values);
  const top = most ?? Math.max(...shown.map((each) => each ?? 0), 0);
  if (!top) return <svg className="spark-line" viewBox={`0 0 ${WIDE} ${HIGH}`} aria-hidden="true" />;
  const step = WIDE / shown.length;
  const y = (value: number) => HIGH - 1 - (value / top) * (HIGH - 3);
  const style = { "--spark": `var(${colour})` } as React.CSSProperties;
  return (
    <svg
      className={`spark-line of-${shape}`}
      viewBox={`0 0 ${WIDE} ${HIGH}`}
      preserveAspectRatio="none"
      style={style}
      aria-hidden="true"
    >
      {shape === "bars"
        ? shown.map(
            (value, n) =>
              value !== null &&
              value > 0 && (
                <rect key={n} x={n * step} y={y(value)} width={Math.max(step - 0.6, 0.8)} height={HIGH - y(value)} />
              ),
          )
        : pieces(shown).map(([from, part]) => {
            const line = part.map((value, n) => `${((from + n + 0.5) * step).toFixed(1)} ${y(value).toFixed(1)}`);
            const [left, right] = [(from + 0.5) * step, (from + part.length - 0.5) * step];
            return (
              <g key={from}>
                {shape === "area" && (
                  <path className="under" d={`M${left} ${HIGH}L${line.join("L")}L${right} ${HIGH}z`} />
                )}
                <path className="over" d={`M${line.join("L")}${part.length === 1 ? "h1" : ""}`} />
              </g>
            );
          })}
    </svg>
  );
}

/** The stretches without a gap, each with the place where it begins: a line breaks where nothing was recorded. */
export function pieces(values: readonly (number | null)[]): [number, number[]][] {
  const found: [number, number[]][] = [];
  values.forEach((value, n) => {
    if (value === null) return;
    const last = found.at(-1);
    if (last && last[0] + last[1].length === n) last[1].push(value);
    else found.push([n, [value]]);
  });
  return found;
}
