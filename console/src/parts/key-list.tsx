/** Every key, and what it does. */

import { KEYS } from "../lib/keys";

export function KeyList() {
  return (
    <dl className="keys">
      {KEYS.map(([key, does]) => (
        <div key={key}>
          <dt>
            {key.split(/ (?!–)(?<!– )/).map((one) => (
              <kbd key={one}>{one}</kbd>
            ))}
          </dt>
          <dd>{does}</dd>
        </div>
      ))}
    </dl>
  );
}
