/** The lifecycle as it was lived: states, moves with their counts, and the illegal ones marked. */

import type { Move } from "../lib/run-structure";
import { inert, start } from "../lib/text";

export function Lifecycle({ moves, choose }: { moves: readonly Move[]; choose: (seq: number) => void }) {
  if (!moves.length) return <p className="soft">No changes of status were recorded.</p>;
  const names = [...new Set(moves.flatMap((move) => [move.from, move.to]))];
  const radius = 34;
  const place = new Map(
    names.map((name, n) => {
      const angle = (n / names.length) * 2 * Math.PI - Math.PI / 2;
      return [name, [50 + radius * 1.35 * Math.cos(angle), 42 + radius * Math.sin(angle)] as const];
    }),
  );
  return (
    <div className="lived">
      <svg viewBox="-15 -3 130 92" className="lifecycle card" role="img" aria-label="State diagram">
        <defs>
          <marker id="tip" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="4" markerHeight="4" orient="auto">
            <path d="M0 0L6 3L0 6z" fill="context-stroke" />
          </marker>
        </defs>
        {moves.map((move) => {
          const [x1, y1] = place.get(move.from) ?? [0, 0];
          const [x2, y2] = place.get(move.to) ?? [0, 0];
          const [dx, dy] = [x2 - x1, y2 - y1];
          const long = Math.hypot(dx, dy) || 1;
          const [bx, by] = [(x1 + x2) / 2 - (dy / long) * 5, (y1 + y2) / 2 + (dx / long) * 5];
          const self = move.from === move.to;
          const path = self
            ? `M${x1 - 3} ${y1 - 3}C${x1 - 9} ${y1 - 14} ${x1 + 9} ${y1 - 14} ${x1 + 3} ${y1 - 3.4}`
            : `M${x1 + (dx / long) * 4} ${y1 + (dy / long) * 4}Q${bx} ${by} ${x2 - (dx / long) * 4.5} ${y2 - (dy / long) * 4.5}`;
          return (
            <g key={`${move.from}→${move.to}`} className={move.illegal ? "illegal" : ""}>
              <path d={path} className="move" markerEnd="url(#tip)" />
              <text x={self ? x1 : bx} y={self ? y1 - 11 : by} className="count">
                {move.count}
              </text>
            </g>
          );
        })}
        {names.map((name) => {
          const [x, y] = place.get(name) ?? [0, 0];
          return (
            <g key={name}>
              <circle cx={x} cy={y} r="3.6" className="state" />
              <text x={x + (x - 50) * 0.05} y={y < 42 ? y - 5.5 : y + 7.5} className="state-name">
                {inert(start(name, 26))}
              </text>
            </g>
          );
        })}
      </svg>
      <div className="card">
        <table>
          <thead>
            <tr>
              <th>from</th>
              <th>to</th>
              <th className="num">times</th>
              <th>illegal</th>
            </tr>
          </thead>
          <tbody>
            {moves.map((move) => (
              <tr key={`${move.from}→${move.to}`}>
                <td>{inert(move.from) || "–"}</td>
                <td>
                  <button className="link" onClick={() => choose(move.seq)}>
                    {inert(move.to)}
                  </button>
                </td>
                <td className="num">{move.count}</td>
                <td className={move.illegal ? "failed" : "soft"}>{move.illegal || "–"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}
