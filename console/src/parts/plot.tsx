/** A small bar plot; the numbers are in its table for those who cannot see it. */

export interface Bar {
  readonly label: string;
  readonly value: number;
  /** A part of the value, drawn over it. */
  readonly part?: number;
}

interface Props {
  readonly bars: readonly Bar[];
  readonly name: string;
  readonly say: (value: number, part?: number) => string;
}

export function Plot({ bars, name, say }: Props) {
  const most = Math.max(...bars.map((bar) => bar.value), 0);
  if (!most) return <p className="soft small">Nothing in this time.</p>;
  const wide = 100 / bars.length;
  return (
    <figure>
      <svg className="plot" viewBox="0 0 100 40" preserveAspectRatio="none" aria-hidden="true">
        {bars.map((bar, n) => {
          const height = (bar.value / most) * 38;
          const part = ((bar.part ?? 0) / most) * 38;
          return (
            <g key={n}>
              <title>{`${bar.label}: ${say(bar.value, bar.part)}`}</title>
              <rect className="ground" x={n * wide} y={0} width={wide} height={40} />
              <rect className="bar1" x={n * wide + 0.3} y={39 - height} width={wide - 0.6} height={height} />
              {part > 0 && <rect className="bar2" x={n * wide + 0.3} y={39 - part} width={wide - 0.6} height={part} />}
            </g>
          );
        })}
        <line className="axis" x1="0" x2="100" y1="39.5" y2="39.5" strokeWidth="0.5" />
      </svg>
      <figcaption className="row small soft">
        <span className="grow">{bars[0]?.label}</span>
        <span>at most {say(most)}</span>
        <span>{bars.at(-1)?.label}</span>
      </figcaption>
      <div className="unseen">
        <table>
          <caption>{name}</caption>
          <tbody>
            {bars
              .filter((bar) => bar.value > 0)
              .map((bar) => (
                <tr key={bar.label}>
                  <th scope="row">{bar.label}</th>
                  <td>{say(bar.value, bar.part)}</td>
                </tr>
              ))}
          </tbody>
        </table>
      </div>
    </figure>
  );
}
